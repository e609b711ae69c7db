"""HubSession: chooses the hub, and keeps the registration, Joins and subscriptions with it.

    GREETING ──Welcome──▶ WELCOMED ──silent, seeding or stale, and another hub is there──▶ GREETING
        ▲─────────────────────┘ the hub restarted, or does not know the connection any more

    full     ──Join──▶ waits ──Joined──▶ subscribed ──Barrier──▶ confirmed: may catch up
    minimal  subscribed ──Barrier──▶ confirmed ──Join──▶ Joined: the hub's position

At full, the reader subscribes to a topic only when Joined has brought the topic's bytes. At
minimal, Joined brings a position if the reader requested it after the barrier, because then every
later delta arrives. One Join and one barrier serve many topics. One barrier is under way at a time,
and new subscriptions wait for the next.

Versions are the same at every hub, so a change of the hub costs no catch-up. With another hub, or
the same hub after a restart, the reader joins all topics again, and subscribes to them; replicas
that are LIVE answer meanwhile. At a hub that was only slow, and has kept its id, the reader joins
nothing again: else the load of the hub would grow with its delay.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final
from zlib import crc32

from ...topics.liveness import HEARTBEAT_MS
from ...topics.requests import Requests
from ...topics.streams.followers import TopicLevel, patience_s
from ...topics.turn import Turn
from ...topics.wire.header import (
    HEARTBEAT_PREFIX,
    barrier_prefix,
    prefix,
    set_prefix,
    window_of,
)
from ...topics.wire.messages.connection import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    READER,
    Hello,
    Refused,
    Welcome,
)
from ...topics.wire.messages.data import Heartbeat
from ...topics.wire.messages.readers import Drop, Join, Position
from ..protocol.effects import (
    ConnectData,
    ConnectHub,
    Connection,
    Effect,
    Send,
    Subscribe,
    Unsubscribe,
)

HEARTBEATS_MISSED: Final = 4
HELLO_AGAIN_S: Final = 0.5  # after an unanswered Hello: the hub may be starting
HELLO_AGAIN_S_MAX: Final = 4.0  # ZeroMQ queues a Hello until the hub is back
NO_START_S: Final = 1.0  # and the silence limit: then a hub without a confirmed start is left
BARRIER_AGAIN_S: Final = 1.0  # a barrier takes under 1 ms; later it is lost, or the hub is busy
BARRIER_AGAIN_S_MAX: Final = 8.0
BARRIERS_MAX: Final = 8  # nonces of a barrier sent again: an older nonce, some 40 s late, times out
CHANNELS: Final = ((Connection.CONTROL, CONTROL_CHANNEL), (Connection.BULK, BULK_CHANNEL))


class SessionState(Enum):
    """Whether the hub knows this subscriber."""

    GREETING = "GREETING"
    WELCOMED = "WELCOMED"


class Welcomed(Enum):
    """The meaning of a Welcome for what was sent to the hub before."""

    KNOWN = "KNOWN"  # the hub has known us all the time: nothing is to be sent again
    STAYED = "STAYED"  # it has registered us anew; the data connection and subscriptions are there
    OPENED = "OPENED"  # it has registered us, and the data connection is new


class _Fence(Enum):
    """Whether deltas of a subscription are sure to come."""

    NEW = "NEW"  # the subscription waits for the next barrier
    PENDING = "PENDING"  # it waits for the barrier that is under way
    CONFIRMED = "CONFIRMED"  # a barrier that the reader subscribed to later has arrived


@dataclass(frozen=True, slots=True)
class PendingJoin:
    """A Join that is not answered yet."""

    join: Join
    confirmed: bool  # whether every topic of the Join was confirmed when the Join was sent
    sent_at: float  # seconds: when it was sent for the first time


class HubSession:
    """One connection to a hub of ``addresses`` at a time."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        *,
        turn: Turn[Effect],
        name: str,
        command: bool = False,
        registration: bytes,
        next_id: Callable[[], int],
        new_nonce: Callable[[], bytes],
    ) -> None:
        assert addresses
        self.state = SessionState.GREETING
        self.answer_s = 0.0  # from the last Hello, Join or barrier to the hub's answer
        self._turn = turn
        self._addresses = addresses
        self._name = name
        self._is_command = command
        self._registration = registration
        self._next_id = next_id
        self._new_nonce = new_nonce
        self._index = -1  # of the hub in ``addresses``; -1: none was tried
        self._data_address = ""  # where deltas come from; empty: not connected
        self._hub = 0  # the id in the last Welcome; another id: the hub restarted; 0: not known
        self._heartbeat_s = HEARTBEAT_MS / 1000  # until the Welcome gives the hub's own period
        self._active_at = 0.0  # seconds: the hub's last sign of life
        self._start_at = 0.0  # seconds: the hub's last heartbeat of a confirmed start
        self._hello_at = 0.0  # seconds: while GREETING, the time of the next Hello
        self._greeted_at = 0.0  # seconds: of the last Hello
        self._hello_pause_s = HELLO_AGAIN_S
        self._joins: Requests[PendingJoin] = Requests(next_id, turn)
        self._subscribed: dict[TopicLevel, _Fence] = {}
        self._prefixes = Prefixes(turn)
        self._nonces: list[bytes] = []  # of the barrier under way: one for each time it was sent
        self._barrier_sent_at = 0.0  # seconds: when it was sent for the first time
        self._barrier_at = 0.0  # seconds: when it is sent again

    @property
    def deadline(self) -> float:
        """The time at which ``tick`` may have work to do."""
        silent_at = self._active_at + self._silence_s
        if len(self._addresses) == 1:
            silent_at = max(silent_at, self._hello_at)
        if self.greeting:
            return min(silent_at, self._hello_at)
        barrier_at = self._barrier_at if self._nonces else silent_at
        joins_at = self._joins.deadline
        return min(silent_at, barrier_at, silent_at if joins_at is None else joins_at)

    @property
    def address(self) -> str:
        """The hub that is followed, or tried."""
        return self._addresses[max(self._index, 0)]

    @property
    def greeting(self) -> bool:
        """Whether no hub has welcomed us, or this hub has gone silent."""
        return self.state is SessionState.GREETING

    @property
    def _silence_s(self) -> float:
        return HEARTBEATS_MISSED * self._heartbeat_s

    @property
    def jitter(self) -> float:
        """A number from 0 to 1 that differs between readers."""
        return crc32(self._registration) / (1 << 32)

    def confirmed(self, topic_level: TopicLevel) -> bool:
        """Return whether deltas of a topic at a level are sure to come on this connection."""
        return self._subscribed.get(topic_level) is _Fence.CONFIRMED

    def tick(self) -> None:
        """Leave a hub that is silent or without a confirmed start; repeat unanswered requests."""
        self._keep_up()
        if not self.greeting:
            self._repeat()

    def on_welcome(self, welcome: Welcome) -> Welcomed:
        """Open the hub's data, unless it is open."""
        if self._index < 0:  # no hub was greeted: it came over a connection that a restart closed
            return Welcomed.KNOWN
        known = welcome.hub == self._hub and welcome.data_address == self._data_address
        self._resume()
        if known:
            return Welcomed.KNOWN
        now = self._turn.now
        self._hello_pause_s = HELLO_AGAIN_S
        self.answer_s = now - self._greeted_at
        self._hub = welcome.hub
        self._heartbeat_s = max(welcome.heartbeat_ms / 1000, 0.01)
        self._start_at = now
        self._joins.clear()
        if welcome.data_address == self._data_address:
            return Welcomed.STAYED
        self._discard_data()
        self._data_address = welcome.data_address
        self._turn.add(ConnectData(welcome.data_address))
        self._turn.add(Subscribe(HEARTBEAT_PREFIX))
        return Welcomed.OPENED

    def on_heartbeat(self, heartbeat: Heartbeat, *, has_data: bool) -> None:
        """Note that the hub is alive; ``has_data``: whether it has data of the accepted start."""
        self._active_at = self._turn.now
        if has_data:
            self._start_at = self._active_at
        if heartbeat.hub == self._hub:
            self._resume()  # the hub knows us, even if it was silent
        elif not self.greeting:
            self._greet()  # the hub has restarted

    def on_unknown(self) -> None:
        """Greet a hub again that does not know the connection, once per pause."""
        self._hub = 0  # messages that were sent to it before may be lost
        if not self.greeting:
            self._greet()

    def join(self, positions: Iterable[Position], *, confirmed: bool = False) -> None:
        """Request to follow topics; ``confirmed``: deltas of all of them are sure to come."""
        join = Join(request=0, positions=tuple(positions))
        pending = PendingJoin(join, confirmed, self._turn.now)
        self._joins.open(pending, pause_s=patience_s(self.answer_s))
        self._repeat()

    def discard_joins(self) -> None:
        """Stop waiting for answers to Joins: they would be about former numbers of topics."""
        self._joins.clear()

    def on_join_refused(self, refused: Refused) -> None:
        """Repeat a Join that the hub cannot answer yet, after the pause that the hub names."""
        self._joins.back_off(refused.request, for_s=refused.retry_ms / 1000)

    def on_joined(self, request: int) -> PendingJoin | None:
        """Return the Join that was answered; None if no such Join is pending."""
        pending = self._joins.close(request)
        if pending is not None:
            self.answer_s = self._turn.now - pending.sent_at
        return pending

    def drop(self, topics: Iterable[int]) -> None:
        """Notify the hub that ``topics`` are not followed."""
        drop = Drop(request=self._next_id(), topics=tuple(topics))
        self._turn.add(Send(Connection.CONTROL, drop))

    def subscribe(self, wanted: Iterable[TopicLevel]) -> None:
        """Subscribe to ``wanted`` and to nothing else; drop the topics that are followed no longer.

        One barrier confirms all new subscriptions. If the Drop is lost, the hub still counts this
        reader among those of the topics.
        """
        wanted = set(wanted)
        gone = sorted(self._subscribed.keys() - wanted)
        news = sorted(wanted - self._subscribed.keys())
        self._prefixes.remove(gone)
        for topic_level in gone:
            del self._subscribed[topic_level]
        topics = {topic for topic, _ in wanted}
        dropped = sorted({topic for topic, _ in gone if topic not in topics})
        if dropped:
            self.drop(dropped)
        if news:
            self._subscribed.update(dict.fromkeys(news, _Fence.NEW))
            self._prefixes.add(news)
            if not self._nonces:
                self._barrier()

    def on_barrier(self, nonce: bytes) -> tuple[TopicLevel, ...]:
        """Return the subscriptions that this barrier confirms; newer ones wait for the next."""
        if nonce not in self._nonces:
            return ()
        confirmed = tuple(sorted(self._at(_Fence.PENDING)))
        self._subscribed.update(dict.fromkeys(confirmed, _Fence.CONFIRMED))
        self._end_barriers(self._nonces)
        self._nonces = []
        self.answer_s = max(self.answer_s, self._turn.now - self._barrier_sent_at)
        if self._at(_Fence.NEW):
            self._barrier()
        return confirmed

    def check(self) -> None:
        """Assert every invariant."""
        assert self._nonces or set(self._subscribed.values()) <= {_Fence.CONFIRMED}

    def _keep_up(self) -> None:
        """Connect to the next hub, or greet this hub again, if that is due."""
        if self._index < 0:
            self._connect_next()
            return
        now = self._turn.now
        silent = now - self._active_at >= self._silence_s
        is_behind = now - self._start_at >= NO_START_S + self._silence_s
        if len(self._addresses) > 1 and (silent or is_behind):
            self._connect_next()
        elif (silent or self.greeting) and now >= self._hello_at:
            self._greet()  # there is no other hub: again and again, until this hub answers

    def _connect_next(self) -> None:
        """Leave this hub, if there is one, and greet the next of those that were given."""
        self._index = (self._index + 1) % len(self._addresses)
        self._active_at = self._start_at = self._turn.now
        self._hub = 0
        self._joins.clear()
        self._discard_data()
        self._turn.add(ConnectHub(self.address))
        self._greet()

    def _discard_data(self) -> None:
        """Discard the subscriptions, which end with their data connection."""
        self._data_address = ""
        self._subscribed.clear()
        self._prefixes = Prefixes(self._turn)
        self._nonces = []

    def _resume(self) -> None:
        """Go on as welcomed, for the first time or again."""
        self.state = SessionState.WELCOMED
        self._active_at = self._turn.now

    def _greet(self) -> None:
        now = self._turn.now
        self.state, self._greeted_at = SessionState.GREETING, now
        self._hello_at = now + self._hello_pause_s * (1 + self.jitter)
        self._hello_pause_s = min(2 * self._hello_pause_s, HELLO_AGAIN_S_MAX)
        for channel, number in CHANNELS:
            hello = Hello(
                role=READER,
                channel=number,
                name=self._name,
                registration=self._registration,
                is_command=self._is_command,
            )
            self._turn.add(Send(channel, hello))

    def _repeat(self) -> None:
        """Send the Joins and the barrier again that the hub did not answer in time."""
        for request, pending in self._joins.due():
            self._turn.add(Send(Connection.CONTROL, replace(pending.join, request=request)))
        if self._nonces and self._turn.now >= self._barrier_at:
            self._send_barrier()

    def _at(self, fence: _Fence) -> list[TopicLevel]:
        return [topic_level for topic_level, one in self._subscribed.items() if one is fence]

    def _barrier(self) -> None:
        """Begin a barrier for all new subscriptions."""
        self._subscribed.update(dict.fromkeys(self._at(_Fence.NEW), _Fence.PENDING))
        self._barrier_sent_at = self._turn.now
        self._send_barrier()

    def _send_barrier(self) -> None:
        """Send the barrier under way, first or again; any of its nonces that arrives proves it."""
        pause_s = BARRIER_AGAIN_S * 2 ** len(self._nonces)
        self._barrier_at = self._turn.now + min(pause_s, BARRIER_AGAIN_S_MAX)
        old, self._nonces = self._nonces[: 1 - BARRIERS_MAX], self._nonces[1 - BARRIERS_MAX :]
        self._nonces.append(self._new_nonce())
        self._end_barriers(old)
        self._turn.add(Subscribe(barrier_prefix(self._nonces[-1])))

    def _end_barriers(self, nonces: Iterable[bytes]) -> None:
        for one in nonces:
            self._turn.add(Unsubscribe(barrier_prefix(one)))


