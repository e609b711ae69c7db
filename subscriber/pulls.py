"""Pulls: the asker's half of fetching a table from catalogd. One pull however many ask.

    ask ──Pull──▶ parts, under credit ──last──▶ fence ──▶ answered
                     └── of two versions, out of order, or older than what was shown: pulled again

A pull names what is held already, and only what differs comes. Load fence: what was asked for
before something newer was shown, or heard of, is not answered after it. The parent says whether
a whole reply is fit to be shown; nothing of it is kept here.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from ..topics.bulk import CREDIT_DEFAULT, pulled_cost
from ..topics.entries import Entry
from ..topics.errors import LinkError, NotReady, TopicastError, UsageError
from ..topics.objects.names import table_key, table_name
from ..topics.requests import Requests
from ..topics.wire.control import TEXT_MAX
from ..topics.wire.messages import (
    SELECT_BLOCKS,
    SELECT_FILTER,
    SELECT_TABLE,
    Cancel,
    Credit,
    Pull,
    Pulled,
    Refused,
)
from .content import HEAD_ONLY, Content, Covers, content_of
from .facts import PULLS, Answer, AskTable, Effect, Fail, Send
from .fence import Fence
from .rows import EMPTY, put

PULLS_MAX: Final = 16  # at once: as many streams as catalogd gives one peer; others wait
WAITING_MAX: Final = 1000  # asks; beyond, the application is told to come again
STALE_AGAIN_S: Final = 0.02  # what was shown is on its way to catalogd's other thread

HELD_BYTES_MAX: Final = 256 << 10  # of the keys that one pull names; the rest comes again
HELD_COST: Final = 16  # of one, beside its key

COVERS_MAX: Final = 64  # filters remembered of one table, the newest

Target = tuple[str, str, int, str]  # db, table, selector, filter
Base = Callable[[str, str], tuple[int, int, Content | None]]


@dataclass(slots=True)
class _Pull:
    target: Target
    asks: list[AskTable]
    epoch: int  # of ``base``
    base: Content | None
    held: dict[bytes, Entry]
    sequence: int = 0
    place: tuple[int, ...] = ()
    entries: list[Entry] = field(default_factory=list)
    gone: set[bytes] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Whole:
    """A complete reply: its last part, and the content of all of them."""

    last: Pulled
    content: Content


class Pulls:
    """What is asked of catalogd and who waits.

    ``base`` gives the topic of a table, the epoch that is accepted, and what is held of that.
    """

    def __init__(self, next_id: Callable[[], int], *, base: Base, fence: Fence) -> None:
        self.sent = 0
        self.stale_rejected = 0
        self.fence = fence
        self._base = base
        self._requests: Requests[_Pull] = Requests(next_id)
        self._running: dict[Target, int] = {}
        self._queue: deque[AskTable] = deque()

    @property
    def deadline(self) -> float | None:
        """The time at which ``tick`` has work to do."""
        times = [ask.give_up_at for ask in self._asks()]
        if self._requests.deadline is not None:
            times.append(self._requests.deadline)
        return min(times, default=None)

    def ask(self, ask: AskTable, *, now: float) -> tuple[Effect, ...]:
        """Fetch what ``ask`` wants, with a pull that runs already if there is one."""
        if len(self._queue) >= WAITING_MAX:
            error = NotReady(f"{len(self._queue)} pulls are waiting: ask again")
            return (Fail(ask.id, error),)
        if not self._start(ask, now):
            self._queue.append(ask)
        return self.due(now)

    def part(self, part: Pulled, *, now: float) -> tuple[Whole | None, tuple[Effect, ...]]:
        """Take a part of a reply; return the whole once it is complete, and what to send."""
        pull = self._requests.get(part.request)
        if pull is None:
            return None, () if part.last else (Send(PULLS, Cancel(stream=part.request)),)
        credit: tuple[Effect, ...] = ()
        if not part.last:
            amount = pulled_cost(part)
            credit = (Send(PULLS, Credit(stream=part.request, amount=amount)),)
        place = (part.epoch, part.start, part.topic, part.topic_version, part.namespace_version)
        if part.sequence == 0:
            pull.sequence, pull.place, pull.entries, pull.gone = 0, place, [], set(part.gone)
        foreign = pull.base is not None and part.epoch != pull.epoch  # versions mean others there
        if foreign or part.sequence != pull.sequence or place != pull.place:
            return None, credit + self.again(part, now=now)
        pull.sequence += 1
        pull.entries += part.entries
        if not part.last:
            return None, credit
        return Whole(part, _content(pull, at=part.topic_version)), ()

    def target(self, request: int) -> Target | None:
        """Return what an open request is about."""
        pull = self._requests.get(request)
        return None if pull is None else pull.target

    def again(self, part: Pulled, *, now: float) -> tuple[Effect, ...]:
        """Do not show this reply: pull once more, after a moment."""
        pull = self._close(part.request)
        self.stale_rejected += 1
        request = self._open(pull.target, pull.asks, now)
        self._requests.put_off(request, until=now + STALE_AGAIN_S)
        return () if part.last else (Send(PULLS, Cancel(stream=part.request)),)

    def answer(
        self, request: int, result: Content | TopicastError, *, now: float
    ) -> tuple[Effect, ...]:
        """Give ``result`` to everybody who waits for ``request``, and begin what had to wait."""
        pull = self._close(request)
        effects: list[Effect] = []
        for ask in pull.asks:
            if isinstance(result, Content):
                effects.append(Answer(ask.id, result))
            else:
                effects.append(Fail(ask.id, result))
        return *effects, *self._next(now)

    def on_refused(self, refused: Refused, *, now: float) -> tuple[Effect, ...]:
        """catalogd does not answer now, or never."""
        pull = self._requests.get(refused.request)
        if pull is None:
            return ()
        if refused.retry_ms:
            self._requests.put_off(refused.request, until=now + refused.retry_ms / 1000)
            return ()
        name = table_name(*pull.target[:2])
        error: TopicastError = LinkError(
            f"catalogd refused to serve {name}: {refused.code}: {refused.message}"
        )
        if refused.code == "FILTER":
            error = UsageError(refused.message)
        return self.answer(refused.request, error, now=now)

    def hasten(self, *, now: float) -> None:
        """catalogd is another one, or may be asked again: repeat everything."""
        self._requests.hasten(now=now)

    def due(self, now: float) -> tuple[Effect, ...]:
        """Send what is due, first or again."""
        effects: list[Effect] = []
        for request, pull in self._requests.due(now):
            self.sent += 1
            db, table, selector, text = pull.target
            message = Pull(
                request=request,
                db=db,
                table=table,
                selector=selector,
                credit=CREDIT_DEFAULT,
                held=tuple((key, entry.version) for key, entry in pull.held.items()),
                filter=text,
            )
            effects.append(Send(PULLS, message))
        return tuple(effects)

    def tick(self, *, missing: str, now: float) -> tuple[Effect, ...]:
        """Give up for those whose time is over, and repeat what was not answered."""
        effects: list[Effect] = []
        late = [ask for ask in self._asks() if now >= ask.give_up_at]
        for ask in late:
            name = table_name(ask.db, ask.table)
            effects.append(Fail(ask.id, NotReady(f"no answer from catalogd for {name}{missing}")))
        if late:
            gone = {ask.id for ask in late}
            self._queue = deque(ask for ask in self._queue if ask.id not in gone)
            for request in list(self._running.values()):
                effects += self._leave(request, gone)
            effects += self._next(now)
        return *effects, *self.due(now)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._running) <= PULLS_MAX
        assert len(self._queue) <= WAITING_MAX
        assert len(self._requests) == len(self._running) >= len(self.fence)
        for target, request in self._running.items():
            pull = self._requests.get(request)
            assert pull is not None
            assert pull.target == target
            assert pull.asks

    def _asks(self) -> list[AskTable]:
        pulls = [self._requests.get(request) for request in self._running.values()]
        running = [ask for pull in pulls if pull is not None for ask in pull.asks]
        return [*running, *self._queue]

    def _start(self, ask: AskTable, now: float) -> bool:
        target = (ask.db, ask.table, *_selection(ask))
        pull = self._requests.get(self._running.get(target, 0))
        if pull is not None:
            pull.asks.append(ask)
            return True
        if len(self._running) >= PULLS_MAX:
            return False
        self._open(target, [ask], now)
        return True

    def _open(self, target: Target, asks: list[AskTable], now: float) -> int:
        db, table = target[:2]
        topic, epoch, base = self._base(db, table)
        pull = _Pull(target, asks, epoch, base, _held(base, target))
        request = self._requests.open(pull, now=now)
        self._running[target] = request
        self.fence.begin(topic, table_key(db, table))
        return request

    def _close(self, request: int) -> _Pull:
        pull = self._requests.close(request)
        assert pull is not None
        del self._running[pull.target]
        self.fence.end(table_key(*pull.target[:2]))
        return pull

    def _leave(self, request: int, gone: set[int]) -> tuple[Effect, ...]:
        pull = self._requests.get(request)
        assert pull is not None
        pull.asks = [ask for ask in pull.asks if ask.id not in gone]
        if pull.asks:
            return ()
        self._close(request)
        return (Send(PULLS, Cancel(stream=request)),)

    def _next(self, now: float) -> tuple[Effect, ...]:
        while self._queue and self._start(self._queue[0], now):
            self._queue.popleft()
        return self.due(now)


def _held(base: Content | None, target: Target) -> dict[bytes, Entry]:
    """Return what a pull of ``target`` need not bring if it is still so."""
    held: dict[bytes, Entry] = {}
    if base is None:
        return held
    size = 0
    for entry in base.values():
        size += len(entry.key) + HELD_COST
        if size > HELD_BYTES_MAX:
            break
        if target[2] != SELECT_TABLE or entry.key == table_key(*target[:2]):
            held[entry.key] = entry
    return held


def _content(pull: _Pull, *, at: int) -> Content:
    """Return what a complete reply comes to: what was held and is still so, and what came."""
    rows = {key: entry for key, entry in pull.held.items() if key not in pull.gone}
    rows.update((entry.key, entry) for entry in pull.entries)
    version = max((entry.version for entry in rows.values()), default=0)
    covers = _covers(pull, at) if pull.target[2] != SELECT_BLOCKS else None
    return content_of(
        put(EMPTY, sorted(rows.values(), key=_version)), version, covers=covers, at=at
    )


def _selection(ask: AskTable) -> tuple[int, str]:
    """Return selector and filter; one too long for a message brings all blocks."""
    if not ask.whole:
        return SELECT_TABLE, ""
    if ask.filter is None or len(ask.filter) > TEXT_MAX:
        return SELECT_BLOCKS, ""
    return SELECT_FILTER, ask.filter


def _covers(pull: _Pull, at: int) -> Covers:
    """Return the filters that the reply to ``pull`` answers, and those known before it."""
    if pull.target[2] == SELECT_TABLE:
        return HEAD_ONLY
    before = pull.base.covers if pull.base is not None else None
    covers = {**(before or {}), pull.target[3]: at}
    return dict(sorted(covers.items(), key=itemgetter(1))[-COVERS_MAX:])


def _version(entry: Entry) -> int:
    return entry.version
