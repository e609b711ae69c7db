"""Moments: a version of each topic, all of one moment of catalogd, as one text.

    1790000000000000:12,0,7,…,41        the epoch, then a version for each topic, the namespace last

Reads at the same moment agree, however far apart, as long as catalogd keeps the changes since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...topics.errors import ConfigError, TopicastError
from ...topics.topic import check_num_topics, topic_ids
from ...topics.wire.messages.questions import Inspected

EPOCH: Final = "epoch"  # in an offset, besides the numbers of the topics


@dataclass(frozen=True, slots=True)
class Moment:
    """The versions follow ``topic_ids(num_topics)``."""

    epoch: int
    versions: tuple[int, ...]

    @property
    def num_topics(self) -> int:
        """The number of table topics."""
        return len(self.versions) - 1

    def by_topic(self) -> dict[int, int]:
        """Return the version of each topic."""
        return dict(zip(topic_ids(self.num_topics), self.versions, strict=True))

    @property
    def beginning(self) -> "Moment":
        """The moment before the first change of its epoch."""
        return Moment(self.epoch, (0,) * len(self.versions))

    def __str__(self) -> str:
        return f"{self.epoch}:{','.join(map(str, self.versions))}"


def read_moment(text: str, *, setting: str = "asOf") -> Moment:
    """Return the moment that ``text`` names; raises ConfigError if it is not one."""
    epoch, _, versions = text.partition(":")
    try:
        moment = Moment(int(epoch), tuple(map(int, versions.split(","))))
        check_num_topics(moment.num_topics)
    except (ValueError, TopicastError):
        allowed = "a moment, as topicast.pipeline.datasource.moment() returns it"
        raise ConfigError(setting, text[:40], allowed) from None
    return moment


def moment_of(versions: Inspected, column: str = "version") -> Moment:
    """Return the moment at which catalogd answered with the table ``versions``.

    ``column`` "oldest": the oldest one that can be read.
    """
    at = versions.columns.index(column)
    epoch = int(versions.rows[0][versions.columns.index("epoch")] or 0)
    return Moment(epoch, tuple(int(row[at] or 0) for row in versions.rows))


def offset_of(moment: Moment) -> dict[str, int]:
    """Return the offset of a stream that has read everything up to ``moment``."""
    return {EPOCH: moment.epoch} | {str(topic): at for topic, at in moment.by_topic().items()}


def moment_at(offset: Mapping[str, int]) -> Moment:
    """Return the moment of what ``offset_of`` returned; raises ConfigError if it is not one."""
    try:
        epoch, *versions = (int(offset[key]) for key in (EPOCH, *_topics(offset)))
        check_num_topics(len(versions) - 1)
    except (KeyError, ValueError, TopicastError):
        allowed = "an offset of this source: use another checkpoint"
        raise ConfigError("offset", str(dict(offset))[:80], allowed) from None
    return Moment(epoch, tuple(versions))


def _topics(offset: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(map(str, topic_ids(len(offset) - 2)))
