"""Main: the command ``topicast`` and what it can do."""

from typing import Final

import click

from .commands import look, members, order, setup
from .commands.drivers import drivers
from .commands.hook import hook
from .commands.run import run as run_application
from .flags import settings, version_option
from .output import EXIT_CODES, run

PROGRAM: Final = "topicast"


@click.group(PROGRAM, context_settings=settings(), epilog=EXIT_CODES)
@version_option("topicast")
def topicast() -> None:
    """Hive metastore metadata, broadcast to Spark drivers."""


for command in (
    setup.quickstart,
    run_application,
    look.status,
    members.topics,
    members.subscribers,
    drivers,
    hook,
    look.tables,
    look.describe,
    look.partitions,
    look.watch,
    order.sync,
    order.mode,
    order.invalidate,
    order.refresh,
    setup.metastore,
):
    topicast.add_command(command)


def main() -> None:
    """Run ``topicast`` with this process's arguments and end the process."""
    run(topicast)


if __name__ == "__main__":
    main()
