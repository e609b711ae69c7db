"""catalogd's service as subscribers see it: comparisons, syncs, pulls in one part."""

from topicast.tests.subscriber.source import Catalog
from topicast.topics.entries import Entry
from topicast.topics.objects.blocks import decode_block
from topicast.topics.objects.filters import parse
from topicast.topics.objects.names import partition_values, table_key
from topicast.topics.objects.tables import Column
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import (
    SELECT_FILTER,
    SELECT_TABLE,
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
            stale.append(place)
    return Validated(
        request=asked.request, epoch=catalog.epoch, start=catalog.start, stale=tuple(stale)
    )


def _matches(row: Entry, pull: Pull) -> bool:
    """Tell whether ``row`` is the table, or a block in which a partition may match."""
    if row.key == table_key(pull.db, pull.table):
        return True
    assert row.value is not None
    predicate = parse(pull.filter).bind([Column("ds", "string", "")])
    return any(predicate(partition_values(n)) for n in decode_block(row.value, row.version).names)


def pulled(catalog: Catalog, pull: Pull) -> Pulled:
    """Return the answer to ``pull``, in one part."""
    number = catalog.topic(pull.db, pull.table)
    record = catalog.names.get(pull.db, {}).get(pull.table)
    rows = list(catalog.topics[number].rows(table_key(pull.db, pull.table)))
    if pull.selector == SELECT_TABLE:
        rows = [row for row in rows if row.key == table_key(pull.db, pull.table)]
    held = dict(pull.held)
    if pull.selector == SELECT_FILTER:
        rows = [row for row in rows if held.get(row.key) == row.version or _matches(row, pull)]
    here = {row.key for row in rows}
    return Pulled(
        request=pull.request,
        sequence=0,
        last=True,
        found=record is not None,
        epoch=catalog.epoch,
        start=catalog.start,
        topic=number,
        topic_version=catalog.topics[number].version,
        namespace_version=catalog.topics[NAMESPACE].version,
        incarnation=record.incarnation if record else 0,
        gone=tuple(key for key in held if key not in here) if record else (),
        entries=tuple(row for row in rows if held.get(row.key) != row.version) if record else (),
    )
