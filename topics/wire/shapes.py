"""Shapes: how each control message is written, field by field, and checked when it is read.

``SHAPES`` has each message's number and a codec for each of its fields, which the annotation of the
field determines: a text, an integer or bytes within bounds, a list, a record, a selector, records
by topic in columns. A codec is total: it returns what a field may hold, or raises WireError.
"""

from collections.abc import Callable
from itertools import accumulate, islice, pairwise
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from ..errors import WireError
from ..objects.encoding.values import DOCUMENT_BYTES_MAX
from ..objects.selector import Selector, selector_of
from ..topic import NUM_TOPICS_MAX, VALUE, Entry
from .header import PIECE_BYTES_MAX, VALUE_BYTES_MAX
from .messages.fields import BY_TOPIC, U64, Cell, Content, Key
from .messages.numbers import NUMBERS

TEXT_MAX: Final = 4096  # characters of a text that has no bounds of its own
LIST_MAX: Final = 65_536  # items: rows of an answer, or the blocks that a Pull says are held
ROWS_MAX: Final = 2 * (NUM_TOPICS_MAX + 1)  # records by topic: two levels while a level changes


class FieldCodec(NamedTuple):
    """The codec of one kind of field.

    ``read`` takes what MessagePack brought and the field's name, and raises WireError.
    """

    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any]
    bounds: tuple[int, int] | None = None  # of an integer that is written as it is


def _fields_of(cls: type) -> dict[str, FieldCodec]:
    """Return the codec of each field of a message or record, in the order of the wire."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: _codec_of(hint) for name, hint in hints.items()}


def _by_topic(cls: type) -> FieldCodec:
    """Return how records that begin with ``topic`` are written: their number, then columns.

    A column whose values are all equal is written as one value. Topics are written as steps from
    the topic before, the first from -1, so that all topics in their order are one value: 1.
    """
    topic, *others = _fields_of(cls).values()
    names = tuple(_fields_of(cls))

    def read(value: Any, where: str) -> tuple[Any, ...]:
        count, *columns = value if type(value) is tuple and value else (None,)
        _ROWS.read(count, where)
        if len(columns) != len(names):
            raise WireError(f"{where}: {cls.__name__} in {len(names)} columns expected")
        steps, *values = columns
        topics = accumulate(_read_column(_STEP, steps, where, count=count), initial=-1)
        whole = [_read_column(topic, tuple(islice(topics, 1, None)), where, count=count)]
        for codec, column in zip(others, values, strict=True):
            whole.append(_read_column(codec, column, where, count=count))
        return tuple(cls(**dict(zip(names, row, strict=True))) for row in zip(*whole, strict=True))

    def write(records: tuple[Any, ...]) -> list[Any]:
        topics = [-1, *(record.topic for record in records)]
        columns: list[list[Any]] = [[one - last for last, one in pairwise(topics)]]
        for name, codec in zip(names[1:], others, strict=True):
            values = [getattr(one, name) for one in records]
            columns.append(values if codec.bounds else [codec.write(one) for one in values])
        return [len(records), *(_column(column) for column in columns)]

    return FieldCodec(read, write)


def _codec_of(hint: Any) -> FieldCodec:
    """Return the codec of a field's annotation: of its bounds, or of the type alone."""
    if get_origin(hint) is Annotated:
        of, mark = get_args(hint)
        if mark is BY_TOPIC:
            return _by_topic(get_args(of)[0])
        return _BOUNDED[of](*mark)
    if get_origin(hint) is tuple:
        first, second = get_args(hint)
        if second is Ellipsis:
            is_row = isinstance(first, type) and issubclass(first, tuple) and first is not Entry
            return _named_rows(first) if is_row else _many(_codec_of(first))
        return _pair(_codec_of(first), _codec_of(second))
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) in (Union, UnionType):
        kind, _ = get_args(hint)  # and None, which is last
        return _optional(_codec_of(kind))
    return _record(hint)


def _same(value: Any) -> Any:
    return value


