"""Identity: whether the metastore behind a new connection is the metastore that was followed.

    new connection ──▶ Identify ──another UUID, a lower id, another event of a known id──▶ another
                          ├──a known event is there──▶ the same
                          └──no known event is left──▶ Identify, with tables
                               half of the tables have our creation times ──▶ the same, else another

An address outlives the metastore behind it: an operator puts a copy back, or a failover leads to
another database. The event ids of that database may continue the known ids, so that ids alone prove
nothing.
Invariant: nothing of a connection is applied before its metastore was found to be the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ....topics.objects.names import TableId
from ...metastore.port import RawEvent
from ...model.window_state import KNOWN_MAX, KnownEvent

IDENTIFY_EVENTS_MAX: Final = 4 * KNOWN_MAX  # read to find them: an id may have several events
FEWER: Final = 4  # after a failure the next request is for a quarter of the events
TABLES_MAX: Final = 64  # to compare: one or two calls, and enough that chance does not decide

Creations = Mapping[TableId, int | None]
"""By table that exists: when it was created, in s since 1970; None: the time is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identify:
    """Effect: read what identifies the metastore: its UUID, events after ``after``, ``tables``.

    ``behind``: if many events wait, read as many as a poll would, so that the answer also serves as
    the answer of the first poll.
    """

    poll: int
    after: int
    events_max: int = IDENTIFY_EVENTS_MAX
    behind: bool = False
    tables: tuple[TableId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identified:
    """Fact: the answer to an Identify, all of it from one connection.

    ``uuid``: empty if the metastore has none. ``current_id`` was read before the ``events``.
    ``release``: empty if the metastore does not say. ``tells_all``: as in the port.
    """

    poll: int
    connection: int
    uuid: str
    current_id: int
    release: str = ""
    tells_all: bool = False
    events: tuple[RawEvent, ...] = ()
    tables: Creations = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Whether a connection leads to the ``same`` metastore, and ``why`` catalogd concludes that.

    ``by_tables``: no event proves it, so that changes since the last known event are unknown.
    """

    same: bool
    why: str
    by_tables: bool = False

    def __str__(self) -> str:
        return f"{'the same' if self.same else 'another'} metastore: {self.why}"


def compare(
    fact: Identified,
    *,
    uuid: str,
    last_id: int,
    known: Sequence[KnownEvent],
    events_max: int = IDENTIFY_EVENTS_MAX,
) -> Finding | None:
    """Return what UUID and events prove of the metastore; None if tables have to be compared.

    Args:
        fact: The answer of the metastore.
        uuid: Of the metastore that was followed; empty: it had none.
        last_id: The largest event id that was read.
        known: Events that were read, the newest among them.
        events_max: How many events were requested.
    """
    if uuid and fact.uuid and uuid != fact.uuid:
        return Finding(same=False, why=f"its UUID is {fact.uuid}, and was {uuid}")
    if fact.current_id < last_id:
        why = f"its newest event is {fact.current_id}, and {last_id} was read before"
        return Finding(same=False, why=why)
    found, ours = _by_id((event.id, event.digest) for event in fact.events), _by_id(known)
    oldest = min(found, default=0)
    if found and len(fact.events) >= events_max:
        del found[fact.events[-1].id]  # this id may have more events than were read
    alike: set[int] = set()
    for id_ in sorted(ours.keys() & found.keys()):
        missing = ours[id_] - found[id_]
        if not missing:
            alike.add(id_)
        elif id_ != oldest or missing == ours[id_]:  # the log may have lost some of the oldest id
            return Finding(same=False, why=f"its event {id_} is not the one that was read")
    return Finding(same=True, why=f"its event {max(alike)} is known") if alike else None


def first_after(known: Sequence[KnownEvent]) -> int:
    """Return the id after which to read so that events can be compared with those ``known``."""
    return min((id_ for id_, _ in known), default=1) - 1


def _by_id(events: Iterable[KnownEvent]) -> dict[int, set[bytes]]:
    found: dict[int, set[bytes]] = {}
    for id_, digest in events:
        found.setdefault(id_, set()).add(digest)
    return found


def compare_tables(known: Creations, found: Creations, *, same_uuid: bool = False) -> Finding:
    """Return whether tables prove another metastore; without a known table it is the same.

    ``known`` and ``found``: by table, its creation time. A table whose time either side lacks is no
    evidence: another metastore may have a table of that name. Without evidence ``same_uuid``
    decides.
    """
    gone = object()  # unlike any time
    pairs = [(at, found.get(table, gone)) for table, at in known.items()]
    pairs = [(ours, theirs) for ours, theirs in pairs if None not in (ours, theirs)]
    alike = sum(ours == theirs for ours, theirs in pairs)
    why = f"no known event is left, and {alike} of {len(pairs)} known tables are there"
    same = 2 * alike >= len(pairs)
    if known and not pairs:
        why = "no known event is left, and no table of which the creation time is known"
        same = same_uuid
    return Finding(same=same, why=why, by_tables=True)


class IdentityCheck:
    """Checks each new connection for the poller."""

    def __init__(self, known_tables: Callable[[], Creations]) -> None:
        """``known_tables`` returns some tables that are known, at most TABLES_MAX."""
        self._known_tables = known_tables
        self._tables: Creations | None = None  # to compare; None: UUID and events come first
        self._events_max = IDENTIFY_EVENTS_MAX  # fewer once the metastore could not send them
        self.connection: int | None = None  # the connection that leads to the same metastore

    def order(self, poll: int, known: Sequence[KnownEvent]) -> Identify:
        """Return what to read of a connection that is not identified yet."""
        return Identify(
            poll=poll,
            after=first_after(known),
            events_max=self._events_max if known else 0,
            behind=bool(known) and self._events_max == IDENTIFY_EVENTS_MAX,
            tables=tuple(self._tables or ()),
        )

    def on_identified(
        self, fact: Identified, *, uuid: str, last_id: int, known: Sequence[KnownEvent]
    ) -> Finding | None:
        """Take the answer to ``order``; None if tables have to be read. Arguments as in compare."""
        tables, self._tables = self._tables, None
        finding = compare(
            fact, uuid=uuid, last_id=last_id, known=known, events_max=self._events_max
        )
        if finding is None and tables is None:
            self._tables = self._known_tables()
            return None
        same_uuid = bool(uuid) and uuid == fact.uuid
        finding = finding or compare_tables(tables or {}, fact.tables, same_uuid=same_uuid)
        if finding.same:
            self.connection, self._events_max = fact.connection, IDENTIFY_EVENTS_MAX
        return finding

    def on_events_failed(self) -> None:
        """Request fewer events, or none: the metastore answers, but cannot send these."""
        self._events_max //= FEWER
