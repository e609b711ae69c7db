"""Introspection: operators' requests to a subscriber through the hub, and its answers.

topicast drivers off ──▶ rules, by application ──▶ Driver.wanted
a question ──▶ an answer: ReadLevels: of each topic its level and the reason for it, ReadUsage:
               the tables that were read last, ReadTrace, ReadStats, or ReadDriver: the
               application's facts, where it has any, with some of the others
registered, or changed ──▶ the hub, which keeps it: who the driver is, its state, and the reason
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

TABLES_MAX: Final = 200  # of those that were read last: a page
NUMBER_MAX: Final = 1 << 63  # numbers below it fit a message


class DriverRecord:
    """Any thread reads what is wanted; the engine's thread reads the application's facts."""

    def __init__(
        self,
        view: View,
        facts: Callable[[], Facts] | None = None,
        *,
        hubs: int = 0,
        writer: str = "",
    ) -> None:
        """Take what operators see.

        Args:
            view: Has the rules of operators.
            facts: Returns what operators see of the application; it does not wait.
            hubs: How many hubs this process may go to.
            writer: The id under which it reports its writes.
        """
        self._view = view
        self._facts = facts
        self._own: Facts = {HUBS: hubs, WRITER: writer}

    def wanted(self, *names: str) -> str:
        """Return whether operators want a driver of these names on, off or in dry-run.

        That is as of the last push, and on before the first push. It does not wait.

        Cost: 1 µs, and 1 µs for each rule, so that it can be read again and again.

        Raises:
            UsageError: a name is not a text.
        """
        for name in names:
            if not isinstance(name, str):
                raise UsageError(f"a name of a driver is of type {type(name).__name__}, not a text")
        return state_of(self._view.rules(), names)

    def announced(self, problem: str) -> DriverFacts | None:
        """Return what the hub is to know of this driver; None: this process is no driver.

        ``problem``: why a server is not reached, which is the reason if there is no other.
        """
        facts = self.facts()
        if facts is None:
            return None
        return DriverFacts(**driver_facts({**facts, REASON: facts.get(REASON) or problem}))

    def facts(self) -> Facts | None:
        """Return what operators see; None: this process is not a driver.

        An error of the application's function, or a value that fits no row, becomes a row of text.
        """
        if self._facts is None:
            return None
        try:
            found = {_text(name): _cell(value) for name, value in self._facts().items()}
            return {**found, **self._own}
        except Exception as error:  # noqa: BLE001 - it is not our function
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
    """Return the answer to ``question``; infinite values are left empty.

    ``tables``: the names of those that were read last, their topics, and how many seconds ago.
    ``messages``: what came and went, and how many seconds ago.
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
    """Return what operators see of any driver, whatever its application reports."""
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
