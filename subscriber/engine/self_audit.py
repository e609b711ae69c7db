"""SelfAudit: compares the content of memory with catalogd, one table at a time.

    each interval ──a table that memory answers for──▶ pulled, as if nothing of it were held
                                                          │
    result not known ◀──no── are both as of one version? ◀┘
                                      └──yes──▶ equal │ differs ──▶ logged, discarded, pulled again

catalogd compares a pulled table with the metastore soon afterwards (catalog/reconcile), so that an
answer is compared through all processes. A table that is only newer on one side does not differ:
the audit waits until memory has the version of the reply, and finds nothing if the table has
changed since. Bounds: one pull of PART_BYTES_MAX in an interval, which is a minute or more.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from ...topics.comparison import TABLE, differences
from ...topics.errors import WireError
from ...topics.objects.encoding.values import decode_table_value, names_in_block
from ...topics.objects.names import name_of, parse_table_key
from ...topics.objects.selector import ALL, TABLE_ONLY, Selector, by_names
from ...topics.topic import NAMESPACE, Entry, value_of
from ...topics.turn import Turn
from ...topics.wire.messages.catalog import Pulled
from ..fetch.fetcher import Fetch, PartitionRequest
from ..protocol.effects import AnswerDiffers, BeginAnew, Effect
from ..protocol.status import AuditCounts
from ..replication.replicas import TopicReplicas
from ..store.table_snapshot import TableSnapshot
from ..store.view import TopicView, View

PART_BYTES_MAX: Final = 4 << 20  # of one pull: a block is far smaller
WHOLE_BYTES_MAX: Final = 256 << 10  # of a larger table, one block is compared
WAIT_S: Final = 10.0  # until a reply has come, and memory has its version
LOOK_S: Final = 0.05  # between two looks whether memory has the version
TRIES_MAX: Final = 8  # random tables, until one is found that memory answers for
LOOKED_AT_MAX: Final = 10_000  # of a topic's tables, to take a table at random: 0.5 ms


@dataclass(slots=True)
class _Run:
    """One table that is being compared."""

    topic: int
    group: bytes
    fetch: Fetch
    until: float  # seconds: when the comparison ends without a result
    look_at: float = 0.0  # seconds: when memory is looked at again for the version of the reply


class _Finding(NamedTuple):
    """The first difference of a table; empty: there is none. ``names``: it is in the namespace."""

    what: str = ""
    names: bool = False


class SelfAudit:
    """Decides when a table is compared, and what follows from a difference."""

    def __init__(
        self,
        replicas: TopicReplicas,
        *,
        turn: Turn[Effect],
        begin_fetch: Callable[[Fetch], None],
        detach: Callable[[Fetch], None],
        interval_s: float,
        name: str,
        counts: AuditCounts,
    ) -> None:
        """Begin; with an ``interval_s`` of 0 no table is ever compared."""
        self._counts = counts
        self._replicas = replicas
        self._view: View = replicas.view
        self._turn = turn
        self._begin_fetch = begin_fetch
        self._detach = detach
        self._interval_s = interval_s
        self._name = name  # so that each subscriber chooses other tables at other times
        self._number = 0  # of the present interval
        self._due_at: float | None = None
        self._run: _Run | None = None

    @property
    def deadline(self) -> float | None:
        """The time at which ``tick`` has work to do."""
        if not self._interval_s:
            return None
        if self._run is None:
            return self._due_at
        return self._run.look_at if self._run.fetch.outcome is not None else self._run.until

    def tick(self) -> None:
        """Begin to compare a table if that is due, or judge the table that has been pulled."""
        now = self._turn.now
        if not self._interval_s:
            return
        if self._due_at is None:  # subscribers that start together do not all pull at once
            self._due_at = now + self._interval_s * (1 + self._chance() / (1 << 32))
        if self._run is not None:
            self._judge(self._run)
        elif now >= self._due_at:
            self._due_at = now + self._interval_s
            self._begin()

    def _chance(self) -> int:
        """Return a number below 2^32 that differs each time, and between subscribers."""
        self._number += 1
        return crc32(f"{self._name} {self._number}".encode())

    def _begin(self) -> None:
        topics = [
            topic
            for topic, held in self._view.topics.items()
            if topic != NAMESPACE and held.opening is not None and _groups(held)
        ]
        for _ in range(TRIES_MAX if topics else 0):
            topic = topics[self._chance() % len(topics)]
            held = self._view.topics[topic]
            groups = _groups(held)
            at = self._chance() % min(len(groups), LOOKED_AT_MAX)
            group = next(islice(groups, at, None))
            content = held.content(group)
            if content is None or not self._is_answered(group, content):
                continue
            db, table = _table(group)
            request = PartitionRequest(db, table, self._selector(group, content), fresh=True)
            fetch = Fetch(request, background=True, bytes_max=PART_BYTES_MAX)
            self._run = _Run(topic, group, fetch, self._turn.now + WAIT_S)
            self._begin_fetch(fetch)
            return

    def _is_answered(self, group: bytes, content: TableSnapshot) -> bool:
        """Return whether memory answers reads of the table ``group`` with ``content``."""
        record, own = self._view.record(*_table(group)), content.entry(group)
        if record is None or own is None or own.value is None or content.stubs:
            return False
        return decode_table_value(own.value).incarnation == record.incarnation

    def _selector(self, group: bytes, content: TableSnapshot) -> Selector:
        """Return the selector of what is compared: a small table whole, else one of its blocks."""
        blocks = len(content) - 1
        if content.whole and (not blocks or content.held_bytes <= WHOLE_BYTES_MAX):
            return ALL
        if not blocks:
            return TABLE_ONLY
        at = self._chance() % min(blocks, LOOKED_AT_MAX)
        block = next(islice(content.blocks(group), at, None))
        names = names_in_block(value_of(block))
        return by_names(dict.fromkeys((names[0], names[-1])))

    def _judge(self, run: _Run) -> None:
        """Compare the pulled table with memory, once memory has its version."""
        if run.fetch.outcome is None:
            if self._turn.now >= run.until:
                self._run = None
                self._detach(run.fetch)
            return
        part, pulled = run.fetch.last, run.fetch.outcome
        if part is None or not isinstance(pulled, TableSnapshot):
            self._run = None  # catalogd refused the pull, or the reply was too large
            return
        position = (part.epoch, part.topic_version)
        held, names = self._view.topics.get(run.topic), self._view.topics[NAMESPACE]
        names_at = (part.epoch, part.namespace_version)
        if not (_has(held, position) and _has(names, names_at)):
            run.look_at = self._turn.now + LOOK_S
            if self._turn.now >= run.until:
                self._run = None
            return
        self._run = None
        found = self._compare(run, part, pulled)
        self._counts.audits += found is not None
        if not (found and found.what):
            return
        self._counts.differences += 1
        self._turn.add(AnswerDiffers(table=name_of(run.group), what=found.what))
        if found.names:
            why = f"memory and catalogd differ about {name_of(run.group)}: {found.what}"
            self._turn.add(BeginAnew(why=why))
            return
        self._replicas.distrust(run.topic, run.group)
        db, table = _table(run.group)
        self._begin_fetch(Fetch(PartitionRequest(db, table, ALL), background=True))

    def _compare(self, run: _Run, part: Pulled, pulled: TableSnapshot) -> _Finding | None:
        """Return what differs; None: not known, because the table has changed since."""
        names = self._view.topics[NAMESPACE]
        db, table = _table(run.group)
        if names.reached == (part.epoch, part.namespace_version):
            record = self._view.record(db, table)
            if (record is not None) != part.found:
                what = "catalogd has it" if part.found else "catalogd does not have it"
                return _Finding(what, names=True)
            if record is not None and record.incarnation != part.incarnation:
                what = f"incarnation {record.incarnation}, at catalogd {part.incarnation}"
                return _Finding(what, names=True)
        content = self._view.content(run.topic, run.group)
        if not part.found or content is None or content.stubs:
            return None
        if content.epoch != part.epoch or content.version > part.topic_version:
            return None
        return _Finding(next(_differing(run, content, pulled), ""))


def _differing(run: _Run, ours: TableSnapshot, theirs: TableSnapshot) -> Iterator[str]:
    """Yield the differences of one table between ``ours`` and ``theirs``, as of one version."""
    kind = run.fetch.request.selector
    for entry in theirs.entries():
        own = ours.entry(entry.key)
        if own is None and ours.whole:
            yield f"{_named(entry, run.group)} is missing"
        elif own is not None and own != entry:
            yield _what(own, entry, run.group)
    if kind == ALL and ours.whole:
        extra = (one for one in ours.entries() if theirs.entry(one.key) is None)
        yield from (f"{_named(one, run.group)} is not at catalogd" for one in extra)


def _what(own: Entry, entry: Entry, group: bytes) -> str:
    """Return as text the differences of two entries of one key."""
    named = _named(entry, group)
    if own.version != entry.version:
        return f"{named} is of version {own.version}, at catalogd of {entry.version}"
    if own.key != group:
        return f"{named} has other content"
    try:
        here, there = (decode_table_value(value_of(one)).thrift for one in (own, entry))
        path, is_, should = next(iter(differences(here, there, TABLE)), ("its state", "", ""))
    except WireError as error:
        return f"{named} cannot be read: {error}"
    return f"{path} is {is_!r}, at catalogd {should!r}"


def _named(entry: Entry, group: bytes) -> str:
    if entry.key == group:
        return "the table's own entry"
    names = names_in_block(value_of(entry))
    return f"the block from {names[0]!r} on" if names else "a block"


def _groups(held: TopicView) -> dict[bytes, TableSnapshot]:
    """Return the tables of a topic that were pushed, or, if none was, those that were pulled."""
    return held.groups or (held.pulled.groups if held.pulled is not None else {})


def _has(held: TopicView | None, position: tuple[int, int]) -> bool:
    """Return whether memory answers for a topic as of ``position`` or later, in its epoch."""
    if held is None or held.opening is None:
        return False
    return held.reached[0] == position[0] and held.reached >= position


def _table(group: bytes) -> tuple[str, str]:
    key = parse_table_key(group)
    return key.db, key.table
