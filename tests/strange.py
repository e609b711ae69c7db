"""Strange: messages that are valid, and that no client of ours sends; drawn by their fields' types.

Each value is within the bounds of its field: the codec lets the message pass, and the core has to
bear it.
"""

from collections.abc import Sequence
from random import Random
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from topicast.topics.objects.names import block_key, table_key
from topicast.topics.objects.selector import ALL, TABLE_ONLY, Selector, by_names, by_sql, by_values
from topicast.topics.topic import Entry
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.fields import BY_TOPIC, Cell, Message

TEXTS: Final = (
    *("", "d", "t", "d.t", "u", "*", "d.*", "ds=1", "ds=", "file:/w/d/t", "mode", "refresh", "-1"),
    *("\0", "d.\0", "é", "x" * 2000, "d." + "x" * 2000),
)
KEYS: Final = (b"", b"x", b"d\0", b"\0\0", table_key("d", "t"), block_key("d", "t", ""))
SELECTORS: Final = (
    *(ALL, TABLE_ONLY, by_names(["ds=1", "ds=9"]), by_values(["1"]), by_values(["1", "2"])),
    *(by_sql("ds > '0'"), by_sql("ds = 1"), by_sql("other = '1'")),
)
PLAIN: Final[dict[Any, Sequence[Any]]] = {
    str: TEXTS,
    bool: (True, False),
    float: (0.0, 1.5),
    Cell: (None, 1, "x", True, 2.5),
    Selector: SELECTORS,
    Entry: [Entry(key, 3, 3, 3, 1, b"x") for key in KEYS[3:]],
}
INTEGERS: Final = (-1, 0, 1, 2, 3, 7, 1000, 65_534, 65_535, 1 << 20)

M = TypeVar("M", bound=Message)


def strange(kind: type[M], rng: Random) -> M:
    """Return a message of ``kind`` as a peer receives it."""
    return decode(encode(_drawn(kind, rng)))  # type: ignore[return-value]  # of the same type


def _drawn(hint: Any, rng: Random) -> Any:
    if get_origin(hint) is Annotated:
        of, mark = get_args(hint)
        return _drawn(of, rng) if mark == BY_TOPIC else _bounded(of, *mark, rng=rng)
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        if others == [Ellipsis]:
            return tuple(_drawn(first, rng) for _ in range(rng.choice((0, 1, 2, 4))))
        return tuple(_drawn(one, rng) for one in (first, *others))
    if get_origin(hint) in (Union, UnionType) and hint != Cell:
        return _drawn(get_args(hint)[0], rng) if rng.random() < 0.7 else None
    if hint in PLAIN:
        return rng.choice(PLAIN[hint])
    fields = get_type_hints(hint, include_extras=True)
    return hint(**{name: _drawn(one, rng) for name, one in fields.items()})


def _bounded(of: type, low: int, high: int, *, rng: Random) -> Any:
    if of is int:
        return rng.choice([low, high, *(one for one in INTEGERS if low <= one <= high)])
    if of is str:
        return rng.choice([one for one in TEXTS if low <= len(one) <= high])
    if low == high:
        return bytes((rng.choice(b"abc"),)) * low
    return rng.choice([one for one in KEYS if low <= len(one) <= high])
