"""Claims: which of the tables that somebody knows have changed since; one look for a query."""

from ...topics.objects.names import table_key
from ...topics.wire.messages import Claimed, Validate
from ..contents import Contents
from ..namespace import Namespace


def stale(
    namespace: Namespace, contents: Contents, asked: Validate, *, epoch: int
) -> tuple[int, ...]:
    """Return the places of the claims that are true no more, or that nothing here can confirm.

    Cost: O(claims), whatever the tables hold.
    """
    return tuple(
        place
        for place, claim in enumerate(asked.claims)
        if asked.epoch != epoch or not _holds(namespace, contents, claim)
    )


def _holds(namespace: Namespace, contents: Contents, claim: Claimed) -> bool:
    table = (claim.db, claim.table)
    record, value, entry = namespace.find(table), contents.value(table), contents.entry(table)
    if record is None or value is None or entry is None:
        return False
    if value.incarnation != record.incarnation:
        return False
    _, topic = contents.topic_of(table)
    if claim.version > topic.version:
        return False  # of a store that was lost: the epoch is another, whatever the claim says
    if not claim.whole:
        return entry.version <= claim.version
    forgotten = claim.version < topic.floor  # what was deleted since is not remembered
    return not forgotten and topic.changed_at(table_key(*table)) <= claim.version
