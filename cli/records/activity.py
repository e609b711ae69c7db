"""Activity: what ``topicast top`` shows of two looks at the daemons, and of the log; pure.

    counters before, counters now ──▶ rates     lines of the log ──▶ the tables that change most

If a counter is lower than before, its daemon was restarted, and its rate is not known yet.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypedDict

from ...topics.sizes import size
from ...topics.verdict import Serving
from ..terminal.lists import Heading, Record, listed, span
from ..terminal.schemas import Iso
from .changes import utc
from .overview import STATES, DaemonAnswers, Installation, drivers_by_state, lag, place

MINUTES: Final = 10  # of the log that count
KEPT_MAX: Final = 20_000  # lines of the log: 33 changes a second, all that time
TABLES_MAX: Final = 50  # in JSON; a terminal shows as many as there are lines for


class HubActivity(TypedDict):
    """A statestored: what it sends in a second, and how far its slowest reader is behind."""

    address: str
    verdict: str
    drivers: int | None
    deltas_per_s: float | None
    delta_bytes_per_s: float | None
    catch_ups_per_s: float | None
    reader_lag_s: float | None


class CatalogdActivity(TypedDict):
    """catalogd: its events, pulls, reported writes and metastore reads in a second; its lag."""

    address: str
    verdict: str
    events_per_s: float | None
    pulls_per_s: float | None
    writes_per_s: float | None
    reads_per_s: float | None
    lag_events: int | None
    lag_s: float | None


class BusyTable(TypedDict):
    """A table that has changed in the last MINUTES: how often, when last, and by whom last."""

    table: str
    changes: int
    last: Iso
    by: str


class DriverCounts(TypedDict):
    """The drivers of all statestoreds by state."""

    live: int
    connecting: int
    plain: int
    gone: int
    with_problem: int


class Activity(TypedDict):
    """One picture."""

    at: Iso
    verdict: str
    statestoreds: list[HubActivity]
    catalogd: CatalogdActivity | None
    drivers: DriverCounts
    tables: list[BusyTable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The daemons at one moment, ``at_us`` since 1970."""

    at_us: int
    installation: Installation


HUBS: Final = (
    *(Heading(name="address", title="statestored", rank=0, text=place),),
    *(Heading(name="verdict", title="state", rank=0), Heading(name="drivers")),
    Heading(name="deltas_per_s", title="deltas/s"),
    Heading(name="delta_bytes_per_s", title="bytes/s", text=lambda rate: size(round(rate))),
    Heading(name="reader_lag_s", title="slowest reader", text=span),
    Heading(name="catch_ups_per_s", title="catch-ups/s", rank=2),
)
CATALOGD: Final = (
    *(Heading(name="address", title="catalogd", rank=0, text=place),),
    *(
        Heading(name="verdict", title="state", rank=0),
        Heading(name="events_per_s", title="events/s"),
    ),
    *(Heading(name="pulls_per_s", title="pulls/s"), Heading(name="writes_per_s", title="writes/s")),
    *(Heading(name="reads_per_s", title="reads/s", rank=2), Heading(name="lag", rank=1)),
)
TABLES: Final = (
    *(Heading(name="table", rank=0), Heading(name="changes", rank=0)),
    *(Heading(name="last", text=lambda text: text[11:19]), Heading(name="by", prose=True)),
)


def activity(before: Look, now: Look, lines: Sequence[Record]) -> Activity:
    """Return the picture of ``now``; ``lines``: records of the log, the newest first."""
    seconds = (now.at_us - before.at_us) / 1e6
    known = {one.address: one.facts for one in before.installation.daemons}

    def rates(one: DaemonAnswers) -> Callable[[str], float | None]:
        return partial(_rate, known.get(one.address, {}), one.facts, seconds=seconds)

    own = now.installation.catalogd
    return Activity(
        at=utc(now.at_us),
        verdict=now.installation.state,
        statestoreds=[_hub(one, rates(one)) for one in now.installation.hubs],
        catalogd=_catalogd(own, rates(own)) if own.facts else None,
        drivers=_counts(now.installation),
        tables=busiest(lines),
    )


def busiest(lines: Iterable[Record]) -> list[BusyTable]:
    """Return the tables that have changed most in ``lines``, which begin with the newest."""
    found: dict[str, BusyTable] = {}
    for one in lines:
        name = str(one["object"]).partition("/")[0]
        if one["version"] is None or "." not in name:
            continue  # an order, or a database
        table = found.setdefault(
            name, BusyTable(table=name, changes=0, last=one["time"], by=one["by"])
        )
        table["changes"] += 1
    return sorted(found.values(), key=lambda one: (-one["changes"], one["table"]))[:TABLES_MAX]


def picture(found: Activity, installation: Installation, *, width: int, height: int) -> list[str]:
    """Return the lines of a picture, ``height`` at most, of ``width`` characters."""
    time = found["at"].replace("T", " ")[:19]
    why = "" if found["verdict"] == str(Serving.SERVING) else ": topicast status says why"
    lines = [f"{found['verdict']}{why}  {time} UTC", ""]
    lines += listed(HUBS, found["statestoreds"], width=width)
    own = found["catalogd"]
    if own is not None:
        behind = lag(own["lag_events"], own["lag_s"])
        lines += ["", *listed(CATALOGD, [{**own, "lag": behind}], width=width)]
    else:
        lines += ["", f"{installation.catalogd.name}: {installation.catalogd.state}"]
    if counted := drivers_by_state(one.facts for one in installation.hubs):
        lines += ["", f"drivers: {counted}"]
    if own is not None or found["tables"]:
        busy = listed(TABLES, found["tables"], width=width) if found["tables"] else ["none"]
        lines += ["", f"Tables that changed most in the last {MINUTES} min", *busy]
    return lines[:height]


def _hub(one: DaemonAnswers, rate: Callable[[str], float | None]) -> HubActivity:
    return HubActivity(
        address=one.address,
        verdict=one.state,
        drivers=_drivers(one.facts),
        deltas_per_s=rate("deltas"),
        delta_bytes_per_s=rate("delta_bytes"),
        catch_ups_per_s=rate("catch_ups"),
        reader_lag_s=one.facts.get("reader_lag_s"),
    )


def _catalogd(one: DaemonAnswers, rate: Callable[[str], float | None]) -> CatalogdActivity:
    return CatalogdActivity(
        address=one.address,
        verdict=one.state,
        events_per_s=rate("events"),
        pulls_per_s=rate("pulls"),
        writes_per_s=rate("writes"),
        reads_per_s=rate("reads"),
        lag_events=one.facts.get("lag_events"),
        lag_s=one.facts.get("lag_s"),
    )


def _rate(
    before: Mapping[str, Any], now: Mapping[str, Any], name: str, *, seconds: float
) -> float | None:
    """Return by how much a counter rises in a second; None: not known."""
    old, new = before.get(name), now.get(name)
    if old is None or new is None or new < old or seconds <= 0:
        return None
    return round(float(new - old) / seconds, 1)


def _drivers(facts: Mapping[str, Any]) -> int | None:
    counts = [facts.get(f"drivers_{state}") for state in STATES if state != "gone"]
    return None if None in counts else sum(filter(None, counts))


def _counts(installation: Installation) -> DriverCounts:
    def count(state: str) -> int:
        return sum(one.facts.get(f"drivers_{state}") or 0 for one in installation.hubs)

    return DriverCounts(
        live=count("live"),
        connecting=count("connecting"),
        plain=count("plain"),
        gone=count("gone"),
        with_problem=count("with_problem"),
    )
