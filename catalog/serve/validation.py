"""Claims: which of the tables that somebody knows have changed since; one look for a query."""

from ...topics.objects.names import table_key
from ...topics.wire.messages import Claimed, Validate
from ..model.namespace import Namespace
from ..model.tables import Tables


def stale(
    namespace: Namespace, tables: Tables, asked: Validate, *, epoch: int
) -> tuple[tuple[int, int], ...]:
    """Return the places of the claims that are true no more, or that nothing here can confirm.

    With each the lowest version of which its claim would be true now; 0: of none.

    Cost: O(claims), whatever the tables hold.
    """
    found = []
    for place, claim in enumerate(asked.claims):
        least, newest = _true(namespace, tables, claim)
        if asked.epoch != epoch or not 0 < least <= claim.version <= newest:
            found.append((place, least))
    return tuple(found)


def _true(namespace: Namespace, tables: Tables, claim: Claimed) -> tuple[int, int]:
    """Return of which versions a claim about this table is true, from the first to the last.

    What is above the last is of a store that was lost: the epoch is another, whatever is said.
    """
    table = (claim.db, claim.table)
    record, value, entry = namespace.find(table), tables.value(table), tables.entry(table)
    if record is None or value is None or entry is None:
        return 0, 0
    if value.incarnation != record.incarnation:
        return 0, 0
    _, topic = tables.topic_of(table)
    if not claim.whole:
        return entry.version, topic.version
    changed = topic.changed_at(table_key(*table))
    return max(changed, topic.floor), topic.version  # what was deleted below it is forgotten
