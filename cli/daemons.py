"""The commands ``statestored`` and ``catalogd``: their entries, and the code that both share.

    flags ──▶ config ──▶ daemon ──▶ "listening …" ──▶ it serves: "ready …" ──▶ until SIGTERM, SIGINT

Both lines are on standard output; a daemon that cannot serve never prints the second. The daemons
log to standard error, and end with 0 after a signal, with 2 on settings that are not allowed, and
with 1 on another error, such as a port in use. A module that needs an extra is imported when it is
used.
"""

import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import fields
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from .. import __version__
from ..topics.errors import ConfigError, TopicastError
from ..topics.settings import Address, pages_for_peers, parse_addresses
from .lazy import LazyGroup
from .notify import Announcement
from .options.flags import DEFAULT, F, flags_of
from .pages.config import PagesConfig
from .terminal.exit_codes import FAILED, WRONG_USE
from .terminal.output import run
from .terminal.signals import handled

if TYPE_CHECKING:
    from .pages.access import Access
    from .pages.answers import Sources
    from .pages.sources import Daemon

log: Final = logging.getLogger(__name__)

EXIT_CODES: Final = "Exit codes: 0 ended by a signal, 1 failed, 2 wrong use."
YOUNG: Final = 350  # new objects until a pass over young objects, 3 times as many at most
OLD_PASSES: Final = 7000  # until a collection of old objects: 7 million new objects that live on
OLD: Final = 2  # the oldest generation
ALL_EVERY: Final = 100  # old passes, until a pass over everything
SWITCH_S: Final = 0.0001  # for which the loop waits at most while another thread computes


def pages_flags(port: int) -> Callable[[F], F]:
    """Make the options of the pages, whose port is ``port`` by default."""
    return flags_of(PagesConfig, defaults={"webserver_port": port})


def access_to_pages(given: dict[str, Any]) -> "Access":
    """Take the pages' settings out of ``given``, and read their files before anything starts."""
    from .pages.access import Access

    names = [field.name for field in fields(PagesConfig)]
    return Access(PagesConfig(**{name: given.pop(name) for name in names}))


def refuse_shared_port(pages: PagesConfig, listens: Mapping[Address, str]) -> None:
    """Refuse a port of the pages that the daemon itself needs.

    ``listens``: the addresses that the daemon listens at, and for what.

    Raises:
        ConfigError: it is one of these ports, on the same interface or on all interfaces.
    """
    own = pages.address
    for address, what in listens.items():
        hosts_meet = (
            own.host == address.host or own.is_every_interface or address.is_every_interface
        )
        if own.port == address.port and hosts_meet:
            allowed = (
                f"the daemon itself serves {what} there; choose another, or 0 for any free one"
            )
            raise ConfigError("webserver_port", own.port, allowed)


daemons: Final = LazyGroup(
    places={"statestored": "statestored:statestored", "catalogd": "catalogd:catalogd"}
)


def statestored() -> None:
    """Run ``statestored`` with this process's arguments and end the process."""
    _run("statestored")


def catalogd() -> None:
    """Run ``catalogd`` with this process's arguments and end the process."""
    _run("catalogd")


def collect_old_rarely(*, old_passes: int = OLD_PASSES) -> None:
    """Let the garbage collector visit young objects, a few at a time, and old objects hardly ever.

    A pass over 300,000 entries, which are in no cycle, stops the loop for 110 ms. Passes over
    young objects find the cycles that failures leave behind, and take 1 ms at most on a busy
    machine. A pass over old objects visits those that have become old since the last such pass,
    and never visits them again. Each 100th of these passes visits all objects, and so finds cycles
    that have lived for hours.
    """
    gc.freeze()  # imported modules live as long as the process
    gc.set_threshold(YOUNG, 1, old_passes)
    passes = count(1)

    def leave_alone(phase: str, facts: dict[str, int]) -> None:
        if facts["generation"] != OLD:
            return
        if phase == "stop":
            gc.freeze()
        elif next(passes) % ALL_EVERY == 0:
            gc.unfreeze()

    gc.callbacks.append(leave_alone)


def wake_soon() -> None:
    """Let a thread that wakes up, as the loop does, wait 0.1 ms for a thread that computes.

    Python's own interval is 5 ms: each page that is made would delay a delta by as much. The loop
    waits after each system call of its turn, so that an interval of 1 ms would add up.
    """
    sys.setswitchinterval(SWITCH_S)


def log_start(name: str, flags: Iterable[tuple[str, str, str]]) -> None:
    """Log that a daemon starts, its release, and the flags that do not have their default."""
    given = " ".join(f"{flag}={value}" for flag, value, origin in flags if origin != DEFAULT)
    log.info("starts: daemon=%s release=%s %s", name, __version__, given or "flags=default")


def _run(name: str) -> None:
    run(daemons.load(name), code_of=_exit_code)


def _exit_code(error: TopicastError) -> int:
    return WRONG_USE if isinstance(error, ConfigError) else FAILED


def serve(daemon: "Daemon", sources: "Sources", address: str, *, access: "Access") -> None:
    """Announce ``daemon``, and serve until a signal; ``access``: who may read its pages."""
    from .pages.server import Pages

    wake_soon()
    ended_by: list[int] = []  # the handler must not log: it may interrupt the writing of a line

    def end(number: int, *_: object) -> None:
        ended_by.append(number)
        daemon.stop()

    stop = dict.fromkeys((signal.SIGTERM, signal.SIGINT), end)
    with closing(daemon), Pages(sources, access) as pages, handled(stop):
        (own,) = parse_addresses(address)
        daemon.show_pages_at(pages_for_peers(pages.address, own))
        announcement = Announcement(f"address={address} web={pages.url}")
        announcement.listening()
        daemon.run(announcement.report)
    if ended_by:
        log.info("ends: signal=%s", signal.Signals(ended_by[0]).name)


if __name__ == "__main__":
    run(daemons, code_of=_exit_code)
