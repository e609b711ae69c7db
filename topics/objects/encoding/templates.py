"""Templates: the common parts of a table's partitions, as Thrift bytes with slots.

    Partition struct   ══ segment ══○══ segment ══○══ segment ══

There is a slot for each part that differs between partitions: the values, every integer and the
location at the top, and the value of every parameter. All else, known to us or not, is in the
segments, so the bytes come back as they were. What the partition's name implies leaves no slot:
values that are those in the name, and a location that is ``base/name``.

A template is kept as its skeleton: one byte of flags, then a Partition struct with empty slots
(or the base for a location). Its slots are found by walking it as any other struct.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from ...errors import UsageError, WireError
from ..names import partition_values
from .thrift import (
    I32,
    I64,
    LIST,
    MAP,
    STRING,
    STRUCT,
    fields,
    list_header,
    map_header,
    skip,
    text,
    text_pairs,
)

RAW: Final = -1  # the number of a record that has no template: its one slot is the whole struct
TEMPLATES_MAX: Final = 64  # per table; beyond it partitions are kept whole
TEMPLATES_BYTES_MAX: Final = 1 << 20  # together, unpacked: they ride in the table's value
KEPT_MAX: Final = 256  # templates that stay read from one edit to the next: that takes 100 µs
KEPT_BYTES_MAX: Final = 16 << 10  # of a skeleton that stays; usual are 1 to 3 KB
SLOTS_MAX: Final = 1000  # a struct with more is kept whole: each is a column of a block

SlotValue: TypeAlias = int | bytes | tuple[bytes, ...]
"""What fills a slot: an integer, a string, or a list of strings. A string that is a canonical
decimal of up to 18 digits is kept as its integer: most parameters are counts, sizes and times."""

SlotValues: TypeAlias = tuple[SlotValue, ...]

Pieces: TypeAlias = tuple[bytes, ...]
"""A struct's bytes, in their order."""

SlotColumn: TypeAlias = SlotValue | list[SlotValue]
"""What fills one slot of several partitions: one value for each, or the same for all."""

_VALUES_ID: Final = 1  # of Partition
_STORAGE_ID: Final = 6
_PARAMETERS_ID: Final = 7
_LOCATION_ID: Final = 2  # of StorageDescriptor

_INTEGERS: Final = {I32: 4, I64: 8}
_LOCATION: Final = 20  # kinds of slots in addition to the Thrift types I32, I64, LIST and STRING
_EMPTY: Final = {
    I32: bytes(4),
    I64: bytes(8),
    STRING: bytes(4),
    LIST: b"\x0b" + bytes(4),
    _LOCATION: bytes(4),
}

_LENGTHS: Final = tuple([size.to_bytes(4, "big") for size in range(2048)])  # of usual strings

_DECIMAL_DIGITS_MAX: Final = 18  # fits 64 bits
_ZERO: Final = 0x30

_IMPLIED_VALUES: Final = 21
_IMPLIED_LOCATION: Final = 22
_FLAG_VALUES: Final = 1
_FLAG_LOCATION: Final = 2


class _Slot(NamedTuple):
    """One slot in ``data[start:end]``; ``key`` is of the parameter whose value it is."""

    start: int
    end: int
    kind: int
    key: bytes = b""


