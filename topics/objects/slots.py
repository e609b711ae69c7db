"""SlotValues: where the partitions of one table differ, found in Thrift bytes, emptied and filled.

    values ○   integers ○ ○   location ○   parameter values ○ ○ ○

The values, every integer and the location at the top of a Partition struct, and the value of
every parameter. Only their places are known here, not what they mean.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from ..errors import WireError
from .thrift import I32, I64, LIST, MAP, STRING, STRUCT, fields, list_header, map_header, skip, text

SlotValue: TypeAlias = int | bytes | tuple[bytes, ...]
"""What fills a slot: an integer, a string, or a list of strings. A string that is a canonical
decimal of up to 18 digits stands as its integer: most parameters are counts, sizes and times."""

SlotValues: TypeAlias = tuple[SlotValue, ...]

_VALUES_ID: Final = 1  # of Partition
_STORAGE_ID: Final = 6
_PARAMETERS_ID: Final = 7
_LOCATION_ID: Final = 2  # of StorageDescriptor

INTEGERS: Final = {I32: 4, I64: 8}
LOCATION: Final = 20  # kinds of slots beside the Thrift types I32, I64, LIST and STRING
EMPTY: Final = {
    I32: bytes(4),
    I64: bytes(8),
    STRING: bytes(4),
    LIST: b"\x0b" + bytes(4),
    LOCATION: bytes(4),
}

_DECIMAL_DIGITS_MAX: Final = 18  # fits 64 bits
_ZERO: Final = 0x30


class Slot(NamedTuple):
    """One slot in ``data[start:end]``; ``key`` is of the parameter whose value it is."""

    start: int
    end: int
    kind: int
    key: bytes = b""


def find_slots(data: bytes) -> Iterator[Slot]:
    """Yield the slots of a Partition struct, in order.

    Raises:
        WireError: ``data`` is not one whole struct.
    """
    end = 0
    for field in fields(data):
        end = field.end
        if field.type in INTEGERS:
            yield Slot(field.start, field.end, field.type)
        elif field.id == _VALUES_ID and field.type == LIST and data[field.start] == STRING:
            yield Slot(field.start, field.end, LIST)
        elif field.id == _STORAGE_ID and field.type == STRUCT:
            yield from _location_slots(data, field.start)
        elif field.id == _PARAMETERS_ID and field.type == MAP:
            yield from _parameter_slots(data, field.start)
    if end + 1 != len(data):
        raise WireError(f"{len(data) - end - 1} bytes follow a Thrift struct")


def filled(slot: SlotValue | None, kind: int) -> bytes:
    """Return the bytes of a slot of ``kind``."""
    if kind == STRING and type(slot) is bytes:
        return packed(slot)
    if kind == STRING and type(slot) is int:
        return packed(b"%d" % slot)
    if kind == LIST and type(slot) is tuple:
        return b"\x0b" + len(slot).to_bytes(4, "big") + b"".join(map(packed, slot))
    if kind in INTEGERS and type(slot) is int:
        try:
            return slot.to_bytes(INTEGERS[kind], "big", signed=True)
        except OverflowError as exc:
            raise WireError(f"integer {slot} is too large for its slot") from exc
    raise WireError(f"a slot of type {kind} is filled with {type(slot).__name__}")


def shortest(raw: bytes) -> int | bytes:
    """Return a string as what fills its slot: an integer where ``str`` gives the string back."""
    if raw.isdigit() and len(raw) <= _DECIMAL_DIGITS_MAX and (raw[0] != _ZERO or len(raw) == 1):
        return int(raw)
    return raw


def read_list(data: bytes, pos: int, slots: list[SlotValue]) -> int:
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


def packed(raw: bytes) -> bytes:
    """Return a string as Thrift bytes."""
    return len(raw).to_bytes(4, "big") + raw


def packed_list(values: tuple[str, ...]) -> bytes:
    """Return a list of strings as Thrift bytes."""
    raws = [value.encode() for value in values]
    return b"\x0b" + len(raws).to_bytes(4, "big") + b"".join(map(packed, raws))


def slot_text(slot: SlotValue) -> str:
    """Return the string that fills a slot.

    Raises:
        WireError: what fills it is none.
    """
    if type(slot) is int:
        return str(slot)
    if type(slot) is bytes:
        return text(slot)
    raise WireError("a list of strings stands where one belongs")


def _location_slots(data: bytes, pos: int) -> Iterator[Slot]:
    for field in fields(data, pos):
        if field.id == _LOCATION_ID and field.type == STRING:
            yield Slot(field.start, field.end, LOCATION)


def _parameter_slots(data: bytes, pos: int) -> Iterator[Slot]:
    key_type, value_type, count, pos = map_header(data, pos)
    if key_type != STRING or value_type != STRING:
        return
    for _ in range(count):
        middle = skip(data, pos, STRING)
        end = skip(data, middle, STRING)
        yield Slot(middle, end, STRING, data[pos + 4 : middle])
        pos = end
