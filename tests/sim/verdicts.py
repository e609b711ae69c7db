"""What is held against catalogd's answer to Validate: stale iff it is so while it is requested."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topicast.catalog.model.versions import Transaction
from topicast.subscriber.store.table_snapshot import snapshot_of
from topicast.tests.cluster.metastore import State, TableId
from topicast.tests.cluster.violation import Violation
from topicast.tests.sim.checkers import Requested, state_of
from topicast.topics.objects.encoding.values import LOADING
from topicast.topics.objects.names import group_of, table_key
from topicast.topics.topic import NAMESPACE, VALUE
from topicast.topics.wire.messages.catalog import Claimed

if TYPE_CHECKING:
    from topicast.tests.cluster.catalogd import CatalogProcess

Key = tuple[int, bytes]  # epoch, of a table's own entry or of its group


@dataclass(frozen=True, slots=True)
class _Look:
    """catalogd at one instant; of each claim: known at all, changed last at, floor, version."""

    store: int
    epoch: int
    known: tuple[bool, ...]
    changed: tuple[int, ...]
    floors: tuple[int, ...]
    versions: tuple[int, ...]


class Commits:
    """What catalogd has made durable of each table, by its own count."""

    def __init__(self, catalogd: "CatalogProcess") -> None:
        self.stores = 0  # how many there were: a restored one goes back
        self._catalogd = catalogd
        self._own: dict[Key, int] = {}
        self._whole: dict[Key, int] = {}

    def discard(self) -> None:
        """The store was replaced."""
        self.stores += 1
        self._own.clear()
        self._whole.clear()

    def committed(self, transactions: Sequence[Transaction]) -> None:
        """Take what became durable."""
        epoch = self._catalogd.store.epoch
        for one in transactions:
            if one.topic == NAMESPACE:
                continue
            for entry in one.entries:
                key = (epoch, group_of(entry.key))
                self._whole[key] = entry.version
                if entry.key == key[1]:
                    self._own[key] = entry.version

    @property
    def alive(self) -> bool:
        """Whether catalogd is there."""
        return self._catalogd.alive

    def look(self, claims: Sequence[Claimed]) -> _Look:
        """Return what is so right now."""
        catalog, epoch = self._catalogd.catalog, self._catalogd.store.epoch
        assert catalog is not None
        known, changed, floors, versions = [], [], [], []
        for claim in claims:
            table = (claim.db, claim.table)
            record, value = catalog.namespace.find(table), catalog.tables.value(table)
            same = record is not None and value is not None
            known.append(same and record.incarnation == value.incarnation)
            at = (self._whole if claim.whole else self._own).get((epoch, table_key(*table)), 0)
            changed.append(at)
            topic = catalog.tables.topic_of(table)[1]
            floors.append(topic.floor if claim.whole else 0)
            versions.append(topic.version)
        fields = (known, changed, floors, versions)
        return _Look(self.stores, epoch, *map(tuple, fields))

    def state(self, table: TableId, *, whole: bool) -> State:
        """Return what catalogd holds of a table; None: nothing, or not all of it."""
        catalog = self._catalogd.catalog
        assert catalog is not None
        value = catalog.tables.value(table)
        if value is None or (whole and value.partitions == LOADING):
            return None
        found = catalog.tables.topic_of(table)[1].rows(table_key(*table))
        rows = sorted((e for e in found if e.kind == VALUE), key=lambda entry: entry.version)
        return state_of(Requested("table", table, whole, 0), snapshot_of(rows))


class Verdicts:
    """One question: what was so when it was requested, held against the answer.

    ``sees``: whether the client may see a database. What it may not see is stale.
    """

    def __init__(
        self,
        commits: Commits,
        epoch: int,
        claims: Sequence[Claimed],
        sees: Callable[[str], bool | None],
    ) -> None:
        self.epoch = epoch
        self._sees = sees
        self._seen = tuple(sees(one.db) for one in claims)
        self._claims = claims
        self._commits = commits
        self._alive = commits.alive  # else what it had in mind last may never have been durable
        self._before = commits.look(claims)
        self._states = {
            (c.db, c.table): commits.state((c.db, c.table), whole=c.whole) for c in claims
        }

    def answered(self, stale: Collection[int]) -> None:
        """Take the places of the stale claims."""
        before, after = self._before, self._commits.look(self._claims)
        if before.store != after.store or not self._alive:
            return  # the one may be older than the other: there is no order of instants
        for place, claim in enumerate(self._claims):
            reason = self._reason(place, claim, before, after)
            if place in stale and not reason:
                raise Violation(f"{claim} is said to be stale: {place} of {before}, {after}")
            current = before.changed[place] <= claim.version and before.epoch == self.epoch
            if place not in stale and not current:
                raise Violation(f"{claim} is said to be true: {place} of {before}")

    def agrees(self, seen: dict[TableId, State]) -> None:
        """Take what the claims were made of, none of which was said to be stale."""
        if self._before.store == self._commits.stores and self._alive:
            for table, state in seen.items():
                if self._states[table] != state:
                    text = f"{'.'.join(table)}: {state} is said to be true"
                    raise Violation(f"{text}, catalogd had {self._states[table]}")

    def _reason(self, place: int, claim: Claimed, before: _Look, after: _Look) -> bool:
        return (
            not (self._seen[place] and self._sees(claim.db))
            or {before.epoch, after.epoch} != {self.epoch}
            or not (before.known[place] and after.known[place])
            or not after.changed[place]  # it was so in the store that was restored
            or after.changed[place] > claim.version
            or not after.floors[place] <= claim.version <= before.versions[place]
        )
