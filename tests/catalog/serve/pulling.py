"""Pulls of one table that is held, and what their answers bring."""

import random
from collections.abc import Iterator

from topicast.catalog.serve.paginate import answer
from topicast.catalog.serve.pull_server import held
from topicast.tests.catalog.holding import NOW_US, Holding, T, parts, struct
from topicast.topics.bulk import Part
from topicast.topics.objects.blocks import decode_block
from topicast.topics.objects.listing import decode_listing
from topicast.topics.objects.names import TableId, block_key, table_key
from topicast.topics.wire.messages import (
    SELECT_BLOCKS,
    SELECT_FILTER,
    SOURCE_EVENTS,
    Pull,
    Pulled,
)

KEYED = struct(T, "ds")
PLACE = (5, 7)


class Answers:
    """Answers to pulls, from a holding that knows ``d.t`` and, unless told not to, its content."""

    def __init__(self, *, held: bool = True) -> None:
        self.holding = Holding()
        self.holding.namespace.write(
            {"d": b"struct"}, {T: "EXTERNAL_TABLE"}, source=SOURCE_EVENTS, at_us=NOW_US
        )
        if held:
            self.holding.whole(KEYED, parts("1", "2"))

    def parts(self, pull: Pull) -> Iterator[Part]:
        return answer(self.holding.namespace, self.holding.tables, pull, position=PLACE)

    def answer(self, pull: Pull) -> tuple[Pulled, ...]:
        return tuple(message for _, message in self.parts(pull))

    def held(self, table: TableId = T) -> tuple[bool, bool]:
        return held(self.holding.namespace, self.holding.tables, table)

    def one(self, pull: Pull) -> Pulled:
        (message,) = self.answer(pull)
        return message


def pull(table: str = "t", *, request: int = 1, selector: int = SELECT_BLOCKS, **held: int) -> Pull:
    """Return a pull by someone who holds these blocks, by lower bound, at these versions."""
    keys = tuple((block_key("d", table, lower), version) for lower, version in held.items())
    return Pull(request=request, db="d", table=table, selector=selector, credit=1 << 20, held=keys)


def large(source: Answers) -> None:
    """Give ``d.t`` partitions that take several parts."""
    rng = random.Random(1)
    for number in range(30):
        some = parts(f"{number:02d}", comment=rng.randbytes(15_000).hex())
        source.holding.change(dict(some))


def days(source: Answers, count: int = 200) -> None:
    """Give ``d.t`` so many partitions ``ds=000`` …, in several blocks."""
    for first in range(0, count, 20):
        source.holding.change(
            dict(parts(*(f"{number:03d}" for number in range(first, first + 20))))
        )


def filtered(text: str, *held: tuple[bytes, int]) -> Pull:
    return Pull(
        request=1, db="d", table="t", selector=SELECT_FILTER, credit=1 << 20, held=held, filter=text
    )


def blocks_of(answers: tuple[Pulled, ...]) -> dict[str, tuple[str, ...]]:
    """Return the names in each block that came, by its lower bound."""
    found = {}
    for entry in (entry for one in answers for entry in one.entries):
        if entry.key != table_key(*T):
            assert entry.value is not None
            lower = entry.key.removeprefix(block_key(*T, "")).decode()
            found[lower] = decode_block(entry.value, entry.version).names
    return found


def named(answers: tuple[Pulled, ...]) -> list[str]:
    """Return the names that came in ``answers``."""
    return [name for answer in answers for name in decode_listing(answer.names)]
