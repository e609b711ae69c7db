"""Pulls over what is held of one table, and what their answers bring."""

import random

from topicast.catalog.serve.pulls import Pulls
from topicast.tests.catalog.holding import NOW_US, Holding, T, parts, struct
from topicast.topics.objects.blocks import decode_block
from topicast.topics.objects.listing import decode_listing
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.wire.messages import (
    SELECT_BLOCKS,
    SELECT_FILTER,
    SOURCE_EVENTS,
    Pull,
    Pulled,
)

KEYED = struct(T, "ds")
PLACE = (5, 7)


class Desk:
    """Pulls over a holding that knows ``d.t``; its content is held unless it is not wanted."""

    def __init__(self, *, held: bool = True) -> None:
        self.holding = Holding()
        self.holding.namespace.write(
            {"d": b"struct"}, {T: "EXTERNAL_TABLE"}, source=SOURCE_EVENTS, at_us=NOW_US
        )
        if held:
            self.holding.whole(KEYED, parts("1", "2"))
        self.pulls = Pulls(self.holding.namespace, self.holding.tables, lambda: PLACE)

    def answer(self, pull: Pull) -> tuple[Pulled, ...]:
        return tuple(message for _, message in self.pulls.parts(pull))

    def one(self, pull: Pull) -> Pulled:
        (message,) = self.answer(pull)
        return message


def pull(table: str = "t", *, request: int = 1, selector: int = SELECT_BLOCKS, **held: int) -> Pull:
    """Return a pull by someone who holds these blocks, by lower bound, at these versions."""
    keys = tuple((block_key("d", table, lower), version) for lower, version in held.items())
    return Pull(request=request, db="d", table=table, selector=selector, credit=1 << 20, held=keys)


def large(desk: Desk) -> None:
    """Give ``d.t`` partitions that take several parts."""
    rng = random.Random(1)
    for number in range(30):
        some = parts(f"{number:02d}", comment=rng.randbytes(15_000).hex())
        desk.holding.change(dict(some))


def days(desk: Desk, count: int = 200) -> None:
    """Give ``d.t`` so many partitions ``ds=000`` …, in several blocks."""
    for first in range(0, count, 20):
        desk.holding.change(dict(parts(*(f"{number:03d}" for number in range(first, first + 20)))))


def filtered(text: str, *held: tuple[bytes, int]) -> Pull:
    return Pull(
        request=1, db="d", table="t", selector=SELECT_FILTER, credit=1 << 20, held=held, filter=text
    )


def blocks_of(answers: tuple[Pulled, ...]) -> dict[str, tuple[str, ...]]:
    """Return the names in each block that came, by its lower bound."""
    found = {}
    for entry in (entry for answer in answers for entry in answer.entries):
        if entry.key != table_key(*T):
            assert entry.value is not None
            lower = entry.key.removeprefix(block_key(*T, "")).decode()
            found[lower] = decode_block(entry.value, entry.version).names
    return found


def named(answers: tuple[Pulled, ...]) -> list[str]:
    """Return the names that came in ``answers``."""
    return [name for answer in answers for name in decode_listing(answer.names)]
