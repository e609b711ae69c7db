"""Pulls: a table, or a table and its blocks, for whoever does not hold them.

asked ──held──▶ parts, under the asker's credit
  └─not held──▶ waits (one load however many ask) ──loaded──▶ parts
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ...topics.bulk import Part, pulled_cost
from ...topics.entries import VALUE, Entry
from ...topics.objects.names import table_key
from ...topics.objects.values import LOADING
from ...topics.wire.codec import row_bytes
from ...topics.wire.header import CHUNK_BYTES_MAX
from ...topics.wire.messages import SELECT_TABLE, Pull, Pulled
from ..contents import Contents
from ..namespace import Namespace
from ..sources.reads import TableId

WAITING_MAX: Final = 10_000
WAIT_S_MAX: Final = 30.0


@dataclass(slots=True)
class _Waiting:
    peer: bytes
    pull: Pull
    give_up_at: float


class Pulls:
    """Answers pulls from what is held; who asks for something else waits for its load."""

    def __init__(
        self, namespace: Namespace, contents: Contents, place: Callable[[], tuple[int, int]]
    ) -> None:
        """``place`` gives (epoch, start)."""
        self._namespace = namespace
        self._contents = contents
        self._place = place
        self._waiting: dict[tuple[bytes, int], _Waiting] = {}  # by peer and request

    def __len__(self) -> int:
        return len(self._waiting)

    def ready(self, pull: Pull) -> bool:
        """Whether ``pull`` can be answered from what is held."""
        table = (pull.db, pull.table)
        record = self._namespace.find(table)
        if record is None:
            return True
        value = self._contents.value(table)
        if value is None or value.incarnation != record.incarnation:
            return False
        return pull.selector == SELECT_TABLE or value.partitions != LOADING

    def wait(self, peer: bytes, pull: Pull, *, now: float) -> bool:
        """Let a pull wait for its table's load, once however often asked; False if too many do."""
        self.cancel(peer, pull.request)
        if len(self) >= WAITING_MAX:
            return False
        self._waiting[peer, pull.request] = _Waiting(peer, pull, now + WAIT_S_MAX)
        return True

    def cancel(self, peer: bytes, request: int) -> None:
        """Let ``request`` wait no longer."""
        self._waiting.pop((peer, request), None)

    def forget(self, peer: bytes) -> None:
        """Let nothing of ``peer`` wait any longer."""
        self._remove(lambda one: one.peer == peer)

    def arrived(self) -> tuple[tuple[bytes, Pull], ...]:
        """Return those whose table has come, or is gone, and let them wait no more."""
        return self._remove(lambda one: self.ready(one.pull))

    def expire(self, now: float) -> tuple[tuple[bytes, Pull], ...]:
        """Return those who waited too long."""
        return self._remove(lambda one: one.give_up_at <= now)

    def give_up(self, table: TableId) -> tuple[tuple[bytes, Pull], ...]:
        """Return those who wait for ``table``, which cannot be read."""
        return self._remove(lambda one: (one.pull.db, one.pull.table) == table)

    def parts(self, pull: Pull) -> Iterator[Part]:
        """Cut the answer to ``pull`` as of now; all parts are of one topic version."""
        table = (pull.db, pull.table)
        number, topic = self._contents.topic_of(table)
        record = self._namespace.find(table)
        epoch, start = self._place()
        held = dict(pull.held)
        entries: list[Entry] = []
        gone: tuple[bytes, ...] = ()
        if record is not None:
            rows = [e for e in topic.rows(table_key(*table)) if e.kind == VALUE]
            if pull.selector == SELECT_TABLE:
                rows = [e for e in rows if e.key == table_key(*table)]
            here = {entry.key for entry in rows}
            gone = tuple(key for key in held if key not in here)
            entries = [entry for entry in rows if held.get(entry.key) != entry.version]
            entries.sort(key=lambda entry: entry.key)
        return _slices(
            entries,
            Pulled(
                request=pull.request,
                sequence=0,
                last=True,
                found=record is not None,
                epoch=epoch,
                start=start,
                topic=number,
                topic_version=topic.version,
                namespace_version=self._namespace.version,
                incarnation=record.incarnation if record else 0,
                gone=gone,
                entries=(),
            ),
        )

    def _remove(self, test: Callable[[_Waiting], bool]) -> tuple[tuple[bytes, Pull], ...]:
        removed = [one for one in self._waiting.values() if test(one)]
        for one in removed:
            del self._waiting[one.peer, one.pull.request]
        return tuple((one.peer, one.pull) for one in removed)


def _slices(entries: list[Entry], like: Pulled) -> Iterator[Part]:
    begin, sequence = 0, 0
    while True:
        end, size = begin, 0
        while end < len(entries) and (
            size == 0 or size + row_bytes(entries[end]) < CHUNK_BYTES_MAX
        ):
            size += row_bytes(entries[end])
            end += 1
        last = end == len(entries)
        part = Pulled(
            request=like.request,
            sequence=sequence,
            last=last,
            found=like.found,
            epoch=like.epoch,
            start=like.start,
            topic=like.topic,
            topic_version=like.topic_version,
            namespace_version=like.namespace_version,
            incarnation=like.incarnation,
            gone=like.gone if sequence == 0 else (),
            entries=tuple(entries[begin:end]),
        )
        yield pulled_cost(part), part
        if last:
            return
        begin, sequence = end, sequence + 1
