"""Changes: what has changed, when, and who caused it, by catalogd's history and log; pure.

rows of the log ──by version──▶ who caused each row of the history ──▶ records, the newest first
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from typing import Any, Final, TypedDict

from ...topics.errors import UsageError
from ...topics.objects.changes import ChangeKind
from ...topics.topic import NAMESPACE
from ...topics.wire.messages.data import ORIGINS, Source
from ..terminal.lists import ID_CHARS_MIN, NOTHING, Heading, Record, short
from ..terminal.schemas import Iso

EVENTS, REPORTS, ORDERS = (ORIGINS[one] for one in (Source.EVENTS, Source.REPORTS, Source.ORDERS))
FIRST_READ: Final = "first read"
OTHERS: Final = {
    ORIGINS[Source.LOAD]: FIRST_READ,
    ORIGINS[Source.CATCH_UP]: "a hub's catch-up",
    ORIGINS[Source.RECONCILIATION]: "no event: it differed from the metastore",
}
UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
SPAN: Final = re.compile(r"(\d{1,6})([smhd])")
PARTS: Final = (ChangeKind.LOADED, ChangeKind.UNLOADED)  # these come once for each part of a table
WHOLE: Final = (ChangeKind.CREATED, ChangeKind.DROPPED)  # every property differs
ARROW: Final = " -> "
FOLLOWS: Final = re.compile(
    r"parameter (spark\.sql\.sources\.schema|transient_lastDdlTime)|columns$"
)
"""Properties that Spark and Hive change with each column: only -o json shows them."""
_TIME: Final = Heading(name="time", rank=0, text=lambda text: text.replace("T", " ")[5:19])
HISTORY: Final = (
    *(_TIME, Heading(name="kind", title="change", rank=0)),
    *(Heading(name="by"), Heading(name="what", rank=1, prose=True)),
    *(Heading(name="object", wide=True), Heading(name="version", wide=True)),
)
LOG: Final = (
    *(_TIME, Heading(name="object", rank=0), Heading(name="kind", title="change", rank=0)),
    *(Heading(name="by", rank=1, prose=True), Heading(name="version", wide=True)),
)


class HistoryRow(TypedDict):
    """A change of an object, or an order, and who caused it: ``by`` in words, the rest in parts.

    ``version``: of ``topic``, after the change; null: it is an order. The change came from the
    events of the metastore after ``event_before``, up to ``event_after``.
    """

    time: Iso
    object: str
    kind: str
    origin: str
    by: str
    topic: int | None
    version: int | None
    event_before: int | None
    event_after: int | None
    driver: str | None
    application: str | None
    user: str | None
    order_by: str | None


class TableChange(HistoryRow):
    """A change of a table or a partition, with the properties that differ, before and after."""

    before: str | None
    after: str | None


def since(text: str, *, now: float) -> int:
    """Return the time that ``text`` names, as ``10m`` or by ISO 8601, in microseconds since 1970.

    Raises:
        UsageError: it is neither.
    """
    if found := SPAN.fullmatch(text.strip().lower()):
        return int((now - int(found[1]) * UNITS_S[found[2]]) * 1e6)
    try:
        at = datetime.fromisoformat(text.strip().upper().replace("Z", "+00:00"))
    except ValueError as error:
        raise UsageError(
            f"--since {text}: write how long ago, as 30s, 10m, 2h or 1d, or a time as "
            "2026-11-26T08:00:00Z"
        ) from error
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return int(at.timestamp() * 1e6)


def utc(at_us: int) -> str:
    """Return a time in microseconds since 1970 as text of ISO 8601."""
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_us // 1_000_000))
    return f"{text}.{at_us // 1000 % 1000:03}Z"


def records_of(
    lines: Sequence[Mapping[str, Any]], drivers: Iterable[Mapping[str, Any]]
) -> list[Record]:
    """Return a record for each of ``lines`` of the log, which begin with the newest.

    ``drivers``: the facts that hubs have about drivers, for the names of those that report writes.
    """
    writers = {one["writer"]: one for one in drivers if one.get("writer")}
    return [_record(line, lines[at:], writers) for at, line in enumerate(lines)]


def joined(rows: Iterable[Mapping[str, Any]], log: Sequence[Record]) -> list[Record]:
    """Return a record for each row of a table's history, with its cause as ``log`` names it."""
    causes = {one["version"]: one for one in reversed(log) if is_of_content(one)}
    return [_with_cause(row, causes.get(row["version"])) for row in rows]


def is_of_content(record: Mapping[str, Any]) -> bool:
    """Return whether a record of the log is a change in a table's topic, not in the namespace."""
    return bool(record["version"]) and record["topic"] != NAMESPACE


def about(records: Iterable[Record], pattern: str) -> list[Record]:
    """Return the records of matching objects, of the objects in them, and of orders about them."""
    wanted = pattern.lower()

    def names(one: Record) -> bool:
        name = str(one["object"]).partition(" ")[0]
        return fnmatchcase(name, wanted) or name.startswith((f"{wanted}.", f"{wanted}/"))

    return [one for one in records if not wanted or names(one)]


