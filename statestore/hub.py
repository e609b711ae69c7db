"""Hub: who gets what, as a pure state machine; it composes ingest, members and streams.

    publisher ──deltas, chunks──▶ Ingest ──Broadcast──▶ everybody who subscribes
    readers ──Join, Status──▶ Members     ──CatchUp──▶ Sender ──chunks under credit──▶ one reader

Invariant: a message that is refused is answered and counted, and changes nothing else.
Rules: docs/protocol.md.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ..topics.bulk import Send, Sender
from ..topics.errors import WireError
from ..topics.liveness import SUSPECT_S
from ..topics.wire.codec import encode
from ..topics.wire.messages import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    PUBLISHER,
    Announce,
    Bye,
    Cancel,
    CatchUp,
    Chunk,
    Credit,
    Delta,
    Drop,
    Filed,
    Heartbeat,
    Hello,
    Inspect,
    Inspected,
    Join,
    Message,
    Refused,
    Status,
)
from ..topics.wire.refusal import Refusal, refuse, refuse_frame
from . import replies as answers
from . import status
from .facts import (
    CHANNELS,
    ROLES,
    Fact,
    Heard,
    Put,
    Subscription,
    Tick,
    Undecodable,
    Unreachable,
    id_of,
    may,
)
from .heartbeat_timer import Pace
from .ingest import Broadcast, Ingest, Output
from .introspection import Inspecting
from .membership import MEMBERS_MAX, Member, Members
from .reader_requests import Readers
from .subscriptions import Subscriptions
from .validation import Told, hello_fault

HEARTBEAT_MS: Final = 250
MISSED_MAX: Final = 32  # heartbeats of silence until LOST
WATCH_S: Final = 0.05  # between two looks at deadlines: below what liveness takes for a stall
FULL_MS: Final = 5000  # before a place is asked for again
NOT_ANNOUNCED: Final = "this start is not followed here: let what the hub has be judged, announce"

Effect = Send | Broadcast


class Hub:
    """One statestored. ``hub_id`` is drawn for each process; ``data_address`` is its XPUB."""

    def __init__(
        self,
        *,
        hub_id: int,
        data_address: str,
        heartbeat_ms: int = HEARTBEAT_MS,
        missed_max: int = MISSED_MAX,
        members_max: int = MEMBERS_MAX,
    ) -> None:
        lost_s = heartbeat_ms * missed_max / 1000
        self.counts = status.Counts()
        self._identity = answers.Identity(
            hub_id=hub_id,
            data_address=data_address,
            heartbeat_ms=heartbeat_ms,
            lost_ms=heartbeat_ms * missed_max,
        )
        self._subscriptions = Subscriptions(self.counts)
        self._ingest = Ingest(self._subscriptions.minimal)
        self._members = Members(
            members_max=members_max, suspect_s=min(SUSPECT_S, lost_s / 2), lost_s=lost_s
        )
        self._sender = Sender()
        self._readers = Readers(self._ingest, self._members, sender=self._sender, place=self._place)
        self._inspecting = Inspecting(self._ingest, self._members, look=self.status)
        self._publisher: Member | None = None
        self._putter = b""  # the publisher's bulk connection
        self._told = Told()
        self._later: tuple[Effect, ...] = ()  # what puts decided; the turn's end sends it
        self._began_at: float | None = None
        self._now = 0.0
        self._ticked = (0.0, 0)  # one moment: now, and the wall clock in µs
        self._watch_at, self._pace = 0.0, Pace(heartbeat_ms / 1000)
        self._sequence = 0

    @property
    def deadline(self) -> float:
        """The time at which a Tick has work to do at the latest."""
        return min(self._watch_at, self._pace.at)

    @property
    def sending(self) -> bool:
        """Whether ``turn`` has something to send."""
        return self._sender.ready

    def handle(self, fact: Fact, *, now: float) -> tuple[Effect, ...]:
        """Decide what ``fact`` means for everybody."""
        self._now = now
        match fact:
            case Heard(peer=peer, message=message):
                return self._on_heard(peer, message)
            case Put(peer=peer, frame=frame):
                return (*map(Broadcast, self.put(peer, frame, now=now)), *self._take_later())
            case Subscription(frame=frame):
                self._pace.heard(frame, now=now)
                barrier = self._subscriptions.take(frame)
                return (Broadcast(barrier),) if barrier else ()
            case Undecodable(peer=peer, error=error):
                return self._on_undecodable(peer, error)
            case Unreachable(peer=peer):
                self.counts.unreachable += 1
                self._sender.forget(peer)
                return ()
            case Tick(wall_us=wall_us):
                return self._on_tick(wall_us)

    def put(self, peer: bytes, frame: bytes, *, now: float) -> tuple[bytes, ...]:
        """Take a delta of the publisher and return the frames to broadcast; the hot path.

        What else it decides (acknowledgement, refusal, catch-up) goes out at the turn's end.
        """
        self._now = now
        if peer != self._putter:
            self._later += self._on_stray_put(peer)
            return ()
        try:
            frames = self._ingest.put(frame, now=now)
        except WireError as error:
            self._later += self._on_undecodable(peer, error)
            return ()
        if isinstance(frames, Refused):
            self._later += self._refuse(peer, frames)
            return ()
        counts = self.counts
        counts.deltas += 1
        counts.delta_bytes += len(frame)
        counts.broadcasts += len(frames)
        return frames

    def turn(self, bytes_max: int) -> tuple[Send, ...]:
        """Send about ``bytes_max`` bytes of what readers catch up with, each in turn."""
        sends = self._sender.turn(bytes_max)
        for send in sends:
            if isinstance(send.message, Refused):
                self._count(send.message)
        return sends

    def status(self, *, now: float) -> status.Status:
        """Picture the hub; the picture does not change afterwards."""
        self._now = now
        ingest = self._ingest
        return status.Status(
            hub=self._identity.hub_id,
            problem=status.problem(ingest),
            epoch=ingest.epoch,
            start=ingest.start,
            num_topics=ingest.num_topics,
            data_address=self._identity.data_address,
            catalog_address=ingest.catalog_address,
            catalog_name=ingest.catalog_name,
            watermark=ingest.watermark,
            offers=ingest.offers,
            publisher=self._publisher.name if self._publisher else "",
            publisher_silent_s=round(self._silent_s(), 3),
            topics_behind=ingest.behind,
            streams=len(self._sender),
            counts=replace(self.counts, refused=dict(self.counts.refused)),
            topics=status.topics_of(ingest, self._members),
            subscribers=status.subscribers_of(self._members, now=now),
        )

    def check(self) -> None:
        """Assert every invariant."""
        self._ingest.check()
        self._members.check()
        assert self._putter == self._publisher_peer(BULK_CHANNEL)
        assert self._publisher is None or self._publisher.role == PUBLISHER

    def _on_heard(self, peer: bytes, message: Message) -> tuple[Effect, ...]:
        if isinstance(message, Hello):
            return self._on_hello(peer, message)
        found = self._members.at(peer)
        if found is not None:
            self._members.heard(found[0], now=self._now)
        if isinstance(message, Refused):  # is never answered: two refusals would go on for ever
            if found is not None and found[0] is self._publisher:
                self._ingest.refused(message, now=self._now)
            return self._inspecting.answered(found[0], message) if found is not None else ()
        if found is None:
            text = "this hub does not know the connection: say hello first"
            return self._refuse(peer, refuse(Refusal.HELLO, text), of=message)
        member, channel = found
        if not may(message, role=member.role, channel=channel):
            place = f"from a {ROLES[member.role]} on {CHANNELS[channel]}"
            text = f"{type(message).__name__} is not understood {place}"
            return self._refuse(peer, refuse(Refusal.ROLE, text), of=message)
        return self._obey(member, peer, message)

    def _obey(self, member: Member, peer: bytes, message: Message) -> tuple[Effect, ...]:
        match message:
            case Announce():
                return self._on_announce(member, peer, message)
            case Heartbeat() | Chunk() | Delta() if member is not self._publisher:
                return self._refuse(peer, refuse(Refusal.START, NOT_ANNOUNCED), of=message)
            case Heartbeat():
                return self._reply(peer, self._ingest.heartbeat(message, now=self._now), of=message)
            case Chunk():
                self.counts.chunks += 1
                return self._perform(self._ingest.chunk(message, now=self._now))
            case Delta():
                return self.handle(Put(peer, encode(message)), now=self._now)
            case Join() | Drop() | Status() | CatchUp() | Credit() | Cancel():
                self.counts.catch_ups += isinstance(message, CatchUp)
                return self._reply(peer, self._readers.answer(member, peer, message), of=message)
            case Inspect():
                to, told = self._inspecting.ask(peer, message, now=self._now)
                return self._reply(to, told, of=message)
            case Inspected():
                return self._inspecting.answered(member, message)
            case _:
                assert isinstance(message, Bye)
                return self._on_bye(member)

    def _on_hello(self, peer: bytes, message: Hello) -> tuple[Effect, ...]:
        fault = hello_fault(message)
        if fault is not None:
            return self._refuse(peer, fault, of=message)
        known = self._members.at(peer)
        member = self._members.greet(peer, message, now=self._now)
        if member is None:
            text = f"{len(self._members)} members are here, and no more may come"
            return self._refuse(peer, refuse(Refusal.FULL, text, retry_ms=FULL_MS), of=message)
        self.counts.hellos += 1
        self._retie()
        welcome = answers.welcome(self._identity, self._ingest, message)
        if member.role != PUBLISHER or message.channel != CONTROL_CHANNEL:
            if member is self._publisher and known is None:
                self._ingest.lose_streams(now=self._now)  # they ran on the connection before
            return (Send(peer, welcome),)
        return Send(peer, welcome), self._tell_have(member, peer)

    def _on_announce(self, member: Member, peer: bytes, message: Announce) -> tuple[Effect, ...]:
        ingest = self._ingest
        other_start = message.epoch == ingest.epoch and message.start != ingest.start
        if other_start and member.judged != ingest.have():
            return (self._tell_have(member, peer),)  # it judged what is no longer so
        epoch, old = ingest.epoch, self._publisher_peer(CONTROL_CHANNEL)
        fault = ingest.announce(message, now=self._now)
        if fault is not None:
            return self._refuse(peer, fault, of=message)
        if ingest.epoch != epoch:
            self._members.forget_topics()
        self._publisher = member
        self._retie()
        if not old or old == peer:
            return ()
        text = f"start {message.start} of epoch {message.epoch} was announced after yours"
        return self._refuse(old, refuse(Refusal.START, text))

    def _on_stray_put(self, peer: bytes) -> tuple[Effect, ...]:
        found = self._members.at(peer)
        if found is None:
            return self._refuse(
                peer, refuse(Refusal.HELLO, "say hello and announce before a delta")
            )
        self._members.heard(found[0], now=self._now)
        if found[0].role != PUBLISHER or found[1] != BULK_CHANNEL:
            return self._refuse(peer, refuse(Refusal.ROLE, "deltas come from a publisher, on bulk"))
        return self._refuse(peer, refuse(Refusal.START, NOT_ANNOUNCED))

    def _on_bye(self, member: Member) -> tuple[Effect, ...]:
        for peer in member.peers.values():
            self._sender.forget(peer)
        self._members.leave(member)
        self._retie()
        return ()

    def _on_undecodable(self, peer: bytes, error: WireError) -> tuple[Effect, ...]:
        self.counts.undecodable += 1
        return self._refuse(peer, refuse_frame(error))

    def _on_tick(self, wall_us: int) -> tuple[Effect, ...]:
        now = self._now
        self._ticked = (now, wall_us)
        if self._began_at is None:
            self._began_at = now
        publisher = self._publisher
        if publisher is not None and self._ingest.last_delta_at > publisher.heard_at:
            self._members.heard(publisher, now=self._ingest.last_delta_at)
        effects = self._take_later()
        if now >= self._watch_at:
            self._watch_at = now + WATCH_S
            self._watch()
        effects += self._perform((*self._ingest.acknowledge(), *self._ingest.request(now=now)))
        if now >= self._pace.at:
            effects += (Broadcast(self._heartbeat()),)
        return effects

    def _watch(self) -> None:
        for member in self._members.expire(now=self._now):
            self.counts.lost += 1
            for peer in member.peers.values():
                self._sender.forget(peer)
        self._retie()
        self._ingest.settle(now=self._now)
        self._ingest.retry_overdue(now=self._now)

    def _heartbeat(self) -> bytes:
        self._pace.sent(now=self._now)
        self._sequence += 1
        heartbeat = answers.heartbeat(
            self._identity,
            self._ingest,
            sequence=self._sequence,
            sent_us=self._place()[1],
            age_ms=int(self._silent_s() * 1000),
        )
        return encode(heartbeat)

    def _perform(self, outputs: Iterable[Output]) -> tuple[Effect, ...]:
        """Address what the ingest tells the publisher; nobody is told while there is none."""
        effects: list[Effect] = []
        for output in outputs:
            if isinstance(output, Broadcast):
                self.counts.broadcasts += 1
                effects.append(output)
                continue
            if isinstance(output.message, Refused):
                self._count(output.message)
            control = isinstance(output.message, Filed)
            peer = self._publisher_peer(CONTROL_CHANNEL if control else BULK_CHANNEL)
            if peer:
                effects.append(Send(peer, output.message))
        return tuple(effects)

    def _reply(self, peer: bytes, answer: Message | None, *, of: Message) -> tuple[Effect, ...]:
        if answer is None:
            return ()
        if isinstance(answer, Refused):
            return self._refuse(peer, answer, of=of)
        return (Send(peer, answer),)

    def _refuse(
        self, peer: bytes, fault: Refused, *, of: Message | None = None
    ) -> tuple[Effect, ...]:
        """Refuse what waits for an answer always, and other rubbish now and then."""
        self._count(fault)
        request = fault.request or id_of(of)
        waits = request or isinstance(of, (Hello, Announce))
        if not waits and not self._told.again(peer, now=self._now):
            return ()
        return (Send(peer, replace(fault, request=request)),)

    def _count(self, fault: Refused) -> None:
        refused = self.counts.refused
        refused[fault.code] = refused.get(fault.code, 0) + 1

    def _tell_have(self, member: Member, peer: bytes) -> Send:
        member.judged = self._ingest.have()
        return Send(peer, member.judged)

    def _retie(self) -> None:
        self._putter = self._publisher_peer(BULK_CHANNEL)

    def _publisher_peer(self, channel: int) -> bytes:
        return self._publisher.peers.get(channel, b"") if self._publisher else b""

    def _take_later(self) -> tuple[Effect, ...]:
        later, self._later = self._later, ()
        return later

    def _place(self) -> tuple[int, int]:
        ticked_at, wall_us = self._ticked
        return self._ingest.start, wall_us + int((self._now - ticked_at) * 1e6)

    def _silent_s(self) -> float:
        since = self._publisher.heard_at if self._publisher else self._began_at
        return self._now - since if since is not None else 0.0
