"""Which claims of a client about tables no longer hold: one look-up a claim."""

from collections.abc import Iterable

from ...topics.objects.names import table_key
from ...topics.wire.messages import Claimed
from ..model.namespace import Namespace
from ..model.tables import Tables


def stale_claims(
    namespace: Namespace,
    tables: Tables,
    claims: Iterable[Claimed],
    *,
    claimed_in: int,
    epoch: int,
) -> tuple[tuple[int, int], ...]:
    """Return the indices of the claims that do not hold, or that nothing here can confirm.

    Each comes with the lowest version for which its claim would hold now, 0 if there is none.

    Args:
        claimed_in: The epoch of the versions that are claimed.
        epoch: The current one.

    Cost: O(claims), whatever the tables hold.
    """
    found = []
    for index, claim in enumerate(claims):
        least, newest = _true_versions(namespace, tables, claim)
        if claimed_in != epoch or not 0 < least <= claim.version <= newest:
            found.append((index, least))
    return tuple(found)


def _true_versions(namespace: Namespace, tables: Tables, claim: Claimed) -> tuple[int, int]:
    """Return the lowest and the highest version for which ``claim`` holds; (0, 0) if none.

    A version above the highest comes from a store that was lost, whatever epoch it claims.
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
    return max(changed, topic.floor), topic.version  # what was deleted below it is not recorded
