"""Metastore: checks of the metastore that a catalogd with these settings would follow."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from ...catalog.ingest.events.poller import LISTENER_SETTING
from ...catalog.metastore.addresses import Addresses
from ...catalog.metastore.hive_site import MetastoreClient
from ...catalog.metastore.port import untried
from ...topics.errors import SourceError
from ...topics.objects.encoding.thrift import fields, read_int
from .checks import Answer, ok, warning, wrong
from .servers import SET_CLOCKS

if TYPE_CHECKING:
    from ...catalog.metastore.hms import Hms

EVENTS_MAX: Final = 1
TABLES_MAX: Final = 500  # that are read; 100 in a call
TABLES_OF_DATABASE_MAX: Final = 100
APART_S: Final = 5.0  # of the clocks of two servers of one metastore
KEPT_S: Final = 3600.0  # as a rule metastores keep events for a day, hardly ever for less than this
LOOK_AT: Final = (
    "start it there, or correct catalogd's flags for its address and login: "
    "--hive_site=/etc/hive/conf/hive-site.xml, or --hive_metastore_uris and --hive_metastore_auth"
)
WATCH: Final = (
    "watch the events that are not understood (topicast status), and compare what is held with the "
    "metastore (topicast pipeline audit)"
)
CREATED: Final = 4  # its field in the Thrift struct of a table


DML: Final = "metastore.dml.events"
TIME_TO_LIVE: Final = "metastore.event.db.listener.timetolive"
FACTORY: Final = "metastore.event.message.factory"
EXCLUDED: Final = "metastore.notification.parameters.exclude.patterns"
KEPT_S_MIN: Final = 6 * 3600.0  # a night
FORMATS: Final = ("JSONMessage", "GzipJSONMessage")  # in the names of its classes
TIME: Final = re.compile(r"(\d+)\s*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)?")
UNITS: Final = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
Doubt = tuple[str, str] | None
"""Why a setting is not as it should be, and what to do; None: it is as it should be."""


class MetastoreChecks:
    """One metastore; each check makes a connection of its own."""

    def __init__(self) -> None:
        self.client: MetastoreClient | None = None  # set once the settings are read
        self._event_s = 0.0  # when the newest event was recorded, by the metastore's clock

    def reachable(self) -> Answer:
        """List the databases, and check whether Topicast was tried with the metastore's release."""
        try:
            with self._connected() as hms:
                databases, release = len(hms.databases()), hms.release()
        except SourceError as error:
            return wrong(str(error), LOOK_AT)
        name = f"Hive {release}, " if release else ""
        found = f"{self._uris()}: {name}{databases} databases"
        doubt = untried(release)
        return warning(f"{found}; {doubt}", WATCH) if doubt else ok(found)

    def events_on(self) -> Answer:
        """Check whether a listener records events."""
        with self._connected() as hms:
            records = hms.records_events()
        if records is False:
            return wrong("the metastore records no events, so no change arrives", LISTENER_SETTING)
        if records is None:
            return warning("the metastore does not say whether it records events", LISTENER_SETTING)
        return ok("a listener records events")

    def event_settings(self) -> Answer:
        """Check the settings by which events are recorded, kept and written."""
        with self._connected() as hms:
            found = {name: hms.setting(f"hive.{name}", name) for name in EVENT_SETTINGS}
        return judged(found)

    def rights(self) -> Answer:
        """Read the newest event, and look for a table that was created after it.

        Raises:
            SourceError: this user may not read events; says how to allow it.
        """
        with self._connected() as hms:
            newest = hms.current_event_id()
            events = hms.events_after(max(newest - 1, 0), events_max=EVENTS_MAX)
            table, created_s = _newest_table(hms)
        event_s = events[-1].at_s if events else time.time() - KEPT_S
        self._event_s = event_s
        if created_s > event_s + APART_S:
            event = f"{newest}, of {_utc(event_s)}" if events else f"{newest}, is no longer kept"
            return wrong(
                f"the id does not move: table {table} was created at {_utc(created_s)}, and the "
                f"newest event, {event}",
                f"{LISTENER_SETTING}, and so on each server of this metastore; then create a "
                "table: the id must grow",
            )
        if newest == 0:
            return warning(
                "the notification API answers; no event was ever recorded",
                "create a table, and look whether the id grows",
            )
        of = f", of {_utc(event_s)}" if events else ""
        return ok(f"the notification API answers; the newest event is {newest}{of}")

    def clocks(self) -> Answer:
        """Compare this machine's clock with the time of the newest event.

        If this clock is behind the metastore's, that shows only after a recent event. If it is
        ahead, that looks like a metastore without changes.
        """
        behind_s = self._event_s - time.time()
        if behind_s > APART_S:
            return wrong(
                f"the newest event was recorded {behind_s:.0f} s after what is now on this machine",
                SET_CLOCKS,
            )
        return ok("this machine's clock is not behind the time of the newest event")

    def _uris(self) -> str:
        assert self.client is not None, "the settings were read"
        return self.client.uris

    def _connected(self) -> "closing[Hms]":
        from ...catalog.metastore.hms import Hms

        assert self.client is not None, "the settings were read"
        addresses = Addresses(self.client.uris, tls=self.client.tls, login=self.client.login)
        return closing(Hms(addresses, timeout_s=self.client.timeout_s))