class Template:
    """A Partition struct with slots.

    ``slots`` is how many; ``parameters`` are the keys of the struct's parameters, each with
    the number of its slot.
    """

    __slots__ = (
        "_base",
        "_location_at",
        "_steps",
        "_tail",
        "_values_at",
        "parameters",
        "skeleton",
        "slot_count",
    )

    def __init__(self, skeleton: bytes) -> None:
        """Read a template from its ``skeleton``, which may be a peer's.

        Raises:
            WireError: it is not a flag byte and one whole struct.
        """
        if not skeleton or skeleton[0] & ~(_FLAG_VALUES | _FLAG_LOCATION):
            raise WireError("a template begins with flags that are not known here")
        data = skeleton[1:]
        steps: list[tuple[bytes, int, int]] = []
        slots: list[_Slot] = []
        self._base = b""
        pos = 0
        for slot in _find_slots(data):
            kind = _flagged(slot.kind, skeleton[0])
            segment = data[pos : slot.start]
            steps.append((segment, len(segment), STRING if kind == _LOCATION else kind))
            pos = slot.end
            if kind == _IMPLIED_LOCATION:
                self._base = data[slot.start + 4 : slot.end]
            elif kind != _IMPLIED_VALUES:
                slots.append(slot)
        kinds = [slot.kind for slot in slots]
        self.skeleton = skeleton
        self.slot_count = len(slots)
        self.parameters = tuple(
            [(text(slot.key), at) for at, slot in enumerate(slots) if slot.kind == STRING]
        )
        self._steps = tuple(steps)  # each segment, its length, and the kind of the slot behind it
        self._tail = data[pos:]  # the last segment
        self._values_at = kinds.index(LIST) if LIST in kinds else None  # which slot; None: no slot
        self._location_at = kinds.index(_LOCATION) if _LOCATION in kinds else None  # likewise

    def match(self, data: bytes, name: str) -> SlotValues | None:
        """Return what fills the slots so that they give ``data``; None if nothing does.

        Cost: O(slots). Source: docs/design/0002-representation.md.
        """
        implied = self._implied(name)
        pos = 0
        slots: list[SlotValue] = []
        for segment, length, kind in self._steps:
            if not data.startswith(segment, pos):
                return None
            pos += length
            if kind == STRING:
                end = pos + 4 + int.from_bytes(data[pos : pos + 4], "big")
                slots.append(_shortest(data[pos + 4 : end]))
            elif kind in _INTEGERS:
                end = pos + _INTEGERS[kind]
                slots.append(int.from_bytes(data[pos:end], "big", signed=True))
            elif kind == LIST:
                end = _read_list(data, pos, slots)
                if not end:
                    return None
            else:
                end = pos + len(implied[kind])
                if data[pos:end] != implied[kind]:
                    return None
            pos = end  # perhaps beyond the data: then neither a segment nor the tail is there
        return tuple(slots) if data[pos:] == self._tail else None

    def fill(self, slots: SlotValues, name: str) -> bytes:
        """Return the struct of the partition ``name``.

        Raises:
            WireError: ``slots`` do not fit this template.
        """
        implied = self._implied(name)
        filling = iter(slots)
        parts: list[bytes] = []
        for segment, _, kind in self._steps:
            parts.append(segment)
            parts.append(implied[kind] if kind in implied else _filled(next(filling, None), kind))
        if next(filling, None) is not None:
            raise WireError(f"partition {name!r} holds more than its template has slots for")
        parts.append(self._tail)
        return b"".join(parts)

    def fill_all(self, names: Sequence[str], columns: Sequence[SlotColumn]) -> Iterator[Pieces]:
        """Return the structs of the partitions ``names``, in pieces: ``columns`` fill their slots.

        A value on which all agree is joined with the segments around it once, and no loop of ours
        runs over the partitions: as many calls of ``fill`` take five times as long.

        Raises:
            WireError: ``columns`` do not fit this template.
        """
        count = len(names)
        filling = iter(columns)
        raws = "\0".join(names).encode().split(b"\0")  # no name holds a NUL
        parts: list[Iterable[bytes]] = []
        same = b""
        for segment, _, kind in self._steps:
            same += segment
            filled: Sequence[Iterable[bytes]]
            if kind == _IMPLIED_VALUES:
                lead, filled = _value_columns(names, raws)
                same += lead
            elif kind == _IMPLIED_LOCATION:
                below = self._base + b"/"
                sizes = [len(below) + size for size in map(len, raws)]
                filled = (_lengths(sizes), repeat(below, count), raws)
            else:
                column = next(filling, None)
                if not isinstance(column, list):
                    same += _filled(column, kind)
                    continue
                if len(column) != count:
                    raise WireError(f"a column has {len(column)} items for {count} partitions")
                filled = _filled_column(column, kind)
            parts += (repeat(same, count), *filled)
            same = b""
        if next(filling, None) is not None:
            raise WireError("a block holds more columns than its template has slots for")
        parts.append(repeat(same + self._tail, count))
        return zip(*parts, strict=True)

    def values(self, slots: SlotValues, name: str) -> tuple[str, ...]:
        """Return the values of the partition ``name``; () if its struct has none."""
        if self.skeleton[0] & _FLAG_VALUES:
            return _values_in(name)
        found = () if self._values_at is None else slots[self._values_at]
        if type(found) is not tuple:
            raise WireError(f"partition {name!r} has no list of values")
        return tuple([text(value) for value in found])

    @property
    def base(self) -> str | None:
        """The folder that holds its partitions by their names; None: each names its own."""
        return text(self._base) if self.skeleton[0] & _FLAG_LOCATION else None

    def location(self, slots: SlotValues, name: str) -> str:
        """Return the location of the partition ``name``; empty if its struct has none."""
        if self.skeleton[0] & _FLAG_LOCATION:
            return f"{text(self._base)}/{name}"
        return "" if self._location_at is None else slot_text(slots[self._location_at])

    def _implied(self, name: str) -> dict[int, bytes]:
        implied = {}
        if self.skeleton[0] & _FLAG_VALUES:
            implied[_IMPLIED_VALUES] = _packed_values(name)
        if self.skeleton[0] & _FLAG_LOCATION:
            implied[_IMPLIED_LOCATION] = _packed(self._base + b"/" + name.encode())
        return implied


