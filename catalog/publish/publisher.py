"""Publisher: catalogd's half of the connection pair to one hub, as a pure state machine.

    WAITING ──▶ CONNECTING ──welcomes, Have──▶ ANNOUNCED ──Filed──▶ LEADING
       ▲                         │ ahead            ▲
       │                         └──▶ COMPARING ────┘ a new epoch
       └── silent, refused, another hub ── from any state

Invariants: nothing of a start is sent before the versions that the hub holds were compared with our
starts, and no delta before the hub has answered the announcement; the frames that a hub has not
acknowledged (``Filed``) are bounded. A delta that is not sent, or is lost, is a gap to the hub,
which catches up.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Final

from ...topics.backports import StrEnum
from ...topics.errors import ConfigError, WireError
from ...topics.keys.clients import checked_keys
from ...topics.keys.credential import PublicKeys
from ...topics.liveness import HEARTBEAT_MS, LOST, SUSPECT, Liveness
from ...topics.objects.names import table_of
from ...topics.settings import checked_pages
from ...topics.streams.sender import RETRY_MS, STUBS_BYTES_MAX, Sender, chunks
from ...topics.topic import FULL, NAMESPACE, Entry, Topic, stub
from ...topics.turn import Tick, Turn
from ...topics.wire.codec import is_large, row_bytes
from ...topics.wire.header import DELTA_BYTES_MAX, PROTOCOL, PROTOCOL_MIN
from ...topics.wire.messages.answers import HubFacts
from ...topics.wire.messages.connection import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    PUBLISHER,
    Bye,
    Channel,
    Hello,
    Introduction,
    Refused,
    ServerKeys,
    Welcome,
)
from ...topics.wire.messages.data import Delta, Heartbeat
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.publishers import Announce, ClientList, Filed, Have
from ...topics.wire.messages.readers import Cancel, CatchUp, Credit, Wanted
from ...topics.wire.refusal import Refusal, refuse
from ..model.lineage import PeerDecision, StartRecord, by_topic, judge
from ..model.modes import MODE_DEFAULT, Mode
from ..model.versions import Transaction

UNACKED_BYTES_MAX: Final = 8 << 20  # 80 ms of 100 MB/s: a hub further behind is cheaper caught up
UNACKED_MAX: Final = 900  # frames; below the 1,000 that a DEALER queues before it drops
PROBE_S: Final = 1.0  # an idle hub sends nothing, so Hello is repeated, which it answers
SILENCE_S: Final = 2.0  # without a message on one of the connections: both are made anew
WELCOME_S: Final = 3.0  # a hub may send messages and no Welcome: its answer was lost
BACKOFF_S: Final = 0.1  # before the first attempt; doubled by each, and jittered
BACKOFF_S_MAX: Final = 0.5  # a hub that is back is found within a second
SLOW_S: Final = 10.0  # for what does not pass by itself: another version, garbage
WAIT_S_MAX: Final = 30.0  # the longest pause that a hub can impose
# Between two epochs for one hub, doubled by each: two catalogds must not race through epochs.
AHEAD_S: Final = 1.0
AHEAD_S_MAX: Final = 60.0
CLIENTS_AGAIN_S: Final = 10.0  # until the list is sent again: a lost list would leave keys admitted
RECONNECT_ON: Final = (Refusal.HELLO, Refusal.START, Refusal.AHEAD)
"""Refusals of a hub that restarted, or that follows another start."""
OF_ONE_MESSAGE: Final = (
    Refusal.DELTA,
    Refusal.CHUNK,
    Refusal.VECTOR,
    Refusal.TOPIC,
    Refusal.WIRE,
)
"""Refusals of one message, after which the connection goes on."""
HUB: Final = b"hub"  # the one peer of the sender


class State(StrEnum):
    """The states of a publisher, as in the diagram above."""

    WAITING = "WAITING"
    CONNECTING = "CONNECTING"
    COMPARING = "COMPARING"
    ANNOUNCED = "ANNOUNCED"
    LEADING = "LEADING"


NEXT: Final[Mapping[State, tuple[State, ...]]] = {
    State.WAITING: (State.CONNECTING,),
    State.CONNECTING: (State.COMPARING, State.ANNOUNCED, State.WAITING),
    State.COMPARING: (State.ANNOUNCED, State.WAITING),
    State.ANNOUNCED: (State.COMPARING, State.LEADING, State.WAITING),
    State.LEADING: (State.ANNOUNCED, State.WAITING),
}
"""The states that may follow each state."""


@dataclass(slots=True, kw_only=True)
class PublishedState:
    """The state that all publishers of a catalogd publish: one object, which catalogd updates.

    ``topics`` are by ``topic_ids``, and hold what is committed whenever a publisher is called.
    ``starts`` are those of the current epoch, the last is the running start. ``mode`` is as stored.
    ``clients`` is the text of the list of clients; empty: there is none to send.
    ``names_known``: whether the names were ever read; until then nothing is announced.
    ``pages``: where catalogd's pages are; empty: nowhere that others reach.
    """

    topics: Mapping[int, Topic]
    starts: tuple[StartRecord, ...]
    catalog_address: str
    catalog_name: str
    watermark: int = 0
    mode: Mode = MODE_DEFAULT
    clients: bytes = b""
    names_known: bool = True
    pages: str = ""

    @property
    def position(self) -> tuple[int, int]:
        """The current epoch and start."""
        return self.starts[-1].epoch, self.starts[-1].start

    def publishable(self, topic: int, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return ``entries`` of ``topic`` as they may leave: stubs for those that are withheld."""
        return withhold(self.mode, topic, entries)


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Close both connections and make new connections; what was queued on the old is void."""


@dataclass(frozen=True, slots=True)
class SendOn:
    """Send ``message`` on ``channel``; if it cannot be sent, drop it."""

    channel: Channel
    message: Message


@dataclass(frozen=True, slots=True)
class Put:
    """Send ``frame``, an encoded delta, on bulk; if it cannot be sent, drop it."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class MintAbove:
    """Mint an epoch above ``epoch``, unless ours is above it by now, and pass EpochBegun to all."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Learned:
    """The hub says that these are its public keys, the current one and the next."""

    keys: PublicKeys


@dataclass(frozen=True, slots=True)
class Entered:
    """Log that the publisher has entered ``state`` because of ``reason``.

    ``again``: it has tried to connect once more, and nothing else was found.
    """

    state: State
    reason: str
    again: bool = False


Effect = Reconnect | SendOn | Put | MintAbove | Learned | Entered


@dataclass(frozen=True, slots=True)
class FromHub:
    """The hub sent ``message`` on ``channel``."""

    channel: Channel
    message: Message


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction is durable; ``frame`` is its encoded delta."""

    topic: int
    version: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class EpochBegun:
    """A new epoch has begun: the published state and its topics say so already."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connections are gone, or are to be ended, for ``wait_s`` at least."""

    reason: str
    wait_s: float = 0.0


