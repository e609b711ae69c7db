"""Actions: the objects that an event makes dirty, with the content that the event has of them.

Every event has a result. If an event cannot be decoded, or its type is unknown, the whole table
that it names is dirty (``degraded``); if it names no table, its database is. An event of another
catalog, or of a type in SKIPPED, makes nothing dirty. Message fields: JSON with Thrift's own JSON
inside, objects as ``{"field id": {"type": value}}``.

| event | dirty |
|---|---|
| CREATE, DROP, ALTER DATABASE | the database |
| CREATE, DROP TABLE | the table as a whole; DROP ends its incarnation |
| RELOAD | data of the partitions named, or the table as a whole |
| ALTER TABLE | its object; as a whole if name, columns, storage or partition keys changed |
| ADD, DROP, ALTER PARTITION(S) | the partitions named; after a rename, old and new |
| INSERT | data of the table or of the partition |
| writes and compactions of ACID tables | data of the table |
| transactions | see ingest/events/transactions.py |
| column statistics | the object whose parameters name the columns |
| DROP INDEX | the table of the index, which is gone |

An altered table or partition counts as written, unless the event proves that only its description
changed: after a write without statistics Hive sends the same object, or one with another time.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from ....topics.errors import UsageError, WireError
from ....topics.objects.names import partition_name
from ...metastore.port import (
    KEPT,
    Content,
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    RawEvent,
)
from .thrift_json import parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event with its decoded message; ``table`` is empty if the event is about no table."""

    db: str
    table: str
    body: Mapping[str, object]


# Fields of the Thrift structs Table and Partition.
_TABLE, _TABLE_DB, _TABLE_OWNER, _TABLE_SD, _TABLE_KEYS, _TABLE_PARAMETERS = tuple("123789")
_TABLE_TEMPORARY, _TABLE_OWNER_TYPE = "14", "18"  # the metastore does not keep the first
_VALUES, _PARTITION_PARAMETERS = "1", "7"
_KEY_NAME = "1"

KEYS_MAX: Final = 256  # texts of tables in events, with the partition columns read from each
KEYS_CHARS_MAX: Final = 16 << 10  # of a table's text, which usually has 2,000: 0.5 MB of all
MESSAGE_BYTES_MAX: Final = 256 << 20  # one ADD_PARTITION of 100,000 partitions has 230 MB
JSON_FORMATS: Final = ("", "json-0.2", "json-2.0")
GZIP_FORMATS: Final = ("gzip(json-2.0)", "gzip(json-0.2)")

# Parameters that no writer of files changes. A change of any other may come from a write: of
# statistics, or of what a table format, or a job that synchronises it, notes of its last commit.
_DESCRIBES: Final = frozenset({"comment"})
_DESCRIBES_TABLE: Final = frozenset({_TABLE_OWNER, _TABLE_OWNER_TYPE, _TABLE_TEMPORARY})
_TIMES: Final = frozenset({"transient_lastDdlTime", "last_modified_time", "last_modified_by"})


def dirty_objects(raw: RawEvent) -> tuple[Dirty, ...]:
    """Return the objects that an event makes dirty; all that it names, if it cannot be decoded."""
    if raw.catalog or raw.type in SKIPPED or raw.type in TRANSACTIONS:
        return ()
    act = _ACTIONS.get(raw.type)
    try:
        return named_objects(raw) if act is None else act(decode(raw))
    except (WireError, UsageError):
        return named_objects(raw)


def is_known(kind: str) -> bool:
    """Return whether catalogd knows what events of type ``kind`` mean."""
    return kind in _ACTIONS or kind in SKIPPED or kind in TRANSACTIONS


_ENDS: Final = frozenset({"CREATE_TABLE", "DROP_TABLE", "ALTER_TABLE"})
"""Events after which the former table of that name may be gone: an alteration may be a rename, and
code that cannot decode a creation may not have decoded the drop before it."""


def named_objects(raw: RawEvent) -> tuple[Dirty, ...]:
    """Return all objects that ``raw`` names: an event that cannot be decoded may change each."""
    if not _named(raw.db):
        return ()
    if not _named(raw.table):
        return (DirtyDatabase(db=_plain(raw.db), degraded=True),)
    return _table(
        Event(db=raw.db, table=raw.table, body={}),
        whole=True,
        dropped=raw.type in _ENDS,
        data=raw.type != "DROP_TABLE",
        degraded=True,
    )


def _named(name: str) -> bool:
    """Return whether an event has ``name``: Hive 3 writes "null" and " " for none."""
    return bool(name.strip()) and name != "null"


def _database(event: Event) -> tuple[Dirty, ...]:
    return (DirtyDatabase(db=_db(event)),)


def _table(event: Event, content: Content | None = None, **changed: bool) -> tuple[Dirty, ...]:
    return (DirtyTable(db=_db(event), table=_table_name(event), content=content, **changed),)


