"""The changes between two moments, for watchers: the latest state, not the history.

    delta                 the groups that it names, before and after
    catch-up              the groups before the first chunk that changes each, and at its end
    snapshot (new epoch)  nothing to compare with: every table counts as changed

A table's first content is not a change, nor is a load of catalogd's. The namespace says
what was created and dropped, table topics say what differs in what was held. Of a table whose
content is withheld stubs come and go; each later stub is a change.
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
    """Makes changes of swaps; does nothing, and holds nothing, unless ``enabled``."""

    def __init__(self) -> None:
        self.enabled = False  # whether a watch is open
        # By topic, while its catch-up runs: the groups that it has changed, as they were before it
        self._before: dict[int, dict[bytes, TableSnapshot | None]] = {}
        # By topic, while its snapshot comes: the groups that were held, which cannot be compared
        self._renewed: dict[int, dict[bytes, None]] = {}
        # By topic, while its catch-up to full runs: the tables that pulls have brought meanwhile
        self._pulled: dict[int, dict[bytes, None]] = {}
        # Tables that pulls found before the namespace named them
        self._unnamed: dict[TableId, None] = {}

    def applied(self, delta: Delta, swaps: Iterable[Swap]) -> tuple[Change, ...]:
        """Return what ``delta`` changed."""
        if not self.enabled or delta.source == SOURCE_LOAD:
            return ()
        return _from_delta(delta, chain.from_iterable(_kinds(delta.topic, swap) for swap in swaps))

    def stubbed(self, delta: Delta) -> tuple[Change, ...]:
        """Return what ``delta`` says has changed, where nothing is held to compare with."""
        if not self.enabled or delta.source == SOURCE_LOAD:
            return ()
        return _from_delta(delta, _stubbed(delta.entries, since=delta.from_version))

    def doubted(self, name: str, version: int) -> tuple[Change, ...]:
        """Return a change of a table of which something wrong was answered."""
        return _changes([(name, ChangeKind.DATA, True)], version) if self.enabled else ()

    def on_stubs(
        self, message: Delta | Chunk, view: View, read_floor: ReadFloor
    ) -> tuple[Change, ...]:
        """Return what a delta or chunk at minimal says has changed, while a watch is open.

        The first invalidate-all marker is not a change if nothing of the topic was answered before.
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
        """Return a change of every table of ``topic``: what changed up to ``version`` is unknown.

        While a catch-up of the namespace runs, the names before it count, too.

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
        """Return what may have changed between the ``old`` and the ``new`` position of a topic.

        They are those of a level and of its successor, each an epoch and a version.
        """
        return self.gap(topic, new[1], view) if new > old else ()

    def on_snapshot(
        self, topic: int, groups: Mapping[bytes, TableSnapshot], *, known: bool = False
    ) -> None:
        """A snapshot of ``topic`` begins; ``groups`` is what was held.

        ``known``: something of it was answered, though nothing of it may be held.
        """
        if not self.enabled or not (groups or known):
            return
        if topic == NAMESPACE:
            self._before[topic] = {**groups, **self._before.get(topic, {})}
        else:
            self._before.pop(topic, None)
            self._renewed.setdefault(topic, {}).update(dict.fromkeys(groups))

    def on_chunk(self, topic: int, swaps: Iterable[Swap]) -> None:
        """A chunk of a catch-up was applied."""
        if not self.enabled or topic in self._renewed:
            return
        before = self._before.setdefault(topic, {})
        for swap in swaps:
            before.setdefault(swap.group, swap.before)

    def on_caught_up(
        self, topic: int, version: int, groups: Mapping[bytes, TableSnapshot]
    ) -> tuple[Change, ...]:
        """Return what the catch-up that ends now has changed; ``groups`` is what is held now."""
        before = self._before.pop(topic, {})
        pulled = self._pulled.pop(topic, {})
        renewed = self._renewed.pop(topic, None)
        if renewed is not None:  # what is missing now may be loaded later, which is not a change
            return _changes(_renewed({**renewed, **pulled, **groups}), version)
        swaps = (Swap(group, content, groups.get(group)) for group, content in before.items())
        found = chain.from_iterable(_kinds(topic, swap) for swap in swaps)
        return _changes(chain(_renewed(pulled), found), version)

    def on_pulled(self, db: str, table: str, view: View) -> None:
        """A pull has found a table; its name, or its content, may be received only later."""
        if not self.enabled:
            return
        if view.record(db, table) is None:
            self._unnamed[db, table] = None
        topic = table_topic(db, table, view.num_topics)
        held = view.topics.get(topic)
        if held is not None and not held.pulled_only and held.opening is None:
            self._pulled.setdefault(topic, {})[table_key(db, table)] = None

    def on_names_caught_up(self, version: int, view: View) -> tuple[Change, ...]:
        """Return the tables that pulls had found and that the caught-up namespace lacks."""
        gone = [table for table in self._unnamed if view.record(*table) is None]
        self._unnamed.clear()
        return _changes(((table_name(*table), ChangeKind.DROPPED, True) for table in gone), version)

    def discard(self, topic: int) -> None:
        """Discard what is held of ``topic``, which is not followed any more."""
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
    """Return how objects differ before and after ``swap``."""
    if topic != NAMESPACE:
        return _table_kinds(swap)
    return [(name, kind, True) for name, kind in _namespace_kinds(swap)]


def _stubbed(entries: Iterable[Entry], *, since: int = 0) -> Iterable[_Kind]:
    """Return a change of each table in ``entries``: of its data, unless its own entry says more.

    ``since``: files may differ if the table's data is newer. A catch-up names only the newest entry
    of a table, so there it is 0, and they always may.
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
        return []  # nothing was known of it: this is a load
    if after.schema_version > before.schema_version:
        return [(name_of(swap.group), ChangeKind.SCHEMA, True)]
    # the table's entry counts for the files of its partitions, too
    return [(name_of(swap.group), ChangeKind.DATA, after.data_version > before.data_version)]


def _renewed(groups: Iterable[bytes]) -> Iterable[_Kind]:
    return [(name_of(group), ChangeKind.DATA, True) for group in groups]


def _incarnations(blocks: Iterable[Entry]) -> dict[str, int]:
    return {
        record.name: record.incarnation
        for block in blocks
        for record in decode_names(value_of(block))
    }