class Templates:
    """The numbered templates of one table; numbers are given once and kept.

    ``skeletons`` are the templates as they are stored, by number. ``location`` is the table's:
    partitions below it, each in the folder of its name, need not say where they are.
    """

    def __init__(self, skeletons: Sequence[bytes], location: str) -> None:
        self.skeletons = list(skeletons)
        self._base = location.rstrip("/").encode()
        self._numbers = {skeleton: number for number, skeleton in enumerate(skeletons)}
        self._read: dict[int, Template] = {}  # by number: those that were used
        self._bytes_free = TEMPLATES_BYTES_MAX - sum(map(len, skeletons))  # for further skeletons

    def bases(self) -> frozenset[str | None]:
        """Return the folders of partitions that lie in those of their names.

        None is among them if there are others, which say where they lie. The few that are kept
        whole for their size are not looked at.
        """
        full = len(self.skeletons) >= TEMPLATES_MAX
        found = [self.template(number).base for number in range(len(self.skeletons))]
        return frozenset([*found, *([None] if full else [])])

    def template(self, number: int) -> Template:
        """Return the template ``number``.

        Raises:
            WireError: there is no such template, or its skeleton is damaged.
        """
        found = self._read.get(number)
        if found is None:
            if not 0 <= number < len(self.skeletons):
                raise WireError(f"template {number} of {len(self.skeletons)} is not there")
            found = self._read[number] = _read(self.skeletons[number])
        return found

    def split(self, data: bytes, name: str, *, likely: int = RAW) -> tuple[int, SlotValues]:
        """Return the number of the template of the struct ``data``, and what fills its slots.

        A template that is not yet numbered gets the next number; where there is no room for
        one more, the number is RAW and the struct itself the one slot. The template ``likely``
        is tried first.

        Raises:
            WireError: ``data`` is not one whole struct, or the name of a parameter is not UTF-8.
        """
        if likely != RAW:
            slots = self.template(likely).match(data, name)
            if slots is not None:
                return likely, slots
        skeleton = _skeleton(data, name, self._base)
        number = self._numbers.get(skeleton, RAW)
        if number == RAW:
            number = self._number(skeleton)
        found = None if number == RAW else self.template(number).match(data, name)
        return (RAW, (data,)) if found is None else (number, found)

    def join(self, number: int, slots: SlotValues, name: str) -> bytes:
        """Return the struct of the partition ``name``: what ``split`` took apart.

        Raises:
            WireError: there is no template ``number``, or ``slots`` do not fit it.
        """
        if number != RAW:
            return self.template(number).fill(slots, name)
        if len(slots) != 1 or type(slots[0]) is not bytes:
            raise WireError(f"partition {name!r} is not kept whole, nor has it a template")
        return slots[0]

    def join_all(
        self, number: int, names: Sequence[str], columns: Sequence[SlotColumn]
    ) -> Iterator[Pieces]:
        """Return the structs of the partitions ``names``, all of template ``number``, in pieces.

        Raises:
            WireError: as ``join``.
        """
        if number != RAW:
            return self.template(number).fill_all(names, columns)
        if len(columns) != 1:
            raise WireError("partitions that are kept whole have one column")
        one = columns[0]
        whole = one if isinstance(one, list) else [one] * len(names)
        rows = zip(whole, names, strict=True)
        return iter([(self.join(RAW, (struct,), name),) for struct, name in rows])

    def location(self, number: int, slots: SlotValues, name: str) -> str:
        """Return the location of the partition ``name``; empty if its struct has none.

        Raises:
            WireError: as ``join``.
        """
        if number != RAW:
            return self.template(number).location(slots, name)
        data = self.join(number, slots, name)
        template = template_of(data, name)
        return template.location(template.match(data, name) or (), name)

    def _number(self, skeleton: bytes) -> int:
        """Give ``skeleton`` the next number; RAW where there is no room for one more."""
        number = len(self.skeletons)
        if number >= TEMPLATES_MAX or len(skeleton) > self._bytes_free:
            return RAW
        template = _read(skeleton)
        if template.slot_count > SLOTS_MAX:
            return RAW
        self.skeletons.append(skeleton)
        self._numbers[skeleton] = number
        self._read[number] = template
        self._bytes_free -= len(skeleton)
        return number


