"""Fields: the types of what messages carry, with their bounds, which the codec reads."""

from typing import Annotated, Final, NamedTuple, TypeAlias

from ...objects.drivers import COUNT_MAX, FACT_CHARS_MAX
from ...objects.names import KEY_BYTES_MAX
from ...topic import FULL, NONE
from ..header import VALUE_BYTES_MAX


class Bounds(NamedTuple):
    """The least and the largest value of an integer, or length of bytes or a text."""

    least: int
    most: int


BY_TOPIC: Final = "by topic"  # marks records that begin with a topic: they are written in columns
U8 = Annotated[int, Bounds(0, 255)]
U16 = Annotated[int, Bounds(0, 65_535)]
U64 = Annotated[int, Bounds(0, (1 << 64) - 1)]
I64 = Annotated[int, Bounds(-(1 << 63), (1 << 63) - 1)]
TopicOrNone = Annotated[int, Bounds(-1, 65_535)]  # -1: of no topic
LevelNumber = Annotated[int, Bounds(NONE, FULL)]
Registration = Annotated[bytes, Bounds(16, 16)]
Key = Annotated[bytes, Bounds(0, KEY_BYTES_MAX)]
Content = Annotated[bytes, Bounds(0, VALUE_BYTES_MAX)]
FactText = Annotated[str, Bounds(0, FACT_CHARS_MAX)]
Count = Annotated[int, Bounds(0, COUNT_MAX)]
Cell: TypeAlias = str | int | float | bool | None


class Message:
    """A message that one process sends another."""

    __slots__ = ()