def judged(found: Mapping[str, str | None]) -> Answer:
    """Return what the metastore's settings mean for events.

    ``found``: values by the names of EVENT_SETTINGS; empty: not set; None: it does not say.
    """
    doubts = [doubt for name, judge in EVENT_SETTINGS.items() if (doubt := judge(found.get(name)))]
    if doubts:
        return warning("; ".join(what for what, _ in doubts), "; ".join(do for _, do in doubts))
    said = sum(one is not None for one in found.values())
    if not said:
        return ok("the metastore does not say how events are recorded")
    return ok("writes are recorded, events are kept long enough, and their format is known")


def _dml(value: str | None) -> Doubt:
    if value is None or value.lower() == "true":
        return None
    return (
        (
            f"{DML}={value or 'false'}: a write of Hive into files of a table that exists "
            "leaves no event"
        ),
        f"set hive.{DML}=true in the hive-site.xml of the metastore and of its clients",
    )


def _time_to_live(value: str | None) -> Doubt:
    kept_s = _seconds(value or "")
    if kept_s is None or kept_s >= KEPT_S_MIN:
        return None
    return (
        (
            f"events are kept for {value} ({TIME_TO_LIVE}): a catalogd that is away for longer "
            "reads everything again"
        ),
        f"set hive.{TIME_TO_LIVE}=86400s",
    )


def _format(value: str | None) -> Doubt:
    if not value or any(known in value for known in FORMATS):
        return None
    return (
        f"{FACTORY}={value} is not known here: what an event names is read again whole",
        f"set hive.{FACTORY} to the one of the metastore's release, in JSON",
    )


def _excluded(value: str | None) -> Doubt:
    if not value:
        return None
    return (
        (
            f"{EXCLUDED}={value}: events lack the parameters that match, so a change of them alone "
            "may look like a write, and impala.disableHmsSync may not be seen"
        ),
        f"leave hive.{EXCLUDED} empty, or let it match neither",
    )


def _seconds(text: str) -> float | None:
    """Return the seconds of a time as Hive writes it, such as 86400s or 1d; None: it is none."""
    match = TIME.fullmatch(text.strip().lower())
    return None if match is None else float(match[1]) * UNITS[match[2] or "s"]


def _newest_table(hms: "Hms") -> tuple[str, int]:
    """Return the newest of some tables, and when it was created, by the metastore's clock.

    It reads TABLES_MAX tables at most, the first tables of each database. Without a table the name
    is empty, and the time 0.
    """
    created, left = {"": 0}, TABLES_MAX
    for db in hms.databases():
        names = hms.names(db)[: min(left, TABLES_OF_DATABASE_MAX)]
        for name, struct in hms.tables(db, names).items():
            times = [read_int(struct, one) for one in fields(struct) if one.id == CREATED]
            created[f"{db}.{name}"] = max(times, default=0)
        left -= max(len(names), 1)
        if left <= 0:
            break
    return max(created.items(), key=itemgetter(1))


def _utc(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_s))


EVENT_SETTINGS: Final[Mapping[str, Callable[[str | None], Doubt]]] = {
    DML: _dml,
    TIME_TO_LIVE: _time_to_live,
    FACTORY: _format,
    EXCLUDED: _excluded,
}
"""The settings of the metastore that are checked, and the function that judges each."""
