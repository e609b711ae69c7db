"""The status of an attached driver, for people and notebooks."""

from dataclasses import dataclass, fields
from math import inf
from typing import Any

from ...topics.notebook import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachStatus:
    """The state of an attached driver; counters since it was attached.

    ``state``: connecting, live, plain, unsupported or detached; ``reason`` says why it is not live,
    or what a live driver does without.
    ``control``: the less of what the application and the operators want: on, dry-run or off.
    ``primitives``: the methods of Spark that refreshes call.
    ``staleness_s``: since the last heartbeat from catalogd, infinite before the first heartbeat.
    ``metastore_problem``: why changes of the metastore never arrive; empty when they do.
    ``connection_problem``: which server the driver does not reach, or which server refuses its key
    or does not register it; empty if there is none.
    ``sessions``: how many there are; ``connect_sessions``: how many of these are of clients of
    Spark Connect. ``relations``: how many the sessions had cached at the last look.
    ``changes``: how many were received; ``changes_ignored``: how many of these need no refresh.
    ``refreshes``: relations renewed; ``stale_reads_avoided``: how many of these a query has read
    again. ``would_refresh``: relations that a dry run would have renewed. ``full_refreshes``: how
    often all relations were renewed because changes may have been missed.
    ``planning``: on, or why Spark asks the metastore for its plans. ``endpoint``: on, or why the
    metastore answers first reads. ``memory_reads``: reads of Spark's catalog that memory in the JVM
    has answered; ``endpoint_reads``: those that the endpoint has answered;
    ``metastore_calls_saved``: the calls that both have saved; ``metastore_reads``: the other reads,
    by reason. ``writes_refused``: writes outside of Spark's commands that Topicast has refused,
    because they would have undone the change of another client.
    ``writes``: reported, or why not; ``writes_reported``: how many writes have ended.
    ``errors``: failures of Topicast, each of which left plain Spark; ``last_error``: the newest.
    """

    state: str
    reason: str
    control: str
    spark: str
    primitives: str
    statestores: str
    staleness_s: float
    metastore_problem: str
    connection_problem: str
    sessions: int
    connect_sessions: int
    relations: int
    changes: int
    changes_ignored: int
    refreshes: int
    stale_reads_avoided: int
    would_refresh: int
    full_refreshes: int
    planning: str
    memory_reads: int
    endpoint: str
    endpoint_reads: int
    metastore_calls_saved: int
    metastore_reads: str
    writes_refused: int
    writes: str
    writes_reported: int
    errors: int
    last_error: str

    @staticmethod
    def unknown(*, control: str, statestores: str) -> "AttachStatus":
        """Return the status of a driver whose agent has not answered yet."""
        texts = {one.name: "" for one in fields(AttachStatus) if one.type is str}
        numbers = {one.name: 0 for one in fields(AttachStatus) if one.type is int}
        named: dict[str, Any] = {"control": control, "statestores": statestores}
        return AttachStatus(**{**texts, **numbers, "staleness_s": inf, **named})

    def _repr_html_(self) -> str:
        facts = {one.name: getattr(self, one.name) for one in fields(self)[2:]}
        facts["statestores"] = ", ".join(self.statestores.split(","))
        return shown(f"{self.state}: {self.reason}" if self.reason else self.state, facts.items())
