"""Shapes of the control messages: type number, and per field how it is checked and written.

A table of data: a message is added here, in ``messages``, in docs/protocol.md and in the vectors.
"""

from collections.abc import Callable
from itertools import accumulate, islice, pairwise
from typing import Any, Final

from ..entries import KEY_BYTES_MAX, VALUE, Entry
from ..errors import WireError
from ..sharding import NUM_TOPICS_MAX
from .header import VALUE_BYTES_MAX
from .messages import (
    Announce,
    Bye,
    Cancel,
    CatchUp,
    Claimed,
    Compare,
    Compared,
    Credit,
    Drop,
    Dropped,
    Filed,
    Have,
    Hello,
    Inspect,
    Inspected,
    Join,
    Joined,
    Order,
    Position,
    Pull,
    Pulled,
    Refused,
    Report,
    Reported,
    Status,
    Sync,
    Synced,
    TopicState,
    Validate,
    Validated,
    Verdict,
    Wanted,
    Welcome,
    Write,
)

TEXT_MAX: Final = 4096
LIST_MAX: Final = 65_536  # an Inspected of every subscriber, a Pull that names what it holds
ROWS_MAX: Final = 2 * (NUM_TOPICS_MAX + 1)  # every topic while its level changes

Reader = Callable[[Any, str], Any]
Writer = Callable[[Any], Any]
Check = tuple[Reader, Writer]
Field = tuple[str, Reader, Writer]


def _same(value: Any) -> Any:
    return value


