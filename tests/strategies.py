"""What the property tests draw: entries, deltas, chunks, heartbeats, and every control message."""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from topicast.topics.objects.names import group_of
from topicast.topics.objects.selector import (
    ALL,
    TABLE_ONLY,
    Selector,
    by_names,
    by_sql,
    by_values,
)
from topicast.topics.topic import (
    FULL,
    MINIMAL,
    NAMESPACE,
    NUM_TOPICS_MAX,
    PREFIX,
    STUB,
    TOMBSTONE,
    VALUE,
    Entry,
)
from topicast.topics.wire.messages.data import Barrier, Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.fields import BY_TOPIC, Cell
from topicast.topics.wire.messages.numbers import NUMBERS

U64_MAX = (1 << 64) - 1
NAMES = st.binary(min_size=1, max_size=8).map(lambda raw: raw.replace(b"\0", b"_"))

text = st.text(st.sampled_from("abc.é名 \0"), max_size=12)
topics = st.integers(0, NUM_TOPICS_MAX - 1) | st.just(NAMESPACE)
levels = st.sampled_from((MINIMAL, FULL))
u64 = st.integers(0, 9) | st.integers(0, U64_MAX)
keys = st.builds(lambda a, b, rest: a + b"\0" + b + b"\0" + rest, NAMES, NAMES, st.binary())


_literals = st.one_of(
    st.integers(1 - 10**38, 10**38 - 1).map(str),
    st.integers(-3, 3).map(str),
    st.sampled_from(["1.50", "1.5", "-0.0", "3bd", "15e-1bd", "1e3", "-0e0", "true", "false"]),
    st.sampled_from(
        ["'a'", "'é%'", "''", "date '2026-11-01'", "timestamp '2026-11-01 12:00:00.5'"]
    ),
)
_operands = st.sampled_from(["a", "B", "`a b`", "lower(s)", "try_cast(upper(s) as int)"])
_tests = st.one_of(
    st.builds(
        "{} {} {}".format, _operands, st.sampled_from(["=", "!=", "<=>", "<", ">="]), _literals
    ),
    st.builds("{} in ({}, {}, null)".format, _operands, _literals, _literals),
    st.builds("{} not in ({}, {})".format, _operands, _literals, _literals),
    st.builds("{} is null".format, _operands),
    st.builds("{} not like '{}'".format, _operands, st.text("ab%_", max_size=6)),
    st.sampled_from(["a = null", "true"]),
)
filters = st.recursive(
    _tests,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
    ),
    max_leaves=8,
)
"""Filters in the language of SQL."""

selectors = st.one_of(
    st.sampled_from((ALL, TABLE_ONLY)),
    st.builds(by_sql, filters),
    st.builds(by_names, st.sets(st.text("a=%é名", max_size=8).map("ds={}".format))),
    st.builds(by_values, st.lists(st.text(max_size=8), max_size=3)),
)


def value(key: bytes, version: int, content: bytes = b"v") -> Entry:
    """Return an entry of which all is of ``version``."""
    return Entry(key, version, version, version, len(content), content)


@st.composite
def entries(draw: st.DrawFn, above: int = 0, upto: int = U64_MAX) -> Entry:
    """Draw an entry of any kind with a version in ``(above, upto]``."""
    kind = draw(st.sampled_from((VALUE, STUB, TOMBSTONE, PREFIX)))
    key = draw(keys)
    version = draw(st.integers(above + 1, upto))
    value = draw(st.binary(max_size=40)) if kind == VALUE else None
    size = len(value) if value is not None else 0
    return Entry(
        group_of(key) if kind == PREFIX else key,
        version,
        draw(st.integers(0, version)),
        draw(st.integers(0, version)),
        draw(u64) if kind == STUB else size,
        value,
        kind,
    )


