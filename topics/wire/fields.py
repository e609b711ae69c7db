"""Fields of control messages: the types that messages declare, with their bounds.

A field is declared once, by its annotation in ``messages``: mypy reads its type there, and
``fields_of`` how a value is checked when it is read, and how it is written.
"""

from collections.abc import Callable
from itertools import accumulate, islice, pairwise
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from ..errors import WireError
from ..topic import FULL, KEY_BYTES_MAX, NONE, NUM_TOPICS_MAX, VALUE, Entry
from .header import VALUE_BYTES_MAX

TEXT_MAX: Final = 4096
LIST_MAX: Final = 65_536  # an Inspected of every subscriber, a Pull that names what it holds
ROWS_MAX: Final = 2 * (NUM_TOPICS_MAX + 1)  # every topic while its level changes


class Codec(NamedTuple):
    """How one kind of field is read and written.

    ``read`` takes what MessagePack brought and the field's name, and raises WireError.
    """

    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any]


def fields_of(cls: type) -> dict[str, Codec]:
    """Return the codec of each field of a message or record, in the order of the wire."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: _codec_of(hint) for name, hint in hints.items()}


def by_topic(cls: type) -> Codec:
    """Return how records that begin with ``topic`` are written: their number, then columns.

    A column whose values are all the same is that value. Topics are steps from the one before,
    the first from -1: so all of them, in order, are the step 1.
    """
    topic, *others = fields_of(cls).values()
    names = tuple(fields_of(cls))

    def read(value: Any, where: str) -> tuple[Any, ...]:
        count, *columns = value if type(value) is tuple and value else (None,)
        _ROWS.read(count, where)
        if len(columns) != len(names):
            raise WireError(f"{where}: {cls.__name__} in {len(names)} columns expected")
        whole = [one if type(one) is tuple else (one,) * count for one in columns]
        if any(len(one) != count for one in whole):
            raise WireError(f"{where}: columns of {count} values expected")
        topics = accumulate((_STEP.read(step, where) for step in whole[0]), initial=-1)
        whole[0] = tuple(topic.read(one, where) for one in islice(topics, 1, None))
        for at, codec in enumerate(others, 1):
            whole[at] = tuple(codec.read(one, where) for one in whole[at])
        return tuple(cls(**dict(zip(names, row, strict=True))) for row in zip(*whole, strict=True))

    def write(records: tuple[Any, ...]) -> list[Any]:
        topics = [-1, *(record.topic for record in records)]
        columns: list[list[Any]] = [[one - last for last, one in pairwise(topics)]]
        for name, codec in zip(names[1:], others, strict=True):
            columns.append([codec.write(getattr(one, name)) for one in records])
        return [len(records), *(_column(column) for column in columns)]

    return Codec(read, write)


def _codec_of(hint: Any) -> Codec:
    """Return the codec of a field's annotation: of its bounds, or of the type alone."""
    if get_origin(hint) is Annotated:
        codec: Codec = hint.__metadata__[0]
        return codec
    if get_origin(hint) is tuple:
        first, second = get_args(hint)
        if second is Ellipsis:
            return _many(_codec_of(first))
        return _pair(_codec_of(first), _codec_of(second))
    return _PLAIN[hint] if hint in _PLAIN else _record(hint)


def _same(value: Any) -> Any:
    return value


def _integer(low: int, high: int) -> Codec:
    def read(value: Any, where: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise WireError(f"{where}: integer from {low} to {high} expected")
        return value

    return Codec(read, _same)


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


def _blob(low: int, high: int) -> Codec:
    def read(value: Any, where: str) -> bytes:
        if type(value) is not bytes or not low <= len(value) <= high:
            raise WireError(f"{where}: {low} to {high} bytes expected")
        return value

    return Codec(read, _same)


def _many(item: Codec) -> Codec:
    read_one, write_one = item

    def read(value: Any, where: str) -> tuple[Any, ...]:
        if type(value) is not tuple or len(value) > LIST_MAX:
            raise WireError(f"{where}: list of at most {LIST_MAX} expected")
        return tuple(read_one(one, where) for one in value)

    return Codec(read, lambda values: [write_one(one) for one in values])


def _pair(first: Codec, second: Codec) -> Codec:
    def read(value: Any, where: str) -> tuple[Any, Any]:
        if type(value) is not tuple or len(value) != 2:
            raise WireError(f"{where}: pairs expected")
        return first.read(value[0], where), second.read(value[1], where)

    return Codec(read, lambda pair: [first.write(pair[0]), second.write(pair[1])])


def _record(cls: type) -> Codec:
    fields = fields_of(cls)

    def read(value: Any, where: str) -> Any:
        if type(value) is not tuple or len(value) != len(fields):
            raise WireError(f"{where}: {cls.__name__} of {len(fields)} fields expected")
        checked = zip(fields.items(), value, strict=True)
        return cls(**{name: codec.read(one, where) for (name, codec), one in checked})

    return Codec(
        read, lambda record: [codec.write(getattr(record, name)) for name, codec in fields.items()]
    )


def _column(values: list[Any]) -> Any:
    same = values and values.count(values[0]) == len(values)
    return values[0] if same else values


def _read_entry(value: Any, where: str) -> Entry:
    if type(value) is not tuple or len(value) != 5:
        raise WireError(f"{where}: entry of five fields expected")
    key, version, schema, data, content = value
    for number in (version, schema, data):
        _U64.read(number, where)
    if max(schema, data) > version:
        raise WireError(f"{where}: entry changed after its own version")
    _KEY.read(key, where)
    if key.count(b"\0") < 2:
        raise WireError(f"{where}: key with two NULs expected")
    _CONTENT.read(content, where)
    return Entry(key, version, schema, data, len(content), content, VALUE)


def _write_entry(entry: Entry) -> list[object]:
    return [entry.key, entry.version, entry.schema_version, entry.data_version, entry.value]


_U64: Final = _integer(0, (1 << 64) - 1)
_KEY: Final = _blob(0, KEY_BYTES_MAX)
_CONTENT: Final = _blob(0, VALUE_BYTES_MAX)
_ROWS: Final = _integer(0, ROWS_MAX)
_STEP: Final = _integer(-65_536, 65_536)
_PLAIN: Final[dict[Any, Codec]] = {
    str: Codec(_text, _same),
    bool: Codec(_flag, _same),
    Entry: Codec(_read_entry, _write_entry),
}

U8 = Annotated[int, _integer(0, 255)]
U16 = Annotated[int, _integer(0, 65_535)]
U64 = Annotated[int, _U64]
TopicOrNone = Annotated[int, _integer(-1, 65_535)]  # -1: of no topic
LevelNumber = Annotated[int, _integer(NONE, FULL)]
Registration = Annotated[bytes, _blob(16, 16)]
Key = Annotated[bytes, _KEY]
Content = Annotated[bytes, _CONTENT]
Cell = Annotated[str | int | float | bool | None, Codec(_cell, _same)]
