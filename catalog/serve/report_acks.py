"""ReportAcks: who reported writes and has no answer yet.

    asked ──every object known──▶ applied ──commit──▶ Reported
      └─not──▶ waits for a poll that began later, and for the locations ──▶ applied

A driver that reports too much is put off; nobody else is.
"""

from dataclasses import dataclass
from typing import Final

from ...topics.wire.messages import Message, Refused, Report, Reported
from ...topics.wire.refusal import Refusal
from ..model.versions import WriteId, WriteRow
from .pending import EventWaits, RequestId
from .port import Core, Reports

WRITES_PER_S: Final = 200.0  # of one driver, in the long run
BURST: Final = 2000.0
ALLOWANCES_MAX: Final = 10_000  # drivers whose rate is remembered
RETRY_MS: Final = 1000
PORT_DEFAULT: Final = "9083"
LOOPBACK: Final = ("127.0.0.1", "[::1]", "::1")


@dataclass(slots=True)
class _Allowance:
    """What one driver may still report: BURST at first, and WRITES_PER_S more each second."""

    writes: float
    at: float

    def takes(self, writes: int, now: float) -> bool:
        self.writes = min(BURST, self.writes + (now - self.at) * WRITES_PER_S)
        self.at = now
        if writes > self.writes:
            return False
        self.writes -= writes
        return True


class ReportAcks:
    """Applies reports, each once its objects are known, and acknowledges them."""

    def __init__(self, reports: Reports, core: Core, *, metastore: str) -> None:
        """Take the operator's list of URIs; if it is empty, reports of any metastore count."""
        self._reports = reports
        self._metastore = metastore
        self._core = core
        self._waiting: EventWaits[Report] = EventWaits()
        self._ready: dict[RequestId, Report] = {}  # to apply; none of them waits
        self._allowances: dict[bytes, _Allowance] = {}  # by driver, the last that reported is last
        self._answers: list[tuple[bytes, Message]] = []

    def commits(self) -> tuple[tuple[WriteRow, ...], tuple[WriteId, ...]]:
        """Hand over the writes to store, and the ids of those to delete from the store."""
        return self._reports.take()

    def counts(self) -> dict[str, int]:
        """Return what happened since the start, and how many intents are open."""
        return self._reports.counts()

    def check(self) -> None:
        """Assert every invariant."""
        self._reports.check()
        self._waiting.check()
        assert not any(self._waiting.waits(*request) for request in self._ready)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._ready)

    @property
    def ready(self) -> bool:
        """Whether a turn has something to do without a new fact."""
        return bool(self._ready)

    @property
    def deadline(self) -> float | None:
        """When an intent lapses."""
        return self._reports.deadline

    def on_report(
        self, peer: bytes, report: Report, *, polls_begun: int | None, now: float
    ) -> None:
        """Take a report in; ``polls_begun`` None: there are no events to wait for."""
        if (peer, report.request) in self._ready or self._waiting.waits(peer, report.request):
            return  # sent again
        if self._metastore and not addresses(report.metastore) & addresses(self._metastore):
            why = (
                f"the report is about the metastore {report.metastore or '(none)'}, and this "
                f"catalogd follows {self._metastore}: if they are one, name it alike "
                "(spark.topicast.metastore)"
            )
            self._refuse(peer, report, Refusal.METASTORE, why=why)
            return
        if not self._allows(report, now):
            why = f"more than {WRITES_PER_S:.0f} writes a second of one driver: send fewer"
            self._refuse(peer, report, Refusal.RATE, why=why, retry_ms=RETRY_MS)
            return
        if polls_begun is None or self._reports.knows(report):
            self._ready[peer, report.request] = report
        elif not self._waiting.add(peer, report.request, report, polls_begun=polls_begun, now=now):
            self._refuse(peer, report, Refusal.BUSY, why="too many reports wait", retry_ms=RETRY_MS)

    def wants_poll(self, polls_begun: int) -> bool:
        """Return whether a report waits for a poll that has not begun."""
        return self._waiting.wants_poll(polls_begun)

    def remove_peer(self, peer: bytes) -> None:
        """Let nothing of ``peer`` wait any longer; what it reported is applied all the same."""
        for one in self._waiting.remove_peer(peer):
            self._ready[one.peer, one.request] = one.value

    def step(self, *, unresolved: int, polled: tuple[int, int], now: float, at_us: int) -> None:
        """Apply the reports that can be applied; take intents for written that have lapsed."""
        published = self._waiting.take_published(unresolved, polled=polled)
        for one in (*published, *self._waiting.expire(now)):
            self._ready[one.peer, one.request] = one.value
        of_paths = {
            request: one for request, one in self._ready.items() if self._reports.names_path(one)
        }
        lapses = self.deadline is not None and now >= self.deadline
        current = not (of_paths or lapses) or self._reports.find_locations()
        ready, self._ready = self._ready, {} if current else of_paths
        for (peer, request), report in ready.items():
            if (peer, request) in self._ready:
                continue
            verdicts = self._reports.apply(report, now=now, at_us=at_us)
            epoch, start = self._core.position
            reported = Reported(request=request, epoch=epoch, start=start, verdicts=verdicts)
            self._answers.append((peer, reported))
        if current:
            self._reports.lapse(now=now, at_us=at_us)

    def answers(self) -> list[tuple[bytes, Message]]:
        """Hand over the answers, which may leave once everything is committed."""
        answers, self._answers = self._answers, []
        return answers

    def _allows(self, report: Report, now: float) -> bool:
        allowance = self._allowances.pop(report.driver, None) or _Allowance(BURST, now)
        self._allowances[report.driver] = allowance
        while len(self._allowances) > ALLOWANCES_MAX:
            del self._allowances[next(iter(self._allowances))]
        return allowance.takes(len(report.writes), now)

    def _refuse(
        self, peer: bytes, report: Report, code: Refusal, *, why: str, retry_ms: int = 0
    ) -> None:
        refused = Refused(request=report.request, code=code, message=why, retry_ms=retry_ms)
        self._answers.append((peer, refused))


def addresses(uris: str) -> frozenset[str]:
    """Return host and port of each of the metastore ``uris``; loopback has one name."""
    found = set()
    for uri in uris.split(","):
        address = uri.strip().lower().rpartition("://")[2].rstrip("/")
        if not address:
            continue
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            host, port = address, PORT_DEFAULT
        found.add(f"{'localhost' if host in LOOPBACK else host}:{port}")
    return frozenset(found)
