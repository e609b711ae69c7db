"""ReportAcks: who reported writes and has no answer yet.

    asked ──every object known──▶ applied ──commit──▶ Reported
      └─not──▶ waits for a poll that began later, and for the locations ──▶ applied

A driver that reports too much is put off; nobody else is.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from ...topics.wire.messages import Message, Refused, Report, Reported
from ...topics.wire.refusal import Refusal
from ..ingest.reports import Reports, is_path
from ..model.transactions import WriteId, WriteRow
from .sync import Syncs

WRITES_PER_S: Final = 200.0  # of one driver, in the long run
BURST: Final = 2000.0
ALLOWANCES_MAX: Final = 10_000  # drivers whose rate is remembered
RETRY_MS: Final = 1000
PORT_DEFAULT: Final = "9083"
LOOPBACK: Final = ("127.0.0.1", "[::1]", "::1")

Position = Callable[[], tuple[int, int]]  # (epoch, start)
Asker = tuple[bytes, int]  # peer and request


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
    """The reports that were asked and not answered."""

    def __init__(self, reports: Reports, *, metastore: str, position: Position) -> None:
        """``metastore`` is the operator's list of URIs; empty: whatever reports is believed."""
        self._reports = reports
        self._metastore = metastore
        self._position = position
        self._polls = Syncs()
        self._waiting: dict[Asker, Report] = {}  # for a poll
        self._ready: dict[Asker, Report] = {}  # to be applied, once paths can be found
        self._allowances: dict[bytes, _Allowance] = {}
        self._answers: list[tuple[bytes, Message]] = []

    def commits(self) -> tuple[tuple[WriteRow, ...], tuple[WriteId, ...]]:
        """Hand over what the store does not have, and what it may forget."""
        return self._reports.take()

    def counts(self) -> dict[str, int]:
        """Return what happened since the start, and how many intents are open."""
        return asdict(self._reports.tally) | {"intents": self._reports.intents}

    def check(self) -> None:
        """Assert every invariant."""
        self._reports.check()
        assert not self._waiting.keys() & self._ready.keys()

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

    def ask(self, peer: bytes, report: Report, *, polls_begun: int | None, now: float) -> None:
        """Take a report in; ``polls_begun`` None: there are no events to wait for."""
        asker = (peer, report.request)
        if asker in self._waiting or asker in self._ready:
            return  # asked again
        if self._metastore and not places(report.metastore) & places(self._metastore):
            why = (
                f"a report of the metastore {report.metastore or '(none)'}, {self._metastore} is "
                "followed here: if they are one, name it alike (spark.topicast.metastore)"
            )
            self._refuse(peer, report, Refusal.METASTORE, why=why)
            return
        if not self._allows(report, now):
            why = f"more than {WRITES_PER_S:.0f} writes a second of one driver: send fewer"
            self._refuse(peer, report, Refusal.RATE, why=why, retry_ms=RETRY_MS)
            return
        known = polls_begun is None or self._reports.knows(report)
        if known:
            self._ready[asker] = report
        elif self._polls.ask(peer, report.request, polls_begun=polls_begun or 0, now=now):
            self._waiting[asker] = report
        else:
            self._refuse(peer, report, Refusal.BUSY, why="too many reports wait", retry_ms=RETRY_MS)

    def wants_poll(self, polls_begun: int) -> bool:
        """Whether somebody waits for a poll that has not begun."""
        return self._polls.wants_poll(polls_begun)

    def polled(self, poll: int, seq: int) -> None:
        """Learn that poll number ``poll`` brought everything up to arrival number ``seq``."""
        self._polls.polled(poll, seq)

    def forget(self, peer: bytes) -> None:
        """Answer ``peer`` no more; what it reported before is applied all the same."""
        for asker in [one for one in self._waiting if one[0] == peer]:
            self._ready[asker] = self._waiting.pop(asker)
        self._polls.forget(peer)

    def step(self, *, unresolved: int, now: float, at_us: int) -> None:
        """Apply what may be applied, and take for written what lapsed."""
        for asker in (*self._polls.answer(unresolved), *self._polls.expire(now)):
            self._ready[asker] = self._waiting.pop(asker)
        of_paths = {asker: one for asker, one in self._ready.items() if _names_path(one)}
        lapses = self.deadline is not None and now >= self.deadline
        current = not (of_paths or lapses) or self._reports.locations.catch_up()
        ready, self._ready = self._ready, {} if current else of_paths
        for (peer, request), report in ready.items():
            if (peer, request) in self._ready:
                continue
            verdicts = self._reports.apply(report, now=now, at_us=at_us)
            epoch, start = self._position()
            told = Reported(request=request, epoch=epoch, start=start, verdicts=verdicts)
            self._answers.append((peer, told))
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
        self, peer: bytes, report: Report, code: str, *, why: str, retry_ms: int = 0
    ) -> None:
        refused = Refused(request=report.request, code=code, message=why, retry_ms=retry_ms)
        self._answers.append((peer, refused))


def _names_path(report: Report) -> bool:
    return any(is_path(write.object) for write in report.writes)


def places(uris: str) -> frozenset[str]:
    """Return host and port of each of the metastore ``uris``; one host has one name."""
    found = set()
    for uri in uris.split(","):
        place = uri.strip().lower().rpartition("://")[2].rstrip("/")
        if not place:
            continue
        host, colon, port = place.rpartition(":")
        if not colon or not port.isdigit():
            host, port = place, PORT_DEFAULT
        found.add(f"{'localhost' if host in LOOPBACK else host}:{port}")
    return frozenset(found)
