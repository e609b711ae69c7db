"""Audit: compares metastore, hubs and a subscriber with catalogd's store, object by object.

metastore ──tasks of Spark──┐
hub ────────────────────────┼──▶ catalogd's store ──▶ what differs ──repaired──▶ compared again
subscriber ─────────────────┘
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from ..subscriber.client.subscriber import Subscriber
from ..topics.errors import ConfigError, LinkError, NotReady, SourceError, SourceRefused
from ..topics.keys.folder import DRIVER, find_credential
from ..topics.objects.names import table_pattern
from ..topics.settings import BLACKLISTED_DBS_DEFAULT, parse_addresses
from .catalog import catalog_at
from .comparison.hubs import HubSide
from .comparison.metastores import MetastoreSide
from .comparison.report import AuditReport
from .comparison.selection import ObjectSelection
from .comparison.subscribers import SubscriberSide
from .comparison.tables import MakeMetastore
from .comparison.verdict import HUB, METASTORE, SIDES, SUBSCRIBER, SideResult
from .datasource.options import SourceOptions, hubs_of
from .datasource.planning import planning
from .datasource.views import TABLES
from .progress import OnProgress, RunProgress, ignore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUDGET: Final = "256MB"
TIMEOUT_S: Final = 30.0  # of a call of the subscriber: a restart of its hub is waited for
LEFT_OUT: Final = tuple(BLACKLISTED_DBS_DEFAULT.split(","))

Repair = Callable[[str, str], None]
"""Has mended, when it returns, what a side (the first) has of a database or table (the second)."""


class Side(Protocol):
    """What is compared with catalogd's store."""

    name: str

    def compare(self, wanted: ObjectSelection, on_progress: OnProgress) -> SideResult:
        """Compare what is ``wanted``."""


