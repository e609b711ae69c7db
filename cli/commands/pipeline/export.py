"""The command ``topicast pipeline export``."""

from typing import Any

import click

from ...options.flags import Documents, command, prints
from ...terminal.schemas import Iso, fields_of
from .frame import PIPELINE_OPTIONS, Frame, run_pipeline


def _documents() -> Documents:
    from ....pipeline.export import ExportReport

    return {"PATH": fields_of(ExportReport).but(at=Iso)}


@command(short_help="Write the catalog, and what has changed, as Parquet.")
@click.argument("path")
@click.option("--tables", default="*", metavar="PATTERN", help="Only of tables such as 'sales.*'.")
@click.option(
    "--changes_only", is_flag=True, help="Leave the catalog itself out, once a run has written it."
)
@PIPELINE_OPTIONS
@prints(_documents)
def export(path: str, *, tables: str, changes_only: bool, **given: Any) -> int:
    """Write the catalog as Parquet below PATH, and what has changed since the last run.

    PATH is a folder of any file system that Spark knows. docs/pipelines.md says what is
    written there.
    """
    from ....pipeline.export import export as write

    frame = Frame(**given)
    return run_pipeline(
        "export",
        lambda spark, on_progress: write(
            spark,
            path,
            statestores=frame.statestores,
            tables=tables,
            changes_only=changes_only,
            dry_run=frame.dry_run,
            on_progress=on_progress,
        ),
        frame,
        metastore=False,
    )
