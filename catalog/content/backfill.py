"""The mode of a running catalogd, and the backfill of content that a former mode withheld.

    change ──▶ remainder ──restamp, a few entries at a time──▶ none

Hubs hold stubs for content that was withheld, at the versions that catalogd has, so they never
catch up on it: it is re-stamped, which gives the same content a new version.
Invariant: an entry of the remainder that is not withheld has a version above those of the
remainder, or is still to be re-stamped.
"""

from collections import deque
from typing import Final

from ...topics.clock import Clock
from ...topics.errors import UsageError, WireError
from ...topics.objects.encoding.values import restamp_block
from ...topics.objects.names import group_of, table_of
from ...topics.topic import NAMESPACE, VALUE, Entry
from ...topics.wire.codec import is_large, row_bytes
from ...topics.wire.messages.data import SOURCE_LOAD
from ..model.modes import Mode, ModeState
from ..model.versions import VersionLog

STEP_BYTES_MAX: Final = 48 << 10  # of one transaction: below a delta, so that it goes out whole
STEP_ENTRIES_MAX: Final = 32  # 40 µs for each block that is re-stamped: below a turn's 2 ms
PAUSE_S: Final = 0.01  # between two steps: other changes take most of the turns


class Backfill:
    """The mode, and the entries to re-stamp; the store keeps ``mode_state``."""

    def __init__(self, version_log: VersionLog, mode_state: ModeState, clock: Clock) -> None:
        self.mode_state = mode_state
        self._clock = clock
        self._version_log = version_log
        self._unsaved = False  # the store does not have ``mode_state``
        self._topics: deque[int] = deque()  # to look through, the first is being re-stamped
        self._keys: deque[bytes] = deque()  # of the first topic, to re-stamp; read when it is first
        self._upto: dict[int, int] = {}  # by topic: the versions of the remainder
        self._next_at = 0.0  # when the next step is due
        self._begin()

    @property
    def mode(self) -> Mode:
        """The mode that holds."""
        return self.mode_state.mode

    @property
    def topics_left(self) -> int:
        """In how many topics entries may still have to be re-stamped."""
        return len(self._topics)

    @property
    def deadline(self) -> float | None:
        """When the next step is due; None if nothing is to be re-stamped."""
        return self._next_at if self.mode_state.remainder is not None else None

    def change(self, mode: Mode) -> bool:
        """Let ``mode`` hold from now on; False if it does already.

        Caller: the assembly for the mode that is configured, the background for an order.
        Affects: what deltas contain, which levels readers may join, and in steps the version of
            each entry that the former mode withheld, so that readers pull it.
        """
        if mode == self.mode:
            return False
        self._set(self.mode_state.changed(mode, self._version_log.versions()))
        self._begin()
        return True

    def restamp(self) -> None:
        """Re-stamp the next entries, if they are due: one transaction of one topic."""
        now = self._clock.now
        if self.mode_state.remainder is None or now < self._next_at:
            return
        self._next_at = now + PAUSE_S
        if self._topics and not self._keys:
            self._keys.extend(self._keys_of(self._topics[0]))
        if self._keys:
            self._restamp_some(self._topics[0])
        if self._topics and not self._keys:
            self._topics.popleft()
        if not self._topics:
            self._set(ModeState(self.mode))

    def take(self) -> ModeState | None:
        """Return the state of the mode if the store lacks it; from then on it counts as stored."""
        unsaved, self._unsaved = self._unsaved, False
        return self.mode_state if unsaved else None

    def check(self) -> None:
        """Assert every invariant."""
        assert self._topics or not self._keys
        assert self.mode_state.remainder is not None or not self._topics

    def _set(self, mode_state: ModeState) -> None:
        self.mode_state = mode_state
        self._unsaved = True

    def _begin(self) -> None:
        """Look through every table topic, from the beginning."""
        self._keys.clear()
        self._topics.clear()
        remainder, topics = self.mode_state.remainder, self._version_log.topics
        if remainder is not None:
            self._topics.extend(number for number in topics if number != NAMESPACE)
            self._upto = dict(zip(topics, remainder.versions, strict=True))

    def _keys_of(self, number: int) -> list[bytes]:
        """Return the keys of one topic to re-stamp, a table's own after its blocks."""
        topic, remainder = self._version_log.topics[number], self.mode_state.remainder
        assert remainder is not None
        keys: list[bytes] = []
        for group in topic.group_ids():
            table = table_of(group)
            if remainder.includes(table) and not self.mode.withholds(table):
                rows = topic.heads(group)
                keys += sorted((e.key for e in rows if self._remains(number, e)), reverse=True)
        return keys

    def _remains(self, number: int, entry: Entry) -> bool:
        return entry.kind == VALUE and entry.version <= self._upto[number]

    def _remaining(self, number: int, key: bytes) -> Entry | None:
        """Return the entry of ``key`` if it is still to be re-stamped."""
        have = self._version_log.topics[number].get(key)
        return have if have is not None and self._remains(number, have) else None

    def _restamp_some(self, number: int) -> None:
        with self._version_log.transaction(number, source=SOURCE_LOAD) as written:
            size = 0
            while self._keys and len(written.entries) < STEP_ENTRIES_MAX:
                have = self._remaining(number, self._keys[0])
                size += 0 if have is None else row_bytes(have)
                if have is not None and written.entries and size > STEP_BYTES_MAX:
                    break
                self._keys.popleft()
                written.add(() if have is None else _restamped(have, written.version))


def _restamped(have: Entry, version: int) -> tuple[Entry, ...]:
    """Return ``have`` with a new version; nothing if it has none, or is large: readers pull it."""
    value = have.value
    assert value is not None
    if have.key != group_of(have.key):
        try:
            value = restamp_block(value, have.version, version)
        except (UsageError, WireError):
            return ()
    schema, data = have.schema_version, have.data_version
    restamped = Entry(have.key, version, schema, data, len(value), value)
    return () if is_large(restamped) else (restamped,)
