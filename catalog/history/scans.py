"""Scans: pages of a topic's entries as of a version, and the versions that can be read.

Each page is one request, and catalogd keeps nothing between two requests. A reader of a topic names
the same version in each, so that all pages are as of that version, even if commits come between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final

from ...topics.errors import UsageError
from ...topics.objects.names import KEY_BYTES_MAX, group_of
from ...topics.policy import Policy
from ...topics.topic import VALUE, Entry, is_topic, topic_ids, value_of
from ...topics.wire.codec import fitting, is_large, row_bytes
from ...topics.wire.header import CHUNK_BYTES_MAX, FRAME_BYTES_MAX, PIECE_BYTES_MAX
from ...topics.wire.messages.answers import Inspected, KeyCut, KeyCuts, TopicVersion, TopicVersions
from ...topics.wire.messages.catalog import Scan, Scanned
from ..storage.history import HistoryReader

CUTS_MAX: Final = FRAME_BYTES_MAX // (2 * KEY_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Versions:
    """Asks which versions of each topic can be scanned."""

    table: ClassVar[None] = None
    subject: ClassVar[str] = "the versions of the topics"

    def answer(self, reader: HistoryReader, request: int, _policy: Policy | None) -> Inspected:
        """Return, of one moment, each topic's committed version and the oldest that is readable."""
        epoch, versions = reader.epoch(), reader.versions()
        rows = tuple(
            TopicVersion(epoch, topic, versions.get(topic, 0), reader.floor(topic))
            for topic in topic_ids(reader.num_topics())
        )
        return TopicVersions(request=request, rows=rows)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Asks where ``topic`` can be cut into parts of about ``every_bytes`` of values."""

    topic: int
    every_bytes: int
    table: ClassVar[None] = None

    @property
    def subject(self) -> str:
        """The objects that it is about, for the log."""
        return f"the sizes in topic {self.topic}"

    def answer(self, reader: HistoryReader, request: int, policy: Policy | None) -> Inspected:
        """Return keys of the topic that ``policy`` sees, CUTS_MAX at most, in order."""
        keys = reader.cuts(self.topic, every_bytes=max(self.every_bytes, 1))
        seen = (k for k in keys if policy is None or policy.sees_group(self.topic, group_of(k)))
        rows = tuple(KeyCut(key) for key in islice(seen, CUTS_MAX))
        return KeyCuts(request=request, rows=rows)


@dataclass(frozen=True, slots=True)
class ScanPage:
    """The page that ``scan`` requests."""

    scan: Scan
    table: ClassVar[None] = None

    @property
    def subject(self) -> str:
        """The objects that it is about, for the log."""
        return f"topic {self.scan.topic}"

    def answer(self, reader: HistoryReader, request: int, policy: Policy | None) -> Scanned:
        """Return the page, of what ``policy`` sees.

        Raises:
            UsageError: no such page can exist.
            HistoryGone: the version cannot be read again.
        """
        scan = self.scan
        _check(reader, scan)
        values, behind = _values(reader, scan, policy)
        if scan.offset or (values and is_large(values[0])):
            return _piece(scan, values, behind)
        sent = fitting(values, row_bytes, bytes_max=CHUNK_BYTES_MAX)
        if len(sent) < len(values):
            behind = sent[-1].key
        return Scanned(request=request, entries=tuple(sent), after=behind, offset=0)


def _values(reader: HistoryReader, scan: Scan, policy: Policy | None) -> tuple[list[Entry], bytes]:
    """Return the next values that ``policy`` sees, and the key behind which more may be.

    That key is seen, too: what is not seen is passed over until something is, or nothing is left.
    """
    after = scan.after
    while True:
        entries, behind = reader.page_at(
            scan.topic,
            scan.version,
            after=after,
            until=scan.until,
            bytes_max=CHUNK_BYTES_MAX,
        )
        values = [entry for entry in entries if entry.kind == VALUE]
        if policy is None:
            return values, behind
        values = list(policy.cut(scan.topic, values))
        if values or not behind:
            return values, values[-1].key if behind else b""
        after = behind


def _check(reader: HistoryReader, scan: Scan) -> None:
    num_topics = reader.num_topics()
    if not is_topic(scan.topic, num_topics):
        raise UsageError(f"topic {scan.topic}: there are {num_topics}, and the namespace")
    if scan.after and scan.after.count(b"\0") < 2:
        raise UsageError(f"key {scan.after[:64]!r} has no group")
    reader.demand_epoch(scan.epoch)
    newest = reader.versions().get(scan.topic, 0)
    if scan.version > newest:
        raise UsageError(f"topic {scan.topic} as of version {scan.version}: it is at {newest}")


def _piece(scan: Scan, values: Sequence[Entry], behind: bytes) -> Scanned:
    """Return the next piece of the first of ``values``; ``behind``: where these end, as of a page.

    Raises:
        UsageError: the first is not so large.
    """
    if not values or not is_large(values[0]) or scan.offset >= values[0].size:
        raise UsageError(f"no value of {scan.offset} bytes follows key {scan.after[:64]!r}")
    entry, end = values[0], scan.offset + PIECE_BYTES_MAX
    piece = entry._replace(value=value_of(entry)[scan.offset : end])
    if end < entry.size:
        return Scanned(request=scan.request, entries=(piece,), after=scan.after, offset=end)
    behind = entry.key if len(values) > 1 else behind
    return Scanned(request=scan.request, entries=(piece,), after=behind, offset=0)
