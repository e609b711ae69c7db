"""Sends an outbox's reports to catalogd over one subscriber's connection, one at a time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...topics.requests import RETRY_S, Requests
from ...topics.wire.messages import Refused, Report, Reported
from ...topics.wire.refusal import Refusal
from .write_outbox import Outbox

HOPELESS: Final = (Refusal.METASTORE,)  # refusals that no time mends


class WriteSender:
    """Repeats a report until it is answered. Invariant: at most one is in flight."""

    def __init__(
        self, outbox: Outbox, next_id: Callable[[], int], *, retry_s: float = RETRY_S
    ) -> None:
        self.outbox = outbox
        self._requests: Requests[Report] = Requests(next_id, retry_s=retry_s)

    @property
    def deadline(self) -> float | None:
        """When ``due`` has something."""
        return self._requests.deadline if len(self._requests) else self.outbox.deadline

    def due(self, *, now: float) -> tuple[Report, ...]:
        """Return what is to be sent now."""
        if not len(self._requests):
            report = self.outbox.next_report(now=now)
            if report is not None:
                self._requests.open(report, now=now)
        return tuple(replace(one, request=request) for request, one in self._requests.due(now))

    def on_reported(self, reported: Reported, *, now: float) -> None:
        """Take what catalogd has."""
        report = self._requests.close(reported.request)
        if report is not None:
            self.outbox.acknowledge(report, reported.verdicts, now=now)

    def on_refused(self, refused: Refused, *, now: float) -> None:
        """Send the report again later, or never if no time mends it."""
        if self._requests.get(refused.request) is None:
            return
        if refused.code in HOPELESS:
            self._requests.clear()
            self.outbox.refuse(refused.message)
            return
        self.outbox.put_off(refused.message)
        pause_s = max(refused.retry_ms / 1000, RETRY_S)
        self._requests.back_off(refused.request, until=now + pause_s)

    def hasten(self, *, now: float) -> None:
        """Send the report again now: the connection, or catalogd, is another one."""
        self._requests.retry_now(now=now)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._requests) <= 1
        self.outbox.check()
