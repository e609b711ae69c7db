"""Loop: the one background thread of a subscriber; owns the link and performs what was decided.

    any thread ──Inbox──▶ member.handle ──effects──▶ sockets, futures, watches
    sockets ────poll────▶      │                     (readers read member.view, past all this)
                           deadline

Everything that waits waits in ``poll``. The thread is a daemon, holds no reference to the
subscriber, and closes its sockets itself.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import count
from typing import Final, assert_never

from ...topics.errors import LinkError, NotReady, UsageError, WireError
from ...topics.link import Inbox, Link
from ...topics.link import Received as Frame
from ...topics.wire import decode, encode
from ..protocol.facts import (
    BULK,
    CONTROL,
    DATA,
    PULLS,
    SERVICE,
    Answer,
    Ask,
    Changed,
    ConnectCatalog,
    ConnectData,
    ConnectHub,
    Effect,
    Fact,
    Fail,
    Leave,
    PinsNotHeld,
    Received,
    Send,
    Subscribe,
    Tick,
    Undecodable,
    Unsubscribe,
    Watching,
)
from .core import Core
from .watch import Watch, Watches

POLL_S_MAX: Final = 1.0
TURN_S: Final = 0.002  # for what applications ask, before the sockets are looked at again
LARGE: Final = (BULK, PULLS)  # channels of which a frame may take a millisecond
GRACE_S: Final = 1.0  # the member gives up by itself; this is for a thread that is held up
GOODBYE_S: Final = 0.02
STOP_S: Final = 5.0  # for the thread to end
FLOOD_S: Final = 0.02  # between two polls that bring deltas, under a flood of them
FLOOD_POLLS: Final = 10  # after so many it is one, and not the two or three deltas of a write
POLLS_A_LOOK: Final = 5  # between two looks what is due: nobody waits for us under a flood
REST_S: Final = 0.01  # for which they gather then, instead of waking us one by one
TOGETHER: Final = 20  # facts that are settled at once; what comes of them waits for the last
FEW: Final = 50  # of more frames at once it is the work that takes the time

log = logging.getLogger(__name__)


class EngineLoop:
    """Runs ``member`` on ``link``; ``ask`` and the watches are for any thread."""

    def __init__(
        self, member: Core, link: Link, *, hubs: tuple[str, ...], clock: Callable[[], float]
    ) -> None:
        self.member = member
        self._link = link
        self._hubs = hubs
        self._clock = clock
        self._pid = os.getpid()
        self._ids = count(1)
        self._inbox: Inbox[Fact] = Inbox(link.wake)
        self._futures: dict[int, Future[object]] = {}
        self._connected: set[str] = set()
        # One a turn: a delta waits for one, not for all; bounded by the credit that was granted
        self._large: deque[tuple[str, bytes]] = deque()
        self._asked: deque[Fact] = deque()  # of the inbox, taken and left to the next turn
        self._watches = Watches()
        self._heard_at = -FLOOD_S  # deltas
        self._deadline = 0.0  # of the member, as of the last look
        self._polls = 0  # that brought deltas, one soon after the other
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="topicast-subscriber", daemon=True)

    @property
    def running(self) -> bool:
        """Whether the thread is there, in this process."""
        return self._thread.is_alive() and not self._stopping

    def start(self) -> None:
        """Start the thread, and let it send the writes of the outbox."""
        self.member.outbox.attach(self._link.wake)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, the sockets and every watch; in a forked child do nothing."""
        if self._pid != os.getpid():
            return
        self._stopping = True
        self._watches.close()
        if not self._thread.is_alive():
            self._link.close()
        elif self._thread is not threading.current_thread():  # which a collection may run on
            self._link.wake()
            self._thread.join(STOP_S)

    def ask(self, make: Callable[[int, float], Ask], *, timeout_s: float) -> object:
        """Put ``make(id, give_up_at)`` to the member and return its answer.

        Raises:
            UsageError: the subscriber is closed, or of another process.
            LinkError: no answer in time.
        """
        number = next(self._ids)
        future: Future[object] = Future()
        self._futures[number] = future
        try:
            self._tell(make(number, self._clock() + timeout_s), timeout_s=timeout_s)
            return future.result(timeout_s + GRACE_S)
        except FutureTimeout as exc:
            raise NotReady(f"no answer within {timeout_s} s: the thread is held up") from exc
        finally:
            self._futures.pop(number, None)

    def watch(self, pattern: str, *, timeout_s: float) -> Watch:
        """Return a new watch, which sees everything from now on."""
        watch = self._watches.add(pattern)
        self._tell(Watching(on=True), timeout_s=timeout_s)
        return watch

    def run_once(self) -> None:
        """Read one batch, let the member decide, perform what it decided."""
        rested = self._may_rest()
        if not rested or self._polls % POLLS_A_LOOK == 0:
            self._deadline = self.member.deadline
        pause_s = min(self._deadline - self._clock(), POLL_S_MAX)
        batch = self._link.poll(0.0 if rested or self._large or self._asked else pause_s)
        facts: list[Fact] = []
        for received in batch:
            if received.name in LARGE:
                self._large.append((received.name, received.frame))
            else:
                facts.append(_read(received.name, received.frame))
        if self._large:
            facts.append(_read(*self._large.popleft()))
        if self._watches and not self.member.watched:  # from when the watch was made, not heard of
            self._perform(self.member.handle(Watching(on=True), now=self._clock()))
        for begin in range(0, len(facts), TOGETHER):
            some = facts[begin : begin + TOGETHER]
            self._perform(self.member.handle_all(some, now=self._clock()))
        self._asked.extend(() if self._asked else self._inbox.take())
        now = began = self._clock()
        while self._asked and now < began + TURN_S:
            self._perform(self.member.handle(self._asked.popleft(), now=now))
            now = self._clock()
        if now >= self._deadline:
            self._perform(self.member.handle(Tick(), now=now))
            self._deadline = self.member.deadline
        self._notice(batch, now)

    def _notice(self, batch: Sequence[Frame], now: float) -> None:
        """See whether deltas come faster than it is worth to wake up for each."""
        if not batch:
            self._polls = 0
        if not batch or batch[-1].name != DATA:
            return
        again = now < self._heard_at + FLOOD_S and len(batch) <= FEW
        self._polls = self._polls + 1 if again else 0
        self._heard_at = now

    def _may_rest(self) -> bool:
        """Tell whether a flood goes on, and nobody waits for us."""
        if self._polls <= FLOOD_POLLS or self.member.outbox.urgent:
            return False
        return not (self._futures or self._asked or self._large)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self.run_once()
                if self._may_rest():
                    self._link.rest(REST_S)
            self._perform(self.member.handle(Leave(), now=self._clock()))
            self._link.poll(GOODBYE_S)  # what arrives is of no use; what was said goes out
        finally:
            self._stopping = True
            self.member.outbox.detach(self._link.wake)
            self._link.close()
            for future in list(self._futures.values()):
                _settle(future, UsageError("the subscriber is closed"))
            self._watches.close()

    def _tell(self, fact: Fact, *, timeout_s: float) -> None:
        if self._pid == os.getpid() and not self.running:
            raise UsageError("the subscriber is closed, or was never opened")
        self._inbox.put(fact, timeout_s=timeout_s)

    def _perform(self, effects: Iterable[Effect]) -> None:  # noqa: C901 - dispatch by match
        for effect in effects:
            match effect:
                case Changed(changes=changes):  # by far the most, where everything is watched
                    if not self._watches.offer(changes):
                        self.member.handle(Watching(on=False), now=self._clock())
                case Send(channel=channel, message=message):
                    if channel in self._connected:  # what is lost is asked again
                        self._link.send(channel, encode(message))
                case Subscribe(prefix=prefix):
                    if DATA in self._connected:
                        self._link.subscribe(DATA, prefix)
                case Unsubscribe(prefix=prefix):
                    if DATA in self._connected:
                        self._link.unsubscribe(DATA, prefix)
                case Answer(id=number, result=result):
                    self._settle(number, result)
                case Fail(id=number, error=error):
                    self._settle(number, error)
                case PinsNotHeld(tables=tables, needed_bytes=needed, room_bytes=room):
                    text = "pins do not fit: tables=%d needed_bytes=%d room_bytes=%d"
                    log.warning(text, tables, needed, room)
                case ConnectHub() | ConnectData() | ConnectCatalog():
                    self._connect(effect)
                case _:
                    assert_never(effect)

    def _connect(self, effect: ConnectHub | ConnectData | ConnectCatalog) -> None:
        match effect:
            case ConnectHub(index=index):
                log.info("statestored tried: address=%s", self._hubs[index])
                self._reconnect((DATA,), "")
                self._reconnect((CONTROL, BULK), self._hubs[index])
            case ConnectData(address=address):
                log.info("statestored followed: data_address=%s", address)
                self._reconnect((DATA,), address)
            case ConnectCatalog(address=address):
                log.info("catalogd found: address=%s", address)
                self._reconnect((SERVICE, PULLS), address)

    def _reconnect(self, names: tuple[str, ...], address: str) -> None:
        """Open sockets anew; to an address that is none, which a peer may tell us, not at all."""
        for name in names:
            if name in LARGE:
                self._large = deque(one for one in self._large if one[0] != name)
            if name in self._connected:
                self._link.disconnect(name)
                self._connected.discard(name)
            if not address:
                continue
            connect = self._link.connect_dealer if name != DATA else self._link.connect_subscriber
            try:
                connect(name, address)
            except LinkError as error:
                log.warning("address refused: socket=%s error=%s", name, error)
            else:
                self._connected.add(name)

    def _settle(self, number: int, outcome: object) -> None:
        future = self._futures.pop(number, None)
        if future is not None:
            _settle(future, outcome)


def _read(channel: str, frame: bytes) -> Fact:
    try:
        return Received(channel, decode(frame))
    except WireError:
        return Undecodable()


def _settle(future: Future[object], outcome: object) -> None:
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
