"""The group ``topicast pipeline``: jobs on Spark about a whole catalog."""

import click

from ...flags import settings


@click.group("pipeline", context_settings=settings())
def pipeline() -> None:
    """Run a job on Spark about the catalog: on this machine, or on any cluster that Spark knows.

    Each is also a function of a session: topicast.subscriber.pipeline, for notebooks and Airflow.
    """