def by(
    records: Iterable[Record], text: str, drivers: Iterable[Mapping[str, Any]] = ()
) -> list[Record]:
    """Return the records that an application, a user or an origin with this name caused.

    ``drivers``: the facts that hubs have about drivers, for the ids by which drivers are listed.
    """
    wanted = text.lower()
    names = ("by", "application", "user", "origin", "driver")
    writers = {one["writer"] for one in drivers if one.get("writer") and _is_called(one, wanted)}

    def is_meant(one: Record) -> bool:
        said = any(wanted in str(one.get(name) or "").lower() for name in names)
        return said or one.get("driver") in writers

    return [one for one in records if is_meant(one)]


def _is_called(driver: Mapping[str, Any], wanted: str) -> bool:
    registration = str(driver.get("registration") or "")
    is_id = len(wanted) >= ID_CHARS_MIN and registration.startswith(wanted)
    return is_id or wanted == str(driver.get("application_id") or "").lower()


def once(records: Iterable[Record]) -> list[Record]:
    """Return ``records`` with equal loads in a row only once: large tables load in parts."""
    found: list[Record] = []
    for one in records:
        same = ("object", "kind", "by")
        is_again = one["kind"] in PARTS and found and all(one[n] == found[-1][n] for n in same)
        if not is_again:
            found.append(one)
    return found


def _record(
    line: Mapping[str, Any],
    before: Sequence[Mapping[str, Any]],
    writers: Mapping[str, Mapping[str, Any]],
) -> Record:
    driver = writers.get(line.get("driver") or "", {})
    who = line["who"] or (_ordered_by(line, before) if line["source"] == ORDERS else None)
    found: Record = {
        "time": utc(line["time_us"]),
        "object": line["object"],
        "kind": line["change"],
        "origin": line["source"],
        "by": "",
        "topic": line["topic"],
        "version": line["version_after"],
        "event_before": line["event_before"],
        "event_after": line["event_after"],
        "driver": line.get("driver"),
        "application": driver.get("application"),
        "user": driver.get("user"),
        "order_by": who,
    }
    return {**found, "by": _by(found, is_load=found["kind"] == ChangeKind.LOADED)}


def _with_cause(row: Mapping[str, Any], cause: Record | None) -> Record:
    names = ("topic", "event_before", "event_after", "driver", "application", "user", "order_by")
    found: Record = {
        "time": utc(row["time_us"]),
        "object": row["object"],
        "kind": row["change"],
        "origin": row["source"],
        "by": "",
        "version": row["version"],
        "before": row["before"],
        "after": row["after"],
        **{name: None if cause is None else cause[name] for name in names},
    }
    return {
        **found,
        "by": _by(found, is_load=cause is not None and cause["kind"] == ChangeKind.LOADED),
    }


def shown(records: Iterable[Record]) -> list[Record]:
    """Return the records with the partition and the differences in one text."""
    return [{**one, "what": ": ".join(filter(None, _where_and_what(one)))} for one in records]


def what(record: Mapping[str, Any]) -> str:
    """Return each property that differs, with both values, but not those that follow from others.

    The text is empty if the object was created or dropped, or if only the log has the change.
    """
    if record["kind"] in WHOLE:
        return ""
    old, new = (_properties(record.get(name) or "") for name in ("before", "after"))
    names = dict.fromkeys((*old, *new))
    own = [name for name in names if not FOLLOWS.match(name)]
    return "; ".join(
        f"{name} {old.get(name) or NOTHING}{ARROW}{new.get(name) or NOTHING}"
        for name in own or names
    )


def _where_and_what(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["object"].partition("/")[2], what(record)


def _properties(text: str) -> dict[str, str]:
    """Return the values by name in a text such as ``column a=int; parameter p=1``."""
    pairs = (one.partition("=") for one in text.split("; ") if one)
    return {name: value for name, _, value in pairs}


def _by(record: Mapping[str, Any], *, is_load: bool) -> str:
    """Return the cause of a change in words: an event, a driver, an operator, a first read.

    ``is_load``: content was read; without an event this is the first read of the object.
    """
    origin = record["origin"]
    if origin == EVENTS:
        events = _events(record["event_before"], record["event_after"])
        return events or (FIRST_READ if is_load else EVENTS)
    if origin == REPORTS:
        return "driver " + _driver(record)
    if origin == ORDERS:
        return str(record["order_by"] or "an order")
    return OTHERS.get(origin, str(origin))


def _events(before: int | None, after: int | None) -> str:
    """Return the events that may have caused a change: those of one poll are published together."""
    if before is None or after is None or after <= before:
        return ""
    return f"event {after}" if after == before + 1 else f"events {before + 1}-{after}"


def _driver(record: Mapping[str, Any]) -> str:
    if record["application"]:
        return f"{record['application']}" + (f" ({record['user']})" if record["user"] else "")
    return short(record["driver"] or "unknown")


def _ordered_by(line: Mapping[str, Any], before: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the sender of the last order about the object of ``line`` before that line."""
    return next((str(one["who"]) for one in _orders(before) if _covers(one, line)), None)


def _orders(lines: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (one for one in lines if one["who"])


def _covers(order: Mapping[str, Any], line: Mapping[str, Any]) -> bool:
    given, name = str(order["object"]).partition(" ")[0], str(line["object"])
    return given in ("", name) or name.startswith((f"{given}.", f"{given}/"))
