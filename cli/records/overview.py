"""Overview: the output of ``topicast status``, made from the answers of the daemons.

answers of each statestored and catalogd ──▶ Installation ──▶ its state, lines, a document
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...topics.verdict import Reason, Serving, Verdict
from ..terminal.exit_codes import DEGRADED, DONE, NOT_REACHABLE
from ..terminal.lists import NO_LIMIT, aligned, amount, described, span, wrapped

STATESTORED: Final = "statestored"  # a kind of daemon; the other is catalogd
NOT_REACHED: Final = "not reached"
SCHEME: Final = "tcp://"  # of an address; lines leave it out
SEEN_CHARS_MIN: Final = 30  # with room for fewer, they are below the line of their daemon
BELOW: Final = "    "
SECONDS: Final = re.compile(r"\b\d+ s\b")  # the same reason has other seconds at another hub
HEARD_S: Final = 2.0  # a catalogd that sends nothing for longer is silent
STATES: Final = ("live", "connecting", "plain", "gone")
PRESENT: Final = STATES[:3]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonAnswers:
    """One daemon at ``address``: its answers, and why it is not reached; both may be empty."""

    kind: str
    address: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in lines for people."""
        return f"{self.kind} {self.place}".rstrip()

    @property
    def place(self) -> str:
        """Its host and port."""
        return place(self.address)

    @property
    def state(self) -> str:
        """Its state in words."""
        return str(self.verdict.state) if self.facts else NOT_REACHED

    @property
    def document(self) -> dict[str, Any]:
        """Its answers, for programs."""
        return {"address": self.address, **self.verdict.document, **self.facts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The hubs and their catalogd. ``connections``: a record for each hub, as catalogd sees it."""

    hubs: tuple[DaemonAnswers, ...]
    catalogd: DaemonAnswers
    connections: tuple[Mapping[str, Any], ...] = ()

    @property
    def daemons(self) -> tuple[DaemonAnswers, ...]:
        """All of them."""
        return (*self.hubs, self.catalogd)

    @property
    def state(self) -> str:
        """The verdict over all: not reachable if no hub is; degraded if some daemon is not."""
        if not any(one.facts for one in self.hubs):
            return "not reachable"
        worst = max(one.verdict.state for one in self.daemons)
        less = any(one.problems for one in self.daemons)
        return str(max(worst, Serving.DEGRADED) if less else worst)

    @property
    def exit_code(self) -> int:
        """0: all serve; 3: a daemon is not reached; 5: one is degraded or does not serve."""
        if any(one.problems for one in self.daemons):
            return NOT_REACHABLE
        return DEGRADED if any(one.verdict.reasons for one in self.daemons) else DONE


def lag(events: int | None, seconds: float | None) -> str:
    """Return how far catalogd is behind the metastore; empty: not known."""
    if events is None:
        return ""
    for_s = "" if seconds is None else f", {span(seconds)}"
    return f"{amount(events, 'event', 'events')}{for_s}"


def place(address: str) -> str:
    """Return the host and port of an address."""
    return address.removeprefix(SCHEME)


def document(installation: Installation) -> dict[str, Any]:
    """Return the document for programs; daemons that have not answered are in ``not_reached``."""
    catalogd = installation.catalogd
    return {
        "verdict": installation.state,
        "statestoreds": [one.document for one in installation.hubs if one.facts],
        "catalogd": catalogd.document if catalogd.facts else {},
        "connections": [dict(one) for one in installation.connections],
        "not_reached": [
            {"process": one.kind, "address": one.address, "problem": problem}
            for one in installation.daemons
            for problem in one.problems
        ],
    }


def lines(installation: Installation, *, width: int) -> list[str]:
    """Return ``installation`` in lines of at most ``width`` characters.

    These are the verdict and its reasons, each daemon with what it sees of the others, the drivers,
    and what a restart would mean.
    """
    found = [installation.state]
    for reason in _reasons(installation):
        found += wrapped(reason.what, width=width, first="  ", rest="  ")
        if reason.mend:
            found += wrapped(reason.mend, width=width, first="    -> ", rest="       ")
    found += ["", *_daemons(installation, width=width), *_drivers(installation)]
    meant = [*_restarts(installation)]
    if meant:
        found += ["", "A restart now"]
        for name, text in meant:
            found += wrapped(f"{name}: {text}", width=width, first="  ", rest="    ")
    return [line.rstrip() for line in found]


def counters(installation: Installation) -> list[str]:
    """Return a line for each fact of each daemon that has answered."""
    found: list[str] = []
    for one in installation.daemons:
        if one.facts:
            known = [(f"  {name}", value) for name, value in one.facts.items() if value is not None]
            found += ["", one.name, *described(known, width=NO_LIMIT)]
    return found


def _daemons(installation: Installation, *, width: int) -> list[str]:
    """Return a line for each daemon; if what it sees is too long, that goes on below."""
    heads = aligned([(one.kind, one.place, one.state) for one in installation.daemons])
    indent = max(map(len, heads)) + 2
    found: list[str] = []
    for head, one in zip(heads, installation.daemons, strict=True):
        first, rest = head.ljust(indent), " " * indent
        if width - indent < SEEN_CHARS_MIN:
            found.append(head)
            first = rest = BELOW
        found += wrapped(seen_by(one.kind, one.facts), width=width, first=first, rest=rest)
    return found


def _reasons(installation: Installation) -> list[Reason]:
    """Return the reasons of all daemons by name, the worst first; each is listed once."""
    found: dict[tuple[str, str], tuple[Reason, list[str]]] = {}

    def said(reason: Reason) -> list[str]:
        key = reason.code, SECONDS.sub("", reason.text)
        return found.setdefault(key, (reason, []))[1]

    for one in installation.daemons:
        for problem in one.problems:
            away = Reason(state=Serving.NOT_SERVING, code=NOT_REACHED, what=problem, mend="")
            said(away)  # its text names the daemon
        for reason in one.verdict.reasons:
            said(reason).append(one.name)
    named = [
        replace(reason, what=f"{', '.join(names)}: {reason.what}" if names else reason.what)
        for reason, names in found.values()
    ]
    return sorted(named, key=lambda one: -one.state)


def seen_by(kind: str, facts: Mapping[str, Any]) -> str:
    """Return what a daemon of ``kind`` sees of the others; empty: it has not answered."""
    if not facts:
        return ""
    return ", ".join(_seen_by_hub(facts) if kind == STATESTORED else _seen(facts))


def drivers_by_state(hubs: Iterable[Mapping[str, Any]]) -> str:
    """Return how many drivers ``hubs`` have in each state; empty: no hub says it."""
    said = [facts for facts in hubs if _present(facts) is not None]
    if not said:
        return ""
    counts = [f"{sum(one[f'drivers_{state}'] for one in said)} {state}" for state in STATES]
    ill = sum(one["drivers_with_problem"] for one in said)
    more = f"; {ill} with a problem" if ill else ""
    return f"{', '.join(counts)} (last hour){more}"


def restart_of(kind: str, facts: Mapping[str, Any], *, alone: bool = False) -> str:
    """Return what a restart of a daemon of ``kind`` would mean now; empty: not known.

    ``alone``: it is a hub, and none of the other hubs that were named answers.
    """
    if kind == STATESTORED:
        is_known = _present(facts) is not None
        return "; ".join(_restart_of_hub(facts, alone=alone)) if is_known else ""
    return "; ".join(_restart_of_catalogd(facts)) if facts.get("intents") is not None else ""


def _seen_by_hub(facts: Mapping[str, Any]) -> Iterator[str]:
    silent_s = facts.get("publisher_silent_s") or 0.0
    if not facts.get("num_topics"):
        yield "catalogd has no names yet" if facts.get("unannounced") else "no catalogd yet"
    elif silent_s >= HEARD_S:
        yield f"catalogd silent for {silent_s:.0f} s"
    else:
        yield "hears catalogd"
    if facts.get("topics_behind"):
        yield amount(facts["topics_behind"], "topic behind", "topics behind")
    if (present := _present(facts)) is not None:
        yield amount(present, "driver", "drivers")


def _seen(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what catalogd sees; some facts are missing for a key that sees some databases."""
    if facts.get("hubs") is not None:
        yield f"{facts['hubs_connected']} of {amount(facts['hubs'], 'hub', 'hubs')}"
    if facts.get("lag_events") is not None:
        yield f"lag {lag(facts['lag_events'], facts.get('lag_s'))}"
    if facts.get("tables_unreadable"):
        yield f"{amount(facts['tables_unreadable'], 'table', 'tables')} cannot be read"
    if facts.get("partitions_unreadable"):
        yield f"{amount(facts['partitions_unreadable'], 'partition', 'partitions')} cannot be read"


def _drivers(installation: Installation) -> list[str]:
    """Return the line that counts the drivers of all hubs by state, if they say."""
    counted = drivers_by_state(one.facts for one in installation.hubs)
    return ["", f"drivers: {counted}"] if counted else []


def _restarts(installation: Installation) -> Iterator[tuple[str, str]]:
    """Yield what a restart of each daemon that answers would mean now."""
    answers = sum(bool(one.facts) for one in installation.hubs)
    alone = len(installation.hubs) > 1 and answers == 1
    for one in installation.daemons:
        if meant := restart_of(one.kind, one.facts, alone=alone):
            yield one.name, meant


def _restart_of_hub(facts: Mapping[str, Any], *, alone: bool) -> Iterator[str]:
    """``alone``: none of the other hubs that were named answers."""
    present = _present(facts) or 0
    back = "plain Spark until it is back"
    with_other = facts["drivers_with_another_hub"] if present else 0
    if not present:
        yield "no driver is connected"
    elif not with_other:
        yield f"{amount(present, 'driver has', 'drivers have')} no other hub: {back}"
    elif alone:
        yield f"{amount(present, 'driver', 'drivers')}, and no other hub answers: {back}"
    elif with_other == present:
        yield f"{amount(present, 'driver goes', 'drivers go')} to another hub"
    else:
        yield (
            f"{with_other} of {amount(present, 'driver', 'drivers')} go to another hub, "
            f"{amount(present - with_other, 'has', 'have')} none: {back}"
        )
    streams = facts.get("streams")
    begun = amount(streams or 0, "catch-up in flight begins", "catch-ups in flight begin")
    yield f"{begun} anew" if streams else "no catch-up in flight"


def _restart_of_catalogd(facts: Mapping[str, Any]) -> Iterator[str]:
    yield "drivers serve what they hold, and get no change until it is back"
    writes = facts["intents"]
    kept = amount(writes, "write in flight is", "writes in flight are")
    yield f"{kept} kept" if writes else "no write in flight"
    waiting, loads = facts.get("waiting_requests"), facts.get("tables_to_load")
    if waiting:
        yield f"{amount(waiting, 'request waits', 'requests wait')} for an answer"
    if loads:
        yield f"{amount(loads, 'table is', 'tables are')} still to be loaded"


def _present(facts: Mapping[str, Any]) -> int | None:
    """Return how many drivers a hub has; None: the key sees only some databases."""
    counts: Sequence[int | None] = [facts.get(f"drivers_{state}") for state in PRESENT]
    return None if None in counts else sum(filter(None, counts))
