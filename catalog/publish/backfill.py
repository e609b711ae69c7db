"""Backfill: the mode of a running catalogd, and the way back of what it withheld.

    change ──▶ owed ──touch, a piece at a time──▶ nothing is owed

Hubs hold stubs for what was withheld, at the versions that catalogd has, so they would never ask
for it again: it is touched, which gives the same content a new version.
Invariant: an entry that is owed and not withheld is above the owed versions, or still to come.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from ...topics.entries import VALUE, Entry, group_of
from ...topics.errors import UsageError, WireError
from ...topics.objects.blocks import restamp_block
from ...topics.objects.names import table_of
from ...topics.sharding import NAMESPACE
from ...topics.wire.codec import row_bytes
from ...topics.wire.header import VALUE_BYTES_MAX
from ...topics.wire.messages import SOURCE_LOAD
from ..model.versions import VersionLog
from .modes import Mode, Policy

PIECE_BYTES_MAX: Final = 48 << 10  # of one transaction: below a delta, so that it goes out whole
PIECE_ENTRIES_MAX: Final = 32  # 40 µs for each block that is written anew: below a turn's 2 ms
PAUSE_S: Final = 0.01  # between two pieces: other changes take most of the turns


class Backfill:
    """What catalogd sends of its topics; ``policy`` says all of it."""

    def __init__(self, version_log: VersionLog, policy: Policy) -> None:
        self.policy = policy
        self._version_log = version_log
        self._unsaved = False
        self._topics: deque[int] = deque()
        self._keys: deque[bytes] = deque()
        self._upto: dict[int, int] = {}
        self._touch_at = 0.0
        self._begin()

    @property
    def mode(self) -> Mode:
        """The mode that holds."""
        return self.policy.mode

    @property
    def topics_left(self) -> int:
        """In how many topics something is still to be touched."""
        return len(self._topics)

    @property
    def deadline(self) -> float | None:
        """When the next piece is due; None if nothing is owed."""
        return self._touch_at if self.policy.owed is not None else None

    def change(self, mode: Mode) -> bool:
        """Let ``mode`` hold from now on; False if it does already."""
        if mode == self.mode:
            return False
        self._set(self.policy.turned(mode, self._version_log.versions()))
        self._begin()
        return True

    def touch(self, *, now: float, at_us: int) -> None:
        """Touch the next piece, if it is due: one transaction of one topic."""
        if self.policy.owed is None or now < self._touch_at:
            return
        self._touch_at = now + PAUSE_S
        if self._topics and not self._keys:
            self._keys.extend(self._owed_keys(self._topics[0]))
        if self._keys:
            number = self._topics[0]
            self._version_log.write(number, self._build(number), source=SOURCE_LOAD, at_us=at_us)
        if self._topics and not self._keys:
            self._topics.popleft()
        if not self._topics:
            self._set(Policy(self.mode))

    def take(self) -> Policy | None:
        """Hand over the policy if the store does not have it."""
        unsaved, self._unsaved = self._unsaved, False
        return self.policy if unsaved else None

    def check(self) -> None:
        """Assert every invariant."""
        assert self._topics or not self._keys
        assert self.policy.owed is not None or not self._topics

    def _set(self, policy: Policy) -> None:
        self.policy = policy
        self._unsaved = True

    def _begin(self) -> None:
        """Look through every table topic for what is owed."""
        self._keys.clear()
        self._topics.clear()
        owed, topics = self.policy.owed, self._version_log.topics
        if owed is not None:
            self._topics.extend(number for number in topics if number != NAMESPACE)
            self._upto = dict(zip(topics, owed.versions, strict=True))

    def _owed_keys(self, number: int) -> list[bytes]:
        """Return the keys that are owed of one topic, the table's own after its blocks."""
        topic, owed = self._version_log.topics[number], self.policy.owed
        assert owed is not None
        keys: list[bytes] = []
        for group in topic.group_ids():
            table = table_of(group)
            if owed.includes(table) and not self.mode.withholds(table):
                rows = topic.rows(group)
                keys += sorted((e.key for e in rows if self._is_owed(number, e)), reverse=True)
        return keys

    def _is_owed(self, number: int, entry: Entry) -> bool:
        return entry.kind == VALUE and entry.version <= self._upto[number]

    def _build(self, number: int) -> Callable[[int], list[Entry]]:
        topic = self._version_log.topics[number]

        def build(version: int) -> list[Entry]:
            entries: list[Entry] = []
            size = 0
            while self._keys and len(entries) < PIECE_ENTRIES_MAX:
                have = topic.get(self._keys[0])
                if have is not None and self._is_owed(number, have):
                    if entries and size + row_bytes(have) > PIECE_BYTES_MAX:
                        break
                    size += row_bytes(have)
                    entries += _touched(have, version)
                self._keys.popleft()
            return entries

        return build


def _touched(have: Entry, version: int) -> tuple[Entry, ...]:
    """Return ``have`` with a new version; nothing if it cannot be written anew: it is pulled."""
    value = have.value
    assert value is not None
    if have.key != group_of(have.key):
        try:
            value = restamp_block(value, have.version, version)
        except (UsageError, WireError):
            return ()
    if len(value) > VALUE_BYTES_MAX:
        return ()
    schema, data = have.schema_version, have.data_version
    return (Entry(have.key, version, schema, data, len(value), value),)