def template_of(data: bytes, name: str) -> Template:
    """Return the template of the one struct ``data``, of the partition ``name``.

    Raises:
        WireError: ``data`` is not one whole struct, or the name of a parameter is not UTF-8.
    """
    return Template(_skeleton(data, name, b""))


def slot_text(slot: SlotValue) -> str:
    """Return the string that fills a slot.

    Raises:
        WireError: it is filled by something else.
    """
    if type(slot) is int:
        return str(slot)
    if type(slot) is bytes:
        return text(slot)
    raise WireError("a slot holds a list of strings where a string belongs")


def _read(skeleton: bytes) -> Template:
    return _kept(skeleton) if len(skeleton) <= KEPT_BYTES_MAX else Template(skeleton)


_kept = lru_cache(maxsize=KEPT_MAX)(Template)


def _skeleton(data: bytes, name: str, base: bytes) -> bytes:
    """Return the skeleton of the one template that ``data``, the partition ``name``, has."""
    found = list(_find_slots(data))
    values = {data[slot.start : slot.end] for slot in found if slot.kind == LIST}
    locations = {data[slot.start + 4 : slot.end] for slot in found if slot.kind == _LOCATION}
    flags = _FLAG_VALUES if values == {_packed_values(name)} else 0
    if base and locations == {base + b"/" + name.encode()}:
        flags |= _FLAG_LOCATION
    parts = [bytes([flags])]
    pos = 0
    for slot in found:
        parts.append(data[pos : slot.start])
        kind = _flagged(slot.kind, flags)
        parts.append(_packed(base) if kind == _IMPLIED_LOCATION else _EMPTY[slot.kind])
        pos = slot.end
    parts.append(data[pos:])
    return b"".join(parts)


def _flagged(kind: int, flags: int) -> int:
    if kind == LIST and flags & _FLAG_VALUES:
        return _IMPLIED_VALUES
    if kind == _LOCATION and flags & _FLAG_LOCATION:
        return _IMPLIED_LOCATION
    return kind


def _values_in(name: str) -> tuple[str, ...]:
    try:
        return partition_values(name)
    except UsageError as exc:
        raise WireError(f"a block names a partition {name!r}") from exc


def _packed_values(name: str) -> bytes:
    return _filled(tuple([value.encode() for value in _values_in(name)]), LIST)


def _find_slots(data: bytes) -> Iterator[_Slot]:
    """Yield the slots of a Partition struct, in order.

    Raises:
        WireError: ``data`` is not one whole struct.
    """
    end = 0
    for field in fields(data):
        end = field.end
        if field.type in _INTEGERS:
            yield _Slot(field.start, field.end, field.type)
        elif field.id == _VALUES_ID and field.type == LIST and data[field.start] == STRING:
            yield _Slot(field.start, field.end, LIST)
        elif field.id == _STORAGE_ID and field.type == STRUCT:
            yield from _location_slots(data, field.start)
        elif field.id == _PARAMETERS_ID and field.type == MAP:
            yield from _parameter_slots(data, field.start)
    if end + 1 != len(data):
        raise WireError(f"{len(data) - end - 1} bytes follow a Thrift struct")


