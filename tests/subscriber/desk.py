"""catalogd's service as subscribers see it: comparisons, syncs, pulls in one part."""

from topicast.tests.subscriber.source import Catalog
from topicast.topics.objects.blocks import decode_block
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import SelectorKind
from topicast.topics.objects.tables import Column
from topicast.topics.objects.values import encode_listing
from topicast.topics.topic import NAMESPACE, Entry
from topicast.topics.wire.messages import (
    Compare,
    Compared,
    Message,
    Pull,
    Pulled,
    Sync,
    Synced,
    Validate,
    Validated,
)
from topicast.topics.wire.selector import selector_of


def serve(catalog: Catalog, message: Message, *, accepting: bool | None = None) -> Message | None:
    """Return the answer to ``message``; ``accepting`` None compares epochs only."""
    place = {"epoch": catalog.epoch, "start": catalog.start}
    match message:
        case Compare(request=request, epoch=epoch):
            accepted = epoch == catalog.epoch if accepting is None else accepting
            return Compared(request=request, accepted=accepted, **place)
        case Sync(request=request):
            versions = catalog.versions()
            return Synced(request=request, event_id=1, versions=versions, **place)
        case Pull():
            return pulled(catalog, message)
        case Validate():
            return validated(catalog, message)
    return None


def validated(catalog: Catalog, asked: Validate) -> Validated:
    """Return the answer to ``asked``."""
    stale = []
    for place, claim in enumerate(asked.claims):
        topic = catalog.topics[catalog.topic(claim.db, claim.table)]
        entry = topic.get(table_key(claim.db, claim.table))
        newest = topic.changed_at(table_key(claim.db, claim.table))
        if not claim.whole:
            newest = entry.version if entry is not None else newest
        if asked.epoch != catalog.epoch or entry is None or newest > claim.version:
            stale.append((place, newest if entry is not None else 0))
    return Validated(
        request=asked.request, epoch=catalog.epoch, start=catalog.start, stale=tuple(stale)
    )


def _names(row: Entry, pull: Pull) -> list[str]:
    """Return the names in a block that are selected."""
    assert row.value is not None
    names = decode_block(row.value, row.version).names
    matches = selector_of(pull).matches([Column("ds", "string", "")])
    return [name for name in names if matches is None or matches(name)]


def pulled(catalog: Catalog, pull: Pull) -> Pulled:
    """Return the answer to ``pull``, in one part; with ``bytes_max`` of one block, and a cursor."""
    number, key = catalog.topic(pull.db, pull.table), table_key(pull.db, pull.table)
    topic = catalog.topics[number]
    record = catalog.names.get(pull.db, {}).get(pull.table)
    rows = sorted(topic.rows(key), key=lambda row: row.key) if record else []
    if pull.selector == SelectorKind.TABLE:
        rows = rows[:1]
    held = dict(pull.held)
    rows = [
        row
        for row in rows
        if row.key == key or held.get(row.key) == row.version or _names(row, pull)
    ]
    here = {row.key for row in rows}
    later = [row for row in rows if row.key >= pull.after]
    cut = 2 if pull.bytes_max else len(later)
    moved = bool(pull.version) and (
        pull.epoch != catalog.epoch or topic.changed_at(key) > pull.version
    )
    shown = [] if moved else later[:cut]
    blocks = [row for row in shown if row.key != key]
    only = pull.names_only
    beside = validated(catalog, Validate(request=0, epoch=pull.epoch, claims=pull.claims))
    return Pulled(
        request=pull.request,
        sequence=0,
        last=True,
        found=record is not None,
        epoch=catalog.epoch,
        start=catalog.start,
        topic=number,
        topic_version=topic.version,
        namespace_version=catalog.topics[NAMESPACE].version,
        incarnation=record.incarnation if record else 0,
        gone=tuple(k for k in held if k not in here) if record and not pull.after else (),
        entries=() if only else tuple(row for row in shown if held.get(row.key) != row.version),
        names=encode_listing([n for row in blocks for n in _names(row, pull)]) if only else b"",
        cursor=later[cut].key if later[cut:] and not moved else b"",
        moved=moved,
        stale=tuple(place for place, _ in beside.stale),
    )
