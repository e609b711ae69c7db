"""Orders as tests give them, to a core."""

from topicast.catalog.facts import Commit
from topicast.catalog.model.versions import OrderRow
from topicast.tests.catalog.core import Core
from topicast.topics.wire.messages import (
    Inspected,
    Order,
    Refused,
)

QUIET = {"polling_interval_s": 0.0}  # nothing is heard of what changes
REQUEST = 9


def say(core: Core, order: str, *arguments: str, turns: int = 10) -> dict[str, object] | Refused:
    """Give an order and return its answer."""
    core.ask(Order(request=REQUEST, who="ann@host", order=order, arguments=arguments))
    core.turn(turns)
    (answer,) = core.replies()
    assert isinstance(answer, Inspected | Refused)
    assert answer.request == REQUEST
    return dict(answer.rows) if isinstance(answer, Inspected) else answer  # type: ignore[arg-type]


def refused(core: Core, order: str, *arguments: str, turns: int = 10) -> tuple[str, str]:
    versions = core.catalog.version_log.versions()
    answer = say(core, order, *arguments, turns=turns)
    assert isinstance(answer, Refused)
    assert core.catalog.version_log.versions() == versions, "nothing changed"
    return answer.code, answer.message


def given(core: Core) -> list[OrderRow]:
    return [row for effect in core.effects if isinstance(effect, Commit) for row in effect.orders]


def is_loaded(core: Core, table: str = "t") -> bool:
    return core.catalog.tables.loaded(("d", table))


def quiet(count: int = 1) -> Core:
    """Return a core without events that has read ``count`` tables of database ``d``."""
    core = Core(**QUIET)
    core.create_database("d")
    for number in range(count):
        core.add(core.create("d", f"t{number or ''}", "ds"), "1", "2")
    core.turn(30)
    return core
