"""Hub: decides what each peer is sent: a pure state machine that composes statestored's parts.

    publisher ──deltas, chunks──▶ Ingest ──Broadcast──▶ every subscriber of the topic
    readers ──Join, ReaderStatus──▶ Membership
    readers ──CatchUp──▶ Sender ──chunks, under credit──▶ one reader

``handle`` takes what is decoded, and the end of each turn of the shell. Most of a hub's work does
not pass through it: ``take_delta`` takes a delta as it came, and ``send_some`` returns chunks for
the readers that catch up.
Invariant: a message that is refused is answered and counted, and changes nothing else.
Rules: docs/protocol.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Final

from ..topics.backports import assert_never
from ..topics.errors import WireError
from ..topics.keys.clients import Client, Clients
from ..topics.liveness import HEARTBEAT_MS, SUSPECT_S
from ..topics.memory.memory_limit import MemoryLimit
from ..topics.policy import Policy
from ..topics.slices import in_slices
from ..topics.streams.sender import Sender, SendTo
from ..topics.turn import Turn
from ..topics.verdict import RefusedHandshake
from ..topics.wire import encode
from ..topics.wire.header import PROTOCOL
from ..topics.wire.messages.answers import DriverStatus, HubTopic, Inspected, SubscriberStatus
from ..topics.wire.messages.connection import (
    Bye,
    Channel,
    Hello,
    Introduction,
    KeepAlive,
    Refused,
    Role,
    Welcome,
)
from ..topics.wire.messages.data import Chunk, Delta, Heartbeat
from ..topics.wire.messages.fields import Message
from ..topics.wire.messages.publishers import Announce, ClientList
from ..topics.wire.messages.questions import Question
from ..topics.wire.messages.readers import (
    Cancel,
    CatchUp,
    Credit,
    DriverFacts,
    Drop,
    Join,
    Joined,
    ReaderStatus,
)
from ..topics.wire.refusal import Refusal, refuse, refuse_frame
from .admission import Admission
from .content.ingest import Ingest, ToPublisher
from .content.policies import Policies
from .data_subscriptions import DataSubscriptions, is_to_full
from .effects import (
    Ask,
    Broadcast,
    Effect,
    Effects,
    Fact,
    HaveKeys,
    MessageReceived,
    Subscription,
    TurnEnd,
    Undecodable,
)
from .heartbeats import Heartbeats, HeartbeatTimer
from .introspection import Introspection
from .leadership import Leadership
from .members.applied import AppliedTimes
from .members.drivers import Drivers
from .members.membership import MEMBERS_MAX, Member, Membership
from .members.permits import client_fault, hello_fault, role_fault
from .reader_requests import ReaderRequest, ReaderRequests
from .replies import Replies
from .status import HubCounts, HubStatus, driver_status, subscriber_status, topic_status

MISSED_MAX: Final = 32  # heartbeats of silence until LOST
# A Hello each 0.5 s and more waits in ZeroMQ until a hub is back, which then reads all at once.
WELCOME_AGAIN_S: Final = 0.4  # until another Hello of a reader on the same connection is answered
WATCH_S: Final = 0.05  # between two looks at deadlines: below what liveness takes for a stall
HUB_FULL_RETRY_MS: Final = 5000  # until a peer for which there was no room repeats its Hello
NOT_ANNOUNCED: Final = "this start is not announced here: compare what the hub has, then announce"


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
        memory: MemoryLimit | None = None,
    ) -> None:
        self.memory = memory
        self.counts = HubCounts()
        self._turn = turn = Turn[Effect](quiet=(TurnEnd, Subscription, Broadcast))
        self.trace = turn.trace
        self._hub_id = hub_id
        self._data_address = data_address
        self._heartbeat_ms = heartbeat_ms
        self._lost_ms = heartbeat_ms * missed_max
        lost_s = self._lost_ms / 1000
        self._membership = Membership(
            turn, members_max=members_max, suspect_s=min(SUSPECT_S, lost_s / 2), lost_s=lost_s
        )
        self._policies = Policies(self._membership.restricted)
        self._subscriptions = DataSubscriptions(self.counts, self._membership.followers)
        self.ingest = Ingest(
            self._subscriptions.has_minimal,
            self._policies,
            clock=turn,
            send=self._send_publisher,
            memory=memory,
        )
        self._replies = Replies(turn, self.counts)
        self._leadership = Leadership(
            self._membership, self.ingest, turn=turn, replies=self._replies
        )
        self._admission = Admission(self._membership, turn=turn, remove=self._on_bye)
        self._heartbeats = Heartbeats(self.ingest, hub_id=hub_id, period_ms=heartbeat_ms)
        self._sender = Sender(turn)
        self._readers = ReaderRequests(
            self.ingest,
            self._membership,
            sender=self._sender,
            policies=self._policies,
            stamp=self._stamp,
        )
        self._applied = AppliedTimes()
        self._drivers = Drivers(self._membership, turn)
        self._introspection = Introspection(
            self.ingest,
            self._membership,
            turn=turn,
            drivers=self._drivers,
            statuses=self.status_in_slices,
        )
        self._wall_at, self._wall_us = 0.0, 0  # at the last TurnEnd: ``now``, the wall clock in µs
        self._watch_at = 0.0  # when deadlines are looked at next
        self._heartbeat_timer = HeartbeatTimer(heartbeat_ms / 1000)
        self.pages = ""
        """The address of the hub's pages, which its shell sets; empty: others cannot reach them."""
        self.refused_handshake: RefusedHandshake | None = None
        """The last client that was refused at its handshake, as the shell last saw it; None: none
        ever was."""

    @property
    def deadline(self) -> float:
        """The time at which a TurnEnd has work to do at the latest."""
        return min(self._watch_at, self._heartbeat_timer.due_at)

    @property
    def sending(self) -> bool:
        """Whether ``send_some`` has something to send."""
        return self._sender.ready

    @property
    def answering(self) -> bool:
        """Whether the next TurnEnd has to make a slice of a status, or an answer, for a caller."""
        return self._introspection.answering

    def handle(self, fact: Fact, *, now: float) -> Effects:
        """Apply ``fact`` and return what is to be sent, and what puts have decided before it."""
        self._turn.now = now
        self._turn.came(fact)
        match fact:
            case MessageReceived(peer=peer, message=message, client=client):
                self._on_message(peer, message, client)
            case Subscription(frame=frame, policy=policy):
                self._on_subscription(frame, policy)
            case Undecodable(peer=peer, error=error):
                self._on_undecodable(peer, error)
            case HaveKeys(own=own):
                self._admission.have_keys(own)
            case Ask(question=question):
                self._introspection.ask(question)
            case TurnEnd(wall_us=wall_us):
                self._on_turn_end(wall_us)
            case _:
                assert_never(fact)
        return self._turn.end()

    def story(self, topic: int | None = None) -> tuple[str, ...]:
        """Return a line for each message that came or went lately; of those about ``topic``."""
        return self.trace.story(topic)

    def take_delta(self, peer: bytes, frame: bytes, *, now: float) -> tuple[bytes, ...]:
        """Take a delta of the publisher and return the frames to broadcast; the hot path.

        The next ``handle`` returns what else ``put`` decides: a refusal, and at the next TurnEnd an
        acknowledgement or a catch-up.
        """
        self._turn.now = now
        try:
            leads = peer == self._leadership.peer(Channel.BULK)
            frames = self.ingest.take_delta(frame) if leads else self._delta_refusal(peer)
        except WireError as error:
            self._on_undecodable(peer, error)
            return ()
        if isinstance(frames, Refused):
            self._replies.refuse(peer, frames)
            return ()
        counts = self.counts
        counts.deltas += 1
        counts.delta_bytes += len(frame)
        counts.broadcasts += len(frames)
        return frames

    def ignores(self, frame: bytes, policy: Policy | None) -> bool:
        """Return whether the Subscription changes nothing here, because it is to topics at full."""
        return policy is None and is_to_full(frame)

    def prefixes_for(self, public: str, subscribed: bytes) -> tuple[bytes, ...]:
        """Return the prefixes that the owner of ``public`` receives for one subscription."""
        return self._policies.prefixes_for(self._admission.client(public), subscribed)

    def end_streams(self, peer: bytes) -> None:
        """Send ``peer``, which has disconnected or does not read, nothing more of its catch-ups."""
        self.counts.unreachable += 1
        self._sender.remove_peer(peer)

    def admit(self, clients: Clients) -> None:
        """Take who is admitted; remove members that are not, or have another role by now."""
        self._admission.admit(clients)

    def send_some(self, bytes_max: int) -> tuple[SendTo, ...]:
        """Return about ``bytes_max`` bytes of the readers' catch-ups, of each reader in turn."""
        sends = self._sender.send_some(bytes_max)
        for send in sends:
            if isinstance(send.message, Refused):
                self._replies.count(send.message)
        return sends

    def status(self, *, now: float) -> HubStatus:
        """Return the status of the hub, which does not change afterwards."""
        self._turn.now = now
        return next(status for status in self.status_in_slices() if status is not None)

    def status_in_slices(self) -> Iterator[HubStatus | None]:
        """Yield None after each slice of a status, and the status at last.

        Its totals and its rows agree, and its topics are of one start of catalogd: if another start
        is announced meanwhile, the status is begun anew.
        """
        ingest, membership = self.ingest, self._membership
        while True:
            of = ingest.epoch, ingest.start
            topics: list[HubTopic] = []
            members: list[SubscriberStatus] = []
            yield from in_slices(
                ingest.followed.items(), lambda one: topic_status(*one, membership), into=topics
            )
            yield None
            yield from in_slices(
                membership, lambda one: subscriber_status(one, now=self._turn.now), into=members
            )
            yield None
            drivers: list[DriverStatus] = []
            yield from in_slices(
                self._drivers, lambda one: driver_status(one, now=self._turn.now), into=drivers
            )
            if of == (ingest.epoch, ingest.start):
                break
        yield self._status(tuple(topics), tuple(members), tuple(drivers))

    def check(self) -> None:
        """Assert every invariant."""
        self.ingest.check()
        self._membership.check()
        self._drivers.check()
        self._policies.check()
        self._leadership.check()

    def _status(
        self,
        topics: tuple[HubTopic, ...],
        members: tuple[SubscriberStatus, ...],
        drivers: tuple[DriverStatus, ...],
    ) -> HubStatus:
        ingest, waiting = self.ingest, self._leadership.unannounced()
        return HubStatus(
            hub=self._hub_id,
            epoch=ingest.epoch,
            start=ingest.start,
            num_topics=ingest.num_topics,
            data_address=self._data_address,
            catalog_address=waiting.catalog_address if waiting else ingest.catalog_address,
            catalog_name=ingest.catalog_name,
            watermark=ingest.watermark,
            offers=ingest.offers,
            publisher=self._leadership.leader.name if self._leadership.leader else "",
            unannounced=waiting.name if waiting else "",
            rival=self._leadership.rival(),
            publisher_silent_s=round(self._leadership.silent_s(), 3),
            catalogd_pages=self._leadership.leader.pages if self._leadership.leader else "",
            topics_behind=ingest.behind,
            behind_s=ingest.behind_s(),
            streams=len(self._sender),
            seeding=ingest.seeding,
            refused_handshake=self.refused_handshake,
            answers_audited=self._membership.audits,
            answers_differing=self._membership.audit_differences,
            answers_differed_s=self._membership.differed_s(),
            memory=None if self.memory is None else self.memory.facts,
            cold_bytes=sum(one.cold_bytes for one in ingest.topics().values()),
            counts=replace(self.counts, refused=dict(self.counts.refused)),
            driver_counts=dict(self._drivers.counts),
            applied=self._applied.facts(),
            topics=topics,
            subscribers=members,
            drivers=drivers,
        )

    def _on_subscription(self, frame: bytes, policy: Policy | None) -> None:
        self._heartbeat_timer.on_subscription(frame, now=self._turn.now)
        if policy is not None:
            self._policies.subscribe(policy, frame[1:])
        elif frame[:1] == b"\0":
            self._policies.unsubscribe(frame[1:])
        barrier = self._subscriptions.take(frame)
        if barrier:
            self._turn.add(Broadcast(barrier))

    def _on_message(self, peer: bytes, message: Message, client: Client) -> None:
        if isinstance(message, Hello):
            self._on_hello(peer, message, client)
            return
        sender = self._member_or_fault(peer, type(message), client=client)
        if isinstance(sender, Member):
            self._obey(sender, peer, message)
        elif not isinstance(message, Refused):  # which is never answered: that would go on for ever
            self._replies.refuse(peer, sender, of=message)

    def _member_or_fault(
        self, peer: bytes, kind: type[Message], *, client: Client | None = None
    ) -> Member | Refused:
        """Return the member that sent a message of ``kind``, or why it may not on ``peer``.

        ``client``: whose key the connection has; None: the caller has looked at it.
        """
        found = self._membership.find(peer)
        if found is None or client not in (None, found[0].client):
            text = "this hub does not know the connection: say hello first"
            return refuse(Refusal.HELLO, text)
        member, channel = found
        self._membership.mark_alive(member)
        return role_fault(kind, role=member.role, channel=channel) or member

    def _delta_refusal(self, peer: bytes) -> Refused:
        """Return the refusal of a delta from ``peer``, which is not the publisher that leads."""
        sender = self._member_or_fault(peer, Delta)
        return sender if isinstance(sender, Refused) else refuse(Refusal.START, NOT_ANNOUNCED)

    def _obey(self, member: Member, peer: bytes, message: Message) -> None:
        match message:
            case KeepAlive():  # by far the most, and noted already
                pass
            case Announce():
                self._replies.send(
                    peer, self._leadership.announce(member, peer, message), of=message
                )
            case ClientList():
                self._replies.send(peer, self._admission.obey(member, message), of=message)
            case Introduction():
                self._replies.send(peer, self._leadership.introduce(member, message), of=message)
            case Heartbeat() | Chunk():
                self._on_published(member, peer, message)
            case Join() | Drop() | ReaderStatus() | CatchUp() | Credit() | Cancel():
                self._on_reader(member, peer, message)
            case Question():
                to, answer = self._introspection.answer(member, peer, message)
                self._replies.send(to, answer, of=message)
            case Inspected() | Refused():
                self._on_answer(member, message)
            case DriverFacts():
                self._drivers.announce(member, message)
            case _:
                assert isinstance(message, Bye)
                self._on_bye(member)

    def _on_hello(self, peer: bytes, hello: Hello, client: Client) -> None:
        fault = hello_fault(hello) or client_fault(client, hello)
        if fault is not None:
            self._replies.refuse(peer, fault, of=hello)
            return
        known = self._membership.find(peer)
        member = self._membership.register(peer, hello, client=client)
        if member is None:
            members = f"{len(self._membership)} members are here, and no more may come"
            text = f"{members}: name another statestored, or start one more"
            self._replies.refuse(
                peer, refuse(Refusal.HUB_FULL, text, retry_ms=HUB_FULL_RETRY_MS), of=hello
            )
            return
        self.counts.hellos += 1
        channel = Channel(hello.channel)
        welcomed_at = member.welcomed_at.get(channel, -inf)
        if member.role == Role.READER and self._turn.now < welcomed_at + WELCOME_AGAIN_S:
            return
        member.welcomed_at[channel] = self._turn.now
        self._turn.add(SendTo(peer, self._welcome(hello, client.policy)))
        if channel is Channel.CONTROL:
            self._admission.send_keys_to(member)
        if member.role == Role.PUBLISHER and channel is Channel.CONTROL:
            if self.pages:
                self._turn.add(SendTo(peer, Introduction(pages=self.pages)))
            self._leadership.send_have(member, peer)
        elif member is self._leadership.leader and known is None:
            self.ingest.lose_streams()  # they ran on the connection before

    def _on_reader(self, member: Member, peer: bytes, message: ReaderRequest) -> None:
        self.counts.catch_ups += isinstance(message, CatchUp)
        if isinstance(message, ReaderStatus):
            followed = self.ingest.followed
            self._applied.on_status(member, message.positions, followed, now=self._turn.now)
        answer = self._readers.answer(member, peer, message)
        if isinstance(answer, Joined):
            self._applied.on_joined(member, answer)
        self._replies.send(peer, answer, of=message)

    def _on_published(self, member: Member, peer: bytes, message: Heartbeat | Chunk) -> None:
        if member is not self._leadership.leader:
            self._replies.refuse(peer, refuse(Refusal.START, NOT_ANNOUNCED), of=message)
        elif isinstance(message, Heartbeat):
            self._replies.send(peer, self.ingest.heartbeat(message), of=message)
        else:
            self.counts.chunks += 1
            for frame in self.ingest.chunk(message):
                self.counts.broadcasts += 1
                self._turn.add(Broadcast(frame))

    def _on_answer(self, member: Member, answer: Inspected | Refused) -> None:
        if isinstance(answer, Refused) and member is self._leadership.leader:
            self.ingest.refused(answer)
        self._introspection.on_answer(member, answer)

    def _on_bye(self, member: Member) -> None:
        self._end_streams(member)
        self._membership.remove(member)
        self._drivers.settle(at_once=True)

    def _on_undecodable(self, peer: bytes, error: WireError) -> None:
        self.counts.frames_undecodable += 1
        self._replies.refuse(peer, refuse_frame(error))

    def _on_turn_end(self, wall_us: int) -> None:
        now = self._turn.now
        self._wall_at, self._wall_us = now, wall_us
        self._leadership.mark_alive()
        if now >= self._watch_at:
            self._watch_at = now + WATCH_S
            self._watch()
        self.ingest.acknowledge()
        self.ingest.request()
        self._introspection.make_slice()
        if now >= self._heartbeat_timer.due_at:
            self._heartbeat_timer.on_sent(now=now, members=len(self._membership))
            self._beat()

    def _beat(self) -> None:
        silent_s = self._leadership.silent_s()
        heartbeat = self._heartbeats.next(sent_us=self._stamp()[1], silent_s=silent_s)
        self._turn.add(Broadcast(encode(heartbeat)))
        if self._policies.any:
            members = self._membership.policies()
            for frame in self._policies.heartbeats(heartbeat, self.ingest.topics(), members):
                self._turn.add(Broadcast(frame))

    def _watch(self) -> None:
        for member in self._membership.expire():
            self.counts.members_lost += 1
            self._end_streams(member)
        self._drivers.settle()
        self.ingest.settle()
        self.ingest.retry_overdue()
        if self._policies.any:
            self._policies.renew_sizes(self.ingest.topics(), self._membership.policies())

    def _welcome(self, hello: Hello, policy: Policy | None) -> Welcome:
        """Answer a Hello; epoch and number of topics are 0 until a publisher announced.

        An operator is told where catalogd is as soon as it is connected: it says what it waits for.
        """
        ingest = self.ingest
        address = ingest.catalog_address
        if hello.role == Role.OPERATOR and (waiting := self._leadership.unannounced()):
            address = waiting.catalog_address
        return Welcome(
            protocol=min(PROTOCOL, hello.protocol_max),
            hub=self._hub_id,
            epoch=ingest.epoch,
            start=ingest.start,
            num_topics=ingest.num_topics,
            data_address=self._data_address,
            catalog_address=address,
            catalog_name=ingest.catalog_name,
            heartbeat_ms=self._heartbeat_ms,
            lost_ms=self._lost_ms,
            policy=self._policies.number(policy),
            policy_digest=policy.digest if policy is not None else 0,
        )

    def _send_publisher(self, message: ToPublisher) -> None:
        self._leadership.send(message)

    def _end_streams(self, member: Member) -> None:
        for peer in member.peers.values():
            self._sender.remove_peer(peer)

    def _stamp(self) -> tuple[int, int]:
        """Return what everything that is sent now is stamped with: (start, time in µs)."""
        return self.ingest.start, self._wall_us + int((self._turn.now - self._wall_at) * 1e6)
