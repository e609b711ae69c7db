"""Notes: the lines to be logged about the metastore, and the counters of following it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Effect: log ``text``, as a warning if it is ``trouble`` for an operator."""

    text: str
    trouble: bool


@dataclass(slots=True)
class CatalogCounts:
    """Counts since the start; the dispatcher counts requests."""

    events: int = 0
    events_failed: int = 0  # at which Topicast's own code failed: what they name is read again
    events_sync_off: int = 0  # of tables that are not followed, as their parameters say
    events_elsewhere: int = 0  # of another catalog, or a database that is left out
    events_not_understood: int = 0  # of a type that is not known, or that cannot be decoded
    events_in_place: int = 0  # that needed no call of the metastore
    events_skipped: int = 0  # of a type that tells of nothing that is held
    event_gaps: int = 0
    events_passed: int = 0  # that the metastore cannot send, or that an operator skips
    reads: int = 0
    reads_failed: int = 0
    polls_failed: int = 0
    tables_turned_unreadable: int = 0
    frames_undecodable: int = 0  # frames that could not be decoded, of hubs and of the service
    unreachable: int = 0  # answers that found no peer, or a full queue
