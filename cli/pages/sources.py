"""The facts for the pages of a daemon: its status, and how long ago its loop turned."""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from ...topics.keys.folder import DaemonKeys
from ...topics.link import LinkCounts
from ...topics.memory.system_memory import usable_bytes
from ...topics.topic import offered_names
from ...topics.verdict import Reason, Serving, Verdict
from . import metrics
from .access import Access
from .answers import Sources
from .metrics import Facts
from .parts.page import Page

IN_VERDICT: Final = ("verdict", "problem", "warning")  # facts that repeat the verdict
STUCK_S: Final = 10.0  # an idle loop turns every 0.25 s, a busy loop every few milliseconds


class Daemon(Protocol):
    """A daemon, as its pages use it. ``turned_at``: when the last turn of its loop began."""

    turned_at: float
    verdict: Verdict

    @property
    def counts(self) -> LinkCounts:
        """The counts of frames that its sockets have carried, refused and dropped."""

    def show_pages_at(self, address: str) -> None:
        """Announce the address of its pages to peers that connect later; empty: there are none."""

    def run(self, report: Callable[[Verdict], None]) -> None:
        """Serve until ``stop``; call ``report`` with each verdict that differs from the last."""

    def stop(self) -> None:
        """Make ``run`` return; from a signal handler, too."""

    def close(self) -> None:
        """Release everything."""


def sources_of(
    name: str,
    daemon: Daemon,
    status: Callable[[], Facts],
    *,
    numbers: metrics.Table,
    pages: Mapping[str, Page] = MappingProxyType({}),
    peers: Callable[[], Mapping[str, str]] = dict,
    process: Callable[[], Facts] = dict,
    histograms: Callable[[], metrics.Histograms] = dict,
    is_guarded: bool = False,
) -> Sources:
    """Return the sources of the pages of ``daemon``: its ``status``, and whether its loop runs.

    ``pages``: its pages besides the front page. ``peers``: the front pages of other daemons, by
    their names. ``process``: facts of the process that the status lacks. ``histograms``: of its
    metrics. ``is_guarded``: whether readers have to give a secret.
    """

    def silent_s() -> float:
        return max(time.monotonic() - daemon.turned_at, 0.0)

    def verdict() -> Verdict:
        return verdict_of_loop(daemon.verdict, silent_s=silent_s())

    def facts() -> Facts:
        counts = daemon.counts
        of_the_loop = {
            "frames_dropped": counts.dropped,
            "handshakes_failed": counts.handshakes_failed,
            "revoked": counts.revoked,
            "loop_silent_s": round(silent_s(), 3),
        }
        found = {name: value for name, value in status().items() if name not in IN_VERDICT}
        return {**found, **of_the_loop, **process()}

    def displayed() -> Facts:
        found = facts()
        offers = found.get("offers")  # a number in the metrics, words on the page
        return {**found, "offers": offered_names(offers)} if type(offers) is int else found

    registry = metrics.registry_of(name, numbers, facts, verdict=verdict, histograms=histograms)
    return Sources(
        title=name,
        facts=displayed,
        verdict=verdict,
        metrics=registry,
        histograms=histograms,
        pages=pages,
        peers=peers,
        is_guarded=is_guarded,
    )


def facts_of_process(keys: DaemonKeys, access: Access, limit_bytes: int | None) -> Facts:
    """Return the memory that the process may use, the age of its key, and its certificate's time.

    ``limit_bytes``: the value of ``--mem_limit``; None: only the system sets a limit.
    """
    now_s = time.time()
    return {
        "memory_limit_bytes": limit_bytes or usable_bytes(),
        "key_age_s": keys.key_age_s(now_s=now_s),
        "certificate_left_s": access.certificate_left_s(now_s=now_s),
    }


def verdict_of_loop(reported: Verdict, *, silent_s: float) -> Verdict:
    """Return ``reported``, a daemon's last verdict, unless its loop hangs, by ``silent_s``."""
    if silent_s <= STUCK_S:
        return reported
    hangs = Reason(
        state=Serving.NOT_SERVING,
        code="loop_hangs",
        what=f"the daemon's loop hangs: its last turn began {silent_s:.0f} s ago, {STUCK_S:g} s "
        "are allowed, and no request is answered",
        mend="restart the process, nothing is lost",
    )
    return Verdict((hangs,))