Fact = FromHub | Committed | EpochBegun | Lost | Tick


class Publisher:
    """One hub, as catalogd serves it."""

    def __init__(
        self, published: PublishedState, *, name: str, registration: bytes, rng: Random
    ) -> None:
        """Wait for the first Tick.

        Args:
            published: Shared with catalogd, which writes it.
            name: Of this catalogd, in the hub's status.
            registration: 16 random bytes, the same for the life of the process.
            rng: For jitter.
        """
        self.state: State = State.WAITING
        self.reason = "starting"
        self.hub = 0
        self.connected = False  # the hub answers, and is announced what there is to announce
        self._since: float | None = None  # when ``connected`` changed last; None: before a Tick
        self._pages = ""  # where the hub's pages are, as it said last
        self._logged = ""  # the reason of the last line of log since it was connected
        self._published = published
        self._name = name
        self._registration = registration
        self._rng = rng
        self._turn = Turn[Effect](quiet=(Tick, Committed, Put))
        self._sender = Sender(self._turn)
        self._unacked = Unacknowledged()
        self._liveness: dict[Channel, Liveness] = {}  # empty while WAITING
        self._probed: set[Channel] = set()  # silent, and a Hello was repeated
        self._welcomed: set[Channel] = set()  # on which the hub has answered the Hello
        self._clients = b""  # the list that the hub was sent on its present connection
        self._clients_at = 0.0  # when it is sent again
        self._have: Have | None = None  # what the hub holds, as it said on this connection
        self._failures = 0  # connections that ended, one after the other, before the hub followed
        self._connect_at = 0.0  # while WAITING: when to connect
        self._welcome_by = 0.0  # when a hub that has not welcomed on both channels is left
        self._heartbeat_at = 0.0  # when the next heartbeat is due
        self._sequence = 0  # number of the last heartbeat
        self._ahead_at = -inf  # before it no epoch is minted for this hub
        self._ahead_s = AHEAD_S  # the next pause between two epochs

    def facts(self, address: str, *, now: float) -> HubFacts:
        """Return what an operator wants to know of the hub, which is at ``address``."""
        since_s = 0.0 if self._since is None else max(now - self._since, 0.0)
        return HubFacts(
            address=address,
            connected=self.connected,
            since_s=round(since_s, 3),
            reason=self.reason,
            unacknowledged=len(self._unacked),
            pages=self._pages,
        )

    @property
    def deadline(self) -> float:
        """The time at which a Tick has work to do at the latest."""
        if self.state == State.WAITING:
            return self._connect_at
        if self.sending:
            return -inf
        times = [liveness.deadline for liveness in self._liveness.values()]
        if not self._is_welcome:
            times.append(self._welcome_by)
        return min(*times, self._heartbeat_at) if self._announced else min(times)

    def handle(self, fact: Fact, *, now: float, now_us: int) -> tuple[Effect, ...]:
        """Decide what ``fact`` means for this hub."""
        self._turn.now, self._turn.now_us = now, now_us
        self._turn.came(fact)
        match fact:
            case Tick():
                self._on_tick()
            case Committed():
                self._on_committed(fact)
            case EpochBegun():
                self._on_epoch_begun()
            case _ if self.state == State.WAITING:
                pass  # of connections that were closed
            case FromHub(channel=channel, message=message):
                self._liveness[channel].on_message(now)
                self._probed.discard(channel)
                self._on_message(channel, message)
            case Lost(reason=reason, wait_s=wait_s):
                self._leave(reason, wait_s=wait_s)
        return self._turn.end()

    @property
    def sending(self) -> bool:
        """Whether ``send_some`` has something to send."""
        return self._sender.ready

    def send_some(self, bytes_max: int) -> tuple[SendOn, ...]:
        """Return about ``bytes_max`` bytes of what the hub catches up on: one chunk at least."""
        sends = self._sender.send_some(bytes_max)
        return tuple(SendOn(BULK_CHANNEL, send.message) for send in sends)

    def check(self) -> None:
        """Assert every invariant."""
        assert self._announced or not (len(self._sender) or len(self._unacked))
        assert self.state in (State.WAITING, State.CONNECTING) or self._have is not None
        assert (self.state == State.WAITING) is (not self._liveness)
        assert self._unacked.held_bytes >= 0

    @property
    def _is_welcome(self) -> bool:
        """Whether the hub has answered on both connections, and said what it has."""
        return self._have is not None and len(self._welcomed) == len(Channel)

    @property
    def _may_announce(self) -> bool:
        """Whether the names were read, too: a hub would hold an empty catalog for complete."""
        return self._is_welcome and self._published.names_known

    @property
    def _announced(self) -> bool:
        return self.state in (State.ANNOUNCED, State.LEADING)

    def _on_tick(self) -> None:
        now = self._turn.now
        self._since = now if self._since is None else self._since
        if self.state == State.WAITING:
            if now >= self._connect_at:
                self._connect()
            return
        self._watch()
        self._send_clients()
        if self.state == State.CONNECTING:
            self._compare()
        if self._announced and now >= self._heartbeat_at:
            self._heartbeat()

    def _on_committed(self, fact: Committed) -> None:
        if self.state != State.LEADING:
            return
        if self._unacked.put(fact.topic, fact.version, len(fact.frame)):
            self._turn.add(Put(fact.frame))

    def _on_epoch_begun(self) -> None:
        if self.state == State.COMPARING:
            self._compare()
        elif self._announced:
            self._announce("a new epoch")

    def _on_message(  # noqa: C901 - dispatch
        self, channel: Channel, message: Message
    ) -> None:
        match message:
            case Welcome():
                self._on_welcome(channel, message)
            case ServerKeys(hub=current, hub_next=following):
                self._on_keys(current, following)
            case Introduction():
                self._on_introduction(message)
            case Have():
                self._on_have(message)
            case Filed():
                self._on_filed(message)
            case CatchUp():
                self._on_catch_up(message)
            case Credit(stream=stream, amount=amount):
                self._sender.credit(HUB, stream, amount)
            case Cancel(stream=stream):
                self._sender.cancel(HUB, stream)
            case Refused():
                self._on_refused(message)
            case Bye(reason=reason):
                self._leave(f"the hub leaves: {reason}")
            case _:
                pass  # it is not for a publisher

    def _on_welcome(self, channel: Channel, message: Welcome) -> None:
        if not PROTOCOL_MIN <= message.protocol <= PROTOCOL:
            self._leave(f"protocol {message.protocol}", wait_s=SLOW_S)
            return
        if self._welcomed and message.hub != self.hub:
            self._leave("another hub answers at this address")
            return
        self.hub = message.hub
        self._welcomed.add(channel)
        self._send_clients()
        if channel == CONTROL_CHANNEL:
            self._introduce()
        if self.state == State.CONNECTING:
            self._compare()

    def _introduce(self) -> None:
        """Send the hub the address of catalogd's service, at which operators ask for its state."""
        published = self._published
        ours = Introduction(catalog_address=published.catalog_address, pages=published.pages)
        self._turn.add(SendOn(CONTROL_CHANNEL, ours))

    def _on_keys(self, current: str, following: str) -> None:
        with suppress(ConfigError):  # what are no keys are not used
            self._turn.add(Learned(checked_keys(current, following, setting="the hub's keys")))

    def _on_introduction(self, hub: Introduction) -> None:
        with suppress(ConfigError):  # what is no address is not shown
            self._pages = checked_pages(hub.pages)

    def _on_have(self, message: Have) -> None:
        position = message.epoch, message.start
        if self.state == State.LEADING and position != self._published.position:
            self._leave("the hub follows another start")
            return
        self._have = message
        if self._announced and position == self._published.position:
            self._lead()
        elif self.state != State.COMPARING:
            self._compare()  # again, if it holds something else by now

    def _compare(self) -> None:
        now = self._turn.now
        have = self._have
        if self._is_welcome and not self._published.names_known:
            self._set_connected(connected=True)  # it waits as we do
        if have is None or not self._may_announce:
            return
        try:
            held = by_topic(have.versions)
            versions = {number: topic.version for number, topic in self._published.topics.items()}
            starts = self._published.starts
            decision = judge(starts, versions, epoch=have.epoch, start=have.start, held=held)
        except WireError as error:
            self._leave(str(error), wait_s=SLOW_S)
            return
        if decision is not PeerDecision.AHEAD:
            self._announce(f"the hub is {decision.value}")
            return
        if now < self._ahead_at:
            wait_s = self._ahead_at - now
            self._leave("ahead again: does another catalogd publish?", wait_s=wait_s)
            return
        led_long = now >= self._ahead_at + AHEAD_S_MAX
        self._ahead_s = AHEAD_S if led_long else min(2 * self._ahead_s, AHEAD_S_MAX)
        self._ahead_at = now + self._ahead_s
        reason = f"the hub is ahead: epoch {have.epoch} start {have.start}"
        self._become(State.COMPARING, reason)
        self._turn.add(MintAbove(have.epoch))

    def _announce(self, reason: str) -> None:
        self._sender.remove_peer(HUB)
        self._unacked.clear()
        self._heartbeat_at = self._turn.now
        self._set_connected(connected=True)
        epoch, start = self._published.position
        announce = Announce(
            epoch=epoch,
            start=start,
            num_topics=len(self._published.topics) - 1,
            catalog_address=self._published.catalog_address,
            catalog_name=self._published.catalog_name,
        )
        self._become(State.ANNOUNCED, reason)
        self._turn.add(SendOn(CONTROL_CHANNEL, announce))

    def _lead(self) -> None:
        if self.state == State.ANNOUNCED:
            self._failures = 0
            self._become(State.LEADING, "the hub follows")

    def _on_filed(self, message: Filed) -> None:
        if not self._announced or (message.epoch, message.start) != self._published.position:
            return
        for topic, version in message.versions:
            self._unacked.filed(topic, version)
        self._lead()

    def _on_catch_up(self, message: CatchUp) -> None:
        stream = message.stream
        if not self._announced:
            text = "nothing is announced to you yet: retry"
            refusal = refuse(Refusal.START, text, request=stream, retry_ms=RETRY_MS)
            self._turn.add(SendOn(BULK_CHANNEL, refusal))
            return
        parts = chunks(
            stream,
            message.wanted,
            find=self._find,
            stamp=self._stamp,
            visible=self._published.publishable,
        )
        busy = self._sender.open(HUB, stream, credit=message.credit, parts=parts)
        if busy:
            self._turn.add(SendOn(BULK_CHANNEL, busy))

    def _on_refused(self, message: Refused) -> None:
        if message.request:
            self._sender.cancel(HUB, message.request)
            return
        reason = f"the hub refuses: {message.code} {message.message}"
        if message.code in OF_ONE_MESSAGE:
            self._turn.add(Entered(self.state, reason))
            return
        soon = message.code in RECONNECT_ON or message.retry_ms
        wait_s = min(message.retry_ms / 1000, WAIT_S_MAX) if soon else SLOW_S
        self._leave(reason, wait_s=wait_s)

    def _watch(self) -> None:
        """Repeat Hello on a silent connection; leave a hub that stays silent."""
        now = self._turn.now
        if not self._is_welcome and now >= self._welcome_by:
            self._leave(f"no welcome within {WELCOME_S} s")
            return
        states = {channel: one.state(now) for channel, one in self._liveness.items()}
        if LOST in states.values():
            self._leave(f"the hub is silent for {SILENCE_S} s", since=now - SILENCE_S)
            return
        for channel, state in states.items():
            if state == SUSPECT and channel not in self._probed:
                self._probed.add(channel)
                self._turn.add(self._greeting(channel))

    def _heartbeat(self) -> None:
        self._heartbeat_at = self._turn.now + HEARTBEAT_MS / 1000
        self._sequence += 1
        epoch, start = self._published.position
        topics = self._published.topics.values()
        heartbeat = Heartbeat(
            hub=0,
            epoch=epoch,
            start=start,
            sequence=self._sequence,
            interval_ms=HEARTBEAT_MS,
            sent_us=self._turn.now_us,
            watermark=self._published.watermark,
            age_ms=0,
            catalog_address=self._published.catalog_address,
            versions=tuple(topic.version for topic in topics),
            floors=tuple(topic.floor for topic in topics),
            offers=self._published.mode.offers,
        )
        self._turn.add(SendOn(CONTROL_CHANNEL, heartbeat))

    def _send_clients(self) -> None:
        """Send the hub the list of clients, unless the same list was sent a moment ago."""
        now = self._turn.now
        clients = self._published.clients
        if not clients or CONTROL_CHANNEL not in self._welcomed:
            return
        if clients == self._clients and now < self._clients_at:
            return
        self._clients, self._clients_at = clients, now + CLIENTS_AGAIN_S
        self._turn.add(SendOn(CONTROL_CHANNEL, ClientList(text=clients)))

    def _connect(self) -> None:
        now = self._turn.now
        self._welcome_by = now + WELCOME_S
        self._liveness = {c: Liveness(now, PROBE_S, SILENCE_S) for c in Channel}
        self._turn.add(Reconnect())
        self._become(State.CONNECTING, self.reason)
        for channel in Channel:
            self._turn.add(self._greeting(channel))

    def _greeting(self, channel: Channel) -> SendOn:
        hello = Hello(
            role=PUBLISHER,
            channel=channel,
            name=self._name,
            registration=self._registration,
        )
        return SendOn(channel, hello)

    def _leave(self, reason: str, *, wait_s: float = 0.0, since: float | None = None) -> None:
        """Close the connections; connect after ``wait_s``, or the backoff if that is longer.

        ``since``: when the hub was there last, if that is not now.
        """
        backoff_s = min(BACKOFF_S * 2**self._failures, BACKOFF_S_MAX)
        self._failures = min(self._failures + 1, 16)
        self._connect_at = self._turn.now + max(wait_s, backoff_s) * self._rng.uniform(0.5, 1.5)
        self._set_connected(connected=False, since=since)
        self._sender.remove_peer(HUB)
        self._unacked.clear()
        self._liveness, self._probed, self._welcomed, self._have = {}, set(), set(), None
        self._clients = b""
        self._become(State.WAITING, reason)

    def _become(self, state: State, reason: str) -> None:
        assert state in (self.state, *NEXT[self.state]), f"{self.state} to {state}"
        self.state, self.reason = state, reason
        again = not self.connected and reason == self._logged
        self._logged = "" if self.connected else reason
        self._turn.add(Entered(state, reason, again))

    def _set_connected(self, *, connected: bool, since: float | None = None) -> None:
        if self.connected is not connected:
            self.connected, self._since = connected, self._turn.now if since is None else since

    def _find(self, wanted: Wanted) -> Topic | Refused:
        topic = self._published.topics.get(wanted.topic)
        if topic is not None:
            return topic
        text = f"no topic {wanted.topic}: there are {len(self._published.topics) - 1}"
        return refuse(Refusal.UNKNOWN, text)

    def _stamp(self) -> tuple[int, int]:
        return self._published.position[1], self._turn.now_us


