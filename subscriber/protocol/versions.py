"""Versions as applications hold them: each knows its epoch, so none passes for one of another.

table.version ──kept by the application, for long──▶ validate, reading: true still, in its epoch?
"""

from collections.abc import Iterable

from ...topics.wire.messages import Claimed


class Version(int):
    """A version of a topic, which is a number, and the ``epoch`` that it counts in.

    An epoch is one life of catalogd's store. Numbers of two epochs say nothing of each other;
    only ``validate`` tells.
    """

    epoch: int

    def __new__(cls, number: int, epoch: int) -> "Version":
        """Return version ``number`` of ``epoch``."""
        version = super().__new__(cls, number)
        version.epoch = epoch
        return version

    def __reduce__(self) -> tuple[object, ...]:
        return Version, (int(self), self.epoch)


def epoch_of(version: int) -> int:
    """Return the epoch that ``version`` counts in; 0 of a number alone, which no epoch is."""
    return version.epoch if isinstance(version, Version) else 0


def claims_of(
    known: Iterable[tuple[tuple[str, str], int]], *, whole: bool
) -> tuple[int, tuple[Claimed, ...]]:
    """Return what to ask about the tables ``known``, by name and version, and in which epoch.

    It is the newest of their epochs: what is of another is true no more, and asked as of version
    0, at which nothing is, to learn the version that it has now.
    """
    versions = tuple(known)
    epoch = max((epoch_of(version) for _, version in versions), default=0)
    return epoch, tuple(
        Claimed(
            db=db,
            table=table,
            version=int(version) if epoch_of(version) == epoch else 0,
            whole=whole,
        )
        for (db, table), version in versions
    )