def _integer(low: int, high: int) -> FieldCodec:
    def read(value: Any, where: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise WireError(f"{where}: integer from {low} to {high} expected")
        return value

    return FieldCodec(read, _same, (low, high))


def _text(low: int, high: int) -> FieldCodec:
    def read(value: Any, where: str) -> str:
        if type(value) is not str or not low <= len(value) <= high:
            raise WireError(f"{where}: text of at most {high} characters expected")
        return value

    return FieldCodec(read, _same)


def _flag(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise WireError(f"{where}: true or false expected")
    return value


def _number(value: Any, where: str) -> float:
    if type(value) not in (float, int):
        raise WireError(f"{where}: number expected")
    return value  # type: ignore[no-any-return]  # the test above is the check


def _cell(value: Any, where: str) -> str | int | float | bool | None:
    if type(value) is int or value is None or type(value) in (bool, float):
        return value  # type: ignore[no-any-return]  # the test above is the check
    return _TEXT.read(value, where)  # type: ignore[no-any-return]  # it is a text


def _blob(low: int, high: int) -> FieldCodec:
    def read(value: Any, where: str) -> bytes:
        if type(value) is not bytes or not low <= len(value) <= high:
            raise WireError(f"{where}: {low} to {high} bytes expected")
        return value

    return FieldCodec(read, _same)


def _many(item: FieldCodec) -> FieldCodec:
    read_one, write_one = item.read, item.write

    def read(value: Any, where: str) -> tuple[Any, ...]:
        if type(value) is not tuple or len(value) > LIST_MAX:
            raise WireError(f"{where}: list of at most {LIST_MAX} expected")
        return tuple([read_one(one, where) for one in value])  # no generator: rows are many

    if write_one is _same:  # a tuple of tuples is packed as it is: an answer has 15,000 cells
        return FieldCodec(read, _same)
    return FieldCodec(read, lambda values: [write_one(one) for one in values])


def _pair(first: FieldCodec, second: FieldCodec) -> FieldCodec:
    def read(value: Any, where: str) -> tuple[Any, Any]:
        if type(value) is not tuple or len(value) != 2:
            raise WireError(f"{where}: pairs expected")
        return first.read(value[0], where), second.read(value[1], where)

    if first.write is second.write is _same:
        return FieldCodec(read, _same)
    return FieldCodec(read, lambda pair: [first.write(pair[0]), second.write(pair[1])])


def _record(cls: type) -> FieldCodec:
    fields = _fields_of(cls)

    def read(value: Any, where: str) -> Any:
        if type(value) is not tuple or len(value) != len(fields):
            raise WireError(f"{where}: {cls.__name__} of {len(fields)} fields expected")
        checked = zip(fields.items(), value, strict=True)
        return cls(**{name: codec.read(one, where) for (name, codec), one in checked})

    return FieldCodec(
        read, lambda record: [codec.write(getattr(record, name)) for name, codec in fields.items()]
    )


def _named_rows(cls: Any) -> FieldCodec:
    """Return how rows of a NamedTuple are written: as they are.

    Their fields are numbers, texts or lists of texts, which are checked column by column.
    """
    codecs = tuple(_fields_of(cls).values())
    assert all(codec.write is _same for codec in codecs), cls

    def read(value: Any, where: str) -> tuple[Any, ...]:
        if type(value) is not tuple or len(value) > LIST_MAX:
            raise WireError(f"{where}: list of at most {LIST_MAX} expected")
        if any(type(row) is not tuple or len(row) != len(codecs) for row in value):
            raise WireError(f"{where}: {cls.__name__} of {len(codecs)} fields expected")
        for codec, column in zip(codecs, zip(*value, strict=True), strict=bool(value)):
            if not _are_within(codec, column):
                for one in column:
                    codec.read(one, where)
        return tuple(map(cls._make, value))

    return FieldCodec(read, _same)


def _optional(codec: FieldCodec) -> FieldCodec:
    def read(value: Any, where: str) -> Any:
        return None if value is None else codec.read(value, where)

    assert codec.write is _same
    return FieldCodec(read, _same)


def _column(values: list[Any]) -> Any:
    same = values and values.count(values[0]) == len(values)
    return values[0] if same else values


def _read_column(codec: FieldCodec, column: Any, where: str, *, count: int) -> tuple[Any, ...]:
    """Return ``count`` values, of a list of so many, or of one value that all have."""
    if type(column) is not tuple:
        return (codec.read(column, where),) * count if count else ()
    if len(column) != count:
        raise WireError(f"{where}: columns of {count} values expected")
    if _are_within(codec, column):
        return column
    return tuple(codec.read(one, where) for one in column)


def _are_within(codec: FieldCodec, column: tuple[Any, ...]) -> bool:
    """Return whether a column, which may have hundreds of values, needs no check of each."""
    if codec.bounds is None or set(map(type, column)) != {int}:
        return False
    low, high = codec.bounds
    return bool(low <= min(column) and max(column) <= high)


def _read_entry(value: Any, where: str) -> Entry:
    if type(value) is not tuple or not 5 <= len(value) <= 6:
        raise WireError(f"{where}: entry of five or six fields expected")
    key, version, schema, data, content, *whole = value
    for number in (version, schema, data):
        _U64.read(number, where)
    if max(schema, data) > version:
        raise WireError(f"{where}: entry changed after its own version")
    _KEY.read(key, where)
    if key.count(b"\0") < 2:
        raise WireError(f"{where}: key with two NULs expected")
    _CONTENT.read(content, where)
    size = len(content)
    if whole:  # the size of the value of which this is a piece
        size = _WHOLE.read(whole[0], where)
        if size <= VALUE_BYTES_MAX or not 0 < len(content) <= PIECE_BYTES_MAX:
            raise WireError(f"{where}: piece of {len(content)} bytes, of a value of {size}")
    return Entry(key, version, schema, data, size, content, VALUE)


def _write_entry(entry: Entry) -> list[object]:
    key, version, schema, data, size, value, _ = entry
    whole = [size] if size > VALUE_BYTES_MAX else []
    return [key, version, schema, data, value, *whole]


def _read_selector(value: Any, where: str) -> Selector:
    try:
        return selector_of(value)
    except WireError as error:
        raise WireError(f"{where}: {error}") from None


_BOUNDED: Final = {int: _integer, bytes: _blob, str: _text}
_TEXT: Final = _text(0, TEXT_MAX)
_U64: Final = _codec_of(U64)
_KEY: Final = _codec_of(Key)
_CONTENT: Final = _codec_of(Content)
_WHOLE: Final = _integer(0, DOCUMENT_BYTES_MAX + 1)  # a value is a byte, and its document
_ROWS: Final = _integer(0, ROWS_MAX)
_STEP: Final = _integer(-65_536, 65_536)
_PLAIN: Final[dict[Any, FieldCodec]] = {
    str: _TEXT,
    bool: FieldCodec(_flag, _same),
    float: FieldCodec(_number, _same),
    Cell: FieldCodec(_cell, _same),
    Entry: FieldCodec(_read_entry, _write_entry),
    Selector: FieldCodec(_read_selector, lambda selector: selector.form),
}

SHAPES: Final[dict[type, tuple[int, dict[str, FieldCodec]]]] = {
    cls: (number, _fields_of(cls)) for number, cls in NUMBERS.items()
}
