"""ReportAcks: the reports of writes that are not acknowledged yet.

    report ──every object known──▶ applied ──commit──▶ Reported
       └─not──▶ waits for a poll that began later ──▶ applied

A driver that reports too much is refused for a while; no other driver is.
"""

from dataclasses import dataclass
from typing import Final

from ...topics.clock import Clock
from ...topics.newest import Newest
from ...topics.policy import Policy
from ...topics.settings import metastore_hosts
from ...topics.wire.messages.reports import Report, Reported
from ...topics.wire.refusal import Refusal
from ..ingest.writes.reports import Reports
from .pending import EventWaits, RequestId
from .replies import Replies

WRITES_PER_S: Final = 200.0  # of one driver, in the long run
BURST: Final = 2000.0
ALLOWANCES_MAX: Final = 10_000  # drivers whose rate is remembered


@dataclass(slots=True)
class _Allowance:
    """The writes that a driver may report now: BURST at first, WRITES_PER_S more each second."""

    writes: float
    at: float

    def takes(self, writes: int, now: float) -> bool:
        self.writes = min(BURST, self.writes + (now - self.at) * WRITES_PER_S)
        self.at = now
        if writes > self.writes:
            return False
        self.writes -= writes
        return True


@dataclass(frozen=True, slots=True)
class _Reported:
    """A report, and what the key of its driver may see; None: everything."""

    report: Report
    policy: Policy | None


class ReportAcks:
    """Applies reports, each once its objects are known, and acknowledges them."""

    def __init__(self, reports: Reports, replies: Replies, *, clock: Clock, metastore: str) -> None:
        """``metastore``: the operator's URIs of it; empty: reports about any metastore count."""
        self._reports = reports
        self._clock = clock
        self._metastore = metastore
        self._replies = replies
        self._waiting: EventWaits[_Reported] = EventWaits(clock)
        self._ready: dict[RequestId, _Reported] = {}  # to apply; none of them waits
        self._allowances = Newest[bytes, _Allowance](ALLOWANCES_MAX)  # by driver

    def check(self) -> None:
        """Assert every invariant."""
        self._waiting.check()
        assert not any(self._waiting.get(*request) for request in self._ready)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._ready)

    def on_report(
        self, peer: bytes, report: Report, *, policy: Policy | None = None, polls_begun: int | None
    ) -> None:
        """Take a report in; ``polls_begun`` None: there are no events to wait for.

        ``policy``: what the key of its driver may see, so may have written.
        """
        if (peer, report.request) in self._ready or self._waiting.get(peer, report.request):
            return  # sent again
        if self._metastore and not metastore_hosts(report.metastore) & metastore_hosts(
            self._metastore
        ):
            why = (
                f"the report is about the metastore {report.metastore or '(none)'}, and this "
                f"catalogd follows {self._metastore}: if they are one, name it alike "
                "(spark.topicast.metastore)"
            )
            self._replies.refuse(peer, report.request, Refusal.METASTORE, why=why)
            return
        if not self._allows(report):
            why = f"more than {WRITES_PER_S:.0f} writes a second of one driver: send fewer"
            self._replies.refuse(peer, report.request, Refusal.RATE, why=why)
            return
        one = _Reported(report, policy)
        if polls_begun is None or self._reports.knows(report, policy):
            self._ready[peer, report.request] = one
        elif not self._waiting.add_once(peer, report.request, one, polls_begun=polls_begun):
            self._replies.refuse(peer, report.request, Refusal.BUSY, why="too many reports wait")

    def wants_poll(self, polls_begun: int) -> bool:
        """Return whether a report waits for a poll that has not begun."""
        return self._waiting.wants_poll(polls_begun)

    def remove_peer(self, peer: bytes) -> None:
        """Answer ``peer`` no more; the writes that it reported are applied all the same."""
        for one in self._waiting.remove_peer(peer):
            self._ready[one.peer, one.request] = one.value

    def step(self, *, unpublished: int, polled: tuple[int, int], position: tuple[int, int]) -> None:
        """Apply the reports that can be applied; take lapsed intents for written.

        ``unpublished``: the arrival number of the oldest event that is not published. ``polled``:
        as of ``EventWaits``. ``position``: epoch and start.
        """
        published = self._waiting.take_published(lambda _scope: unpublished, polled=polled)
        for waited in (*published, *self._waiting.expire()):
            self._ready[waited.peer, waited.request] = waited.value
        ready, self._ready = self._ready, {}
        for (peer, request), one in ready.items():
            outcomes = self._reports.apply(one.report, policy=one.policy)
            epoch, start = position
            reported = Reported(request=request, epoch=epoch, start=start, outcomes=outcomes)
            self._replies.add(peer, reported)
        self._reports.lapse()

    def _allows(self, report: Report) -> bool:
        now = self._clock.now
        allowance = self._allowances.get(report.driver) or _Allowance(BURST, now)
        self._allowances.put(report.driver, allowance)
        return allowance.takes(len(report.writes), now)