def _partitions(
    event: Event,
    *names: str,
    data: bool = False,
    contents: Sequence[Content] = (),
) -> tuple[Dirty, ...]:
    said = dict(zip(names, contents, strict=True)) if contents else dict.fromkeys(names)
    dirty = DirtyPartitions(
        db=_db(event),
        table=_table_name(event),
        names=tuple(said),
        data=data,
        contents=tuple(one for one in said.values() if one is not None),
    )
    return (dirty,)


def _alter_table(event: Event) -> tuple[Dirty, ...]:
    before = _object(event, "tableObjBeforeJson")
    after = _object(event, "tableObjAfterJson")
    old = _plain(_string(before, _TABLE_DB)), _string(before, _TABLE).lower()
    new = _plain(_string(after, _TABLE_DB)), _string(after, _TABLE).lower()
    if old != new:
        return (
            DirtyTable(db=old[0], table=old[1], whole=True, dropped=True),
            DirtyTable(db=new[0], table=new[1], whole=True),
        )
    truncated = _flag(event, "isTruncateOp")
    reshaped = any(before.get(part) != after.get(part) for part in (_TABLE_SD, _TABLE_KEYS))
    written = truncated or not _only_described(
        before, after, parameters=_TABLE_PARAMETERS, describing=_DESCRIBES_TABLE
    )
    whole = truncated or reshaped
    content = None if whole else Content(after=after, before=before)
    return (DirtyTable(db=new[0], table=new[1], whole=whole, data=written, content=content),)


def _listed_partitions(event: Event, *, data: bool, gone: bool = False) -> tuple[Dirty, ...]:
    listed = event.body.get("partitions")
    if not isinstance(listed, list):
        raise WireError("partitions are not a list")
    keys = _partition_keys(event)
    names = [_name_of_values(keys, values) for values in listed]
    if not names:
        return ()  # MSCK found nothing
    structs = event.body.get("partitionListJson")
    contents: list[Content] = []
    if structs is None and gone:
        contents = [Content(after=None) for _ in names]
    elif isinstance(structs, list) and len(structs) == len(set(names)) == len(names):
        contents = [Content(after=one) for one in _all_strings(structs)]
    return _partitions(event, *names, data=data, contents=contents)


def _alter_partition(event: Event) -> tuple[Dirty, ...]:
    keys = _partition_keys(event)
    before = _object(event, "partitionObjBeforeJson")
    after = _object(event, "partitionObjAfterJson")
    old = _name_of_values(keys, event.body.get("keyValues"))
    new = partition_name(keys, _strings(after, _VALUES))
    written = _flag(event, "isTruncateOp") or not _only_described(
        before, after, parameters=_PARTITION_PARAMETERS
    )
    contents = [Content(after=after, before=before, was=old)]
    if old != new:
        contents.insert(0, Content(after=None))
    return _partitions(event, *dict.fromkeys((old, new)), data=written, contents=contents)


def _alter_partitions(event: Event) -> tuple[Dirty, ...]:
    """Hive 4.1 and later: one event of a bulk alter, with the partitions as they are afterwards."""
    named = event.body.get("partitionKeys")
    if named is None:
        return _listed_partitions(event, data=True)
    listed = event.body.get("partitionValues")
    if not (isinstance(named, list) and isinstance(listed, list)):
        raise WireError("partition keys and values are not lists")
    keys = _all_strings(named)
    names = [partition_name(keys, _all_strings(values)) for values in listed]
    return _partitions(event, *names, data=True) if names else ()


def _partition_statistics(event: Event) -> tuple[Dirty, ...]:
    name = event.body.get("partName")
    if isinstance(name, str) and name:
        return _partitions(event, name)
    values = _all_strings(event.body.get("partVals"))
    return _partitions(event, partition_name(_partition_keys(event), values))


def _insert(event: Event) -> tuple[Dirty, ...]:
    named = event.body.get("partKeyVals")  # Hive 2.3: a map in the order of the keys
    if isinstance(named, dict) and named:
        name = _name_of_values(tuple(named), named)
    elif event.body.get("ptnObjJson") is not None:
        values = _strings(_object(event, "ptnObjJson"), _VALUES)
        name = partition_name(_partition_keys(event), values)
    else:
        return _table(event, Content(after=KEPT), data=True)
    return _partitions(event, name, data=True, contents=[Content(after=KEPT)])


def _reload(event: Event) -> tuple[Dirty, ...]:
    """Hive 4: the objects that another cache, such as Impala's, was ordered to read again."""
    one, several = event.body.get("ptnObjJson"), event.body.get("partitionListJson")
    texts = several or ([] if one is None else [one])
    if not texts:
        return _table(event, whole=True, data=True)
    if not isinstance(texts, list):
        raise WireError("partitions are not a list")
    keys, read = _partition_keys(event), [_parsed(text, "a partition") for text in texts]
    names = [partition_name(keys, _strings(one, _VALUES)) for one in read]
    return _partitions(event, *names, data=True)


