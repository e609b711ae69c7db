"""The command that shows what the daemons do now: rates, lag, drivers, and the busiest tables."""

import shutil
import time
from contextlib import suppress
from typing import Any, Final

import click

from ...topics.errors import LinkError, UsageError
from ...topics.settings import Address, parse_addresses
from ...topics.wire.messages.questions import ReadRecent
from ..client.operator import Operator, announced_at, note_policy
from ..options.flags import command, prints, statestores_option
from ..records.activity import KEPT_MAX, MINUTES, Activity, Look, activity, picture
from ..records.changes import records_of
from ..terminal.exit_codes import DONE
from ..terminal.lists import NO_LIMIT, Record
from ..terminal.output import Output, complain
from ..terminal.screen import clear, draw_again
from .changes import LINES_MAX
from .status import WATCH_S, installation_again, installation_at

FIRST_S: Final = 1.0  # between the two looks of the first picture, which make its rates
MINUTES_US: Final = MINUTES * 60 * 1_000_000


@command()
@click.option("--once", is_flag=True, help="Show one picture and end, as without a terminal.")
@statestores_option("all are used")
@prints(lambda: {"--once": Activity})
def top(*, once: bool, statestores: str, output: str) -> int:
    """Show rates, lag, drivers by state and the busiest tables, again and again, until q or Ctrl-C.

    Rates are averages since the last picture. The busiest tables have the most changes, with
    those of their partitions, in the last 10 minutes; the column by names who caused the newest.
    """
    hubs, printed = parse_addresses(statestores, setting="statestores"), Output(output)
    note_policy("counts that include other databases are left out")
    log, before = Log(hubs), _look(hubs)
    is_one = once or not printed.is_terminal
    if is_one:  # before what takes another second
        for problem in (text for one in before.installation.daemons for text in one.problems):
            complain(problem)
    now = _second(before)
    if is_one:
        _show(activity(before, now, log.read(now)), now, printed, height=NO_LIMIT)
        return now.installation.exit_code

    def draw() -> None:
        nonlocal before, now
        now = _look(hubs) if now is before else now
        found = activity(before, now, log.read(now))
        if not printed.is_json:
            clear()
        height = shutil.get_terminal_size().lines - 1  # the last line is the cursor's
        _show(found, now, printed, height=height, stream=True)
        before = now

    draw_again(draw, every_s=WATCH_S)
    return DONE


class Log:
    """The changes of the last minutes; each is requested once."""

    def __init__(self, hubs: tuple[Address, ...]) -> None:
        self._hubs = hubs
        self._lines: list[dict[str, Any]] = []  # the newest first
        self._drivers: list[Record] = []

    def read(self, now: Look) -> list[Record]:
        """Return the changes of the minutes before ``now``; no new ones if catalogd is silent."""
        from_us = now.at_us - MINUTES_US
        since_us = max(self._lines[0]["time_us"] if self._lines else 0, from_us)
        if now.installation.catalogd.facts:
            with suppress(LinkError, UsageError):
                self._read(since_us)
        self._lines = [one for one in self._lines if one["time_us"] >= from_us][:KEPT_MAX]
        return records_of(self._lines, self._drivers)

    def _read(self, since_us: int) -> None:
        with Operator(self._hubs) as visit:
            self._drivers = list(announced_at(visit).values())
            found = visit.catalog(ReadRecent(since_us=since_us, count=LINES_MAX)).records()
        known = {one["number"] for one in self._lines}
        self._lines[:0] = [one for one in found if one["number"] not in known]


def _look(hubs: tuple[Address, ...]) -> Look:
    at_us = time.time_ns() // 1000  # before the look: a daemon that does not answer delays it
    return Look(at_us=at_us, installation=installation_at(hubs))


def _second(first: Look) -> Look:
    """Return another look, FIRST_S after the first began, at the daemons that answered then.

    Only they have rates, and a look at the others would delay the picture.
    """
    if not any(one.facts for one in first.installation.hubs):
        return first
    time.sleep(max(first.at_us / 1e6 + FIRST_S - time.time(), 0.0))
    at_us = time.time_ns() // 1000
    return Look(at_us=at_us, installation=installation_again(first.installation))


def _show(
    found: Activity, now: Look, printed: Output, *, height: int, stream: bool = False
) -> None:
    text = "\n".join(picture(found, now.installation, width=printed.width, height=height))
    if stream:
        printed.item(found, text=text)
    else:
        printed.document(found, text=text)
