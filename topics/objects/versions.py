"""Versions as applications hold them: each has its epoch, so none passes for one of another.

table.version ──kept by the application, for long──▶ validate, read views: still true in its epoch?
"""


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