def audit(
    spark: SparkSession,
    pattern: str = "*",
    *,
    metastore: MakeMetastore | None = None,
    sides: Collection[str] = SIDES,
    repair: Repair | None = None,
    left_out: Collection[str] = LEFT_OUT,
    dry_run: bool = False,
    statestores: str | None = None,
    key_file: str | None = None,
    budget: str = BUDGET,
    on_progress: OnProgress = ignore,
) -> AuditReport:
    """Compare the metastore, hubs and a subscriber with catalogd's store; return what differs.

    Databases, tables and partitions are compared with every field that the metastore returns. A
    table that catalogd has not loaded is compared by name only. A hub is compared by its entries,
    a subscriber by the results of its public methods.

    Args:
        spark: A session whose Python has this package, with a JVM.
        pattern: Of full names, as ``sales.*``; databases with a table of such a name count.
        metastore: Makes a connection to the metastore that catalogd follows, in any process.
        sides: What is compared with catalogd's store, some of SIDES.
        repair: Is called with each side and database or table that differs; these are then compared
            again.
        left_out: The databases that catalogd leaves out (its ``--blacklisted_dbs``).
        dry_run: Compare nothing; return how many objects would be.
        statestores: Addresses of hubs, all of which are compared; else TOPICAST_STATESTORES, else
            this machine's.
        key_file: A driver's key file; found as every driver finds it.
        budget: The subscriber's, which holds one topic at a time.
        on_progress: Is called after each round, and at each topic.

    Raises:
        ConfigError: there is no such side, or no metastore where it is to be compared.
        LinkError: no hub, no catalogd or no metastore answers, or catalogd does not reach it.
        SourceRefused: the metastore does not list its databases or tables.

    Cost: on the driver the names of all tables, what differs of them, and of one topic what a hub
    or a subscriber holds.
    """
    began = time.monotonic()
    sides = checked_sides(sides)
    if METASTORE in sides and metastore is None:
        raise ConfigError("metastore", None, "how it is reached, or sides without it")
    credential = find_credential(DRIVER, key_file=key_file, environ=os.environ)
    hubs = hubs_of(statestores, os.environ)
    options = SourceOptions(
        view=TABLES.name,
        statestores=parse_addresses(hubs, setting="statestores"),
        tables=table_pattern(pattern),
        key_file=key_file,
    )
    wanted = ObjectSelection(options.tables)
    report = AuditReport(
        pattern=pattern,
        sides=sides,
        dry_run=dry_run,
        limited_to=str(credential.policy or ""),
    )
    with ExitStack() as stack:
        stack.enter_context(_metastore_reached())
        catalog = stack.enter_context(
            catalog_at(hubs, budget=budget, timeout_s=TIMEOUT_S, key_file=key_file)
        )
        planner = stack.enter_context(planning(options))
        compared: list[Side] = []
        if METASTORE in sides and metastore is not None:
            given = MetastoreSide(
                spark,
                catalog,
                stack.enter_context(closing(metastore())),
                make_metastore=metastore,
                planner=planner,
                options=options,
                left_out=left_out,
                policy=credential.policy,
            )
            compared.append(given)
        if HUB in sides:
            addresses = options.statestores
            compared += [HubSide(one, credential, planner=planner) for one in addresses]
        if SUBSCRIBER in sides:
            compared.append(SubscriberSide(catalog, planner=planner))
        if dry_run:
            report.databases, report.tables = _counts(catalog, wanted)
        else:
            stack.enter_context(_answered())
            report.snapshot_version = str(planner.snapshot_version())
            _compare(compared, wanted, report, repair=repair, on_progress=on_progress)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def _compare(
    sides: Collection[Side],
    wanted: ObjectSelection,
    report: AuditReport,
    *,
    repair: Repair | None,
    on_progress: OnProgress,
) -> None:
    """Compare each of ``sides``, repair what differs, and note all results in ``report``."""
    found = {side.name: side.compare(wanted, on_progress) for side in sides}
    for one in found.values():
        report.add(one)
    wrong = {name for one in found.values() for name in one.differing}
    if repair is not None and wrong:
        report.repaired = True
        for side in sides:
            names = sorted(found[side.name].differing)
            _repair(side.name, names, repair, on_progress=on_progress)
        doubtful = {name for one in found.values() for name in one.unreadable}
        again = replace(wanted, only=frozenset(wrong | doubtful))
        for side in sides:
            unread = found[side.name].unread
            found[side.name] = side.compare(again, on_progress)
            found[side.name].unread |= unread
        report.mended = sorted(wrong - {name for one in found.values() for name in one.differing})
    report.note(found.values())
    failing = len({name for one in found.values() for name in one.differing})
    tables = max((one.tables for one in found.values()), default=0)
    on_progress(RunProgress(step="compared", done=tables, left=0, failing=failing))


def _repair(side: str, names: Sequence[str], repair: Repair, *, on_progress: OnProgress) -> None:
    for done, name in enumerate(names):
        step = f"repair what differs on the {side}"
        on_progress(RunProgress(step=step, done=done, left=len(names) - done, detail=name))
        repair(side, name)


def _counts(catalog: Subscriber, wanted: ObjectSelection) -> tuple[int, int]:
    """Return how many databases and tables catalogd has of what is ``wanted``."""
    databases = [db for db in catalog.databases() if wanted.has((db, ""))]
    tables = (wanted.has((db, name)) for db in databases for name in catalog.tables(db))
    return len(databases), sum(tables)


def checked_sides(given: Iterable[str]) -> tuple[str, ...]:
    """Return the ``given`` sides in the order of SIDES; raises ConfigError for an unknown side."""
    named = set(given)
    if not named or not named.issubset(SIDES):
        raise ConfigError("sides", ",".join(sorted(named)), f"some of {', '.join(SIDES)}")
    return tuple(side for side in SIDES if side in named)


@contextmanager
def _metastore_reached() -> Iterator[None]:
    """Raise LinkError if the metastore does not answer, here or to catalogd."""
    try:
        yield
    except SourceRefused:
        raise
    except SourceError as error:
        raise LinkError(f"the comparison has ended: {error}") from error


@contextmanager
def _answered() -> Iterator[None]:
    """Raise LinkError, as for a server that is not reached, if a server stops answering."""
    try:
        yield
    except NotReady as error:
        raise LinkError(f"the comparison has ended: {error}") from error