def _drop_index(event: Event) -> tuple[Dirty, ...]:
    """Hive 2.3: the table of an index is dropped with the index, and has no event of its own."""
    table = event.body.get("indexTableName")
    if not isinstance(table, str) or not table:
        raise WireError("the table of an index is missing")
    return (DirtyTable(db=_db(event), table=table.lower(), whole=True, dropped=True),)


_ACTIONS: Final[Mapping[str, Callable[[Event], tuple[Dirty, ...]]]] = {
    "CREATE_DATABASE": _database,
    "DROP_DATABASE": _database,
    "ALTER_DATABASE": _database,
    "CREATE_TABLE": partial(_table, whole=True),
    "DROP_TABLE": partial(_table, whole=True, dropped=True),
    "ALTER_TABLE": _alter_table,
    "RELOAD": _reload,
    "ADD_PARTITION": partial(_listed_partitions, data=False),
    # Their data changes, too: a partition that is added again must not be read by the old listing.
    "DROP_PARTITION": partial(_listed_partitions, data=True, gone=True),
    "ALTER_PARTITION": _alter_partition,
    "ALTER_PARTITIONS": _alter_partitions,
    "INSERT": _insert,
    "DROP_INDEX": _drop_index,
    "ACID_WRITE_EVENT": partial(_table, data=True),
    "BATCH_ACID_WRITE_EVENT": partial(_table, data=True),
    "COMMIT_COMPACTION_EVENT": partial(_table, data=True),
    "UPDATE_TBL_COL_STAT_EVENT": _table,
    "DELETE_TBL_COL_STAT_EVENT": _table,
    "UPDATE_PART_COL_STAT_EVENT": _partition_statistics,
    "UPDATE_PART_COL_STAT_EVENT_BATCH": partial(_table, whole=True),  # logged as single events
    "DELETE_PART_COL_STAT_EVENT": _partition_statistics,
}

STATISTICS: Final = frozenset(
    {
        *("UPDATE_TBL_COL_STAT_EVENT", "DELETE_TBL_COL_STAT_EVENT", "UPDATE_PART_COL_STAT_EVENT"),
        *("UPDATE_PART_COL_STAT_EVENT_BATCH", "DELETE_PART_COL_STAT_EVENT"),
    }
)
"""Events of column statistics. The metastore returns no object with its statistics: at most the
object's parameters name the columns."""
SKIPPED: Final = frozenset(
    {
        *("CREATE_FUNCTION", "DROP_FUNCTION"),
        *("OPEN_TXN", "CREATE_INDEX", "ALTER_INDEX"),
        *("ADD_PRIMARYKEY", "ADD_FOREIGNKEY", "ADD_UNIQUECONSTRAINT", "ADD_NOTNULLCONSTRAINT"),
        *("ADD_DEFAULTCONSTRAINT", "ADD_CHECKCONSTRAINT", "DROP_CONSTRAINT"),
        *("CREATE_CATALOG", "ALTER_CATALOG", "DROP_CATALOG"),
        *("CREATE_ISCHEMA", "ALTER_ISCHEMA", "DROP_ISCHEMA"),
        *("ADD_SCHEMA_VERSION", "ALTER_SCHEMA_VERSION", "DROP_SCHEMA_VERSION"),
        *("CREATE_DATACONNECTOR", "ALTER_DATACONNECTOR", "DROP_DATACONNECTOR"),
        "CONFIG_CHANGE_EVENT",
    }
)
"""Events of objects that catalogd does not hold."""
TRANSACTIONS: Final = frozenset({"ALLOC_WRITE_ID_EVENT", "COMMIT_TXN", "ABORT_TXN"})
"""Events that name a written table only together: see ingest/events/transactions.py."""


def _db(event: Event) -> str:
    if not event.db:
        raise WireError("event without a database")
    return _plain(event.db)


def _table_name(event: Event) -> str:
    if not event.table:
        raise WireError("event without a table")
    return event.table.lower()  # Hive 2.3 logs names as the writer spelt them


def _plain(db: str) -> str:
    """Return a database's name in lower case, without a catalog: Hive 4 may write ``@hive#db``."""
    return (db.rpartition("#")[2] if db.startswith("@") else db).lower()


def _partition_keys(event: Event) -> tuple[str, ...]:
    """Return the names of the partition columns of the event's table.

    Each event of a partition has the whole table, usually the same from one event to the next.
    """
    text = event.body.get("tableObjJson")
    if isinstance(text, str) and len(text) <= KEYS_CHARS_MAX:
        return _known_keys(text)
    return _keys_in(text)


