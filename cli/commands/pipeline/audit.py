"""The command ``topicast pipeline audit``."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ....pipeline.audit import AuditOptions
from ....pipeline.audit import audit as compare
from ....pipeline.comparison.report import AuditReport
from ....pipeline.comparison.verdict import METASTORE
from ....topics.errors import NoSuchObject
from ....topics.flags import flag, option
from ....topics.settings import parse_addresses
from ....topics.wire.messages.questions import ReadStatus
from ...client.operator import Operator, facts_of, ordered
from .frame import Frame, pipeline_command, run_pipeline

if TYPE_CHECKING:
    from ....catalog.metastore.hive_site import MetastoreFlags

ORDER_S: Final = 600.0  # enough to read a database of 100,000 tables again


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFrame(Frame):
    """How the metastore is reached, and whether differences are repaired."""

    hive_metastore_uris: str | None = flag(
        "URIs of the metastore that catalogd follows.",
        default=None,
        shown="that of --hive_site, else of Spark's configuration, else catalogd's",
        metavar="URIS",
    )
    hive_site: Path | None = flag(
        "Hive's settings of the metastore's clients, hive-site.xml; executors read it, too.",
        default=None,
    )
    repair: bool = option(
        "Have catalogd read differing objects again, or send them again.", default=False
    )


@pipeline_command(
    AuditOptions,
    lambda: {"": AuditReport},
    frame=AuditFrame,
    short_help="Compare metastore, hubs and a subscriber with catalogd's store.",
)
def audit(options: AuditOptions, frame: AuditFrame) -> int:
    """Compare the metastore, every hub and a subscriber with the content of catalogd's store.

    An object that differs at the metastore or a subscriber is compared again after catalogd has
    caught up. Differences that remain are shown, and the exit code is 1. --repair needs an
    operator's key.
    """
    from ....catalog.metastore.hive_site import MetastoreFlags, metastore_client
    from ....catalog.metastore.hms import connection

    flags = MetastoreFlags(hive_metastore_uris=frame.hive_metastore_uris, hive_site=frame.hive_site)
    if METASTORE in options.compared:
        metastore_client(flags)  # wrong settings end the command before Spark starts
    if frame.repair and not options.dry_run:
        options = replace(options, repair=partial(mended, statestores=options.hubs))

    def run(spark: Any, **given: Any) -> AuditReport:
        if METASTORE in options.compared:
            given["metastore"] = partial(connection, named(flags, spark, options.hubs))
        return compare(spark, **given)

    return run_pipeline("audit", run, options, frame=frame, metastore=False)


def named(flags: "MetastoreFlags", spark: Any, statestores: str) -> "MetastoreFlags":
    """Return ``flags`` with the metastore of Spark's configuration if they name none.

    If Spark's configuration names none either, take the metastore that catalogd follows.

    Raises:
        LinkError: catalogd is needed for this, and does not answer.
    """
    if flags.hive_metastore_uris is not None or flags.hive_site is not None:
        return flags
    from ....pipeline.session import metastore_uris

    uris = metastore_uris(spark)
    if not uris:
        with Operator(parse_addresses(statestores, setting="statestores")) as visit:
            uris = facts_of(visit.catalog(ReadStatus())).get("metastore") or ""
    return replace(flags, hive_metastore_uris=uris or None)


def mended(side: str, name: str, *, statestores: str) -> None:
    """Have catalogd mend the database or table ``name``, which differs on ``side``; wait for it.

    If it differs at the metastore, catalogd reads it again; for a table that catalogd does not
    know, it reads the database. A table that differs at a hub or a subscriber gets a new version,
    so that it is sent once more, or deleted there. For a database there is no such order.
    """
    where: dict[str, Any] = {"statestores": statestores, "timeout_s": ORDER_S}
    db, _, table = name.partition(".")
    if side == METASTORE:
        try:
            ordered("refresh", (name,), **where)
        except NoSuchObject:
            ordered("refresh", (db,), **where)
    elif table:
        with suppress(NoSuchObject):
            ordered("invalidate", (name,), **where)
            ordered("refresh", (name,), **where)
