"""Starts: whether what a peer holds is of our lineage, or of a store that was lost.

    their epoch   below ours, or 0: OLD       above ours: AHEAD       equal: look at the start
    their start   not in the list: AHEAD      known: its versions end where the next start began

Each start of catalogd records the versions that it began with. A store restored from an old copy
lacks the starts after the copy, and the start that it does have ends earlier than a peer saw it
go: both show, even when versions have grown past the lost ones since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ...topics.errors import WireError
from ...topics.sharding import topic_ids

ACCEPTED: Final = "ACCEPTED"  # of our lineage: what is missing is sent by version
OLD: Final = "OLD"  # empty or of an epoch that is over: it takes a snapshot by itself
AHEAD: Final = "AHEAD"  # holds what this store never wrote: only a new epoch gets past it
Verdict = Literal["ACCEPTED", "OLD", "AHEAD"]

EPOCH_MAX: Final = 1 << 60
"""A clock in µs gets there in 36,000 years; who claims more is broken, and must not drag
catalogd's own epochs to the end of their 63 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """One start of catalogd: its id, and the versions by ``topic_ids`` that it began with."""

    start: int
    epoch: int
    versions: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a peer says it holds, and the start that it last heard of; ``versions`` by topic."""

    epoch: int
    start: int
    versions: Mapping[int, int]


def judge(starts: Sequence[StartRecord], versions: Mapping[int, int], *, claim: Claim) -> Verdict:
    """Say whether ``claim`` can be continued by this store.

    Args:
        starts: All starts of the current epoch, oldest first; the last is the running one.
        versions: Current version by topic.
        claim: What the peer holds.

    Raises:
        WireError: the claim is of an epoch that no catalogd can have minted.

    Cost: O(starts + topics). Source: docs/protocol.md, section "Starts".
    """
    ours = starts[-1].epoch
    if claim.epoch > EPOCH_MAX:
        raise WireError(f"epoch {claim.epoch} claimed: at most {EPOCH_MAX} can exist")
    if claim.epoch < ours:
        return OLD
    if claim.epoch > ours:
        return AHEAD
    index = next((i for i, record in enumerate(starts) if record.start == claim.start), None)
    if index is None:
        return AHEAD
    ends = versions if index == len(starts) - 1 else by_topic(starts[index + 1].versions)
    beyond = any(version > ends.get(topic, 0) for topic, version in claim.versions.items())
    return AHEAD if beyond else ACCEPTED


def by_topic(vector: Sequence[int]) -> dict[int, int]:
    """Return ``vector``, which follows ``topic_ids``, by topic; an empty one gives none."""
    return dict(zip(topic_ids(len(vector) - 1), vector, strict=True)) if vector else {}
