"""Where the pages of a daemon get their facts: its status, and how long ago its loop turned."""

import time
from collections.abc import Callable
from typing import Final, Protocol

from ...topics.link import LinkCounts
from ...topics.topic import offered_names
from . import metrics
from .answers import Facts, Sources

STUCK_S: Final = 10.0  # an idle loop turns every 0.25 s, a busy one every few milliseconds


class Daemon(Protocol):
    """What both daemons have in common. ``turned_at``: when the loop turned last."""

    turned_at: float

    @property
    def counts(self) -> LinkCounts:
        """What its sockets have carried, refused and dropped."""

    def run(self) -> None:
        """Serve until ``stop``."""

    def stop(self) -> None:
        """Make ``run`` return; from a signal handler, too."""

    def close(self) -> None:
        """Release everything."""


def sources_of(
    name: str, daemon: Daemon, status: Callable[[], Facts], *, numbers: metrics.Table
) -> Sources:
    """Return the sources of the pages of ``daemon``: its ``status``, and whether its loop runs."""

    def facts() -> Facts:
        silent_s = max(time.monotonic() - daemon.turned_at, 0.0)
        found = status()
        problem = trouble(str(found.get("problem", "")), silent_s=silent_s)
        counts = daemon.counts
        of_the_loop = {
            "frames_dropped": counts.dropped,
            "handshakes_failed": counts.handshakes_failed,
            "revoked": counts.revoked,
            "loop_silent_s": round(silent_s, 3),
        }
        return {**found, "problem": problem, **of_the_loop}

    def displayed() -> Facts:
        found = facts()
        offers = found.get("offers")  # a number in the metrics, words on the page
        return {**found, "offers": offered_names(offers)} if type(offers) is int else found

    registry = metrics.registry_of(name, numbers, facts)
    return Sources(title=name, facts=displayed, meanings=numbers, metrics=registry)


def trouble(problem: str, *, silent_s: float) -> str:
    """Return why a daemon does not serve; the empty text when it does.

    Args:
        problem: As the daemon reported it in its last turn.
        silent_s: The age of that report.
    """
    if silent_s <= STUCK_S:
        return problem
    return (
        f"the daemon's loop hangs: its last turn began {silent_s:.0f} s ago, {STUCK_S:g} s are "
        "allowed, and no request is answered; restart the process, nothing is lost"
    )