def _filled(slot: SlotValue | None, kind: int) -> bytes:
    """Return the bytes of a slot of ``kind``."""
    if kind == STRING and type(slot) is bytes:
        return _packed(slot)
    if kind == STRING and type(slot) is int:
        return _packed(b"%d" % slot)
    if kind == LIST and type(slot) is tuple:
        return b"\x0b" + len(slot).to_bytes(4, "big") + b"".join(map(_packed, slot))
    if kind in _INTEGERS and type(slot) is int:
        try:
            return slot.to_bytes(_INTEGERS[kind], "big", signed=True)
        except OverflowError as exc:
            raise WireError(f"integer {slot} is too large for its slot") from exc
    raise WireError(f"a slot of type {kind} is filled with {type(slot).__name__}")


def _filled_column(column: list[SlotValue], kind: int) -> Sequence[Iterable[bytes]]:
    """Return what, one behind the other, are the bytes of a slot of ``kind`` in each partition."""
    kinds = set(map(type, column))
    if kind == STRING and kinds == {int}:
        raws = "\0".join(map(str, column)).encode().split(b"\0")
        return _lengths(list(map(len, raws))), raws
    return ([_filled(one, kind) for one in column],)


def _value_columns(
    names: Sequence[str], raws: Sequence[bytes]
) -> tuple[bytes, Sequence[Iterable[bytes]]]:
    """Return how the lists of values of ``names`` begin, and the columns that follow.

    Names of which none holds a character that is escaped are taken apart together.
    """
    keys = raws[0].count(b"/") + 1
    joined = b"\0".join(raws)
    parts = joined.replace(b"/", b"\0").split(b"\0")
    regular = {raw.count(b"/") for raw in raws} == {keys - 1}
    if not regular or b"%" in joined or joined.count(b"=") != len(parts):
        return b"", (list(map(_packed_values, names)),)
    columns: list[Iterable[bytes]] = []
    for at in range(keys):
        lead = b"\0" + parts[at].partition(b"=")[0] + b"="
        values = (b"\0" + b"\0".join(parts[at::keys])).split(lead)[1:]
        if len(lead) == 2 or len(values) != len(raws):  # without a key, or with several
            return b"", (list(map(_packed_values, names)),)
        columns += (_lengths(list(map(len, values))), values)
    return b"\x0b" + keys.to_bytes(4, "big"), columns


def _lengths(sizes: list[int]) -> Iterable[bytes]:
    """Return ``sizes`` as Thrift bytes."""
    try:
        return itemgetter(*sizes)(_LENGTHS) if len(sizes) > 1 else (_LENGTHS[sizes[0]],)
    except IndexError:
        return [size.to_bytes(4, "big") for size in sizes]


def _shortest(raw: bytes) -> int | bytes:
    """Return a string as what fills its slot: an integer where ``str`` gives the string back."""
    if raw.isdigit() and len(raw) <= _DECIMAL_DIGITS_MAX and (raw[0] != _ZERO or len(raw) == 1):
        return int(raw)
    return raw


def _read_list(data: bytes, pos: int, slots: list[SlotValue]) -> int:
    """Add the list of strings at ``pos`` to ``slots``; return where it ends, 0 if there is none."""
    try:
        kind, count, pos = list_header(data, pos)
        items = []
        for _ in range(count if kind == STRING else 0):
            end = skip(data, pos, STRING)
            items.append(data[pos + 4 : end])
            pos = end
    except WireError:
        return 0
    slots.append(tuple(items))
    return pos if kind == STRING else 0


def _packed(raw: bytes) -> bytes:
    """Return a string as Thrift bytes."""
    return len(raw).to_bytes(4, "big") + raw


def _location_slots(data: bytes, pos: int) -> Iterator[_Slot]:
    for field in fields(data, pos):
        if field.id == _LOCATION_ID and field.type == STRING:
            yield _Slot(field.start, field.end, _LOCATION)


def _parameter_slots(data: bytes, pos: int) -> Iterator[_Slot]:
    key_type, value_type, count, pos = map_header(data, pos)
    if key_type != STRING or value_type != STRING:
        return
    for key, start, end in text_pairs(data, pos, count):
        yield _Slot(start, end, STRING, key)
