"""View: a subscriber's content by topic; one thread writes it, any thread reads it without a lock.

    topic ── open | closed              group (a table, a database's names) ── TableSnapshot

The engine's thread swaps a table whole, by one assignment. A reader takes the topic's ``opening``,
reads, and checks that ``opening`` is still the same object, so that what it has read was installed
while the topic was open. While a topic is closed, memory answers only with tables that a pull has
brought, or confirmed, at or above the topic's ``pulled_floor``, if it has one; the reader then
takes and checks the floor in the same way. The namespace topic alone decides whether a table
exists: a snapshot answers only if it has the incarnation that the namespace names.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Final, Generic, TypeVar
from weakref import ref

from ...topics.errors import NoSuchObject, NotVisible, WireError
from ...topics.objects.encoding.values import (
    NameRecord,
    decode_database_value,
    decode_names,
    decode_problem,
)
from ...topics.objects.names import (
    TableId,
    database_key,
    group_of,
    is_database,
    name_of_database,
    names_group,
    names_key,
    parse_table_key,
    problem_key,
    rules_key,
    table_key,
    table_name,
)
from ...topics.objects.rules import Rule, decode_rules
from ...topics.objects.selector import ALL, TABLE_ONLY, Selector, SelectorKind
from ...topics.objects.source_problem import SourceProblem
from ...topics.objects.tables import Database, read_database
from ...topics.policy import Policy
from ...topics.topic import NAMESPACE, Entry, table_topic, value_of
from ..protocol.status import Unfollowed
from .table_snapshot import NOTHING, Swap, TableSnapshot

NEAR_MAX: Final = 3  # near names in one error
NEAR_RATIO: Final = 0.7  # as difflib measures it: one letter of four may differ
NEAR_BLOCKS_MAX: Final = 32  # of 64 names, around the missing name, to compare: at most 20 ms
NEAR_DBS_MAX: Final = 2000  # databases to compare
NEAR_TABLES_MAX: Final = 3  # tables in one error that have the name of the missing database
HEADS_MAX: Final = 1024  # slots for decoded tables, which are kept in addition to the budget
SLOT_BYTES: Final = 8192  # of a slot; a wide table takes several slots
HEADS_SHARE: Final = 0.125  # of the budget, which all slots together do not exceed

Position = tuple[int, int]  # epoch, version
NO_POSITION: Final[Position] = (0, 0)
T = TypeVar("T")


@dataclass(slots=True)
class TopicView:
    """The held content of one topic."""

    groups: dict[bytes, TableSnapshot] = field(default_factory=dict)  # each is swapped whole
    held_bytes: int = 0  # accounted bytes of all groups
    hits: int = 0  # answers; readers count without a lock, so it may miss a few
    opening: object | None = None  # another object each time the topic opens; None: it is closed
    reached: Position = NO_POSITION  # the position of what is held, while the topic is open
    pulled_only: bool = False  # the topic is at minimal: only changes of pulled tables are applied
    epoch: int = 0  # of all versions in ``groups``
    invalidated_to: int = 0  # a version: pulled content that is older was evicted
    pulled_floor: Position | None = None  # while the topic is closed: older pulls do not answer
    pulled: "TopicView | None" = None  # of a full topic: tables of which the hub sends stubs alone

    def begin(self, epoch: int) -> None:
        """Have all versions in ``groups`` count in ``epoch`` from now on."""
        self.epoch = epoch

    def empty(self) -> None:
        """Hold nothing any more; readers that look at the old groups keep them."""
        self.groups, self.held_bytes = {}, 0

    def advance(self, reached: Position) -> bool:
        """Note the position of what is held now; return False if the topic is not open."""
        if self.opening is None:
            return False
        self.reached = reached
        return True

    def invalidate(self, epoch: int, version: int) -> None:
        """Note that pulled content of another epoch, or before ``version``, was evicted."""
        before = self.invalidated_to if self.epoch == epoch else 0
        self.epoch, self.invalidated_to = epoch, max(before, version)

    def content(self, group: bytes) -> TableSnapshot | None:
        """Return the content of a table that deltas have brought, else what a pull has; or None."""
        content = self.groups.get(group)
        if self.pulled is not None and (content is None or content.stubs):
            return self.pulled.groups.get(group, content)
        return content


class _SharedEntry(Generic[T]):
    """One entry of the namespace, decoded once for all readers."""

    def __init__(self, key: bytes, decode: Callable[[bytes], T], nothing: T) -> None:
        """``nothing``: the content if there is no entry."""
        self._key = key
        self._decode = decode
        self._nothing = nothing
        self._known: tuple[Entry | None, T] = (None, nothing)  # the entry, and its content

    def read(self, namespace: TopicView) -> T:
        """Return the content, as it was last known. Cost: a look into a dictionary."""
        opening = namespace.opening
        group = namespace.groups.get(self._key)
        if opening is None or namespace.opening is not opening:
            return self._known[1]  # during a catch-up the entry may be missing
        entry = group.entry(self._key) if group is not None else None
        if entry != self._known[0]:
            try:
                content = self._decode(value_of(entry)) if entry is not None else self._nothing
            except WireError:  # a newer catalogd may write it in another form
                content = self._known[1]
            self._known = (entry, content)
        return self._known[1]


class View:
    """The content of all joined topics, and which of it memory may answer with."""

    def __init__(self, num_topics: int = 0, *, heads_max: int = HEADS_MAX) -> None:
        self.num_topics = num_topics  # besides the namespace; 0: not known yet
        self.topics: dict[int, TopicView] = {NAMESPACE: TopicView()}
        self.policy: Policy | None = None  # which databases our key may see; None: all
        self.fresh_until = inf  # the time at which memory gets older than the application allows
        self.current_at = -inf  # the time as of which all was current, and watches had its changes
        self._heads_max = heads_max
        self._heads: deque[ref[TableSnapshot]] = deque()  # of decoded tables, the oldest first
        self._hits: dict[int, int] = {}  # by topic: those of views that were replaced
        self._rules: _SharedEntry[tuple[Rule, ...]] = _SharedEntry(rules_key(), decode_rules, ())
        self._problem: _SharedEntry[SourceProblem | None] = _SharedEntry(
            problem_key(), decode_problem, None
        )

    # For the engine's thread

    def open(self, topic: int, reached: Position = NO_POSITION) -> None:
        """Let memory answer for ``topic``, whose content is at the position ``reached``."""
        held = self.topics.setdefault(topic, TopicView())
        held.reached = reached
        held.pulled_floor = None
        if held.opening is None:
            held.opening = object()

    def close(self, topic: int, *, floor: Position | None = None) -> None:
        """Let memory answer for ``topic`` only with tables pulled at or above ``floor``; None: not.

        What is held stays. If the floor is equal to the present floor, that object stays, so that a
        reader who checks it goes on.
        """
        held = self.topics.get(topic)
        if held is not None:
            held.opening = None
            held.pulled_floor = held.pulled_floor if held.pulled_floor == floor else floor

    def discard(self, topic: int) -> None:
        """Close ``topic`` and discard all that is held of it."""
        self.replace(topic, TopicView() if topic == NAMESPACE else None)

    def clear(self) -> None:
        """Close every topic and discard all that is held; the operators' rules stay known."""
        for topic in list(self.topics):
            self.discard(topic)

    def replace(self, topic: int, held: TopicView | None) -> None:
        """Close ``topic``, and hold ``held`` of it instead of what was held; None: nothing."""
        self.close(topic)
        self._hits[topic] = self.hits(topic)
        if held is None:
            self.topics.pop(topic, None)
        else:
            self.topics[topic] = held

    def install(self, held: TopicView, swaps: Iterable[Swap], growth: int) -> None:
        """Install the ``swaps`` that ``prepare`` returned, each by one assignment."""
        for swap in swaps:
            if swap.after is None:
                held.groups.pop(swap.group, None)
            else:
                held.groups[swap.group] = swap.after
                if swap.after.decoded_bytes:  # it has the decoded table of the snapshot before
                    self._remember(swap.after)
        held.held_bytes += growth

    def groups(self, topic: int) -> Mapping[bytes, TableSnapshot]:
        """Return what is held of ``topic``, by group."""
        held = self.topics.get(topic)
        return held.groups if held is not None else {}

    def pulled(self, topic: int) -> TopicView | None:
        """Return the view of the pulled tables of ``topic``; None: the topic is not followed."""
        held = self.topics.get(topic)
        return held if held is None or held.pulled_only else held.pulled

    def content(self, topic: int, group: bytes) -> TableSnapshot | None:
        """Return the content held of a table, whether its topic is open or not; or None."""
        held = self.topics.get(topic)
        return None if held is None else held.content(group)

    def hits(self, topic: int) -> int:
        """Return how often memory has answered for ``topic``, even if it is not followed now."""
        held = self.topics.get(topic)
        return self._hits.get(topic, 0) + (held.hits if held is not None else 0)

    @property
    def hits_all(self) -> int:
        """How often memory has answered for a table."""
        return sum(map(self.hits, {**self._hits, **self.topics}))

    @property
    def held_bytes(self) -> int:
        """The accounted bytes of all content."""
        return sum(held.held_bytes for _, held in self._views())

    def check(self) -> None:
        """Assert every invariant."""
        for topic, held in self._views():
            assert held.held_bytes == sum(c.held_bytes for c in held.groups.values()), topic
            for group, content in held.groups.items():
                assert content.rows, group
                keys = [entry.key for entry in content.entries()]
                assert keys == sorted(set(keys)), group
                assert all(group_of(key) == group for key in keys), group
                assert content.version >= max(e.version for e in content.entries()), group

    # For any thread

    def table(self, db: str, table: str) -> TableSnapshot | None:
        """Return a table's content, and count a read; None: memory may not answer.

        Raises:
            NoSuchObject: the namespace says that there is no such table.
        """
        return self.partitions(db, table, TABLE_ONLY)

    def partitions(self, db: str, table: str, selector: Selector = ALL) -> TableSnapshot | None:
        """Return a table's content if it has the partitions that ``selector`` selects.

        None, and errors: as ``table``. Only an answer counts as a read.
        """
        found = self.find(db, table)
        if found is None or not _has(found[1], (db, table), selector):
            return None
        held, content = found
        held.hits += 1
        content.used = True
        return content

    def find(self, db: str, table: str) -> tuple[TopicView, TableSnapshot] | None:
        """Return the view of a table's topic, and the table's content, without counting a read.

        None, and errors: as ``table``.
        """
        namespace = self.topics[NAMESPACE]
        opening = namespace.opening
        block = self._names_block(namespace, db, table)
        if opening is None or namespace.opening is not opening:
            return None
        if block is None:
            raise self.missing(db, table)
        held = self.topics.get(table_topic(db, table, self.num_topics))
        content = self._answerable(held, table_key(db, table)) if held is not None else None
        if content is None or held is None:
            if _name_record(block, table) is None:
                raise self.missing(db, table)
            return None
        if content.names_block != block and not self._confirm(content, block, (db, table)):
            return None
        return held, content

    def record(self, db: str, table: str) -> NameRecord | None:
        """Return the record that the namespace has of a table; None: it has none.

        The namespace need not be open.
        """
        block = self._names_block(self.topics[NAMESPACE], db, table)
        return None if block is None else _name_record(block, table)

    def topic_of(self, group: bytes) -> int:
        """Return the topic of a table's group."""
        key = parse_table_key(group)
        return table_topic(key.db, key.table, self.num_topics)

    def reached(self, db: str, table: str) -> Position:
        """Return the position up to which a table's topic is held; NO_POSITION: it is not open."""
        held = self.topics.get(table_topic(db, table, self.num_topics))
        return held.reached if held is not None and held.opening is not None else NO_POSITION

    def unfollowed(self) -> Unfollowed:
        """Return the table topics that were never open since they were joined, or are not joined.

        Cost: 0.1 µs for each topic.
        """
        topics, num_topics = self.topics, self.num_topics
        missing = (
            topic
            for topic in range(num_topics)
            if (held := topics.get(topic)) is None or held.reached == NO_POSITION
        )
        return Unfollowed(frozenset(missing), num_topics)

    def databases(self) -> tuple[str, ...] | None:
        """Return the sorted names of all databases; None: memory may not answer."""
        namespace = self.topics[NAMESPACE]
        opening = namespace.opening
        groups = list(namespace.groups)  # atomic in CPython
        if opening is None or namespace.opening is not opening:
            return None
        names = (name_of_database(group) for group in groups if is_database(group))
        return tuple(sorted(names))

    def database(self, db: str) -> Database | None:
        """Return a database; None: memory may not answer.

        Raises:
            NoSuchObject: there is no such database.
        """
        namespace = self.topics[NAMESPACE]
        opening = namespace.opening
        content = namespace.groups.get(database_key(db))
        if opening is None or namespace.opening is not opening:
            return None
        entry = content.entry(database_key(db)) if content is not None else None
        if entry is None:
            raise self.missing(db)
        return read_database(decode_database_value(value_of(entry)), entry.version)

    def tables(self, db: str) -> tuple[str, ...] | None:
        """Return the sorted names of the tables of ``db``; None and errors as ``database``."""
        records = self.records(db)
        return None if records is None else tuple([record.name for record in records])

    def records(self, db: str) -> tuple[NameRecord, ...] | None:
        """Return the records of the tables of ``db``, by name; None and errors as ``database``."""
        namespace = self.topics[NAMESPACE]
        opening = namespace.opening
        known = database_key(db) in namespace.groups
        content = namespace.groups.get(names_group(db), NOTHING)
        if opening is None or namespace.opening is not opening:
            return None
        if not known:
            raise self.missing(db)
        blocks = content.entries()
        return tuple([record for block in blocks for record in decode_names(value_of(block))])

    def missing(self, db: str, table: str = "") -> NoSuchObject:
        """Return the error that there is no such database or table; it suggests near names."""
        name = table_name(db, table) if table else db
        if self.policy is not None and not self.policy.sees(db):
            return NotVisible(name, self.policy.refusal(name))
        return NoSuchObject(name, partial(self._near, db, table))

    def _near(self, db: str, table: str) -> tuple[str, ...]:
        """Return names that differ little, the nearest first, after a look at some of many."""
        groups = self.topics[NAMESPACE].groups
        names = groups.get(names_group(db))
        if table and names is not None:
            blocks = list(names.entries())
            at = bisect_right(blocks, names_key(db, table), key=attrgetter("key"))
            some = blocks[max(at - NEAR_BLOCKS_MAX // 2, 0) :][:NEAR_BLOCKS_MAX]
            known = [record.name for block in some for record in decode_names(value_of(block))]
            return tuple(table_name(db, one) for one in _alike(table, known))
        first = islice(filter(is_database, list(groups)), NEAR_DBS_MAX)
        databases = list(map(name_of_database, first))
        alike = _alike(db, databases)
        if not table:  # the caller may have meant a table, as "orders" for "shop.orders"
            tables = [table_name(one, db) for one in databases if self.record(one, db) is not None]
            return (*alike, *tables[:NEAR_TABLES_MAX])
        return tuple(table_name(one, table) for one in alike if self.record(one, table) is not None)

    def rules(self) -> tuple[Rule, ...]:
        """Return the operators' rules for drivers, the newest last, as they were last known.

        Cost: a look into a dictionary; the first call after a change decodes them.
        """
        return self._rules.read(self.topics[NAMESPACE])

    def metastore_problem(self) -> str:
        """Return why changes of the metastore do not arrive, as last known; empty: they do."""
        problem = self._problem.read(self.topics[NAMESPACE])
        return "" if problem is None else problem.text

    def _views(self) -> Iterator[tuple[int, TopicView]]:
        for topic, held in self.topics.items():
            yield topic, held
            if held.pulled is not None:
                yield topic, held.pulled

    def _names_block(self, namespace: TopicView, db: str, table: str) -> Entry | None:
        names = namespace.groups.get(names_group(db))
        return None if names is None else names.covering(names_key(db, table))

    def _answerable(self, held: TopicView, group: bytes) -> TableSnapshot | None:
        opening, floor = held.opening, held.pulled_floor
        content = held.content(group)
        if opening is not None:
            return content if held.opening is opening else None
        if (
            floor is None
            or content is None
            or content.as_of < floor[1]
            or held.pulled_floor is not floor
        ):
            return None
        return content

    def _confirm(self, content: TableSnapshot, block: Entry, name: TableId) -> bool:
        """Return whether ``content`` has the incarnation that ``block`` names; remember if so.

        Raises:
            NoSuchObject: ``block`` does not name the table.
        """
        record = _name_record(block, name[1])
        if record is None:
            raise self.missing(*name)
        head = content.head(table_key(*name))
        if head is None or head.incarnation != record.incarnation:
            return False
        content.names_block = block
        self._remember(content)
        return True

    def _remember(self, content: TableSnapshot) -> None:
        """Keep what was decoded of ``content``, and release the oldest that has no slot any more.

        Any thread calls it, without a lock: a table takes as many slots of the deque as it needs.
        """
        slots = 1 + content.decoded_bytes // SLOT_BYTES
        for _ in range(min(slots, self._heads_max)):
            self._heads.append(ref(content))
            if len(self._heads) > self._heads_max:
                oldest = self._heads.popleft()()
                if oldest is not None:
                    oldest.discard_head()


class ReadFloor:
    """The newest position of each topic from which anything was ever answered; it only rises.

    Memory and pulls answer only at or above it, so that no answer is older than an earlier answer.
    It survives a drop of the topic. Each ``Compare`` has it, so that catalogd compares lineages.
    """

    def __init__(self) -> None:
        self._bounds: dict[int, Position] = {}  # by topic
        self._seen: set[int] = set()  # topics of which a reader may know something

    def of(self, topic: int) -> Position:
        """Return the lower bound of ``topic``."""
        return self._bounds.get(topic, NO_POSITION)

    def answered(self, topic: int, position: Position) -> None:
        """Note that a reader gets an answer about ``topic`` as of ``position``.

        Caller: the replicas for content that readers see, the session with catalogd for a reply.
        Affects: memory and pulls, which answer nothing older; the next comparison of lineages.
        """
        self.mark_seen(topic)
        self.raise_to(topic, position)

    def raise_to(self, topic: int, position: Position) -> None:
        """Raise the floor of ``topic`` to ``position``, if it is lower.

        Caller: the session with catalogd for a sync; ``answered``. Affects: as that.
        """
        if position > self.of(topic):
            self._bounds[topic] = position

    def mark_seen(self, topic: int) -> None:
        """Note that a reader may know something of ``topic``."""
        self._seen.add(topic)

    def was_seen(self, topic: int) -> bool:
        """Return whether a reader may know something of ``topic``."""
        return topic in self._seen

    def knows(self, epoch: int) -> bool:
        """Return whether the floor of any topic is in ``epoch``."""
        return any(at[0] == epoch for at in self._bounds.values())

    def versions(self, epoch: int) -> tuple[tuple[int, int], ...]:
        """Return (topic, version) of every floor in ``epoch``, sorted."""
        bounds = sorted(self._bounds.items())
        return tuple((topic, at[1]) for topic, at in bounds if at[0] == epoch)


def heads_within(budget_bytes: int) -> int:
    """Return how many slots for decoded tables a subscriber has beside ``budget_bytes``."""
    return min(max(int(HEADS_SHARE * budget_bytes) // SLOT_BYTES, 1), HEADS_MAX)


def prepare(held: TopicView, changes: Iterable[Entry]) -> tuple[list[Swap], int]:
    """Return the swaps for ``changes``, which are sorted by version, and the bytes they add."""
    groups: dict[bytes, list[Entry]] = {}
    for change in changes:
        groups.setdefault(group_of(change.key), []).append(change)
    swaps, growth = [], 0
    for group, of_group in groups.items():
        before = held.groups.get(group)
        if before is None and held.pulled_only:
            continue
        after: TableSnapshot | None = (before or NOTHING).changed(of_group, epoch=held.epoch)
        if after is not None and (
            not after.rows or (held.pulled_only and after.stubs == len(after))
        ):
            after = None
        growth += (after.held_bytes if after else 0) - (before.held_bytes if before else 0)
        swaps.append(Swap(group, before, after))
    return swaps, growth


def _alike(name: str, known: Sequence[str]) -> list[str]:
    return get_close_matches(name, known, n=NEAR_MAX, cutoff=NEAR_RATIO)


def full_topic_view() -> TopicView:
    """Return the empty view of a topic at full."""
    return TopicView(pulled=TopicView(pulled_only=True))


def _has(content: TableSnapshot, name: TableId, selector: Selector) -> bool:
    """Return whether ``content`` of a table has the partitions that ``selector`` selects."""
    if selector.kind == SelectorKind.TABLE:
        return True
    if not (content.whole or selector in (content.selections or ())):
        return False
    head = content.head(table_key(*name))
    return head is not None and head.complete


def _name_record(block: Entry, table: str) -> NameRecord | None:
    for record in decode_names(value_of(block)):
        if record.name == table:
            return record
    return None
