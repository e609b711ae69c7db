"""What is held against a run: moments of the metastore, versions of a view, incarnations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from topicast.catalog.model.versions import Transaction
from topicast.subscriber.engine.core import Core
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.cluster.metastore import State, TableId
from topicast.tests.cluster.violation import Violation
from topicast.topics.objects.encoding.values import decode_table_value
from topicast.topics.objects.names import EVERYTHING, Scope, group_of, table_key
from topicast.topics.objects.selector import ALL, TABLE_ONLY, Selector, by_filter
from topicast.topics.objects.tables import read_table
from topicast.topics.streams.follower import LIVE
from topicast.topics.topic import NAMESPACE, Entry, table_topic

LOOK_EVERY = 7
Place = tuple[int, int]  # epoch and version
Places = dict[tuple[int, bytes], tuple[int, int]]  # by epoch and key: version and data version
History = Mapping[TableId, Sequence[tuple[int, State]]]


@dataclass(frozen=True, slots=True)
class Requested:
    """What an application waits for; ``part``: the one partition that a filter asks for.

    ``kind`` exists, listed and picked: whether there is a table, the names of its partitions, those
    that stand in ``part``.
    """

    kind: str
    table: TableId
    whole: bool
    moment: int
    part: str | None = None

    @property
    def selector(self) -> Selector:
        """What is to be pulled."""
        if self.part is None:
            return ALL if self.whole else TABLE_ONLY
        return by_filter(self._filter)

    @property
    def _filter(self) -> str:
        key, _, value = (self.part or "").partition("=")
        return f"{key} = '{value}'"

    def __str__(self) -> str:
        what = self._filter if self.part is not None else "whole" if self.whole else "head"
        return f"{'.'.join(self.table)} {what}"


class Moments:
    """One subscriber's answers: each is a moment of the table, none before the one answered last.

    Nor is a version before the last sync of it.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._synced: dict[Scope, int] = {}
        self._answered: dict[TableId, int] = {}

    def least(self, table: TableId) -> int:
        """Return the moment at or after which an answer about ``table`` has to be."""
        synced = (self._synced.get(of, 0) for of in (EVERYTHING, Scope(table[0]), Scope(*table)))
        return max(*synced, self._answered.get(table, 0))

    def synced(self, scope: Scope, moment: int) -> None:
        """Take that everything in ``scope`` was to be seen from ``moment`` on."""
        self._synced[scope] = max(self._synced.get(scope, 0), moment)

    def answered(self, requested: Requested, seen: State, *, least: int = -1) -> bool:
        """Take an answer; returns whether it is what the metastore holds right now.

        ``least``: what was so when it was requested, if others may be answered meanwhile.
        """
        history = self._history[requested.table]
        least = self.least(requested.table) if least < 0 else least
        for at, (moment, state) in enumerate(history):
            last = at + 1 == len(history)
            if (last or history[at + 1][0] > least) and same(requested, seen, state):
                self._answered[requested.table] = max(
                    moment, self._answered.get(requested.table, 0)
                )
                return same(requested, seen, history[-1][1])
        raise Violation(
            f"{requested}: answered {seen}, which was not so at or after moment {least}; "
            f"history {history[-6:]}"
        )


@dataclass(slots=True)
class Versions:
    """One subscriber's versions: of topics as they are answered and followed, and of answers."""

    _positions: dict[object, tuple[int, int]] = field(default_factory=dict)
    _entries: Places = field(default_factory=dict)
    _held: Places = field(default_factory=dict)
    _steps: int = 0

    def stepped(self, member: Core) -> None:
        """Look at a view after something happened to it; at all that it holds now and then."""
        self._steps += 1
        if self._steps % LOOK_EVERY == 0:
            self._look(member)
        for topic, held in member.view.topics.items():
            if held.opening is not None:
                self._stands(topic, held.reached, f"topic {topic} is open")
        replicas = member.subscriptions.replicas
        for follower in [one for replica in replicas for one in replica.followers()]:
            if follower.state is LIVE:
                place = (follower.epoch, follower.version)
                self._stands(follower, place, f"topic {follower.topic} is LIVE")

    def begun_anew(self) -> None:
        """Take that a subscriber holds nothing any more; no answer goes back all the same."""
        self._positions.clear()
        self._held.clear()

    def _stands(self, who: object, place: tuple[int, int], text: str) -> None:
        before = self._positions.get(who, (0, 0))
        if place < before:
            raise Violation(f"{text} at {place} after {before}")
        self._positions[who] = place

    def _look(self, member: Core) -> None:
        """Within an epoch nothing that readers may see is older than it was before."""
        for held in member.view.topics.values():
            if held.opening is not None:
                for content in held.groups.values():
                    self._rises(held.reached[0], content)

    def _rises(self, epoch: int, content: TableSnapshot) -> None:
        for entry in content.entries():
            _rise(self._held, epoch, entry, "held")

    def answered(self, member: Core, content: TableSnapshot) -> Place:
        """Take an answer: within an epoch no entry of it is older than it was before.

        Returns epoch and data version of the table.
        """
        epoch, data_version = _epoch_of(member, content), 0
        for entry in content.entries():
            _rise(self._entries, epoch, entry, "answered")
            if entry.key == group_of(entry.key):
                data_version = entry.data_version
        return epoch, data_version