class Prefixes:
    """The subscribed prefixes of one data connection, each for one topic level or for a set.

    If drivers follow hundreds of topics, a frame for each topic would be most of what a hub reads
    after its restart.
    """

    def __init__(self, turn: Turn[Effect]) -> None:
        self._turn = turn
        self._of: dict[TopicLevel, bytes] = {}
        self._topic_levels: dict[bytes, tuple[TopicLevel, ...]] = {}  # by prefix

    def add(self, topic_levels: Iterable[TopicLevel]) -> None:
        """Subscribe to ``topic_levels``, which are new, with as few prefixes as can be."""
        together: dict[tuple[int, int], list[TopicLevel]] = {}
        for topic, level in topic_levels:
            together.setdefault((window_of(topic), level), []).append((topic, level))
        found: dict[bytes, tuple[TopicLevel, ...]] = {}
        for some in together.values():
            topic, level = some[0]
            one = prefix(topic, level)
            found[one if len(some) == 1 else set_prefix([t for t, _ in some], level)] = tuple(some)
        self._topic_levels |= found
        self._of.update((topic_level, one) for one, some in found.items() for topic_level in some)
        for one in found:
            self._turn.add(Subscribe(one))

    def remove(self, topic_levels: Iterable[TopicLevel]) -> None:
        """End the subscriptions to ``topic_levels``.

        The rest of a set is subscribed to again at once. A delta that the hub publishes in between
        is missing, so that its follower notices a gap and catches up.
        """
        gone = set(topic_levels)
        for one in dict.fromkeys([self._of.pop(topic_level) for topic_level in sorted(gone)]):
            left = [some for some in self._topic_levels.pop(one) if some not in gone]
            self._turn.add(Unsubscribe(one))
            self.add(left)
