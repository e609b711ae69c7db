"""The command ``topicast pipeline files``."""

from typing import Any

import click

from ....pipeline.sweep.plan import SMALL_MB, SWEEP_EVERY_S
from ...options.flags import Documents, Integer, Number, command, prints
from ...terminal.output import Output
from ...terminal.schemas import Fields, Iso, fields_of
from .frame import PIPELINE_OPTIONS, Frame, run_pipeline


def _documents() -> Documents:
    from ....pipeline.sweep.report import FilesReport

    found = fields_of(FilesReport).without(("newest_ms",)).but(newest=(Iso, None))
    return {"": found, "--watch": (Fields({"changed": str}), found)}


@command("files", short_help="List the files of tables; report what no event has told.")
@click.argument("pattern", default="*")
@click.option("--full", is_flag=True, help="List everything, and not only what may have changed.")
@click.option("--add_partitions", is_flag=True, help="Add folders that look like partitions.")
@click.option(
    "--small_mb",
    type=Integer(min=0),
    default=SMALL_MB,
    show_default=True,
    help="A file below it is counted as small.",
)
@click.option(
    "--max_requests_per_second",
    type=Number(min=0, min_open=True),
    help="LIST requests, at most; else as fast as it goes.",
)
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C with what changes.")
@click.option(
    "--sweep_every_s",
    type=Number(min=0),
    default=SWEEP_EVERY_S,
    show_default=True,
    help="In a watch the pause between two sweeps of all tables.",
)
@PIPELINE_OPTIONS
@prints(_documents)
def list_files(
    pattern: str,
    *,
    full: bool,
    add_partitions: bool,
    small_mb: int,
    max_requests_per_second: float | None,
    watch: bool,
    sweep_every_s: float,
    **given: Any,
) -> int:
    """List the files of tables and partitions, and report what changed without an event.

    PATTERN is a database, or a pattern of full names such as 'sales.*' (default: everything). After
    the run, attached drivers read the files that were put under tables without an event or a
    report. A run lists what may have changed since the last run, which catalogd keeps, and goes on
    where a run was killed; --full lists everything; --dry_run counts the LIST requests beforehand.
    With --watch a new file is found within a second where folders have times (local disks, HDFS),
    and all tables are swept again and again.
    """
    from ....pipeline.files import files
    from ....pipeline.sweep.sweeper import ignore_change

    frame = Frame(**given)
    output = Output(frame.output)

    def show_change(name: str) -> None:
        output.item({"changed": name}, text=f"changed: {name}")

    return run_pipeline(
        "files",
        lambda spark, on_progress: files(
            spark,
            pattern,
            full=full,
            add_partitions=add_partitions,
            small_mb=small_mb,
            max_requests_per_second=max_requests_per_second,
            watch=watch,
            sweep_every_s=sweep_every_s,
            dry_run=frame.dry_run,
            statestores=frame.statestores,
            on_progress=on_progress,
            on_change=show_change if watch else ignore_change,
        ),
        frame,
    )