def _keys_in(text: object) -> tuple[str, ...]:
    table = _parsed(text, "tableObjJson")
    kind, count, *keys = _typed(table, _TABLE_KEYS, "lst") or (None, None)
    if kind != "rec" or count != len(keys):
        raise WireError("partition keys are not a list of records")
    return tuple([_string(key, _KEY_NAME) for key in keys if isinstance(key, dict)])


_known_keys = lru_cache(maxsize=KEYS_MAX)(_keys_in)


def _name_of_values(keys: tuple[str, ...], values: object) -> str:
    if not isinstance(values, dict):
        raise WireError("partition values are not a map")
    found = [values.get(key) for key in keys]
    if len(values) != len(keys) or not all(isinstance(value, str) for value in found):
        raise WireError("partition values do not fit the keys")
    return partition_name(keys, [str(value) for value in found])


def _object(event: Event, field: str) -> Mapping[str, object]:
    """Read a Thrift object, which is JSON in a string of the message."""
    return _parsed(event.body.get(field), field)


def _parsed(text: object, field: str) -> Mapping[str, object]:
    if not isinstance(text, str):
        raise WireError(f"{field} is missing")
    return parsed(text, field)


def _typed(struct: Mapping[str, object], field: str, kind: str) -> list[object] | None:
    """Return field number ``field`` of type ``kind``, a container; None if it is absent."""
    value = struct.get(field)
    if value is None:
        return None
    held = value.get(kind) if isinstance(value, dict) else None
    if not isinstance(held, list) or len(held) < 2:
        raise WireError(f"field {field} is not a {kind}")
    return held


def _string(struct: Mapping[str, object], field: str) -> str:
    value = struct.get(field)
    text = value.get("str") if isinstance(value, dict) else None
    if not isinstance(text, str) or not text:
        raise WireError(f"field {field} is not a name")
    return text


def _all_strings(values: object) -> list[str]:
    found = [one for one in values if isinstance(one, str)] if isinstance(values, list) else None
    if found is None or found != values:
        raise WireError("a list of texts is missing")
    return found


def _strings(struct: Mapping[str, object], field: str) -> list[str]:
    kind, count, *values = _typed(struct, field, "lst") or (None, None)
    texts = [value for value in values if isinstance(value, str)]
    if kind != "str" or not count == len(values) == len(texts):
        raise WireError(f"field {field} is not a list of strings")
    return texts


def _only_described(
    before: Mapping[str, object],
    after: Mapping[str, object],
    *,
    parameters: str,
    describing: frozenset[str] = frozenset(),
) -> bool:
    """Return whether the objects differ, and only in fields that no writer of files changes.

    ``parameters``: the field of parameters; ``describing``: fields that describe the object.
    """
    fields = _differing(before, after) - {parameters}
    described = fields - {_TABLE_TEMPORARY}
    named = _differing(_parameters(before, parameters), _parameters(after, parameters)) - _TIMES
    return bool(described or named) and fields <= describing and named <= _DESCRIBES


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _parameters(struct: Mapping[str, object], field: str) -> Mapping[str, object]:
    held = (_typed(struct, field, "map") or [{}])[-1]
    if not isinstance(held, dict):
        raise WireError(f"field {field} is not a map")
    return held


def _flag(event: Event, field: str) -> bool:
    """Read a boolean, which Hive writes as a string."""
    return str(event.body.get(field, "false")).lower() == "true"


def decode(raw: RawEvent) -> Event:
    """Read the message of an event by its ``message_format``.

    Raises:
        WireError: the format is unknown, or the message is not a JSON object in it.
    """
    try:
        body = json.loads(text_of(raw))
    except (ValueError, RecursionError) as exc:
        raise WireError(f"event {raw.id} ({raw.type}): message is not JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise WireError(f"event {raw.id} ({raw.type}): message is not a JSON object")
    return Event(db=raw.db, table=raw.table, body=body)


def text_of(raw: RawEvent) -> str | bytes:
    """Return the message of an event, unpacked.

    Raises:
        WireError: its format is unknown, it is damaged, or too large.
    """
    if raw.message_format in JSON_FORMATS:
        if len(raw.message) > MESSAGE_BYTES_MAX:
            raise WireError(f"event {raw.id} ({raw.type}): message is too large")
        return raw.message
    if raw.message_format not in GZIP_FORMATS:
        raise WireError(f"event {raw.id} ({raw.type}): format {raw.message_format!r} is unknown")
    try:
        packed = base64.b64decode(raw.message, validate=True)
        unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = unpacking.decompress(packed, MESSAGE_BYTES_MAX)
    except (binascii.Error, ValueError, zlib.error) as exc:
        raise WireError(f"event {raw.id} ({raw.type}): message is not gzip: {exc}") from exc
    if not unpacking.eof:
        raise WireError(f"event {raw.id} ({raw.type}): message is cut, or too large")
    return text
