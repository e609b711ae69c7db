"""Drivers: what an attached driver announces to its hub of itself, and the states that it has.

    connecting ──▶ live ◀──▶ plain        unsupported: it could not be attached at all
        └──────────┴──────────┴──▶ detached, by its own word; gone, as its hub says

``driver_facts`` and ``driver_counts`` are total: whatever a driver has sent, each fact is there, of
its type and bounded.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from .rules import ON

Fact: TypeAlias = str | int | float | bool | None

CONNECTING: Final = "connecting"  # plain Spark: there is no contact yet, or no more
LIVE: Final = "live"
PLAIN: Final = "plain"  # plain Spark: there is contact, and changes cannot be followed
UNSUPPORTED: Final = "unsupported"  # plain Spark: `reason` says why
DETACHED: Final = "detached"
GONE: Final = "gone"
ANNOUNCED_STATES: Final = (CONNECTING, LIVE, PLAIN, DETACHED)

DRIVER: Final = "driver"  # its id: application, host and process
STATE: Final = "state"
REASON: Final = "reason"
PID: Final = "pid"
WRITER: Final = "writer"  # the id under which it reports its writes, in hexadecimal
HUBS: Final = "hubs"  # how many it may go to; 0: its release does not say
ANNOUNCED: Final = (
    *(DRIVER, "application", "application_id", "user", "host", PID, "spark", "release"),
    *(STATE, REASON, "control", HUBS, WRITER),
)
COUNTS: Final = (  # of a driver since its attach: of reads, by who has answered; of writes
    *("memory_reads", "endpoint_reads", "direct_reads", "metastore_calls_saved"),
    "writes_refused",
)
COUNT_MAX: Final = 1 << 62  # of each
COUNTS_S: Final = 60.0  # between two announcements of which only counts differ
ANNOUNCED_REQUEST: Final = 0  # of the Inspected that has them: nobody has requested it
CONNECTING_S: Final = 10.0  # that a driver may be connecting: an attach takes less
FACT_CHARS_MAX: Final = 500  # of a text: an error's, or the name of an application
NUMBERS: Final = {PID: 1 << 32, HUBS: 1 << 10}
"""The facts that are numbers, and the largest of each; what is not one is 0."""


def is_ill(state: str, *, reason: str, control: str, since_s: float) -> bool:
    """Tell whether a driver is not what it should be; one that connects has time for that.

    ``since_s``: how long it is in its state.
    """
    if state == GONE:
        return False
    connects = state == CONNECTING and since_s < CONNECTING_S
    return not (connects or (state == LIVE and not reason and control in ("", ON)))


def driver_facts(rows: Iterable[Sequence[Fact]]) -> Mapping[str, str | int]:
    """Return the facts in ``rows``, of names and values, as a driver announces them.

    A text that is missing is empty, a longer one is cut; a state that is unknown here is live, and
    a fact that is unknown is left out.
    """
    given = {row[0]: row[1] for row in rows if len(row) == 2}
    texts = {name: given.get(name) for name in ANNOUNCED}
    found: dict[str, str | int] = {
        name: "" if text is None else str(text)[:FACT_CHARS_MAX] for name, text in texts.items()
    }
    for name, most in NUMBERS.items():
        found[name] = _number(given.get(name), most)
    if found[STATE] not in ANNOUNCED_STATES:
        found[STATE] = LIVE
    return found


def driver_counts(rows: Iterable[Sequence[Fact]]) -> Mapping[str, int]:
    """Return the counts in ``rows``; one that is missing, or is no count, is 0."""
    given = {row[0]: row[1] for row in rows if len(row) == 2}
    return {name: _number(given.get(name), COUNT_MAX) for name in COUNTS}


def _number(value: Fact, most: int) -> int:
    return value if isinstance(value, int) and 0 <= value <= most else 0
