"""The command ``topicast`` and its subcommands."""

import signal
from typing import Final

import click

from .exit_codes import TERMINATED
from .flags import settings, version_option
from .lazy import LazyGroup
from .output import EXIT_CODES, run
from .signals import unwinding

PROGRAM: Final = "topicast"
PLACES: Final = {
    "quickstart": "commands.local:quickstart",
    "run": "commands.run:run",
    "status": "commands.status:status",
    "topics": "commands.topics:topics",
    "subscribers": "commands.topics:subscribers",
    "drivers": "commands.drivers:drivers",
    "doctor": "commands.doctor:doctor",
    "hook": "commands.hook:hook",
    "jar": "commands.jar:jar",
    "keys": "commands.keys:keys",
    "tables": "commands.show:tables",
    "describe": "commands.show:describe",
    "partitions": "commands.show:partitions",
    "watch": "commands.show:watch",
    "history": "commands.changes:history",
    "events": "commands.changes:events",
    "sync": "commands.admin:sync",
    "mode": "commands.admin:mode",
    "invalidate": "commands.admin:invalidate",
    "refresh": "commands.admin:refresh",
    "pipeline": "commands.pipeline.group:pipeline",
    "metastore": "commands.local:metastore",
    "agent": "commands.agent:agent",
}


@click.group(PROGRAM, cls=LazyGroup, places=PLACES, context_settings=settings(), epilog=EXIT_CODES)
@version_option("topicast")
def topicast() -> None:
    """Hive metastore metadata, broadcast to Spark drivers."""


def main() -> None:
    """Run ``topicast`` with this process's arguments and end the process."""
    with unwinding((signal.SIGTERM, signal.SIGHUP), code=TERMINATED):
        run(topicast)


if __name__ == "__main__":
    main()