def delta_of_transaction(
    transaction: Transaction,
    *,
    epoch: int,
    start: int,
    floor: int,
    sent_us: int,
    mode: Mode = MODE_DEFAULT,
) -> Delta:
    """Return the one delta of ``transaction`` for a hub, at most DELTA_BYTES_MAX large.

    Entries that ``withhold`` names are stubs in it, and hubs never get their values. If the values
    take too much, all entries are stubs, and the flag ``stubbed`` is set; if even the stubs take
    too much, there are no entries, and the flag ``invalidate_all`` is set, too. A hub then catches
    up on the values.
    """
    entries = tuple(withhold(mode, transaction.topic, transaction.entries))
    stubbed = sum(map(row_bytes, entries)) > DELTA_BYTES_MAX
    if stubbed:
        entries = tuple(map(stub, entries))
    invalidate_all = stubbed and sum(map(row_bytes, entries)) > STUBS_BYTES_MAX
    return Delta(
        topic=transaction.topic,
        level=FULL,
        epoch=epoch,
        start=start,
        from_version=transaction.from_version,
        to_version=transaction.to_version,
        floor=min(floor, transaction.to_version),
        sent_us=sent_us,
        source=transaction.source,
        entries=() if invalidate_all else entries,
        stubbed=stubbed,
        invalidate_all=invalidate_all,
    )


