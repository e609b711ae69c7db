"""Verdict: whether a process serves, and the reasons why not, each with what to do next.

    facts of a process ──a pure function of it──▶ Verdict ──▶ commands, page, /healthz, metrics, log

Each process makes a verdict, and every surface shows that verdict and nothing of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from logging import INFO, WARNING
from typing import Any, Final

from .wire.messages.answers import ReasonRow

HANDSHAKES_S: Final = 60.0  # that a refused client is a reason; it tries again within a second


class Serving(IntEnum):
    """Whether a process does what it is there for; its number is that of the metric."""

    SERVING = 0
    DEGRADED = 1  # it serves on, and something that its users rely on is missing
    NOT_SERVING = 2

    def __str__(self) -> str:
        """Return it in words."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a process does not serve as it should.

    ``code`` names the kind, for metrics and programs. ``subject``: which object it is about, if a
    process may have several reasons of one kind. ``starting``: it is part of every start.
    """

    state: Serving
    code: str
    subject: str = ""
    what: str
    mend: str
    starting: bool = False

    @property
    def id(self) -> tuple[str, str]:
        """The same as long as the reason lasts: its kind and its object."""
        return self.code, self.subject

    @property
    def text(self) -> str:
        """The text that says what is wrong, and what to do."""
        return f"{self.what}; {self.mend}" if self.mend else self.what


@dataclass(frozen=True, slots=True)
class RefusedHandshake:
    """The last handshake that was refused: how long ago, and from which address, if that is known.

    A client without a key is refused before its address is.
    """

    ago_s: float
    host: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reasons`` why a process does not serve as it should, the worst first; none: it serves."""

    reasons: tuple[Reason, ...] = ()

    @property
    def state(self) -> Serving:
        """The worst state of a reason."""
        return max((one.state for one in self.reasons), default=Serving.SERVING)

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each reason, with its state; one line if there is none."""
        found = tuple(f"{one.state}: {one.text}" for one in self.reasons)
        return found or (str(self.state),)

    @property
    def rows(self) -> tuple[ReasonRow, ...]:
        """A row for each reason."""
        return tuple(map(_row, self.reasons))

    @property
    def document(self) -> dict[str, Any]:
        """The verdict for programs: its state, and for each reason its row by names."""
        reasons = [row._asdict() for row in self.rows]
        return {"verdict": str(self.state), "reasons": reasons}

    def texts(self, state: Serving) -> str:
        """Return the texts of the reasons of ``state``."""
        return "; ".join(one.text for one in self.reasons if one.state is state)


def verdict_of(reasons: Iterable[Reason]) -> Verdict:
    """Return the verdict for ``reasons``; those of one state keep their order."""
    return Verdict(tuple(sorted(reasons, key=lambda one: -one.state)))


def verdict_in(rows: Iterable[ReasonRow]) -> Verdict:
    """Return the verdict whose ``rows`` a process has answered."""
    states = {str(state): state for state in Serving}
    return verdict_of(
        Reason(
            state=states.get(one.state, Serving.DEGRADED),
            code=one.code,
            subject=one.subject,
            what=one.what,
            mend=one.mend,
            starting=one.starting,
        )
        for one in rows
    )


def news(before: Verdict, after: Verdict) -> tuple[tuple[int, str], ...]:
    """Return what to log when a verdict follows another: a level and a line for each change.

    A reason is logged when it begins, when it turns from a part of every start into a fault, and
    when it has ended; not when its words change. The end of a part of every start is not logged,
    but the line that the process serves is.
    """
    started = {one.id: one.starting for one in before.reasons}
    left = {one.id for one in after.reasons}
    begun = [
        one
        for one in after.reasons
        if one.id not in started or (started[one.id] and not one.starting)
    ]
    ended = [one for one in before.reasons if one.id not in left]
    lines = [(INFO if one.starting else WARNING, f"{one.state}: {one.text}") for one in begun]
    lines += [(INFO, f"no longer {one.state}: {_named(one)}") for one in ended if not one.starting]
    if not after.reasons and ended:
        lines.append((INFO, str(after.state)))
    return tuple(lines)


def refused_handshakes(last: RefusedHandshake | None) -> tuple[Reason, ...]:
    """Return the reason that a client was refused, if the ``last`` time was lately."""
    if last is None or last.ago_s > HANDSHAKES_S:
        return ()
    what = "a client without a key, or with one that is not admitted, tries to connect"
    if last.host:
        what = f"a client at {last.host}, whose key is not admitted, tries to connect"
    return (
        Reason(
            state=Serving.DEGRADED,
            code="handshakes_failed",
            what=what,
            mend="topicast doctor, on the client's host, says which key it has; "
            "topicast keys list, on catalogd's, which ones are admitted",
        ),
    )


def _named(reason: Reason) -> str:
    return f"{reason.code} {reason.subject}".rstrip()


def _row(one: Reason) -> ReasonRow:
    return ReasonRow(str(one.state), one.code, one.subject, one.what, one.mend, one.starting)
