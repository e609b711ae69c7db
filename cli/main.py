"""The command ``topicast`` and its subcommands."""

import signal
from collections.abc import Mapping
from typing import Final

import click

from .lazy import LazyGroup
from .options.flags import config_option, settings, version_option
from .terminal.exit_codes import TERMINATED
from .terminal.output import EXIT_CODES, run
from .terminal.signals import unwinding

PROGRAM: Final = "topicast"
SECTIONS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Start": {
        "quickstart": (
            "commands.local:quickstart",
            "Start everything on this machine, and show it at work.",
        ),
        "run": ("commands.run:run", "Run a Spark application as it is, attached."),
        "jar": ("commands.jar:jar", "Write the jar that attaches every driver of a Spark."),
        "doctor": (
            "commands.doctor:doctor",
            "Find out what is wrong on this host, and what to do.",
        ),
    },
    "See how it is": {
        "status": ("commands.status:status", "Does it serve? What would a restart mean?"),
        "top": ("commands.top:top", "Rates, lag, drivers and the busiest tables, live."),
        "drivers": (
            "commands.drivers:drivers",
            "Attached drivers, the worst first; or switch them off and on.",
        ),
        "topics": (
            "commands.topics:topics",
            "Topics in use; one with its readers; why a level.",
        ),
        "subscribers": (
            "commands.topics:subscribers",
            "Who follows a statestored, and how far behind.",
        ),
        "keys": ("commands.keys:keys", "Make keys, list, admit and revoke clients."),
        "config": ("commands.config:config", "Each setting, and where its value comes from."),
        "debug": ("commands.debug:debug", "All that the daemons say, in one file to send."),
    },
    "See the catalog": {
        "tables": ("commands.show:tables", "Names of tables and views."),
        "describe": (
            "commands.show:describe",
            "Columns and properties of a table or a database.",
        ),
        "partitions": ("commands.show:partitions", "Partitions of a table, by a filter."),
        "statistics": (
            "commands.metastore_facts:statistics",
            "Column statistics of a table or of partitions.",
        ),
        "functions": ("commands.metastore_facts:functions", "Permanent functions of a database."),
        "history": (
            "commands.changes:history",
            "What has become of a table, when, and by whom.",
        ),
        "events": (
            "commands.events:events",
            "What has changed anywhere; pause the metastore's events.",
        ),
        "watch": ("commands.show:watch", "Changes as they arrive."),
    },
    "Order": {
        "sync": (
            "commands.admin:sync",
            "Wait until what the metastore has committed is visible.",
        ),
        "refresh": ("commands.admin:refresh", "Read something from the metastore again."),
        "invalidate": ("commands.admin:invalidate", "Discard content that catalogd holds."),
        "mode": ("commands.admin:mode", "Show or change what readers may follow."),
    },
    "More": {
        "pipeline": (
            "commands.pipeline.group:pipeline",
            "Jobs on Spark about the whole catalog.",
        ),
        "metastore": (
            "commands.local:metastore",
            "A real Hive metastore, for trials and tests.",
        ),
        "agent": ("commands.agent:agent", "The helper that a driver runs beside itself."),
        "completion": (
            "commands.completion:completion",
            "Complete commands in bash, zsh or fish.",
        ),
    },
}
"""The commands in the order of --help, under headings: where each is, and a line about it."""


class Sections(LazyGroup):
    """The commands under headings: ``--help`` prints SECTIONS, and imports no command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click gives it
        """Write the commands of each section."""
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])


PLACES: Final = {
    name: place for commands in SECTIONS.values() for name, (place, _) in commands.items()
}


@click.group(PROGRAM, cls=Sections, places=PLACES, context_settings=settings(), epilog=EXIT_CODES)
@config_option()
@version_option("topicast")
def topicast() -> None:
    """Hive metastore metadata, broadcast to Spark drivers."""


def main() -> None:
    """Run ``topicast`` with this process's arguments and end the process."""
    with unwinding((signal.SIGTERM, signal.SIGHUP), code=TERMINATED):
        run(topicast)


if __name__ == "__main__":
    main()
