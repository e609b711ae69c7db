"""The command that finds the cause of a problem."""

from dataclasses import asdict

import click

from ..options.flags import (
    Documents,
    Number,
    SettingsCommand,
    option,
    prints,
    settings,
    statestores_option,
)
from ..terminal.exit_codes import DONE, FAILED
from ..terminal.output import Output
from ..terminal.schemas import Fields, fields_of


def _documents() -> Documents:
    from ..doctor.checks import Answer, CheckOutcome

    check = Fields({"check": str, **fields_of(Answer).types}).but(verdict=CheckOutcome)
    return {"": Fields({"role": str, "checks": [check]})}


@click.command(
    cls=SettingsCommand,
    context_settings=settings(ignore_unknown_options=True, allow_interspersed_args=False),
)
@option(
    "role",
    type=click.Choice(["driver", "catalogd", "hub"]),
    default="driver",
    help="What this machine runs, or is to run.",
)
@statestores_option("for a driver: catalogd has a flag of its own")
@option(
    "timeout_s",
    type=Number(min=0, min_open=True),
    default=10.0,
    help="How long each check may take; the application has longer.",
)
@prints(_documents)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def doctor(
    command: tuple[str, ...], *, role: str, statestores: str, timeout_s: float, output: str
) -> int:
    """Check, in order, what usually goes wrong, and say what to do.

    COMMAND follows two dashes. For a driver it is spark-submit or python with an application; a
    probe runs in place of the application. For catalogd and the hub it is their own command, with
    its flags.

    Each check is ok, warning or wrong, or not tried if a check that it needs is wrong. The exit
    code is 1 if a check is wrong.
    """
    from ..doctor.checks import CheckOutcome, examine  # other commands start without them
    from ..doctor.roles import Given, checks_of

    given = Given(statestores=statestores, command=command, timeout_s=timeout_s)
    printed, found = Output(output), []
    for finding in examine(checks_of(role, given), limit_s=timeout_s):
        found.append(finding)
        if output != "json":
            printed.item({}, text="\n".join(finding.lines(printed.width)))
    if output == "json":
        rows = [{"check": one.check, **asdict(one.answer)} for one in found]
        printed.document({"role": role, "checks": rows}, text="")
    return FAILED if any(one.answer.verdict is CheckOutcome.WRONG for one in found) else DONE
