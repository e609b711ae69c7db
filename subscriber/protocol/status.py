"""The status of a subscriber and its topics: levels, and counters."""

from dataclasses import dataclass, fields

from ...topics.notebook import shown
from ...topics.topic import table_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic as this subscriber follows it.

    ``lag_s``: time since the topic was last known to be current. ``full_bytes``: the bytes that it
    takes at level full. ``why``: the reason for its level, for people.
    """

    id: int
    level: str
    version: int
    bytes: int
    hits: int
    lag_s: float
    full_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """The table topics whose changes do not arrive, of ``num_topics``; false if there are none.

    A topic that is behind is followed: its catch-up brings what has changed.
    """

    topics: frozenset[int]
    num_topics: int

    def __bool__(self) -> bool:
        return bool(self.topics)

    def topic_of(self, table: str) -> int:
        """Return the topic of ``table``, as ``db.table``, which need not exist."""
        db, _, name = table.lower().partition(".")
        return table_topic(db, name, self.num_topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How old the held content may be.

    ``current_at``: the time, by ``topics.clock.seconds``, as of which a heartbeat of catalogd had
    come, and every followed topic was current; -infinite: one never was. Watches have all changes
    up to then. ``unfollowed``: the table topics whose changes do not arrive. ``metastore_problem``:
    why changes of the metastore never arrive; empty: they do.
    """

    current_at: float
    unfollowed: frozenset[int]
    metastore_problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why some topics are not followed, so that changes of their tables do not arrive.

    ``reason``: for people; empty: all topics are followed. ``needed_bytes``: the budget that would
    hold all, at the cheapest level that is offered.
    """

    reason: str
    needed_bytes: int


@dataclass(slots=True)
class AuditCounts:
    """Tables that were compared since the start, and those of them that differed."""

    audits: int = 0
    differences: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counters since the start, and the state of the budget.

    ``staleness_s``: time since the last heartbeat from catalogd, infinite before the first.
    ``metastore_problem``: why changes of the metastore never arrive; empty: they do.
    ``connection_problem``: which server this process does not reach, or which refuses its key or
    does not register it, and what to do; empty: there is none.
    ``connected``: a hub has registered this subscriber, and is not silent.
    ``evictions``: topics lowered, and pulled tables evicted, to make room. ``pulls_not_kept``:
    replies larger than the room for pulled tables, or not worth the tables that would have to go.
    ``stale_replies``: replies older than what was already returned, which were pulled again.
    ``prefetches``: the pulls made before any read, for tables that are pinned or hot.
    ``pinned_not_held``: the pinned tables for which there is no room.
    ``engine_restarts``: how often the engine began again, after an error of ours or because the
    held content was no longer valid. ``pulls``, ``evictions``, ``pulls_not_kept``,
    ``stale_replies``, ``prefetches`` and ``catch_ups`` count from the last restart on.
    ``writes_acknowledged``: reports that catalogd has stored; ``writes_unknown_table``: those that
    name no table that catalogd has; ``writes_discarded``: those that the full outbox evicted;
    ``writes_delay_reason``: why catalogd postpones the pending writes; empty: it does not.
    ``answers_audited``: tables that were compared with catalogd; ``answers_differing``: those that
    differed, and were pulled again.
    """

    budget_bytes: int
    held_bytes: int
    hits: int
    misses: int
    pulls: int
    evictions: int
    pulls_not_kept: int
    stale_replies: int
    prefetches: int
    pinned_tables: int
    pinned_not_held: int
    catch_ups: int
    wire_errors: int
    engine_restarts: int
    writes_acknowledged: int
    writes_pending: int
    writes_unknown_table: int
    writes_discarded: int
    writes_delay_reason: str
    staleness_s: float
    metastore_problem: str
    connection_problem: str
    hub: str
    connected: bool
    ready: bool
    answers_audited: int = 0
    answers_differing: int = 0

    @property
    def verdict(self) -> str:
        """Whether reads are answered, and are current, in words: the worst problem, if any."""
        problems = (self.connection_problem, self.metastore_problem)
        if not self.ready:
            return f"not ready: {next(filter(None, problems), 'it is being loaded')}"
        if problem := next(filter(None, problems), ""):
            return f"ready, and not current: {problem}"
        return f"ready, and current within {self.staleness_s:.1f} s"

    def _repr_html_(self) -> str:
        return shown(self.verdict, [(one.name, getattr(self, one.name)) for one in fields(self)])
