"""PullServer: pulls, from when they are asked until their last part is sent.

    asked ──held──────────▶ its peer's turn ──▶ parts, under credit
      ├──────not held─────▶ waits ──loaded──▲
      └─known not to come─▶ refused, with the reason

Invariant: of each peer one pull goes on before a second one of any other does.
"""

from collections import OrderedDict
from typing import Final

from ...topics.bulk import Sender
from ...topics.errors import UsageError
from ...topics.objects.names import TableId, table_name
from ...topics.wire.messages import Pull, Refused
from ...topics.wire.refusal import Refusal
from ..facts import Counts, Reply
from ..ingest.loader import Loader
from ..ingest.poller import Poller
from .fair_queue import FairQueue
from .pulls import Pulls
from .waiters import Waiting

PARTS_BYTES_MAX: Final = 1 << 20  # sent in one turn, before deltas get theirs
OPENED_MAX: Final = 8  # pulls that begin to be answered in one turn: 0.05 to 3 ms each
STREAMS_MAX: Final = 256  # open at once; each knows the entries that it will send
STALLED_S: Final = 30.0  # without word of the asker: it is gone, or asks again
RETRY_MS: Final = 1000
QUEUED_RETRY_MS: Final = 100  # and one more for each pull that is before


class PullServer:
    """The pulls that are not answered yet, or not to their end."""

    def __init__(self, pulls: Pulls, loader: Loader, poller: Poller, *, counts: Counts) -> None:
        self._pulls = pulls
        self._loader = loader
        self._poller = poller
        self._counts = counts
        self._waiting = Waiting()
        self._turns = FairQueue()
        self._sender = Sender(STREAMS_MAX)
        self._heard: OrderedDict[tuple[bytes, int], float] = OrderedDict()  # of open streams
        self._ordered = False  # a load, since reads were last begun
        self._replies: list[Reply] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._turns)

    @property
    def ready(self) -> bool:
        """Whether a turn has something to send, or to read."""
        return self._sender.ready or self._ordered or self._turns.waits(self._sender.room)

    def ask(self, peer: bytes, pull: Pull, *, now: float) -> None:
        """Take a pull in; asked again under its id, it begins anew."""
        self._sender.cancel(peer, pull.request)
        if self._pulls.ready(pull):
            self._waiting.cancel(peer, pull.request)
            self._queue(peer, pull)
            return
        self._turns.cancel(peer, pull.request)
        if self._refuse_known(peer, pull):
            self._waiting.cancel(peer, pull.request)
        elif self._waiting.add(peer, pull, now=now):
            self._load_some()
        else:
            self._refuse(peer, pull, Refusal.BUSY, why="too many pulls wait", retry_ms=RETRY_MS)

    def credit(self, peer: bytes, stream: int, amount: int, *, now: float) -> None:
        """Let a stream send ``amount`` bytes more."""
        self._sender.credit(peer, stream, amount)
        self._hear(peer, stream, now)

    def cancel(self, peer: bytes, request: int) -> None:
        """Answer ``request`` no more."""
        self._sender.cancel(peer, request)
        self._waiting.cancel(peer, request)
        self._turns.cancel(peer, request)

    def forget(self, peer: bytes) -> None:
        """Answer nothing of ``peer`` any more."""
        self._sender.forget(peer)
        self._waiting.forget(peer)
        self._turns.forget(peer)

    def withdrawn(self, table: TableId, error: str) -> None:
        """Refuse those who wait for a table that cannot be read."""
        for peer, pull in self._waiting.give_up(table):
            self._refuse(peer, pull, Refusal.UNREADABLE, why=_unreadable(pull, error))

    def replies(self, *, now: float) -> tuple[Reply, ...]:
        """Return what may leave, now that everything is committed."""
        self._ordered = False
        for peer, pull in self._waiting.arrived(self._is_settled):
            if self._pulls.ready(pull) or not self._refuse_known(peer, pull):
                self._queue(peer, pull)
        for peer, pull in self._waiting.expire(now):
            self._refuse(peer, pull, Refusal.LOADING, why=self._progress(pull), retry_ms=RETRY_MS)
        self._load_some()
        self._open_some(now)
        while self._heard and next(iter(self._heard.values())) <= now - STALLED_S:
            who, _ = self._heard.popitem(last=False)
            self._sender.cancel(*who)
        sent = self._sender.turn(PARTS_BYTES_MAX)
        replies, self._replies = self._replies, []
        return (*replies, *(Reply(peer=one.peer, message=one.message) for one in sent))

    def check(self) -> None:
        """Assert every invariant."""
        self._waiting.check()
        assert len(self._sender) <= STREAMS_MAX

    def _is_settled(self, pull: Pull) -> bool:
        return self._pulls.ready(pull) or bool(self._pulls.unfit(pull))

    def _queue(self, peer: bytes, pull: Pull) -> None:
        if not self._turns.put(peer, pull):
            retry_ms = QUEUED_RETRY_MS + len(self._turns)
            why = "too many pulls wait for their turn"
            self._refuse(peer, pull, Refusal.BUSY, why=why, retry_ms=retry_ms)

    def _open_some(self, now: float) -> None:
        """Begin to answer some pulls, one peer after the other."""
        for _ in range(OPENED_MAX):
            found = self._turns.take(self._sender.room)
            if found is None:
                return
            peer, pull = found
            try:
                parts = self._pulls.parts(pull)
            except UsageError as error:
                why = f"{table_name(pull.db, pull.table)}: {error}"
                self._refuse(peer, pull, Refusal.FILTER, why=why)
                continue
            self._sender.open(peer, pull.request, credit=pull.credit, parts=parts)
            self._hear(peer, pull.request, now)

    def _load_some(self) -> None:
        """Order loads for those who wait, one peer after the other."""
        while (table := self._waiting.next_load()) is not None:
            self._loader.load(table, urgent=True)
            self._ordered = True

    def _refuse_known(self, peer: bytes, pull: Pull) -> bool:
        """Refuse what is known not to come now, and say why; False if nothing is known."""
        table = (pull.db, pull.table)
        unfit, unread = self._pulls.unfit(pull), self._loader.error(table)
        if unfit:
            why = f"{table_name(*table)} cannot be held: {unfit}"
            self._refuse(peer, pull, Refusal.UNREADABLE, why=why)
        elif unread:
            self._refuse(peer, pull, Refusal.UNREADABLE, why=_unreadable(pull, unread))
        elif self._poller.error:
            self._loader.load(table, urgent=True)  # who asks again finds it, if it can be read
            why = f"the metastore does not answer: {self._poller.error}"
            self._refuse(peer, pull, Refusal.SOURCE, why=why, retry_ms=RETRY_MS)
        return bool(unfit or unread or self._poller.error)

    def _progress(self, pull: Pull) -> str:
        left = self._loader.partitions_left((pull.db, pull.table))
        more = f": {left} of its partitions are still to be read" if left else ""
        return f"{table_name(pull.db, pull.table)} is not loaded yet{more}"

    def _hear(self, peer: bytes, request: int, now: float) -> None:
        self._heard[peer, request] = now
        self._heard.move_to_end((peer, request))

    def _refuse(self, peer: bytes, pull: Pull, code: str, *, why: str, retry_ms: int = 0) -> None:
        self._counts.refused += 1
        refused = Refused(request=pull.request, code=code, message=why, retry_ms=retry_ms)
        self._replies.append(Reply(peer=peer, message=refused))


def _unreadable(pull: Pull, error: str) -> str:
    return f"{table_name(pull.db, pull.table)}: the metastore cannot read it: {error}"
