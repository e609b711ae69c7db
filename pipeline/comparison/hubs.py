"""Hubs: compares a hub's topics with catalogd's store as of the same version.

    hub ──catch-up of a topic──▶ version, a mark for each key ──┐
    catalogd's store as of that version ────────────────────────┴▶ groups that differ
    hub, store: these groups once more ──▶ entry by entry ──▶ verdict

It runs on Spark's driver, because only catalogd admits the keys of executors. A hub reads entries
from its memory, so that one stream of them keeps up with several tasks. The driver holds the marks
of one topic, and the entries of GROUPS_MAX groups.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from functools import cache
from itertools import count, islice
from typing import Final, TypeVar

from ...subscriber.client.conversation import Conversation, greet
from ...topics.errors import AuthRefused, HistoryGone, LinkError, NotReady, UsageError
from ...topics.keys.credential import Credential
from ...topics.link import Link
from ...topics.objects.names import group_of, key_before
from ...topics.settings import Address
from ...topics.streams.sender import CREDIT_DEFAULT, chunk_cost
from ...topics.topic import FULL, NAMESPACE, STUB, VALUE, Entry
from ...topics.wire.messages.data import Chunk
from ...topics.wire.messages.readers import CatchUp, Credit, Wanted
from ..datasource.planning import BEHIND_BLOCKS, ReadPlanner
from ..datasource.scanning import KeyRange, patiently
from ..datasource.snapshot_versions import SnapshotVersion
from ..progress import OnProgress, RunProgress
from .entries import Mark, compare_group, differing_groups, mark_of, table_or_database
from .selection import ObjectSelection, name_of
from .verdict import HUB, SideResult, TableVerdict

ANSWER_S: Final = 5.0
PATIENCE_S: Final = 20.0  # for a hub that is restarted, or behind catalogd
GROUPS_MAX: Final = 200  # whose entries are held at once
ATTEMPTS_MAX: Final = 5  # at a topic whose version catalogd discards before it is compared

T = TypeVar("T")


class HubReader:
    """One hub, read a topic at a time; it connects with its first read."""

    def __init__(self, address: Address, credential: Credential) -> None:
        self._address = address
        self._credential = credential
        self._link: Link | None = None
        self._hub: Conversation | None = None

    def close(self) -> None:
        """Leave the hub."""
        hub, self._hub = self._hub, None
        link, self._link = self._link, None
        if hub is not None:
            hub.leave()
        if link is not None:
            link.close()

    def read(
        self, topic: int, as_of: SnapshotVersion, keep: Callable[[Entry], T | None]
    ) -> tuple[int, list[T]]:
        """Return the version that the hub has of ``topic``, and what ``keep`` makes of its entries.

        The version is that of ``as_of`` or later: if the hub is behind, or restarts, wait for it.

        Raises:
            LinkError: the hub does not answer, or stays behind.
            AuthRefused: the hub does not admit the key.
        """

        def read() -> tuple[int, list[T]]:
            try:
                return self._read(topic, as_of, keep)
            except AuthRefused:
                raise
            except (LinkError, UsageError) as error:  # after a restart the hub does not know us
                self.close()
                raise LinkError(str(error)) from error

        return patiently(read, patience_s=PATIENCE_S)

    def _read(
        self, topic: int, as_of: SnapshotVersion, keep: Callable[[Entry], T | None]
    ) -> tuple[int, list[T]]:
        kept: list[T] = []
        version, least = 0, as_of.by_topic()[topic]
        for chunk in self._chunks(topic):
            version = chunk.to_version
            if chunk.epoch != as_of.epoch:
                raise LinkError(f"it is at epoch {chunk.epoch}, and catalogd at {as_of.epoch}")
            if version < least:
                raise LinkError(f"it is at version {version} of topic {topic}, catalogd at {least}")
            some = (keep(entry) for entry in chunk.entries if entry.kind in (VALUE, STUB))
            kept += [one for one in some if one is not None]
        return version, kept

    def _chunks(self, topic: int) -> Iterator[Chunk]:
        """Yield the whole topic, in the order of versions."""
        hub = self._connected()
        stream = hub.next_request()
        wanted = Wanted(topic=topic, level=FULL, epoch=0, version=0)
        hub.send(CatchUp(stream=stream, credit=CREDIT_DEFAULT, wanted=(wanted,)))
        for sequence in count():
            chunk = hub.receive(Chunk, timeout_s=ANSWER_S)
            if (chunk.stream, chunk.sequence) != (stream, sequence):
                raise LinkError("a part of its answer was lost")
            yield chunk
            if chunk.last:
                return
            hub.send(Credit(stream=stream, amount=chunk_cost(chunk)))

    def _connected(self) -> Conversation:
        if self._hub is None:
            self._link = Link(self._credential.pair)
            where = (self._address,)
            _, self._hub, _ = greet(
                self._link, where, self._credential, timeout_s=ANSWER_S, reads_bulk=True
            )
        return self._hub


class HubSide:
    """Compares one hub with catalogd's store, which ``planner`` reads."""

    def __init__(self, address: Address, credential: Credential, *, planner: ReadPlanner) -> None:
        self.name = f"{HUB} {address}"
        self._hub = HubReader(address, credential)
        self._planner = planner

    def compare(self, wanted: ObjectSelection, on_progress: OnProgress) -> SideResult:
        """Compare the objects of ``wanted``.

        Raises:
            NotReady: catalogd does not answer.
        """
        found = SideResult(side=self.name)
        as_of = self._planner.snapshot_version()
        topics = wanted.topics(as_of)
        with closing(self._hub):
            for done, topic in enumerate(topics):
                on_progress(
                    RunProgress(step=f"topics of {self.name}", done=done, left=len(topics) - done)
                )
                try:
                    self._compare_kept(topic, as_of, wanted, into=found)
                except NotReady:
                    raise  # catalogd does not answer; if a hub does not, that is no NotReady
                except (LinkError, HistoryGone, UsageError) as error:
                    found.unread[f"topic {topic} and those behind it"] = str(error)
                    break
        return found

    def _compare_kept(
        self, topic: int, as_of: SnapshotVersion, wanted: ObjectSelection, *, into: SideResult
    ) -> None:
        """Compare ``topic`` as of a version that catalogd still keeps."""
        for _ in range(ATTEMPTS_MAX - 1):
            with suppress(HistoryGone):  # catalogd has discarded that version: take a newer one
                return self._compare(topic, as_of, wanted, into=into)
        return self._compare(topic, as_of, wanted, into=into)

    def _compare(
        self, topic: int, as_of: SnapshotVersion, wanted: ObjectSelection, *, into: SideResult
    ) -> None:
        @cache
        def selects(group: bytes) -> bool:
            of = table_or_database(topic, group)
            return of is not None and wanted.has(of)

        def marked(entry: Entry) -> tuple[bytes, Mark] | None:
            return (entry.key, mark_of(entry)) if selects(group_of(entry.key)) else None

        version, found = self._hub.read(topic, as_of, marked)
        marks = dict(found)
        everything = self._planner.entries(KeyRange(topic, version), epoch=as_of.epoch)
        stored = (entry for entry in everything if selects(group_of(entry.key)))
        groups = iter(sorted(differing_groups(marks, stored)))
        verdicts: list[TableVerdict] = []
        while some := frozenset(islice(groups, GROUPS_MAX)):
            verdicts += self._verdicts(topic, as_of, some)
        into.verdicts += verdicts
        if topic != NAMESPACE:
            tables = [mark for key, mark in marks.items() if key == group_of(key)]
            into.tables += len(tables)
            into.withheld += sum(mark.digest is None for mark in tables)

    def _verdicts(
        self, topic: int, as_of: SnapshotVersion, groups: Collection[bytes]
    ) -> list[TableVerdict]:
        """Read ``groups`` again on both sides; return the verdicts of objects that differ."""
        version, entries = self._hub.read(
            topic, as_of, lambda entry: entry if group_of(entry.key) in groups else None
        )
        there: dict[bytes, list[Entry]] = {}
        for entry in entries:
            there.setdefault(group_of(entry.key), []).append(entry)
        found: dict[str, TableVerdict] = {}
        for group in sorted(groups):
            of = table_or_database(topic, group)
            assert of is not None  # else the group was not selected
            verdict = found.setdefault(name_of(of), TableVerdict(name_of(of), self.name))
            keys = KeyRange(topic, version, key_before(group), group + BEHIND_BLOCKS + b"\0")
            stored = self._planner.entries(keys, epoch=as_of.epoch)
            compare_group(verdict, topic, held=there.get(group, ()), stored=stored)
        return [verdict for verdict in found.values() if verdict.differences]