@st.composite
def spans(draw: st.DrawFn, *, empty: bool = False) -> dict[str, Any]:
    """Draw the fields that deltas and chunks share, entries included."""
    ends = sorted((draw(u64), draw(u64)))
    if ends[0] == ends[1] and not empty:
        ends = [0, max(1, ends[1])]
    some = st.lists(entries(*ends), max_size=4) if ends[0] < ends[1] else st.just([])
    return {
        "topic": draw(topics),
        "level": draw(levels),
        "epoch": draw(u64),
        "start": draw(u64),
        "from_version": ends[0],
        "to_version": ends[1],
        "floor": draw(u64),
        "sent_us": draw(u64),
        "entries": tuple(sorted(draw(some), key=lambda entry: entry.version)),
        "invalidate_all": draw(st.booleans()),
    }


@st.composite
def deltas(draw: st.DrawFn) -> Delta:
    """Draw a delta."""
    return Delta(
        **draw(spans()),
        stubbed=draw(st.booleans()),
        source=draw(st.integers(0, 255)),
    )


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    """Draw a chunk."""
    span = draw(spans(empty=True))
    return Chunk(
        **span,
        stream=draw(u64),
        sequence=draw(u64),
        resume_version=draw(st.integers(0, span["to_version"])),
        resume_key=draw(st.binary(max_size=20)),
        first=draw(st.booleans()),
        last=draw(st.booleans()),
        snapshot=draw(st.booleans()),
    )


@st.composite
def heartbeats(draw: st.DrawFn) -> Heartbeat:
    """Draw a heartbeat."""
    versions = draw(st.lists(u64, max_size=5))
    return Heartbeat(
        hub=draw(u64),
        epoch=draw(u64),
        start=draw(u64),
        sequence=draw(u64),
        interval_ms=draw(u64),
        sent_us=draw(u64),
        watermark=draw(u64),
        age_ms=draw(u64),
        catalog_address=draw(text),
        versions=tuple(versions),
        floors=tuple(draw(u64) for _ in versions),
        sizes=tuple(draw(st.lists(u64, max_size=5))),
        offers=draw(st.integers(0, 3)),
    )


barriers = st.builds(Barrier, nonce=st.binary(min_size=16, max_size=16))

cells = st.none() | st.booleans() | st.integers(-(1 << 63), U64_MAX) | st.floats() | text


@st.composite
def _pulled_entries(draw: st.DrawFn) -> Entry:
    value, version = draw(st.binary(max_size=40)), draw(u64)
    return Entry(
        draw(keys),
        version,
        draw(st.integers(0, version)),
        draw(st.integers(0, version)),
        len(value),
        value,
    )


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Selector: selectors,
    str: text,
    bool: st.booleans(),
    Cell: cells,
    float: st.floats() | st.integers(0, 9),
    Entry: _pulled_entries(),
}


def _values(hint: Any) -> st.SearchStrategy[Any]:
    """Draw values of a field's annotation, within the bounds that it declares."""
    if get_origin(hint) is Annotated:
        kind, mark = get_args(hint)
        if mark is BY_TOPIC:
            return _values(kind)
        least, most = mark
        if kind is str:
            return text.filter(lambda drawn: least <= len(drawn) <= most)
        if kind is bytes:
            return st.binary(min_size=least, max_size=min(most, 40))
        return st.integers(least, min(most, 9)) | st.integers(least, most)
    if get_origin(hint) is tuple:
        first, second = get_args(hint)
        if second is Ellipsis:
            return st.lists(_values(first), max_size=3).map(tuple)
        return st.tuples(_values(first), _values(second))
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) in (Union, UnionType):
        return st.none() | _values(get_args(hint)[0])
    return control_messages(hint)


def control_messages(cls: type) -> st.SearchStrategy[Any]:
    """Draw messages of one control class, or records of one class."""
    hints = get_type_hints(cls, include_extras=True)
    return st.builds(cls, **{name: _values(hint) for name, hint in hints.items()})


controls = st.sampled_from(list(NUMBERS.values())).flatmap(control_messages)
messages = deltas() | chunks() | heartbeats() | barriers | controls