def withhold(mode: Mode, topic: int, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return ``entries`` of ``topic`` as they leave: stubs for those that are withheld.

    ``mode`` withholds the content of tables, and every mode what is too large for a frame.
    """
    if topic == NAMESPACE:
        return entries
    if mode.withholds_nothing:
        return tuple(map(stub_if_large, entries)) if any(map(is_large, entries)) else entries
    return tuple(
        stub(one) if mode.withholds(table_of(one.key)) else stub_if_large(one) for one in entries
    )


def stub_if_large(entry: Entry) -> Entry:
    """Return ``entry``, without its value if that is too large for a frame."""
    return stub(entry) if is_large(entry) else entry


class Unacknowledged:
    """Sizes of the frames that a hub has not filed, bounded; ``held_bytes`` is their sum."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._count = 0  # of all frames
        self._topics: dict[int, deque[tuple[int, int]]] = {}  # (version, bytes), the oldest first

    def __len__(self) -> int:
        return self._count

    def put(self, topic: int, version: int, size: int) -> bool:
        """Take a frame in; False, and it is not taken, where the bounds do not allow it."""
        if self._count >= UNACKED_MAX or self.held_bytes + size > UNACKED_BYTES_MAX:
            return False
        self._topics.setdefault(topic, deque()).append((version, size))
        self._count += 1
        self.held_bytes += size
        return True

    def filed(self, topic: int, version: int) -> None:
        """Discard the frames of ``topic`` up to ``version``: the hub has filed them."""
        waiting = self._topics.get(topic)
        while waiting and waiting[0][0] <= version:
            self._count -= 1
            self.held_bytes -= waiting.popleft()[1]

    def clear(self) -> None:
        """Discard every frame."""
        self._topics.clear()
        self._count = self.held_bytes = 0