class Incarnations:
    """catalogd's commits: one incarnation of a name is one table, from its create to its drop."""

    def __init__(self) -> None:
        self._born: dict[tuple[bytes, int], str] = {}

    def discard(self) -> None:
        """The store was replaced: it gives its incarnations again."""
        self._born.clear()

    def committed(self, transactions: Sequence[Transaction]) -> None:
        """Take what became durable."""
        for one in transactions:
            for entry in one.entries:
                own = one.topic != NAMESPACE and entry.key == group_of(entry.key)
                if own and entry.value is not None:
                    self._check(entry.key, entry.value)

    def _check(self, key: bytes, encoded: bytes) -> None:
        value = decode_table_value(encoded)
        born = dict(read_table(value.thrift, 0).parameters)["born"]
        known = self._born.setdefault((key, value.incarnation), born)
        if known != born:
            text = f"{key!r}: incarnation {value.incarnation}"
            raise Violation(f"{text} is the table of moment {known}, and that of {born}")


class Epochs:
    """catalogd's commits: what is held of tables in one epoch is all of one metastore."""

    def __init__(self) -> None:
        self._lives: dict[int, int] = {}  # by epoch

    def discard(self) -> None:
        """The store was replaced: it may go on in an epoch from before."""
        self._lives.clear()

    def committed(self, epoch: int, transactions: Sequence[Transaction]) -> None:
        """Take what became durable in ``epoch``."""
        for key, thrift in _structs(transactions):
            life = int(read_table(thrift, 0).parameters.get("life", 0))
            known = self._lives.setdefault(epoch, life)
            if known != life:
                text = f"{key!r} of metastore {life} in epoch {epoch}"
                raise Violation(f"{text}, which is that of metastore {known}")


def _structs(transactions: Sequence[Transaction]) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and Thrift struct of each table that was written."""
    for one in transactions:
        for entry in one.entries if one.topic != NAMESPACE else ():
            if entry.key == group_of(entry.key) and entry.value is not None:
                yield entry.key, decode_table_value(entry.value).thrift


def state_of(requested: Requested, content: TableSnapshot) -> State:
    """Return what an application sees in an answer."""
    group = table_key(*requested.table)
    head = content.head(group)
    assert head is not None
    rev = int(head.table.parameters["rev"])
    selector = requested.selector if head.table.partition_columns else ALL
    parts = content.partitions(*requested.table, selector) if requested.whole else ()
    return rev, tuple(sorted((p.name, int(p.parameters["rev"])) for p in parts))


def same(requested: Requested, seen: State, state: State) -> bool:
    """Tell whether what was ``seen`` is what an application sees in ``state``."""
    if seen is None or state is None:
        return seen is state
    if requested.kind == "exists":
        return True
    if requested.kind == "listed":
        return [name for name, _ in seen[1]] == [name for name, _ in state[1]]
    if requested.kind == "picked":
        return seen[1] == tuple(p for p in state[1] if p[0] in (requested.part or ""))
    if not requested.whole:
        return seen[0] == state[0]
    parts = state[1] if requested.part is None else [p for p in state[1] if p[0] == requested.part]
    return seen == (state[0], tuple(parts))


def _rise(known: Places, epoch: int, entry: Entry, how: str) -> None:
    """Neither an entry's version nor its data version goes back."""
    before, place = known.get((epoch, entry.key), (0, 0)), (entry.version, entry.data_version)
    if place[0] < before[0] or place[1] < before[1]:
        raise Violation(f"{entry.key!r} is {how} at {place} after {before} in epoch {epoch}")
    known[epoch, entry.key] = place


def _epoch_of(member: Core, content: TableSnapshot) -> int:
    """Return the epoch of an answer: of the open topic that holds it, else of the pull."""
    group = group_of(next(content.entries()).key)
    db, table = group.decode().split("\0")[:2]
    held = member.view.topics.get(table_topic(db, table, member.view.num_topics))
    if held is not None and held.opening is not None and held.content(group) is content:
        return held.reached[0]
    return content.epoch
