"""What a subscriber shows of itself, to its application and to operators through the hub.

Tables: ``topics``, each with its level and the reason for it, ``stats``, and ``driver``: what the
application shows of itself, where it does, with some of the others.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from math import inf, isinf

from ...topics.entries import LEVELS, MINIMAL
from ...topics.objects.rules import state_of
from ...topics.sharding import topic_ids
from ...topics.wire.fields import TEXT_MAX
from ...topics.wire.messages import Inspect, Inspected, Refused
from ...topics.wire.refusal import Refusal
from ..placement.controller import PlacementController
from ..placement.prefetch import Prefetcher
from ..protocol.status import Stats, TopicInfo
from ..replication.subscriptions import Subscriptions
from ..store.view import View
from .catalog_session import CatalogSession

Facts = Mapping[str, str | int | float | bool | None]


class Driver:
    """Any thread reads what is wanted; the background thread reads the application's facts."""

    def __init__(self, view: View, facts: Callable[[], Facts] | None = None) -> None:
        """``facts`` returns what operators see of the application; it neither waits nor raises."""
        self._view = view
        self._facts = facts

    def wanted(self, *names: str) -> str:
        """Return what operators want a driver that has all these names to be: on, off or dry-run.

        It is as in the last push, or on; it waits for nothing.

        Cost: 1 µs, and 1 µs for each rule, so that it can be read again and again.
        """
        return state_of(self._view.rules(), names)

    def facts(self) -> Facts | None:
        """Return what operators see; None: this process is no driver."""
        return self._facts() if self._facts is not None else None


Cell = str | int | float | bool | None
Rows = tuple[tuple[Cell, ...], ...]


class Introspection:
    """Reads the parts of a core."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        catalog: CatalogSession,
        *,
        placement: PlacementController,
        prefetcher: Prefetcher,
        driver: Driver,
    ) -> None:
        self.misses = 0  # reads that memory did not answer; counted by the core, as the next one
        self.wire_errors = 0  # frames that are no message
        self._subscriptions = subscriptions
        self._catalog = catalog
        self._placement = placement
        self._prefetcher = prefetcher
        self._driver = driver

    def topics(self, *, now: float) -> tuple[TopicInfo, ...]:
        """Return how each topic is followed, and why."""
        replicas = self._subscriptions.replicas
        return tuple(
            TopicInfo(
                id=topic,
                level=LEVELS[replicas.level(topic)],
                version=replicas.version(topic),
                bytes=replicas.held_bytes(topic),
                hits=replicas.view.hits(topic),
                lag_s=replicas.lag_s(topic, now=now),
                full_bytes=self._subscriptions.sizes.get(topic, 0),
                why=self._placement.reason(topic),
            )
            for topic in topic_ids(self._subscriptions.num_topics)
        )

    def stats(self, *, now: float) -> Stats:
        """Return counters, and the state of the budget."""
        subscriptions, pins = self._subscriptions, self._prefetcher.pins
        outbox = self._catalog.reports.outbox
        replicas, pulls = subscriptions.replicas, self._catalog.fetcher
        heard_at = subscriptions.catalog_heard_at
        return Stats(
            budget_bytes=replicas.budget.limit_bytes,
            held_bytes=replicas.budget.held_bytes,
            hits=replicas.view.hits_all,
            misses=self.misses,
            pulls=pulls.sent,
            evictions=subscriptions.evictions + replicas.resident_set.evicted,
            pulls_not_kept=replicas.resident_set.oversize,
            stale_replies=pulls.stale_rejected,
            prefetches=self._prefetcher.pulls,
            pinned_tables=pins.count,
            pinned_not_held=pins.not_held_count,
            catch_ups=replicas.catch_ups,
            wire_errors=self.wire_errors,
            writes_acknowledged=outbox.acknowledged,
            writes_pending=outbox.pending,
            writes_unknown_table=outbox.unknown,
            writes_discarded=outbox.discarded,
            writes_delay_reason=outbox.delay,
            staleness_s=inf if heard_at is None else max(now - heard_at, 0.0),
            hub=subscriptions.hub_address,
            ready=subscriptions.ready(),
        )

    def answer(self, inspect: Inspect, *, now: float) -> Inspected | Refused:
        """Return the table that is requested; what would be infinite is empty."""
        driver = self._driver.facts()
        columns: tuple[str, ...] = ("name", "value")
        match inspect.what:
            case "topics":
                columns = tuple(field.name for field in fields(TopicInfo))
                rows: Rows = tuple(tuple(map(_cell, _values(one))) for one in self.topics(now=now))
            case "stats":
                names = [field.name for field in fields(Stats)]
                rows = tuple(zip(names, map(_cell, _values(self.stats(now=now))), strict=True))
            case "driver" if driver is not None:
                known = {**driver, **_summary(self.topics(now=now), self.stats(now=now))}
                rows = tuple((name, _cell(value)) for name, value in known.items())
            case _:
                message = f"no table {inspect.what!r} of a subscriber: topics, stats"
                return Refused(
                    request=inspect.request,
                    code=Refusal.INSPECT,
                    message=message,
                    retry_ms=0,
                    topic=-1,
                )
        return Inspected(request=inspect.request, columns=columns, rows=rows)


def _summary(topics: Iterable[TopicInfo], stats: Stats) -> Facts:
    """Return what operators see of any driver beside what its application shows."""
    levels = [one.level for one in topics]
    return {
        **{f"{level}_topics": levels.count(level) for level in reversed(LEVELS[MINIMAL:])},
        "budget_bytes": stats.budget_bytes,
        "held_bytes": stats.held_bytes,
        "staleness_s": stats.staleness_s,
    }


def _values(record: TopicInfo | Stats) -> tuple[Cell, ...]:
    return tuple(getattr(record, field.name) for field in fields(record))


def _cell(value: Cell) -> Cell:
    if isinstance(value, float):
        return None if isinf(value) else round(value, 3)
    if isinstance(value, str):  # an application's, which may hold anything
        return value.encode(errors="replace").decode()[:TEXT_MAX]
    return value
