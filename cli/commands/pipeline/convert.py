"""The command ``topicast pipeline convert``."""

from typing import Any

import click

from ....pipeline.conversion.plan import BATCH, FORMATS, KEEP_S, TARGET_FILE_MB
from ...options.flags import Documents, Integer, Number, command, prints
from .frame import PIPELINE_OPTIONS, Frame, run_pipeline


def _documents() -> Documents:
    from ....pipeline.conversion.report import ConvertReport

    return {"": ConvertReport}


@command(short_help="Keep a copy of a text table in Parquet or ORC.")
@click.option("--from", "source", required=True, metavar="TABLE", help="The table to convert.")
@click.option("--to", "target", required=True, metavar="TABLE", help="Its converted copy.")
@click.option("--once", is_flag=True, help="Convert what differs and end; else follow changes.")
@click.option("--where", metavar="SQL", help="Only partitions for which this holds.")
@click.option("--location", help="Of a copy that is created; else its database's.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="Of a copy that is created.",
)
@click.option(
    "--target_file_mb",
    type=Integer(min=1),
    default=TARGET_FILE_MB,
    show_default=True,
    help="Size of the copy's files, about.",
)
@click.option(
    "--batch",
    type=Integer(min=1),
    default=BATCH,
    show_default=True,
    help="Partitions that one Spark job writes at most.",
)
@click.option(
    "--keep_s",
    type=Number(min=0),
    default=KEEP_S,
    show_default=True,
    help="How long files that were replaced stay, for queries that were planned before.",
)
@PIPELINE_OPTIONS
@prints(_documents)
def convert(
    *,
    source: str,
    target: str,
    once: bool,
    where: str | None,
    location: str | None,
    file_format: str,
    target_file_mb: int,
    batch: int,
    keep_s: float,
    **given: Any,
) -> int:
    """Convert each partition of a table into a copy in Parquet or ORC, once and whole.

    A partition is converted again when its files change. Only one convert into a copy runs at a
    time, and the next run repairs what a killed run has left.
    """
    from ....pipeline.convert import convert as run
    from ....subscriber import arguments

    frame = Frame(**given)
    for table in (source, target):
        arguments.table(table)  # before Spark is started for nothing
    return run_pipeline(
        "convert",
        lambda spark, on_progress: run(
            spark,
            source,
            target,
            once=once,
            where=where,
            location=location,
            file_format=file_format,
            target_file_mb=target_file_mb,
            batch=batch,
            keep_s=keep_s,
            dry_run=frame.dry_run,
            statestores=frame.statestores,
            on_progress=on_progress,
        ),
        frame,
    )
