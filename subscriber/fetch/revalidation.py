"""Revalidation: a pull of one table confirms others of its topic that are held.

    pull of b ──"is a unchanged since 15?"──▶ catalogd ──b as of 18, a unchanged──▶ a is as of 18

While the hub is behind, memory answers only with what is as new as the newest reply of the topic.
A reply without the others would so evict them all from use, and the next pull this one. At full a
pull claims the tables in use, and its own table: once pulled, it answers from memory again.
"""

from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Final

from ...topics.objects.names import parse_table_key, table_key
from ...topics.wire.messages import Claimed, Pulled
from ..store.table_snapshot import TableSnapshot
from ..store.view import TopicView

CLAIMS_MAX: Final = 16  # claims in one pull, of what is the newest: 0.8 KB, 0.1 ms at catalogd
LOOKED_AT_MAX: Final = 10_000  # tables held at full, for those in use: at most 0.5 ms


def claims_about_mates(held: TopicView, group: bytes, *, reached: int) -> tuple[Claimed, ...]:
    """Return the claims of a pull of ``group``, whose topic has ``reached`` a version."""
    pulled = held.groups if held.pulled is None else held.pulled.groups
    mates = [(other, content) for other, content in pulled.items() if other != group]
    if held.pulled is not None:
        mates += _in_use(held, group)
    known = [
        (other == group, max(content.as_of, reached), other, not _is_head(content))
        for other, content in mates
    ]
    claims = []
    for _, version, other, whole in nlargest(CLAIMS_MAX, known):
        name = parse_table_key(other)
        claims.append(Claimed(db=name.db, table=name.table, version=version, whole=whole))
    return tuple(claims)


def confirmed_claims(claims: Sequence[Claimed], last: Pulled) -> tuple[Claimed, ...]:
    """Return which of the ``claims`` are true, as the ``last`` part of a reply says."""
    stale = set(last.stale)
    return tuple([claim for index, claim in enumerate(claims) if index not in stale])


def confirm(held: TopicView, claims: Iterable[Claimed], *, at: int, reached: int) -> None:
    """Raise what is held to topic version ``at``, as of which ``claims`` are true."""
    for claim in claims:
        content = held.content(table_key(claim.db, claim.table))
        if content is None or claim.version > max(content.as_of, reached):
            continue  # it was replaced by an older one
        if claim.whole or _is_head(content):
            content.as_of = max(content.as_of, at)


def _in_use(held: TopicView, group: bytes) -> list[tuple[bytes, TableSnapshot]]:
    """Return what is held at full with its values and was read; ``group`` in any case."""
    first = islice(held.groups.items(), LOOKED_AT_MAX)
    found = [(other, content) for other, content in first if content.used and not content.stubs]
    own = held.groups.get(group)
    if own is None or own.stubs or (group, own) in found:
        return found
    return [*found, (group, own)]


def _is_head(content: TableSnapshot) -> bool:
    """Return whether only a table's own entry is held."""
    return content.selections is not None and not content.selections
