"""The command ``topicast pipeline audit``."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ....pipeline.comparison.verdict import METASTORE, SIDES
from ....topics.errors import NoSuchObject
from ....topics.settings import BLACKLISTED_DBS_DEFAULT, parse_addresses
from ....topics.wire.messages.questions import ReadStatus
from ...client.operator import Operator, facts_of, ordered
from ...options.flags import Documents, PathName, command, option, prints
from .frame import PIPELINE_OPTIONS, Frame, run_pipeline

if TYPE_CHECKING:
    from ....catalog.metastore.hive_site import MetastoreFlags

ORDER_S: Final = 600.0  # a database of 100,000 tables is read again within it


def _documents() -> Documents:
    from ....pipeline.comparison.report import AuditReport

    return {"": AuditReport}


@command(short_help="Compare metastore, hubs and a subscriber with catalogd's store.")
@click.argument("pattern", default="*")
@option(
    "hive_metastore_uris",
    metavar="URIS",
    help="The metastore, as catalogd has it.",
    show_default="that of --hive_site, else of Spark's configuration, else catalogd's",
)
@option(
    "hive_site",
    type=PathName(),
    help="Hive's settings of the metastore's clients, hive-site.xml; executors read it, too.",
)
@option(
    "blacklisted_dbs",
    default=BLACKLISTED_DBS_DEFAULT,
    help="Databases that catalogd leaves out, separated by commas.",
)
@option(
    "sides",
    default=",".join(SIDES),
    help="What is compared with catalogd's store, separated by commas.",
)
@option("budget", default="256MB", help="Memory of the subscriber; one topic has to fit.")
@click.option(
    "--repair", is_flag=True, help="Have catalogd read again what differs, or send it again."
)
@PIPELINE_OPTIONS
@prints(_documents)
def audit(
    pattern: str,
    *,
    hive_metastore_uris: str | None,
    hive_site: Path | None,
    blacklisted_dbs: str,
    sides: str,
    budget: str,
    repair: bool,
    **given: Any,
) -> int:
    """Compare the metastore, every hub and a subscriber with what catalogd's store holds.

    PATTERN is a database, or a pattern of full names such as 'sales.*' (default: everything). What
    the metastore or a subscriber has otherwise is compared again after catalogd has caught up; what
    differs still is shown, and the exit code is 1. --repair needs an operator's key.
    """
    from ....catalog.metastore.hive_site import MetastoreFlags, metastore_client
    from ....catalog.metastore.hms import connection
    from ....pipeline.audit import audit as compare
    from ....pipeline.audit import checked_sides

    frame = Frame(**given)
    names = checked_sides(side.strip().lower() for side in sides.split(","))
    flags = MetastoreFlags(hive_metastore_uris=hive_metastore_uris, hive_site=hive_site)
    if METASTORE in names:
        metastore_client(flags)  # wrong settings end the command before Spark starts
    mend = partial(mended, statestores=frame.statestores)
    return run_pipeline(
        "audit",
        lambda spark, on_progress: compare(
            spark,
            pattern,
            metastore=(
                partial(connection, named(flags, spark, frame.statestores))
                if METASTORE in names
                else None
            ),
            sides=names,
            repair=mend if repair and not frame.dry_run else None,
            left_out=[db.strip().lower() for db in blacklisted_dbs.split(",")],
            dry_run=frame.dry_run,
            statestores=frame.statestores,
            budget=budget,
            on_progress=on_progress,
        ),
        frame,
        metastore=False,
    )


def named(flags: "MetastoreFlags", spark: Any, statestores: str) -> "MetastoreFlags":
    """Return ``flags`` with the metastore of Spark's configuration if they name none.

    If that does not name one either, it is the metastore that catalogd follows.

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
    """Have catalogd mend what ``side`` has of the database or table ``name``; wait until it has.

    It reads again what the metastore has otherwise: of a table that it does not know, the database.
    A table that a hub or a subscriber has otherwise gets a new version, and so is sent once more,
    or it is deleted there; for a database itself there is no such order.
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
