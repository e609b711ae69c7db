"""Audit: compares metastore, hubs and a subscriber with catalogd's store, object by object.

metastore ──tasks of Spark──┐
hub ────────────────────────┼──▶ catalogd's store ──▶ what differs ──repaired──▶ compared again
subscriber ─────────────────┘
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from ..subscriber.client.subscriber import Subscriber
from ..topics.errors import ConfigError, LinkError, NotReady, SourceError, SourceRefused
from ..topics.flags import flag, option
from ..topics.keys.folder import DRIVER, find_credential
from ..topics.objects.names import table_pattern
from ..topics.settings import BLACKLISTED_DBS_DEFAULT, parse_names
from .catalog import catalog_at
from .comparison.hubs import HubSide
from .comparison.metastores import MetastoreSide
from .comparison.report import AuditReport
from .comparison.selection import ObjectSelection
from .comparison.subscribers import SubscriberSide
from .comparison.tables import MakeMetastore
from .comparison.verdict import HUB, METASTORE, SIDES, SUBSCRIBER, SideResult
from .datasource.options import read_options
from .datasource.planning import planning
from .options import RunOptions, argument, called_with
from .progress import OnProgress, RunProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S: Final = 30.0  # of a call of the subscriber: longer than a restart of its hub

Repair = Callable[[str, str], None]
"""Mends what a side (the first argument) has of a database or table (the second)."""


class Side(Protocol):
    """A side, whose content the audit compares with catalogd's store."""

    name: str

    def compare(self, wanted: ObjectSelection, on_progress: OnProgress) -> SideResult:
        """Compare the objects of ``wanted``."""


@dataclass(frozen=True, slots=True)
class AuditOptions(RunOptions):
    """The options of an audit."""

    pattern: str = option(
        "A database, or a pattern of full names such as 'sales.*'. A database is compared, too, if "
        "a table of it can match.",
        default="*",
    )
    _: KW_ONLY
    sides: str = flag(
        "The sides that are compared with catalogd's store, separated by commas.",
        default=",".join(SIDES),
    )
    blacklisted_dbs: str = flag(
        "Databases that catalogd leaves out, separated by commas.", default=BLACKLISTED_DBS_DEFAULT
    )
    statestores: str | None = flag(
        "Addresses of statestoreds, separated by commas; each of these hubs is compared.",
        default=None,
        metavar="ADDRESSES",
    )
    budget: str = flag(
        "Memory of the subscriber that is compared; its largest topic has to fit.", default="256MB"
    )
    metastore: MakeMetastore | None = argument(
        "Makes a connection to the metastore that catalogd follows, in any process.", default=None
    )
    repair: Repair | None = argument(
        "Is called with a side and a database or table that differs there, for each of them; then "
        "they are compared again.",
        default=None,
    )

    def __post_init__(self) -> None:
        """Check values, the pattern, and the names of the sides."""
        RunOptions.__post_init__(self)
        table_pattern(self.pattern)
        named = parse_names(self.sides)
        if not named or not set(named).issubset(SIDES):
            raise ConfigError("sides", self.sides, f"some of {', '.join(SIDES)}")

    @property
    def compared(self) -> tuple[str, ...]:
        """The sides, in the order of SIDES."""
        return tuple(side for side in SIDES if side in parse_names(self.sides))


@called_with(AuditOptions)
def audit(spark: "SparkSession", options: AuditOptions) -> AuditReport:
    """Compare the metastore, hubs and a subscriber with catalogd's store; return what differs.

    Databases, tables and partitions are compared in every field that the metastore returns, but a
    table that catalogd has not loaded only by its name. Each hub is compared by its entries, and
    the subscriber by the results of its public methods. ``spark``: a session with a JVM, whose
    Python has this package.

    Raises:
        ConfigError: there is no such side, or the metastore is one and ``metastore`` is missing.
        LinkError: no hub, no catalogd or no metastore answers, or catalogd does not reach the
            metastore.
        SourceRefused: the metastore does not list its databases or tables.

    Cost: memory of the driver for the names of all tables, for their differences, and for what a
    hub or the subscriber holds of one topic.
    """
    began = time.monotonic()
    sides, metastore, key_file = options.compared, options.metastore, options.key_file
    if METASTORE in sides and metastore is None:
        raise ConfigError("metastore", None, "how it is reached, or sides without it")
    credential = find_credential(DRIVER, key_file=key_file, environ=os.environ)
    source = read_options(
        {"statestores": options.hubs, "tables": options.pattern, "keyFile": key_file}
    )
    wanted = ObjectSelection(source.tables)
    report = AuditReport(
        pattern=options.pattern,
        sides=sides,
        dry_run=options.dry_run,
        limited_to=str(credential.policy or ""),
    )
    with ExitStack() as stack:
        stack.enter_context(_metastore_reached())
        catalog = stack.enter_context(
            catalog_at(options, budget=options.budget, timeout_s=TIMEOUT_S)
        )
        planner = stack.enter_context(planning(source))
        compared: list[Side] = []
        if METASTORE in sides and metastore is not None:
            given = MetastoreSide(
                spark,
                catalog,
                stack.enter_context(closing(metastore())),
                make_metastore=metastore,
                planner=planner,
                options=source,
                left_out=parse_names(options.blacklisted_dbs),
                policy=credential.policy,
            )
            compared.append(given)
        if HUB in sides:
            addresses = source.statestores
            compared += [HubSide(one, credential, planner=planner) for one in addresses]
        if SUBSCRIBER in sides:
            compared.append(SubscriberSide(catalog, planner=planner))
        if options.dry_run:
            report.databases, report.tables = _counts(catalog, wanted)
        else:
            stack.enter_context(_answered())
            report.snapshot_version = str(planner.snapshot_version())
            _compare(compared, wanted, report, options=options)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def _compare(
    sides: Collection[Side],
    wanted: ObjectSelection,
    report: AuditReport,
    *,
    options: AuditOptions,
) -> None:
    """Compare each of ``sides``, repair what differs, and note all results in ``report``."""
    on_progress, repair = options.on_progress, options.repair
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
    """Return how many databases and tables of ``wanted`` catalogd has."""
    databases = [db for db in catalog.databases() if wanted.has((db, ""))]
    tables = (wanted.has((db, name)) for db in databases for name in catalog.tables(db))
    return len(databases), sum(tables)


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
    """Raise LinkError, which also says that a server is not reached, if a server falls silent."""
    try:
        yield
    except NotReady as error:
        raise LinkError(f"the comparison has ended: {error}") from error
