"""Introspection: operators' requests to a subscriber through the hub, and its answers.

topicast drivers off ──▶ rules, by application ──▶ Driver.wanted
a question ──▶ its answer: ReadLevels: the level of each topic, and the reason for it
                           ReadUsage: the tables that were read last
                           ReadTrace: the messages that came and went lately
                           ReadStats: the counters of the subscriber
                           ReadDriver: the application's facts, if it is a driver, and a summary
registered, or changed ──▶ the hub keeps who the driver is, its state, and the reason
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from math import isfinite
from operator import attrgetter
from typing import Any, Final

from ...topics.errors import UsageError
from ...topics.objects.drivers import (
    ANNOUNCED,
    HUBS,
    REASON,
    WRITER,
    driver_facts,
)
from ...topics.objects.rules import state_of
from ...topics.topic import LEVELS, MINIMAL
from ...topics.turn import Step
from ...topics.wire.messages.answers import (
    Inspected,
    LevelList,
    MessageTrace,
    NamedFacts,
    TableUse,
    TableUses,
    TopicLevel,
    TracedMessage,
)
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.questions import (
    ReadDriver,
    ReaderQuestion,
    ReadLevels,
    ReadStats,
    ReadTrace,
    ReadUsage,
)
from ...topics.wire.messages.readers import DriverFacts
from ...topics.wire.refusal import Refusal, refuse
from ...topics.wire.shapes import TEXT_MAX
from ..protocol.status import Stats, TopicInfo
from ..store.view import View

Cell = str | int | float | bool | None
Facts = Mapping[str, Cell]

TABLES_MAX: Final = 200  # tables in an answer, those that were read last: a page
NUMBER_MAX: Final = 1 << 63  # numbers below it fit a message


class DriverRecord:
    """What operators want of this driver, for any thread, and see of it, for the engine's."""

    def __init__(
        self,
        view: View,
        facts: Callable[[], Facts] | None = None,
        *,
        hubs: int = 0,
        writer: str = "",
    ) -> None:
        """Take the sources of the facts that operators see.

        Args:
            view: Has the rules of operators.
            facts: Returns the application's facts, without waiting; None: this is no driver.
            hubs: How many hubs this process may go to.
            writer: The id under which it reports its writes.
        """
        self._view = view
        self._facts = facts
        self._own: Facts = {HUBS: hubs, WRITER: writer}

    def wanted(self, *names: str) -> str:
        """Return whether operators want a driver of these names on, off or in dry-run.

        The answer is as of the rules that arrived last; on before the first rules arrive. It does
        not wait.

        Cost: 1 µs, and 1 µs for each rule.

        Raises:
            UsageError: a name is not a text.
        """
        for name in names:
            if not isinstance(name, str):
                raise UsageError(f"a name of a driver is of type {type(name).__name__}, not a text")
        return state_of(self._view.rules(), names)

    def announced(self, problem: str) -> DriverFacts | None:
        """Return what the hub is to know of this driver; None: this process is no driver.

        ``problem``: why a server is not reached; it is the reason if the application names none.
        """
        facts = self.facts()
        if facts is None:
            return None
        return DriverFacts(**driver_facts({**facts, REASON: facts.get(REASON) or problem}))

    def facts(self) -> Facts | None:
        """Return what operators see; None: this process is no driver.

        A value that fits no row becomes text. If the application's function fails, its error is
        the only row.
        """
        if self._facts is None:
            return None
        try:
            found = {_text(name): _cell(value) for name, value in self._facts().items()}
            return {**found, **self._own}
        except Exception as error:  # noqa: BLE001 - the function is the application's
            return {"error": _text(f"driver_facts failed: {error!r}")}


def differ(announced: DriverFacts, before: DriverFacts | None) -> bool:
    """Return whether more than counts has changed since ``before``."""
    return before is None or _but_counts(announced) != _but_counts(before)


_but_counts: Final = attrgetter(*ANNOUNCED)


def inspected(
    question: ReaderQuestion[Any],
    *,
    topics: Sequence[TopicInfo],
    tables: Sequence[tuple[str, int, float]],
    messages: Sequence[tuple[float, Step]],
    stats: Stats,
    driver: Facts | None,
) -> Inspected | Refused:
    """Return the answer to ``question``; an infinite value becomes an empty cell.

    ``tables``: (name, topic, seconds ago) of the tables that were read last.
    ``messages``: (seconds ago, step) of the messages that came and went.
    """
    request = question.request
    match question:
        case ReadLevels():
            return LevelList(request=request, rows=tuple(map(_level_of, topics)))
        case ReadUsage():
            uses = tuple(TableUse(name, topic, round(ago_s, 3)) for name, topic, ago_s in tables)
            return TableUses(request=request, rows=uses)
        case ReadTrace():
            trace = tuple(
                TracedMessage(round(ago_s, 3), way, kind, " ".join(map(str, of)), version or None)
                for ago_s, (_, way, kind, of, version) in messages
            )
            return MessageTrace(request=request, rows=trace)
        case ReadStats():
            names = [field.name for field in fields(Stats)]
            stated = tuple(zip(names, map(_cell, _values(stats)), strict=True))
            return NamedFacts(request=request, rows=stated)
        case _:
            assert isinstance(question, ReadDriver), question
            if driver is None:
                text = "this subscriber is no attached driver"
                return refuse(Refusal.INSPECT, text, request=request)
            found = {**driver, **_summary(topics, stats)}
            facts = tuple((name, _cell(value)) for name, value in found.items())
            return NamedFacts(request=request, rows=facts)


def _summary(topics: Iterable[TopicInfo], stats: Stats) -> Facts:
    """Return what operators see of every driver, whatever its application reports."""
    levels = [one.level for one in topics]
    return {
        **{f"{level}_topics": levels.count(level) for level in reversed(LEVELS[MINIMAL:])},
        "budget_bytes": stats.budget_bytes,
        "held_bytes": stats.held_bytes,
        "staleness_s": stats.staleness_s,
        "metastore_problem": stats.metastore_problem,
        "connection_problem": stats.connection_problem,
    }


def _level_of(topic: TopicInfo) -> TopicLevel:
    return TopicLevel(
        id=topic.id,
        level=topic.level,
        version=topic.version,
        bytes=topic.bytes,
        hits=topic.hits,
        lag_s=round(topic.lag_s, 3) if isfinite(topic.lag_s) else None,
        full_bytes=topic.full_bytes,
        why=_text(topic.why),
    )


def _values(record: Stats) -> tuple[Cell, ...]:
    return tuple(getattr(record, field.name) for field in fields(record))


def _cell(value: Cell) -> Cell:
    if isinstance(value, float):
        return round(value, 3) if isfinite(value) else None
    if value is None or (isinstance(value, int) and abs(value) < NUMBER_MAX):
        return value
    return _text(value)


def _text(value: object) -> str:
    """Return an application's ``value``, of whatever type, as a text for a row."""
    return str(value).encode(errors="replace").decode()[:TEXT_MAX]
