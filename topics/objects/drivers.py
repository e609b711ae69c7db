"""Drivers: the facts that an attached driver announces to its hub, and the states of a driver.

    connecting ──▶ live ◀──▶ plain        unsupported: it could not be attached at all
        └──────────┴──────────┴──▶ detached, by its own word; gone, as its hub says

``driver_facts`` is total: it returns every fact, of its type and bounded, for anything that the
application of a driver may return.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

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
COUNTS_S: Final = 60.0  # between two announcements of which only counts differ
CONNECTING_S: Final = 10.0  # that a driver may be connecting: an attach takes less
FACT_CHARS_MAX: Final = 500  # of a text: an error's, or the name of an application
PID_MAX: Final = 1 << 32
HUBS_MAX: Final = 1 << 10
COUNT_MAX: Final = 1 << 62  # of each: sums of them stay below 2^63, which rows can hold
NUMBERS: Final = {PID: PID_MAX, HUBS: HUBS_MAX, **dict.fromkeys(COUNTS, COUNT_MAX)}
"""The facts that are numbers, and the largest of each."""


def is_ill(state: str, *, reason: str, control: str, since_s: float) -> bool:
    """Return whether a driver is not what it should be; a driver that connects has time for that.

    ``since_s``: how long it is in its state.
    """
    if state == GONE:
        return False
    connects = state == CONNECTING and since_s < CONNECTING_S
    return not (connects or (state == LIVE and not reason and control in ("", ON)))


def driver_facts(given: Mapping[str, Fact]) -> dict[str, Any]:
    """Return the facts that a driver announces, of what its application has returned.

    A text that is missing is empty, a longer text is cut; what is no number, or not within its
    bounds, is 0; a state that does not exist is live, and a fact that does not exist is left out.
    """
    found: dict[str, Any] = {}
    for name in (*ANNOUNCED, *COUNTS):
        fact = given.get(name)
        if name in NUMBERS:
            found[name] = fact if type(fact) is int and 0 <= fact <= NUMBERS[name] else 0
        else:
            found[name] = "" if fact is None else str(fact)[:FACT_CHARS_MAX]
    if found[STATE] not in ANNOUNCED_STATES:
        found[STATE] = LIVE
    return found
