"""The command ``topicast`` and its subcommands."""

import signal
from typing import Final

import click

from .commands import admin, local, show, topics
from .commands.agent import agent
from .commands.doctor import doctor
from .commands.drivers import drivers
from .commands.hook import hook
from .commands.keys import keys
from .commands.pipeline.audit import audit
from .commands.pipeline.convert import convert
from .commands.pipeline.export import export
from .commands.pipeline.files import list_files
from .commands.pipeline.group import pipeline
from .commands.run import run as run_application
from .exit_codes import TERMINATED
from .flags import settings, version_option
from .output import EXIT_CODES, run
from .signals import unwinding

PROGRAM: Final = "topicast"


@click.group(PROGRAM, context_settings=settings(), epilog=EXIT_CODES)
@version_option("topicast")
def topicast() -> None:
    """Hive metastore metadata, broadcast to Spark drivers."""


for command in (
    local.quickstart,
    run_application,
    show.status,
    topics.topics,
    topics.subscribers,
    drivers,
    doctor,
    hook,
    keys,
    show.tables,
    show.describe,
    show.partitions,
    show.watch,
    show.history,
    admin.sync,
    admin.mode,
    admin.invalidate,
    admin.refresh,
    pipeline,
    local.metastore,
    agent,
):
    topicast.add_command(command)


pipeline.add_command(audit)
pipeline.add_command(convert)
pipeline.add_command(export)
pipeline.add_command(list_files)


def main() -> None:
    """Run ``topicast`` with this process's arguments and end the process."""
    with unwinding((signal.SIGTERM, signal.SIGHUP), code=TERMINATED):
        run(topicast)


if __name__ == "__main__":
    main()
