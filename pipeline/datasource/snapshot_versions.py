"""Snapshot versions: a version of each topic, as catalogd had them at one time, as one text.

    1790000000000000:12,0,7,…,41        the epoch, then a version for each topic, the namespace last

Reads as of one snapshot version agree, whenever they run, while catalogd keeps the changes since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...topics.errors import ConfigError, TopicastError
from ...topics.topic import check_num_topics, topic_ids
from ...topics.wire.messages.answers import TopicVersions

EPOCH: Final = "epoch"  # a key of an offset; the other keys are the numbers of topics


@dataclass(frozen=True, slots=True)
class SnapshotVersion:
    """An epoch, and the versions of its topics in the order of ``topic_ids(num_topics)``."""

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
    def beginning(self) -> "SnapshotVersion":
        """The snapshot version before the first change of its epoch."""
        return SnapshotVersion(self.epoch, (0,) * len(self.versions))

    def __str__(self) -> str:
        return f"{self.epoch}:{','.join(map(str, self.versions))}"


def parse_snapshot_version(text: str, *, setting: str = "asOf") -> SnapshotVersion:
    """Return the snapshot version that ``text`` names; raises ConfigError if it names none."""
    epoch, _, versions = text.partition(":")
    try:
        as_of = SnapshotVersion(int(epoch), tuple(map(int, versions.split(","))))
        check_num_topics(as_of.num_topics)
    except (ValueError, TopicastError):
        allowed = "a version, as topicast.pipeline.datasource.snapshot_version() returns it"
        raise ConfigError(setting, text[:40], allowed) from None
    return as_of


def snapshot_version_of(versions: TopicVersions) -> SnapshotVersion:
    """Return the snapshot version in catalogd's answer ``versions``."""
    return SnapshotVersion(versions.rows[0].epoch, tuple(one.version for one in versions.rows))


def oldest_version_of(versions: TopicVersions) -> SnapshotVersion:
    """Return the oldest snapshot version that can be read, in catalogd's answer ``versions``."""
    return SnapshotVersion(versions.rows[0].epoch, tuple(one.oldest for one in versions.rows))


def offset_of(as_of: SnapshotVersion) -> dict[str, int]:
    """Return the offset of a stream that has read everything up to ``as_of``."""
    return {EPOCH: as_of.epoch} | {str(topic): at for topic, at in as_of.by_topic().items()}


def snapshot_version_at(offset: Mapping[str, int]) -> SnapshotVersion:
    """Return the version of an offset; raises ConfigError if ``offset_of`` did not make it."""
    try:
        epoch, *versions = (int(offset[key]) for key in (EPOCH, *_topics(offset)))
        check_num_topics(len(versions) - 1)
    except (KeyError, ValueError, TopicastError):
        allowed = "an offset of this source: use another checkpoint"
        raise ConfigError("offset", str(dict(offset))[:80], allowed) from None
    return SnapshotVersion(epoch, tuple(versions))


def _topics(offset: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(map(str, topic_ids(len(offset) - 2)))
