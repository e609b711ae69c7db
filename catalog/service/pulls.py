"""Pulls: a table, or a table and its blocks, for whoever does not hold them.

asked ──held──▶ parts, under the asker's credit
  └─not held──▶ waits (one load however many ask) ──loaded──▶ parts
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ...topics.bulk import Part, pulled_cost
from ...topics.objects.values import LOADING
from ...topics.wire.messages import SELECT_TABLE, Claimed, Pull, Pulled, Validate
from ..contents import Contents
from ..namespace import Namespace
from ..sources.reads import TableId
from .claims import stale
from .cutting import blocks, listed
from .selecting import select

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
        """Cut the answer to ``pull`` as of now; all parts are of one topic version.

        Raises:
            UsageError: what it selects is nothing, or not for this table.
        """
        table = (pull.db, pull.table)
        number, topic = self._contents.topic_of(table)
        record = self._namespace.find(table)
        epoch, start = self._place()
        like = Pulled(
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
            gone=(),
            entries=(),
        )
        if record is None:
            return iter([(pulled_cost(like), like)])
        if pull.version and not self._stands(pull, epoch):
            return iter([(pulled_cost(like), replace(like, moved=True))])
        selection = select(self._contents, pull)
        cut = listed if pull.names_only else blocks
        return cut(selection, like, bytes_max=pull.bytes_max)

    def stale(self, asked: Validate) -> tuple[int, ...]:
        """Return the places of the claims that are true no more."""
        return stale(self._namespace, self._contents, asked, epoch=self._place()[0])

    def _stands(self, pull: Pull, epoch: int) -> bool:
        """Tell whether nothing of the table has changed since the version that is asked for."""
        claim = Claimed(db=pull.db, table=pull.table, version=pull.version, whole=True)
        asked = Validate(request=0, epoch=pull.epoch, claims=(claim,))
        return not stale(self._namespace, self._contents, asked, epoch=epoch)

    def _remove(self, test: Callable[[_Waiting], bool]) -> tuple[tuple[bytes, Pull], ...]:
        removed = [one for one in self._waiting.values() if test(one)]
        for one in removed:
            del self._waiting[one.peer, one.pull.request]
        return tuple((one.peer, one.pull) for one in removed)
