"""Fleet: the attached drivers as records, made from the answers of hubs and drivers; pure.

    announced to a hub, answered by the driver ──▶ one record a driver ──▶ sorted, with what to do

Problems come first, and drivers that are gone last.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final, TypedDict

from ...topics.objects.drivers import CONNECTING, GONE, LIVE, PLAIN, is_ill
from ...topics.objects.rules import ON
from ...topics.sizes import size
from ..terminal.lists import ID_CHARS_MIN, Heading, Record, described, short, span, wrapped
from ..terminal.schemas import Iso

UNREACHABLE: Final = "unreachable"
ORDER: Final = (UNREACHABLE, PLAIN, CONNECTING, LIVE, GONE)  # the worst first
NOBODY: Final = "no driver is attached"


class ListedDriver(TypedDict):
    """A driver in JSON; null: the driver has not said it. Facts with other names may follow."""

    application: str | None
    application_id: str | None
    user: str | None
    host: str | None
    spark: str | None
    release: str | None
    state: str
    reason: str | None
    mend: str
    since: Iso | None
    since_s: float | None
    control: str | None
    full_topics: int | None
    minimal_topics: int | None
    budget_bytes: int | None
    held_bytes: int | None
    staleness_s: float | None
    metastore_problem: str | None
    connection_problem: str | None
    refreshes: int | None
    stale_reads_avoided: int | None
    would_refresh: int | None
    writes: str | None
    planning: str | None
    endpoint: str | None
    memory_reads: int | None
    endpoint_reads: int | None
    direct_reads: int | None
    metastore_calls_saved: int | None
    writes_refused: int | None
    pid: int | None
    hubs: int | None
    sessions: int | None
    writes_reported: int | None
    errors: int | None
    last_error: str | None
    name: str | None
    driver: str | None
    registration: str
    statestored: str


SHOWN: Final = (
    *(Heading(name="called", title="application", rank=0), Heading(name="state", rank=0)),
    *(Heading(name="staleness_s", title="stale", text=span), Heading(name="switched", rank=3)),
    *(Heading(name="host", rank=5), Heading(name="user", rank=6)),
    Heading(name="registration", title="id", rank=4, text=short),
    Heading(name="since_s", title="for", wide=True, text=span),
    *(Heading(name=one, wide=True) for one in ("pid", "hubs", "spark", "release", "sessions")),
    *(Heading(name=f"{one}_topics", title=one, wide=True) for one in ("full", "minimal")),
    *(Heading(name=f"{one}_bytes", title=one, wide=True, text=size) for one in ("held", "budget")),
    *(Heading(name=one, wide=True) for one in ("refreshes", "stale_reads_avoided", "planning")),
    *(Heading(name=one, wide=True) for one in ("endpoint", "would_refresh", "statestored")),
    Heading(name="writes", wide=True),
    Heading(name="problem", title="reason", rank=2, prose=True),
)


def completed(records: Iterable[Record], *, now: datetime) -> list[Record]:
    """Return each record with all its fields, what to do, and since when; the worst first."""
    found = [_whole(one, now) for one in records]
    return sorted(found, key=lambda one: (_rank(one), called(one)))


def problems(records: Iterable[Record]) -> list[Record]:
    """Return the drivers that are not as they should be."""
    return [one for one in records if ill(one)]


def shown(records: Iterable[Record]) -> list[Record]:
    """Return the records with the columns that combine several facts."""
    return [
        {
            **one,
            "called": called(one),
            "switched": "" if one["control"] == ON else one["control"],
            "problem": "; ".join(filter(None, (one["reason"], one["mend"] if ill(one) else ""))),
        }
        for one in records
    ]


def problem_lines(records: Sequence[Record], *, width: int) -> list[str]:
    """Return lines with the reason of each driver, and after ``->`` what to do."""
    found: list[str] = []
    for one in records:
        control = "" if one["control"] in (None, "", ON) else f", switched to {one['control']}"
        since = "" if one["since_s"] is None else f" for {span(one['since_s'])}"
        stale = "" if one["staleness_s"] is None else f", {span(one['staleness_s'])} stale"
        found.append(f"{called(one)}  {one['state']}{since}{control}{stale}")
        found += wrapped(one["reason"] or "", width=width, first="  ", rest="  ")
        if one["mend"]:
            found += wrapped(one["mend"], width=width, first="  -> ", rest="     ")
        about = [(f"  {name}", one[name]) for name in ("user", "host", "pid", "statestored")]
        found += described([pair for pair in about if pair[1]], width=width)
    return found


def called(record: Record) -> str:
    """Return the name by which people know a driver."""
    names = (record.get(name) for name in ("application", "application_id", "name", "driver"))
    return str(next(filter(None, names), ""))


def ill(record: Record) -> bool:
    """Return whether a driver is not as it should be."""
    return is_ill(
        str(record["state"]),
        reason=str(record.get("reason") or ""),
        control=str(record.get("control") or ""),
        since_s=float(record.get("since_s") or 0.0),
    )


def mend(record: Record) -> str:
    """Return what to do about a driver; empty: nothing, or its reason says what."""
    control, host = record.get("control") or ON, record.get("host") or "its host"
    match record["state"]:
        case state if state == UNREACHABLE:
            pid = f"process {record['pid']}" if record.get("pid") else "its process"
            return f"look at {pid} on {host}"
        case state if state in (PLAIN, CONNECTING) and ill(record):
            return f"topicast doctor, on {host}, says why"
        case state if state == LIVE and control != ON:
            return f"topicast drivers on --app '{called(record)}'"
        case _:
            return ""


def each_once(found: Iterable[list[Record]]) -> list[Record]:
    """Return each driver once; if it moved to another hub, from the hub where it answers."""
    records: dict[str, Record] = {}
    for record in (one for records_of_hub in found for one in records_of_hub):
        driver = record.get("driver") or record["registration"]
        before = records.get(driver)
        if before is None or before["state"] in (UNREACHABLE, GONE):
            records[driver] = record
    return list(records.values())


def unreachable(reader: Record, said: Record) -> Record:
    """Return the record of a reader that does not answer, made from its name.

    ``said``: the facts that it announced last, if it is a driver.
    """
    application_id, _, where = reader["name"].rpartition("@")
    lost = reader["state"] == "LOST"
    why = "its hub receives nothing from it" if lost else "it does not answer"
    named = {
        "application_id": application_id or reader["name"],
        "host": where.rpartition(":")[0] if application_id else None,
    }
    return {
        **({} if said else named),
        "state": UNREACHABLE,
        "reason": f"{why}, and was current {reader['lag_s']} s ago: it is stopped, or too busy",
    }


def matches(record: Record, pattern: str) -> bool:
    """Return whether ``pattern`` matches a driver's application, or is the beginning of its id."""
    names = (record.get("application"), record.get("application_id"))
    return is_id(record, pattern) or any(fnmatchcase(name, pattern) for name in names if name)


def is_id(record: Record, beginning: str) -> bool:
    """Return whether a driver's registration begins with ``beginning``, of 8 characters or more."""
    registration = str(record.get("registration") or "")
    return len(beginning) >= ID_CHARS_MIN and registration.startswith(beginning)


def _whole(record: Record, now: datetime) -> Record:
    since_s = record.get("since_s")
    since = None if since_s is None else now - timedelta(seconds=since_s)
    found = {
        **record,
        "mend": mend(record),
        "since": None if since is None else f"{since:%Y-%m-%dT%H:%M:%SZ}",
    }
    return {name: found.get(name) for name in ListedDriver.__annotations__} | found


def _rank(record: Record) -> tuple[bool, int]:
    state = record["state"]
    return not ill(record), ORDER.index(state) if state in ORDER else len(ORDER)
