"""View: what a subscriber holds, by topic; written by one thread, read by any without a lock.

    topic ── moment: open | shut        group (a table, a database's names) ── TableSnapshot

A table is swapped whole, by one assignment. While a topic is shut, memory answers only for what
a pull brought, or confirmed, at or above its floor, if it has one: all that was shown of it. A
reader takes the topic's moment (or floor), reads, and looks whether it is still the same: so what
it got was put in place while the topic was open. Whether a table exists, the namespace topic alone
says; content answers only under the incarnation that stands there.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final
from weakref import ref

from ...topics.entries import Entry, group_of, value_of
from ...topics.errors import NoSuchObject, WireError
from ...topics.objects.names import (
    database_key,
    names_group,
    names_key,
    rules_key,
    table_key,
    table_name,
)
from ...topics.objects.rules import Rule, decode_rules
from ...topics.objects.selector import ALL, Selector, SelectorKind
from ...topics.objects.tables import Database, read_database
from ...topics.objects.values import NameRecord, decode_database_value, decode_names
from ...topics.sharding import NAMESPACE, table_topic
from .table_snapshot import NOTHING, Swap, TableSnapshot

HEADS_MAX: Final = 1024  # places for decoded tables, kept beside the budget,
PLACE_BYTES: Final = 8192  # each of so many bytes: a wide table takes more than one,
HEADS_SHARE: Final = 0.125  # and all no more than this share of the budget


@dataclass(slots=True)
class TopicView:
    """What is held of one topic; ``hits`` is counted without a lock, so it may miss a few.

    ``partial``: only what was pulled is held, and changes of anything else say nothing.
    ``epoch``: of all that is held. ``horizon``: what was pulled before it is not held.
    ``floor``: epoch and version at which a pull has to know what is answered while it is shut.
    ``aside``: partial, beside what is held in full: pulled tables of which only stubs are sent.
    """

    groups: dict[bytes, TableSnapshot] = field(default_factory=dict)
    held_bytes: int = 0
    hits: int = 0
    moment: object | None = None  # a new one each time that the topic opens
    reached: tuple[int, int] = (0, 0)  # epoch and version up to which it holds, while it is open
    partial: bool = False
    epoch: int = 0
    horizon: int = 0
    floor: tuple[int, int] | None = None
    aside: "TopicView | None" = None

    def content(self, group: bytes) -> TableSnapshot | None:
        """Return what is held of a table, pushed or pulled."""
        content = self.groups.get(group)
        if self.aside is not None and (content is None or content.stubs):
            return self.aside.groups.get(group, content)
        return content


class View:
    """The content of all joined topics, and what memory may answer of it."""

    def __init__(self, num_topics: int = 0, *, heads_max: int = HEADS_MAX) -> None:
        self.num_topics = num_topics
        self.topics: dict[int, TopicView] = {NAMESPACE: TopicView()}
        self.fresh_until = inf  # after this, memory is older than the application allows
        self._heads_max = heads_max
        self._heads: deque[ref[TableSnapshot]] = deque()  # weak: what was replaced is gone
        self._hits: dict[int, int] = {}  # of what was forgotten
        self._rules: tuple[Entry | None, tuple[Rule, ...]] = (None, ())  # the entry, and read

    # What the background thread does

    def open(self, topic: int, reached: tuple[int, int] = (0, 0)) -> None:
        """Let memory answer for ``topic`` from now on: it has ``reached`` epoch and version."""
        held = self.topics.setdefault(topic, TopicView())
        held.reached = reached
        held.floor = None
        if held.moment is None:
            held.moment = object()

    def advance(self, topic: int, reached: tuple[int, int]) -> bool:
        """Let ``topic``, if it is open, be held up to ``reached``; tell whether it is."""
        held = self.topics.get(topic)
        if held is None or held.moment is None:
            return False
        held.reached = reached
        return True

    def close(self, topic: int, *, floor: tuple[int, int] | None = None) -> None:
        """Let memory answer for ``topic`` no more, but for what a pull knows at or above ``floor``.

        What is held stays. While the floor stays where it is, it stays the same object.
        """
        held = self.topics.get(topic)
        if held is not None:
            held.moment = None
            held.floor = held.floor if held.floor == floor else floor

    def discard(self, topic: int) -> None:
        """Shut ``topic`` and give back all its memory."""
        self.replace(topic, TopicView() if topic == NAMESPACE else None)

    def replace(self, topic: int, held: TopicView | None) -> None:
        """Shut ``topic`` and hold ``held`` of it instead of what was held."""
        self.close(topic)
        self._hits[topic] = self.hits(topic)
        if held is None:
            self.topics.pop(topic, None)
        else:
            self.topics[topic] = held

    def install(self, held: TopicView, swaps: Iterable[Swap], growth: int) -> None:
        """Put what ``prepare`` returned in place, each table by one assignment."""
        for swap in swaps:
            if swap.after is None:
                held.groups.pop(swap.group, None)
            else:
                held.groups[swap.group] = swap.after
                if swap.after.decoded_bytes:  # it has inherited that
                    self._remember(swap.after)
        held.held_bytes += growth

    def groups(self, topic: int) -> Mapping[bytes, TableSnapshot]:
        """Return what is held of ``topic``, by group."""
        held = self.topics.get(topic)
        return held.groups if held is not None else {}

    def pulled(self, topic: int) -> TopicView | None:
        """Return where that is kept which is pulled of ``topic``; None if it is not followed."""
        held = self.topics.get(topic)
        return held if held is None or held.partial else held.aside

    def content(self, topic: int, group: bytes) -> TableSnapshot | None:
        """Return what is held of a table, pushed or pulled, open or not."""
        held = self.topics.get(topic)
        return None if held is None else held.content(group)

    def hits(self, topic: int) -> int:
        """Tell how often memory has answered for ``topic``, dropped or not."""
        held = self.topics.get(topic)
        return self._hits.get(topic, 0) + (held.hits if held is not None else 0)

    @property
    def hits_all(self) -> int:
        """How often memory has answered for a table."""
        return sum(map(self.hits, {**self._hits, **self.topics}))

    @property
    def held_bytes(self) -> int:
        """The accounted bytes of everything held."""
        return sum(held.held_bytes for _, held in self._places())

    def check(self) -> None:
        """Assert every invariant."""
        for topic, held in self._places():
            assert held.held_bytes == sum(c.held_bytes for c in held.groups.values()), topic
            for group, content in held.groups.items():
                assert content.rows, group
                keys = [entry.key for entry in content.entries()]
                assert keys == sorted(set(keys)), group
                assert all(group_of(key) == group for key in keys), group
                assert content.version >= max(e.version for e in content.entries()), group

    # What any thread reads

    def table(self, db: str, table: str) -> TableSnapshot | None:
        """Return a table's content from memory; None if memory may not answer.

        Raises:
            NoSuchObject: the namespace says that there is no such table.
        """
        namespace = self.topics[NAMESPACE]
        moment = namespace.moment
        block = self._names_block(namespace, db, table)
        if moment is None or namespace.moment is not moment:
            return None
        if block is None:
            raise NoSuchObject(table_name(db, table))
        held = self.topics.get(table_topic(db, table, self.num_topics))
        content = self._settled(held, table_key(db, table)) if held is not None else None
        if content is None or held is None:
            if _name_record(block, table) is None:
                raise NoSuchObject(table_name(db, table))
            return None
        if content.confirmed != block and not self._confirm(content, block, (db, table)):
            return None
        held.hits += 1
        content.used = True
        return content

    def partitions(self, db: str, table: str, selector: Selector = ALL) -> TableSnapshot | None:
        """Return a table's content if it holds the partitions that ``selector`` selects.

        None, and errors, as ``table``.
        """
        content = self.table(db, table)
        if content is None or selector.kind == SelectorKind.TABLE:
            return content
        if not (content.whole or selector in (content.selections or ())):
            return None
        head = content.head(table_key(db, table))
        return content if head is not None and head.complete else None

    def record(self, db: str, table: str) -> NameRecord | None:
        """Return what the namespace says of a table, open or not."""
        block = self._names_block(self.topics[NAMESPACE], db, table)
        return None if block is None else _name_record(block, table)

    def reached(self, db: str, table: str) -> tuple[int, int]:
        """Return epoch and version up to which a table's topic is held, (0, 0) if it is not."""
        held = self.topics.get(table_topic(db, table, self.num_topics))
        return held.reached if held is not None and held.moment is not None else (0, 0)

    def databases(self) -> tuple[str, ...] | None:
        """Return the sorted names of all databases; None if memory may not answer."""
        namespace = self.topics[NAMESPACE]
        moment = namespace.moment
        groups = list(namespace.groups)  # one step of the interpreter: nobody writes meanwhile
        if moment is None or namespace.moment is not moment:
            return None
        names = (group[2:-1].decode() for group in groups if group.startswith(b"d\0"))
        return tuple(sorted(names))

    def database(self, db: str) -> Database | None:
        """Return a database; None if memory may not answer.

        Raises:
            NoSuchObject: there is no such database.
        """
        namespace = self.topics[NAMESPACE]
        moment = namespace.moment
        content = namespace.groups.get(database_key(db))
        if moment is None or namespace.moment is not moment:
            return None
        entry = content.entry(database_key(db)) if content is not None else None
        if entry is None:
            raise NoSuchObject(db)
        return read_database(decode_database_value(value_of(entry)), entry.version)

    def tables(self, db: str) -> tuple[str, ...] | None:
        """Return the sorted names of the tables of ``db``; None and errors as ``database``."""
        namespace = self.topics[NAMESPACE]
        moment = namespace.moment
        known = database_key(db) in namespace.groups
        content = namespace.groups.get(names_group(db), NOTHING)
        if moment is None or namespace.moment is not moment:
            return None
        if not known:
            raise NoSuchObject(db)
        blocks = content.entries()
        return tuple([record.name for block in blocks for record in decode_names(value_of(block))])

    def rules(self) -> tuple[Rule, ...]:
        """Return what operators want drivers to be, the newest last; as it was last known.

        Cost: a look into a dictionary, but for the first time after a change.
        """
        namespace = self.topics[NAMESPACE]
        moment = namespace.moment
        content = namespace.groups.get(rules_key())
        if moment is None or namespace.moment is not moment:
            return self._rules[1]  # it is being caught up: not all may be there again
        entry = content.entry(rules_key()) if content is not None else None
        if entry != self._rules[0]:
            try:
                self._rules = (entry, decode_rules(value_of(entry)) if entry is not None else ())
            except WireError:  # a newer catalogd says what is not known here
                self._rules = (entry, self._rules[1])
        return self._rules[1]

    def _places(self) -> Iterator[tuple[int, TopicView]]:
        for topic, held in self.topics.items():
            yield topic, held
            if held.aside is not None:
                yield topic, held.aside

    def _names_block(self, namespace: TopicView, db: str, table: str) -> Entry | None:
        names = namespace.groups.get(names_group(db))
        return None if names is None else names.covering(names_key(db, table))

    def _settled(self, held: TopicView, group: bytes) -> TableSnapshot | None:
        moment, floor = held.moment, held.floor
        content = held.content(group)
        if moment is not None:
            return content if held.moment is moment else None
        if floor is None or content is None or content.at < floor[1] or held.floor is not floor:
            return None
        return content

    def _confirm(self, content: TableSnapshot, block: Entry, name: tuple[str, str]) -> bool:
        """Tell whether ``content`` is of the incarnation that ``block`` names; remember it."""
        record = _name_record(block, name[1])
        if record is None:
            raise NoSuchObject(table_name(*name))
        head = content.head(table_key(*name))
        if head is None or head.incarnation != record.incarnation:
            return False
        content.confirmed = block
        self._remember(content)
        return True

    def _remember(self, content: TableSnapshot) -> None:
        """Keep what was decoded of ``content``, and forget the oldest instead.

        Any thread does it, without a lock: so places are counted by standing in a row.
        """
        places = 1 + content.decoded_bytes // PLACE_BYTES
        for _ in range(min(places, self._heads_max)):
            self._heads.append(ref(content))
            if len(self._heads) > self._heads_max:
                oldest = self._heads.popleft()()
                if oldest is not None:
                    oldest.discard_head()


