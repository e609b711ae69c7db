"""Visibility: the tables and texts that catalogd withholds from clients with a policy.

A request for a table that the client's policy does not include is refused before the table is
looked up, so the answer does not show whether it exists. A claim about such a table is stale, as if
the table did not exist. An error text of the metastore may name any table, so it is replaced.
"""

from dataclasses import replace
from typing import Final

from ...topics.objects.names import TableId
from ...topics.policy import PROBLEM, Policy
from ...topics.wire.messages.answers import HeldTopics, Inspected, NamedFacts, ReasonRow, Reasons
from ...topics.wire.messages.catalog import Claimed, Pull, Validate
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.fields import Cell
from ...topics.wire.refusal import Refusal

_NO_TABLE: Final = ""  # the name of no database and of no table
_WITHOUT_METASTORES_WORDS: Final[dict[str, str]] = {
    Refusal.LAGGING: "the sync is not finished",
    Refusal.NO_EVENTS: PROBLEM,
    Refusal.SOURCE: "the metastore does not answer",
    Refusal.STARTING: "catalogd reads the names first",
}
"""Texts that replace the metastore's own, which may name objects that a client does not see."""
_FACTS: Final = frozenset(
    (
        *("release", "epoch", "start", "num_topics", "mode", "offers", "watermark", "newest_event"),
        *("lag_events", "lag_s"),
        *("metastore", "metastore_silent_s", "verdict", "state", "sync_off_by_default"),
    )
)
"""The facts of catalogd that tell nothing of a database."""
_TEXTS: Final = frozenset(("problem", "warning"))


def is_visible(table: TableId, policy: Policy) -> bool:
    """Return whether a client with ``policy`` may read ``table``, whether or not it exists."""
    return policy.sees(table[0])


def without_claims(message: Pull | Validate, policy: Policy) -> Pull | Validate:
    """Return ``message`` with claims about no table where ``policy`` does not see them."""
    if all(policy.sees(one.db) for one in message.claims):
        return message
    claims = tuple(_visible(one, policy) for one in message.claims)
    return replace(message, claims=claims)


def visible_part(found: Inspected, policy: Policy | None) -> Inspected:
    """Return ``found`` without rows and counts of objects that ``policy`` does not see."""
    if policy is None:
        return found
    match found:
        case NamedFacts(rows=facts):
            return replace(found, rows=tuple((name, _fact(name, value)) for name, value in facts))
        case Reasons(rows=reasons):
            return replace(found, rows=tuple(map(_reason, reasons)))
        case HeldTopics(rows=topics):
            return replace(
                found, rows=tuple(one._replace(entries=None, held_bytes=None) for one in topics)
            )
        case _:
            return replace(found, rows=())


def plain(refused: Refused) -> Refused:
    """Return ``refused`` without the words of the metastore."""
    return replace(refused, message=_WITHOUT_METASTORES_WORDS.get(refused.code, refused.message))


def _visible(claim: Claimed, policy: Policy) -> Claimed:
    return claim if policy.sees(claim.db) else replace(claim, db=_NO_TABLE, table=_NO_TABLE)


def _fact(name: str, value: Cell) -> Cell:
    if name in _TEXTS:
        return PROBLEM if value else ""
    return value if name in _FACTS else None


def _reason(one: ReasonRow) -> ReasonRow:
    return one._replace(subject="", what=PROBLEM if one.what else "", mend="", starting=False)
