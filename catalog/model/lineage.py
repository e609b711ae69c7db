"""Lineage: whether a peer's content is of this store's lineage, or of a store that was lost.

    their epoch   below ours, or 0: OLD       above ours: AHEAD       equal: look at the start
    their start   not in the list: AHEAD      known: its versions end where the next start began

Each start of catalogd records the versions that it began with. A store restored from an old copy
lacks the starts after the copy, and its last start ends at lower versions than a peer has seen:
either is found, even when versions have grown past the lost versions since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ...topics.errors import WireError
from ...topics.topic import topic_ids
from .versions import VersionLog

EPOCH_MAX: Final = 1 << 60
"""A clock in µs gets there in 36,000 years; a peer that claims more is broken, and must not drive
catalogd's own epochs to the end of their 63 bits."""


class PeerDecision(Enum):
    """The decision about a peer."""

    ACCEPTED = "ACCEPTED"  # of our lineage: what it lacks is sent by version
    OLD = "OLD"  # empty or of an epoch that has ended: it takes a snapshot by itself
    AHEAD = "AHEAD"  # it holds what this store never wrote: only a new epoch can follow


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """One start of catalogd: its id, and the versions by ``topic_ids`` that it began with."""

    start: int
    epoch: int
    versions: Sequence[int]


def judge(
    starts: Sequence[StartRecord],
    versions: Mapping[int, int],
    *,
    epoch: int,
    start: int,
    held: Mapping[int, int],
) -> PeerDecision:
    """Return whether what a peer holds, by its own account, can be continued by this store.

    Args:
        starts: All starts of the current epoch, oldest first; the last is the running start.
        versions: Current version by topic.
        epoch: In which the peer's versions count.
        start: The last start that the peer saw.
        held: The peer's versions by topic.

    Raises:
        WireError: no catalogd can have minted ``epoch``.

    Cost: O(starts + topics). Source: docs/protocol.md, section "Starts".
    """
    ours = starts[-1].epoch
    if epoch > EPOCH_MAX:
        raise WireError(f"epoch {epoch} claimed: at most {EPOCH_MAX} can exist")
    if epoch < ours:
        return PeerDecision.OLD
    if epoch > ours:
        return PeerDecision.AHEAD
    index = next((i for i, record in enumerate(starts) if record.start == start), None)
    if index is None:
        return PeerDecision.AHEAD
    ends = versions if index == len(starts) - 1 else by_topic(starts[index + 1].versions)
    beyond = any(version > ends.get(topic, 0) for topic, version in held.items())
    return PeerDecision.AHEAD if beyond else PeerDecision.ACCEPTED


def by_topic(vector: Sequence[int]) -> dict[int, int]:
    """Return ``vector``, which follows ``topic_ids``, by topic; an empty vector gives none."""
    return dict(zip(topic_ids(len(vector) - 1), vector, strict=True)) if vector else {}


class Epochs:
    """The starts of the running epoch, and whether a new epoch is to follow."""

    def __init__(self, starts: tuple[StartRecord, ...], version_log: VersionLog) -> None:
        """``starts``: of the running epoch; the last is the running start."""
        self._starts = starts
        self._version_log = version_log
        self.minted_above = 0  # a new epoch is to be minted above this epoch; 0: none

    @property
    def position(self) -> tuple[int, int]:
        """The current epoch and start."""
        return self._starts[-1].epoch, self._starts[-1].start

    def on_minted(self, epoch: int, starts: tuple[StartRecord, ...]) -> None:
        """Go on in ``epoch``, which the store has begun."""
        self._starts, self.minted_above = starts, 0
        for topic in self._version_log.topics.values():
            topic.epoch = epoch

    def accepts(self, *, epoch: int, start: int, held: Mapping[int, int]) -> bool:
        """Return whether what a peer holds can be continued; if not, a new epoch follows.

        ``epoch``, ``start`` and ``held`` are as in ``judge``.

        Raises:
            WireError: no catalogd can have minted ``epoch``.
        """
        versions = dict(zip(self._version_log.topics, self._version_log.versions(), strict=True))
        decision = judge(self._starts, versions, epoch=epoch, start=start, held=held)
        if decision is not PeerDecision.AHEAD:
            return True
        self.mint_above(epoch)
        return False

    def mint_above(self, epoch: int) -> None:
        """Begin an epoch above ``epoch``, once everything is as new as the metastore.

        A peer is ahead of a store that was restored: the peer has seen newer versions than are
        held here, until the events since have been read again.
        """
        self.minted_above = max(self.minted_above, epoch)