def _integer(low: int, high: int) -> Check:
    def read(value: Any, where: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise WireError(f"{where}: integer from {low} to {high} expected")
        return value

    return read, _same


def _text(value: Any, where: str) -> str:
    if type(value) is not str or len(value) > TEXT_MAX:
        raise WireError(f"{where}: text of at most {TEXT_MAX} characters expected")
    return value


def _flag(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise WireError(f"{where}: true or false expected")
    return value


def _cell(value: Any, where: str) -> str | int | float | bool | None:
    if value is None or type(value) in (bool, int, float):
        return value  # type: ignore[no-any-return]  # the test above is the check
    return _text(value, where)


def _blob(low: int, high: int) -> Check:
    def read(value: Any, where: str) -> bytes:
        if type(value) is not bytes or not low <= len(value) <= high:
            raise WireError(f"{where}: {low} to {high} bytes expected")
        return value

    return read, _same


def _many(item: Check) -> Check:
    read_one, write_one = item

    def read(value: Any, where: str) -> tuple[Any, ...]:
        if type(value) is not tuple or len(value) > LIST_MAX:
            raise WireError(f"{where}: list of at most {LIST_MAX} expected")
        return tuple(read_one(one, where) for one in value)

    return read, lambda values: [write_one(one) for one in values]


def _pair(first: Check, second: Check) -> Check:
    def read(value: Any, where: str) -> tuple[Any, Any]:
        if type(value) is not tuple or len(value) != 2:
            raise WireError(f"{where}: pairs expected")
        return first[0](value[0], where), second[0](value[1], where)

    return read, lambda pair: [first[1](pair[0]), second[1](pair[1])]


def _record(cls: type, fields: dict[str, Check]) -> Check:
    def read(value: Any, where: str) -> Any:
        if type(value) is not tuple or len(value) != len(fields):
            raise WireError(f"{where}: {cls.__name__} of {len(fields)} fields expected")
        checked = zip(fields.items(), value, strict=True)
        return cls(**{name: check[0](one, where) for (name, check), one in checked})

    return read, lambda record: [c[1](getattr(record, name)) for name, c in fields.items()]


def _by_topic(cls: type, fields: dict[str, Check]) -> Check:
    """Return how records that begin with ``topic`` are written: their number, then columns.

    A column whose values are all the same is that value. Topics are steps from the one before,
    the first from -1: so all of them, in order, are the step 1.
    """
    checks = {name: check for name, check in fields.items() if name != "topic"}

    def read(value: Any, where: str) -> tuple[Any, ...]:
        count, *columns = value if type(value) is tuple and value else (None,)
        _ROWS[0](count, where)
        if len(columns) != len(fields):
            raise WireError(f"{where}: {cls.__name__} in {len(fields)} columns expected")
        whole = [one if type(one) is tuple else (one,) * count for one in columns]
        if any(len(one) != count for one in whole):
            raise WireError(f"{where}: columns of {count} values expected")
        topics = accumulate((_STEP[0](step, where) for step in whole[0]), initial=-1)
        whole[0] = tuple(fields["topic"][0](topic, where) for topic in islice(topics, 1, None))
        for at, check in enumerate(checks.values(), 1):
            whole[at] = tuple(check[0](one, where) for one in whole[at])
        names = ("topic", *checks)
        return tuple(cls(**dict(zip(names, row, strict=True))) for row in zip(*whole, strict=True))

    def write(records: tuple[Any, ...]) -> list[Any]:
        topics = [-1, *(record.topic for record in records)]
        columns: list[list[Any]] = [[topic - last for last, topic in pairwise(topics)]]
        columns += [[c[1](getattr(one, name)) for one in records] for name, c in checks.items()]
        return [len(records), *(_column(column) for column in columns)]

    return read, write


def _column(values: list[Any]) -> Any:
    same = values and values.count(values[0]) == len(values)
    return values[0] if same else values


def _read_entry(value: Any, where: str) -> Entry:
    if type(value) is not tuple or len(value) != 5:
        raise WireError(f"{where}: entry of five fields expected")
    key, version, schema, data, content = value
    for number in (version, schema, data):
        U64[0](number, where)
    if max(schema, data) > version:
        raise WireError(f"{where}: entry changed after its own version")
    KEY[0](key, where)
    if key.count(b"\0") < 2:
        raise WireError(f"{where}: key with two NULs expected")
    CONTENT[0](content, where)
    return Entry(key, version, schema, data, len(content), content, VALUE)


def _write_entry(entry: Entry) -> list[object]:
    return [entry.key, entry.version, entry.schema_version, entry.data_version, entry.value]


U8: Final = _integer(0, 255)
U16: Final = _integer(0, 65_535)
U64: Final = _integer(0, (1 << 64) - 1)
TOPIC: Final = _integer(-1, 65_535)
LEVEL: Final = _integer(0, 2)
TEXT: Final[Check] = (_text, _same)
FLAG: Final[Check] = (_flag, _same)
CELL: Final[Check] = (_cell, _same)
KEY: Final = _blob(0, KEY_BYTES_MAX)
CONTENT: Final = _blob(0, VALUE_BYTES_MAX)
ENTRY: Final[Check] = (_read_entry, _write_entry)
VERSIONS: Final = _many(U64)
TOPIC_VERSIONS: Final = _many(_pair(U16, U64))
_ROWS: Final = _integer(0, ROWS_MAX)
_STEP: Final = _integer(-65_536, 65_536)
POSITIONS: Final = _by_topic(Position, {"topic": U16, "level": LEVEL, "epoch": U64, "version": U64})
TOPIC_STATES: Final = _by_topic(
    TopicState,
    {
        "topic": U16,
        "level": LEVEL,
        "answer": U8,
        "version": U64,
        "full_bytes": U64,
    },
)
WRITE: Final = _record(
    Write,
    {
        "number": U64,
        "state": U8,
        "object": TEXT,
        "partitions": _many(TEXT),
    },
)
VERDICT: Final = _record(Verdict, {"number": U64, "topic": U16, "version": U64, "problem": TEXT})
CLAIM: Final = _record(Claimed, {"db": TEXT, "table": TEXT, "version": U64, "whole": FLAG})
WANTED: Final = _record(
    Wanted,
    {
        "topic": U16,
        "level": LEVEL,
        "epoch": U64,
        "version": U64,
        "resume_version": U64,
        "resume_key": KEY,
        "cut": U64,
    },
)

_TABLE: Final[tuple[tuple[int, type, dict[str, Check]], ...]] = (
    (
        1,
        Hello,
        {
            "role": U8,
            "channel": U8,
            "name": TEXT,
            "registration": _blob(16, 16),
            "protocol_min": U8,
            "protocol_max": U8,
            "features": U64,
        },
    ),
    (
        2,
        Welcome,
        {
            "protocol": U8,
            "features": U64,
            "hub": U64,
            "epoch": U64,
            "start": U64,
            "num_topics": U16,
            "data_address": TEXT,
            "catalog_address": TEXT,
            "catalog_name": TEXT,
            "heartbeat_ms": U64,
            "lost_ms": U64,
        },
    ),
    (
        3,
        Refused,
        {"request": U64, "code": TEXT, "message": TEXT, "retry_ms": U64, "topic": TOPIC},
    ),
    (4, Join, {"request": U64, "positions": POSITIONS}),
    (5, Joined, {"request": U64, "epoch": U64, "start": U64, "topics": TOPIC_STATES}),
    (6, Drop, {"request": U64, "topics": _many(U16)}),
    (7, Dropped, {"request": U64}),
    (
        8,
        Status,
        {
            "positions": POSITIONS,
            "lag_us": U64,
            "held_bytes": U64,
            "budget_bytes": U64,
        },
    ),
    (9, Bye, {"reason": TEXT}),
    (10, Have, {"epoch": U64, "start": U64, "versions": VERSIONS}),
    (
        11,
        Announce,
        {
            "epoch": U64,
            "start": U64,
            "num_topics": U16,
            "catalog_address": TEXT,
            "catalog_name": TEXT,
        },
    ),
    (12, Filed, {"epoch": U64, "start": U64, "versions": TOPIC_VERSIONS}),
    (13, CatchUp, {"stream": U64, "credit": U64, "wanted": _many(WANTED)}),
    (14, Credit, {"stream": U64, "amount": U64}),
    (15, Cancel, {"stream": U64}),
    (16, Compare, {"request": U64, "epoch": U64, "start": U64, "versions": TOPIC_VERSIONS}),
    (17, Compared, {"request": U64, "accepted": FLAG, "epoch": U64, "start": U64}),
    (
        18,
        Pull,
        {
            "request": U64,
            "db": TEXT,
            "table": TEXT,
            "selector": U8,
            "credit": U64,
            "held": _many(_pair(KEY, U64)),
            "filter": TEXT,
            "names": _many(TEXT),
            "values": _many(TEXT),
            "names_only": FLAG,
            "bytes_max": U64,
            "after": KEY,
            "epoch": U64,
            "version": U64,
            "beside": _many(CLAIM),
        },
    ),
    (
        19,
        Pulled,
        {
            "request": U64,
            "sequence": U64,
            "last": FLAG,
            "found": FLAG,
            "epoch": U64,
            "start": U64,
            "topic": U16,
            "topic_version": U64,
            "namespace_version": U64,
            "incarnation": U64,
            "gone": _many(KEY),
            "entries": _many(ENTRY),
            "names": CONTENT,
            "cursor": KEY,
            "moved": FLAG,
            "stale": _many(U64),
        },
    ),
    (20, Sync, {"request": U64}),
    (
        21,
        Synced,
        {"request": U64, "epoch": U64, "start": U64, "event_id": U64, "versions": VERSIONS},
    ),
    (22, Inspect, {"request": U64, "what": TEXT}),
    (23, Inspected, {"request": U64, "columns": _many(TEXT), "rows": _many(_many(CELL))}),
    (24, Validate, {"request": U64, "epoch": U64, "claims": _many(CLAIM)}),
    (
        25,
        Validated,
        {"request": U64, "epoch": U64, "start": U64, "stale": _many(_pair(U64, U64))},
    ),
    (26, Order, {"request": U64, "who": TEXT, "order": TEXT, "arguments": _many(TEXT)}),
    (
        27,
        Report,
        {
            "request": U64,
            "driver": _blob(16, 16),
            "metastore": TEXT,
            "settled": U64,
            "writes": _many(WRITE),
        },
    ),
    (28, Reported, {"request": U64, "epoch": U64, "start": U64, "verdicts": _many(VERDICT)}),
)

SHAPES: Final[dict[type, tuple[int, tuple[Field, ...]]]] = {
    cls: (number, tuple((name, *check) for name, check in fields.items()))
    for number, cls, fields in _TABLE
}
CLASSES: Final[dict[int, type]] = {number: cls for number, cls, _ in _TABLE}