def heads_within(budget_bytes: int) -> int:
    """Return how many places for decoded tables there may be beside ``budget_bytes``."""
    return min(max(int(HEADS_SHARE * budget_bytes) // PLACE_BYTES, 1), HEADS_MAX)


def prepare(held: TopicView, changes: Iterable[Entry]) -> tuple[list[Swap], int]:
    """Return the swaps that ``changes``, sorted by version, come to, and the bytes they add."""
    groups: dict[bytes, list[Entry]] = {}
    for change in changes:
        groups.setdefault(group_of(change.key), []).append(change)
    swaps, growth = [], 0
    for group, of_group in groups.items():
        before = held.groups.get(group)
        if before is None and held.partial:
            continue
        after: TableSnapshot | None = (before or NOTHING).changed(of_group, epoch=held.epoch)
        if after is not None and (not after.rows or (held.partial and after.stubs == len(after))):
            after = None
        growth += (after.held_bytes if after else 0) - (before.held_bytes if before else 0)
        swaps.append(Swap(group, before, after))
    return swaps, growth


def full_topic_view() -> TopicView:
    """Return an empty place for a topic at full."""
    return TopicView(aside=TopicView(partial=True))


def _name_record(block: Entry, table: str) -> NameRecord | None:
    for record in decode_names(value_of(block)):
        if record.name == table:
            return record
    return None
