"""What the property tests draw: entries, deltas, chunks, heartbeats, and every control message."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from topicast.topics.objects.names import group_of
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
from topicast.topics.wire import messages as m
from topicast.topics.wire.codec import SHAPES

U64_MAX = (1 << 64) - 1
NAMES = st.binary(min_size=1, max_size=8).map(lambda raw: raw.replace(b"\0", b"_"))

text = st.text(st.sampled_from("abc.é名 \0"), max_size=12)
topics = st.integers(0, NUM_TOPICS_MAX - 1) | st.just(NAMESPACE)
levels = st.sampled_from((MINIMAL, FULL))
u64 = st.integers(0, 9) | st.integers(0, U64_MAX)
keys = st.builds(lambda a, b, rest: a + b"\0" + b + b"\0" + rest, NAMES, NAMES, st.binary())


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
def deltas(draw: st.DrawFn) -> m.Delta:
    """Draw a delta."""
    return m.Delta(
        **draw(spans()),
        stubbed=draw(st.booleans()),
        source=draw(st.integers(0, 255)),
        origin=draw(u64),
        hops=draw(st.integers(0, 255)),
    )


@st.composite
def chunks(draw: st.DrawFn) -> m.Chunk:
    """Draw a chunk."""
    span = draw(spans(empty=True))
    return m.Chunk(
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
def heartbeats(draw: st.DrawFn) -> m.Heartbeat:
    """Draw a heartbeat."""
    versions = draw(st.lists(u64, max_size=5))
    return m.Heartbeat(
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


barriers = st.builds(m.Barrier, nonce=st.binary(min_size=16, max_size=16))

byte = st.integers(0, 255)
short = st.integers(0, 65_535)
level = st.integers(0, 2)
cells = st.none() | st.booleans() | st.integers(-(1 << 63), U64_MAX) | st.floats() | text


def _many(item: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(item, max_size=3).map(tuple)


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


positions = st.builds(m.Position, topic=short, level=level, epoch=u64, version=u64)
wanteds = st.builds(
    m.Wanted,
    topic=short,
    level=level,
    epoch=u64,
    version=u64,
    resume_version=u64,
    resume_key=st.binary(max_size=20),
    cut=u64,
)
_states = st.builds(
    m.TopicState,
    topic=short,
    level=level,
    answer=byte,
    version=u64,
    full_bytes=u64,
)
_writes = st.builds(m.Write, number=u64, state=byte, object=text, partitions=_many(text))
_verdicts = st.builds(m.Verdict, number=u64, topic=short, version=u64, problem=text)
_BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "accepted": st.booleans(),
    "after": keys,
    "arguments": _many(text),
    "columns": _many(text),
    "cursor": keys,
    "driver": st.binary(min_size=16, max_size=16),
    "entries": _many(_pulled_entries()),
    "found": st.booleans(),
    "gone": _many(keys),
    "held": _many(st.tuples(keys, u64)),
    "last": st.booleans(),
    "moved": st.booleans(),
    "names_only": st.booleans(),
    "positions": _many(positions),
    "registration": st.binary(min_size=16, max_size=16),
    "rows": _many(_many(cells)),
    "values": _many(text),
    "verdicts": _many(_verdicts),
    "wanted": _many(wanteds),
    "writes": _many(_writes),
}
_claims = st.builds(m.Claimed, db=text, table=text, version=u64, whole=st.booleans())
_OF_CLASS: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (m.Joined, "topics"): _many(_states),
    (m.Drop, "topics"): _many(short),
    (m.Pull, "names"): _many(text),
    (m.Pulled, "names"): st.binary(max_size=40),
    (m.Validate, "claims"): _many(_claims),
    (m.Validated, "stale"): _many(st.tuples(u64, u64)),
    (m.Pull, "claims"): _many(_claims),
    (m.Pulled, "stale"): _many(u64),
    (m.Refused, "topic"): st.integers(-1, 65_535),
    (m.Have, "versions"): _many(u64),
    (m.Synced, "versions"): _many(u64),
    (m.Filed, "versions"): _many(st.tuples(short, u64)),
    (m.Compare, "versions"): _many(st.tuples(short, u64)),
}
_BY_TYPE: dict[Callable[..., Any], st.SearchStrategy[Any]] = {str: text, int: u64}
_NARROW = {"role", "channel", "protocol", "protocol_min", "protocol_max", "selector"}


def _field(cls: type, name: str) -> st.SearchStrategy[Any]:
    found = _OF_CLASS.get((cls, name), _BY_NAME.get(name))
    if found is not None:
        return found
    if name in _NARROW:
        return byte
    hint = cls.__annotations__[name]
    return short if name in {"topic", "num_topics"} else _BY_TYPE[getattr(hint, "__origin__", hint)]


def control_messages(cls: type) -> st.SearchStrategy[Any]:
    """Draw messages of one control class: each field by its name, else by its type."""
    return st.builds(cls, **{name: _field(cls, name) for name in SHAPES[cls][1]})


controls = st.sampled_from(sorted(SHAPES, key=lambda cls: SHAPES[cls][0])).flatmap(control_messages)
messages = deltas() | chunks() | heartbeats() | barriers | controls
