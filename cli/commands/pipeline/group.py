"""The group ``topicast pipeline``: jobs on Spark about a whole catalog."""

from typing import Final

import click

from ...lazy import LazyGroup
from ...options.flags import settings

PLACES: Final = {
    "audit": "commands.pipeline.audit:audit",
    "convert": "commands.pipeline.convert:convert",
    "export": "commands.pipeline.export:export",
    "files": "commands.pipeline.files:list_files",
}


@click.group("pipeline", cls=LazyGroup, places=PLACES, context_settings=settings())
def pipeline() -> None:
    """Run a job on Spark about the catalog: on this machine, or on any cluster that Spark knows.

    Each is also a function of a session: topicast.pipeline, for notebooks and Airflow.
    """
