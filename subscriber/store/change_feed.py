"""ChangeFeed: what deltas and catch-ups have changed, for watches: latest state, not history.

    delta                 compares the groups that it names, before and after
    catch-up              compares each group before the first chunk that changes it, and at the end
    snapshot (new epoch)  has nothing to compare with: every table counts as changed

The first content of a table is no change, and neither is content that catalogd has loaded. The
namespace says which objects were created and dropped; table topics say what differs in the content
that was held. If catalogd withholds the content of a table, each later stub of it is a change.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from ...topics.objects.changes import ChangeKind
from ...topics.objects.encoding.values import decode_names
from ...topics.objects.names import (
    DatabaseKey,
    NamesKey,
    TableId,
    group_of,
    name_of,
    parse_namespace_key,
    table_key,
    table_name,
)
from ...topics.topic import NAMESPACE, PREFIX, Entry, table_topic, value_of
from ...topics.wire.messages.data import (
    ORIGINS,
    SOURCE_LOAD,
    SOURCE_OVERWRITES,
    SOURCE_REPORTS,
    Chunk,
    Delta,
    Source,
)
from ..protocol.effects import Change
from .table_snapshot import NOTHING, Swap, TableSnapshot, differing
from .view import ReadFloor, View

REPORTED: Final = ORIGINS[SOURCE_REPORTS]
CATCH_UP: Final = ORIGINS[Source.CATCH_UP]

_Kind = tuple[str, ChangeKind, bool]
"""An object, the kind of its change, and whether its files may differ."""


class ChangeFeed:
    """Makes changes of swaps. Unless ``enabled`` it returns none, and holds nothing."""

    def __init__(self) -> None:
        self.enabled = False  # whether a watch is open
        # By topic, while its catch-up runs: the groups that it has changed, as they were before
        self._before: dict[int, dict[bytes, TableSnapshot | None]] = {}
        # By topic, while its snapshot comes: the groups that were held before
        self._renewed: dict[int, dict[bytes, None]] = {}
        # By topic, while its catch-up to full runs: the tables that pulls have brought meanwhile
        self._pulled: dict[int, dict[bytes, None]] = {}
        # Tables that a pull has found before the namespace named them
        self._unnamed: dict[TableId, None] = {}

    def applied(self, delta: Delta, swaps: Iterable[Swap]) -> tuple[Change, ...]:
        """Return the changes that ``delta`` has made, by the groups that it has swapped."""
        if not self.enabled or delta.source == SOURCE_LOAD:
            return ()
        return _from_delta(delta, chain.from_iterable(_kinds(delta.topic, swap) for swap in swaps))

    def stubbed(self, delta: Delta) -> tuple[Change, ...]:
        """Return the changes that ``delta`` names; no content is held to compare with."""
        if not self.enabled or delta.source == SOURCE_LOAD:
            return ()
        return _from_delta(delta, _stubbed(delta.entries, since=delta.from_version))

    def doubted(self, name: str, version: int) -> tuple[Change, ...]:
        """Return a change of the table ``name``, of which memory has answered something wrong."""
        return _changes([(name, ChangeKind.DATA, True)], version) if self.enabled else ()

    def on_stubs(
        self, message: Delta | Chunk, view: View, read_floor: ReadFloor
    ) -> tuple[Change, ...]:
        """Return the changes that a delta or chunk at minimal names.

        Caller: the replicas, while a watch is open. The first invalidate-all marker is no change if
        no reader knows anything of the topic.
        """
        if not message.invalidate_all:
            if isinstance(message, Delta):
                return self.stubbed(message)
            return _changes(_stubbed(message.entries), message.to_version)
        begins = isinstance(message, Chunk) and not message.from_version
        if begins and not read_floor.was_seen(message.topic):
            return ()
        return self.gap(message.topic, message.to_version, view)

    def gap(self, topic: int, version: int, view: View) -> tuple[Change, ...]:
        """Return a change of every table of ``topic``: any may have changed, up to ``version``.

        During a catch-up of the namespace, tables count that it named before, too.

        Cost: O(tables that there are).
        """
        if not self.enabled:
            return ()
        names: dict[str, None] = {}
        for groups in (self._before.get(NAMESPACE, {}), view.groups(NAMESPACE)):
            for group, content in groups.items():
                for block in (content or NOTHING).entries():
                    found = _names_of(topic, group, block, num_topics=view.num_topics)
                    names |= dict.fromkeys(found)
        return _changes(((name, ChangeKind.DATA, True) for name in names), version)

    def on_level_changed(
        self, topic: int, view: View, *, old: tuple[int, int], new: tuple[int, int]
    ) -> tuple[Change, ...]:
        """Return what may have changed between the positions of a topic at two levels.

        ``old``: the position at the level that ends; ``new``: that at the next level. Each is an
        epoch and a version.
        """
        return self.gap(topic, new[1], view) if new > old else ()

    def on_snapshot(
        self, topic: int, groups: Mapping[bytes, TableSnapshot], *, known: bool = False
    ) -> None:
        """Note that a snapshot of ``topic`` begins; ``groups``: what was held until now.

        ``known``: a reader may know something of the topic, even if nothing of it is held.
        """
        if not self.enabled or not (groups or known):
            return
        if topic == NAMESPACE:
            self._before[topic] = {**groups, **self._before.get(topic, {})}
        else:
            self._before.pop(topic, None)
            self._renewed.setdefault(topic, {}).update(dict.fromkeys(groups))

    def on_chunk(self, topic: int, swaps: Iterable[Swap]) -> None:
        """Note that a chunk of a catch-up was applied, which has made ``swaps``."""
        if not self.enabled or topic in self._renewed:
            return
        before = self._before.setdefault(topic, {})
        for swap in swaps:
            before.setdefault(swap.group, swap.before)

    def on_caught_up(
        self, topic: int, version: int, groups: Mapping[bytes, TableSnapshot]
    ) -> tuple[Change, ...]:
        """Return what the catch-up that ends now has changed; ``groups``: what is held now."""
        before = self._before.pop(topic, {})
        pulled = self._pulled.pop(topic, {})
        renewed = self._renewed.pop(topic, None)
        if renewed is not None:  # a table that is missing now may be loaded later, without a change
            return _changes(_renewed({**renewed, **pulled, **groups}), version)
        swaps = (Swap(group, content, groups.get(group)) for group, content in before.items())
        found = chain.from_iterable(_kinds(topic, swap) for swap in swaps)
        return _changes(chain(_renewed(pulled), found), version)

    def on_pulled(self, db: str, table: str, view: View) -> None:
        """Note that a pull has found a table, whose name or content deltas may bring only later."""
        if not self.enabled:
            return
        if view.record(db, table) is None:
            self._unnamed[db, table] = None
        topic = table_topic(db, table, view.num_topics)
        held = view.topics.get(topic)
        if held is not None and not held.pulled_only and held.opening is None:
            self._pulled.setdefault(topic, {})[table_key(db, table)] = None

    def on_names_caught_up(self, version: int, view: View) -> tuple[Change, ...]:
        """Return a drop of each table that a pull has found and the caught-up namespace lacks."""
        gone = [table for table in self._unnamed if view.record(*table) is None]
        self._unnamed.clear()
        return _changes(((table_name(*table), ChangeKind.DROPPED, True) for table in gone), version)

    def discard(self, topic: int) -> None:
        """Discard what is noted of ``topic``, which is not followed any more."""
        self._before.pop(topic, None)
        self._pulled.pop(topic, None)
        self._renewed.pop(topic, None)


def _from_delta(delta: Delta, kinds: Iterable[_Kind]) -> tuple[Change, ...]:
    origin = ORIGINS.get(delta.source, CATCH_UP)
    overwritten = delta.source == SOURCE_OVERWRITES
    return _changes(kinds, delta.to_version, origin=origin, overwritten=overwritten)


def _changes(
    kinds: Iterable[_Kind],
    version: int,
    *,
    origin: str = CATCH_UP,
    overwritten: bool = False,
) -> tuple[Change, ...]:
    return tuple(
        [
            Change(
                object=name,
                kind=kind,
                version=version,
                origin=origin,
                files=files,
                overwritten=overwritten,
            )
            for name, kind, files in kinds
        ]
    )


def _kinds(topic: int, swap: Swap) -> Iterable[_Kind]:
    """Return the changes of the objects in ``swap``, a group of ``topic``."""
    if topic != NAMESPACE:
        return _table_kinds(swap)
    return [(name, kind, True) for name, kind in _namespace_kinds(swap)]


def _stubbed(entries: Iterable[Entry], *, since: int = 0) -> Iterable[_Kind]:
    """Return a change of each table in ``entries``: of its data, unless its own entry says more.

    ``since``: the files of a table may differ if its data version is above this version. It is 0
    for a catch-up, which has only the newest entry of a table: then files always may differ.
    """
    kinds: dict[bytes, tuple[ChangeKind, bool]] = {}
    for entry in entries:
        if entry.kind == PREFIX:
            continue
        group = group_of(entry.key)
        kind, files = kinds.get(group, (ChangeKind.DATA, False))
        if entry.key == group:
            kind = ChangeKind.SCHEMA if entry.schema_version == entry.version else kind
            files = kind == ChangeKind.SCHEMA or entry.data_version > since
        kinds[group] = kind, files
    return [(name_of(group), kind, files) for group, (kind, files) in kinds.items()]


def _names_of(topic: int, group: bytes, block: Entry, *, num_topics: int) -> Iterable[str]:
    key = parse_namespace_key(group)
    if not isinstance(key, NamesKey):
        return []
    names = [record.name for record in decode_names(value_of(block))]
    return [table_name(key.db, n) for n in names if table_topic(key.db, n, num_topics) == topic]


def _namespace_kinds(swap: Swap) -> Iterable[tuple[str, ChangeKind]]:
    key = parse_namespace_key(swap.group)
    if isinstance(key, DatabaseKey):
        if swap.before is None or swap.after is None:
            return [(key.db, ChangeKind.CREATED if swap.after is not None else ChangeKind.DROPPED)]
        return [(key.db, ChangeKind.SCHEMA)]
    if not isinstance(key, NamesKey):
        return []
    old, new = differing(swap.before or NOTHING, swap.after or NOTHING)
    before, after = _incarnations(old), _incarnations(new)
    dropped = [
        (table_name(key.db, name), ChangeKind.DROPPED) for name in before if name not in after
    ]
    created = [
        (table_name(key.db, name), ChangeKind.CREATED)
        for name, incarnation in after.items()
        if before.get(name) != incarnation
    ]
    return dropped + created


def _table_kinds(swap: Swap) -> Iterable[_Kind]:
    if swap.before is None or swap.after is None:
        return []
    before, after = swap.before.entry(swap.group), swap.after.entry(swap.group)
    if before is None or after is None:
        return []  # the table's entry was not known before: catalogd has loaded the table
    if after.schema_version > before.schema_version:
        return [(name_of(swap.group), ChangeKind.SCHEMA, True)]
    # The data version of the table's entry counts for the files of its partitions, too.
    return [(name_of(swap.group), ChangeKind.DATA, after.data_version > before.data_version)]


def _renewed(groups: Iterable[bytes]) -> Iterable[_Kind]:
    return [(name_of(group), ChangeKind.DATA, True) for group in groups]


def _incarnations(blocks: Iterable[Entry]) -> dict[str, int]:
    return {
        record.name: record.incarnation
        for block in blocks
        for record in decode_names(value_of(block))
    }
