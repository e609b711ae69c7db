"""Membership: the connected peers: their liveness, the topics that they joined, their lag.

    Hello ──▶ LIVE ──silent──▶ SUSPECT ──silent──▶ LOST ──LOST_LISTED_S, or no room──▶ gone
                ▲────── any message ──────────────┘         Bye: gone at once

A member is a registration with at most one connection per channel.
Invariant: each connection belongs to exactly the member that names it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...topics.clock import Clock
from ...topics.keys.clients import Client
from ...topics.liveness import LIVE, LOST, SUSPECT, Liveness, LivenessState
from ...topics.policy import Policy
from ...topics.topic import NONE
from ...topics.wire.messages.connection import Channel, Hello, Role
from ...topics.wire.messages.publishers import Have
from ...topics.wire.messages.readers import Position, ReaderStatus

MEMBERS_MAX: Final = 4096  # four times the drivers that the design names
LOST_LISTED_S: Final = 300.0  # a lost member is listed for so long: time for an operator to look
NEXT: Final[Mapping[LivenessState, tuple[LivenessState, ...]]] = {
    LIVE: (SUSPECT,),
    SUSPECT: (LIVE, LOST),
    LOST: (LIVE,),
}
"""The states that may follow each state of a member."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One registered peer."""

    registration: bytes
    client: Client  # whose key its connections have
    role: Role
    name: str
    liveness: Liveness
    seen_at: float  # when its last message arrived
    state: LivenessState = LIVE
    peers: dict[Channel, bytes] = field(default_factory=dict)  # its connection of each channel
    joined: dict[int, Position] = field(default_factory=dict)  # by topic, as it last reported
    version_at_join: dict[int, int] = field(default_factory=dict)
    """By topic: the hub's version when the member last joined. A catch-up brings the member there,
    so that AppliedTimes measures only changes above it."""
    welcomed_at: dict[Channel, float] = field(default_factory=dict)
    """When each of ``peers`` was last sent a Welcome."""
    have: Have | None = None  # of a publisher: the last Have that it was sent
    catalog_address: str = ""  # of a publisher: where it takes requests, once it has said so
    pages: str = ""  # of a publisher: where its pages are, as it said last
    is_command: bool = False  # whether it ends soon, as commands do, and is no application
    lag_versions: int = 0
    lag_us: int = 0
    held_bytes: int = 0
    budget_bytes: int = 0
    audited: tuple[int, int] | None = None  # audits and their differences, as it said last

    def follows(self, topic: int, level: int) -> bool:
        """Return whether it has joined ``topic`` at ``level``."""
        position = self.joined.get(topic)
        return position is not None and position.level == level


class Membership:
    """Every member that sent a Hello and is not gone."""

    def __init__(self, clock: Clock, *, members_max: int, suspect_s: float, lost_s: float) -> None:
        self._clock = clock
        self._members_max = members_max
        self._suspect_s = suspect_s
        self._lost_s = lost_s
        self.audits = 0  # by readers, of their answers, as far as they were reported here
        self.audit_differences = 0  # how many of these found a difference
        self._differed_at: float | None = None  # when a reader reported the last of them
        self._members: dict[bytes, Member] = {}  # by registration
        self._connections: dict[bytes, tuple[Member, Channel]] = {}  # by peer
        self._followers: Counter[tuple[int, int]] = Counter()
        """By topic and level: how many members that are not LOST have joined it."""
        self._restricted: dict[int, Counter[tuple[Policy, int]]] = {}
        """By topic: the same of members with a policy, by it and level; above zero."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def find(self, peer: bytes) -> tuple[Member, Channel] | None:
        """Return the member of a connection, and the connection's channel."""
        return self._connections.get(peer)

    def get(self, registration: bytes) -> Member | None:
        """Return the member of a registration; None if there is none any more."""
        return self._members.get(registration)

    def followers(self, topic: int, level: int) -> int:
        """Return how many members that are not LOST follow ``topic`` at ``level``."""
        return self._followers[topic, level]

    def restricted(self, topic: int) -> Collection[tuple[Policy, int]]:
        """Return the policies and levels at which members that are not LOST follow ``topic``."""
        return self._restricted.get(topic, ())

    def policies(self) -> tuple[Policy, ...]:
        """Return the policies of members, each once."""
        found = (member.client.policy for member in self._members.values())
        return tuple(dict.fromkeys(policy for policy in found if policy is not None))

    def register(self, peer: bytes, hello: Hello, *, client: Client) -> Member | None:
        """Return the member of ``hello``; a repeated Hello changes nothing. None: no room.

        A connection that had another registration leaves it; a member with a new connection for a
        channel loses the old; in another role, or with another key, it is another member.
        """
        role, channel = Role(hello.role), Channel(hello.channel)
        member = self._members.get(hello.registration)
        if member is not None and (member.role, member.client) != (role, client):
            self.remove(member)
            member = None
        member = member or self._admit(hello, role, client=client)
        if member is None:
            return None
        if self._connections.get(peer) != (member, channel):
            self._disconnect(peer)
            old = member.peers.get(channel)
            if old is not None:
                self._disconnect(old)
            member.peers[channel] = peer
            self._connections[peer] = (member, channel)
        member.name = hello.name
        member.is_command = role == Role.OPERATOR or hello.is_command
        self.mark_alive(member)
        return member

    def differed_s(self) -> float | None:
        """Return for how long no reader has reported a difference; None: none ever did."""
        return None if self._differed_at is None else self._clock.now - self._differed_at

    def mark_alive(self, member: Member, *, at: float | None = None) -> None:
        """Count a sign of life, now or ``at``.

        Caller: the hub for each message, the publishers for a leader whose deltas came.
        Affects: a member that was LOST counts again as a follower of what it had joined.
        """
        member.seen_at = self._clock.now if at is None else at
        member.liveness.on_message(member.seen_at)
        self._become(member, LIVE)

    def join(self, member: Member, positions: Iterable[Position]) -> None:
        """Let ``member`` follow each topic at the level of its position, instead of before."""
        new: list[Position] = []
        for position in positions:
            topic, level, before = position.topic, position.level, member.joined.get(position.topic)
            if before is not None and before.level == level:
                member.joined[topic] = position  # as a rule: nothing is counted anew
                continue
            if before is not None:
                self.drop(member, (topic,))
            if level != NONE:
                member.joined[topic] = position
                new.append(position)
        self._count(member, new, 1)

    def drop(self, member: Member, topics: Iterable[int]) -> None:
        """Let ``member`` follow ``topics`` no longer."""
        for topic in topics:
            position = member.joined.pop(topic, None)
            if position is not None:
                self._count(member, (position,), -1)

    def update(
        self, member: Member, status: ReaderStatus, *, lag_of: Callable[[Iterable[Position]], int]
    ) -> None:
        """Record what a reader reports of itself; ``lag_of`` gives the lag of all its positions."""
        self.join(member, status.positions)
        member.lag_us = status.lag_us
        member.held_bytes = status.held_bytes
        member.budget_bytes = status.budget_bytes
        member.lag_versions = lag_of(member.joined.values())
        audits, differences = member.audited or (status.audits, status.audit_differences)
        self.audits += max(status.audits - audits, 0)
        if status.audit_differences > differences:
            self.audit_differences += status.audit_differences - differences
            self._differed_at = self._clock.now
        member.audited = status.audits, status.audit_differences

    def remove(self, member: Member) -> None:
        """Remove a member, its connections and what it followed."""
        if member.state != LOST:
            self._count(member, member.joined.values(), -1)
        for peer in tuple(member.peers.values()):
            self._disconnect(peer)
        del self._members[member.registration]

    def expire(self) -> tuple[Member, ...]:
        """Update every member's state and return those that have just become LOST."""
        lost: list[Member] = []
        now = self._clock.now
        for member in tuple(self._members.values()):
            if member.state == LOST:
                if now >= member.seen_at + LOST_LISTED_S:
                    self.remove(member)
                continue
            state = member.liveness.state(now)
            self._become(member, state)
            if state == LOST and member.is_command:
                self.remove(member)  # it was killed
            elif state == LOST:
                lost.append(member)
        return tuple(lost)

    def drop_everything(self) -> None:
        """Discard what members follow: the topics of another epoch are other topics."""
        for member in self._members.values():
            member.joined.clear()
            member.lag_versions = 0
        self._followers.clear()
        self._restricted.clear()

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._members) <= self._members_max
        for peer, (member, channel) in self._connections.items():
            assert member.peers[channel] == peer
            assert self._members[member.registration] is member
        named = [peer for member in self._members.values() for peer in member.peers.values()]
        assert sorted(named) == sorted(self._connections)
        for member in self._members.values():
            assert all(topic == position.topic for topic, position in member.joined.items())
        assert self._followers == Counter(
            (position.topic, position.level)
            for member in self._members.values()
            if member.state != LOST
            for position in member.joined.values()
        )
        assert all(min(of_topic.values()) > 0 for of_topic in self._restricted.values())
        assert {
            (topic, *policy_level): count
            for topic, of_topic in self._restricted.items()
            for policy_level, count in of_topic.items()
        } == Counter(
            (position.topic, member.client.policy, position.level)
            for member in self._members.values()
            if member.state != LOST and member.client.policy is not None
            for position in member.joined.values()
        )

    def _admit(self, hello: Hello, role: Role, *, client: Client) -> Member | None:
        now = self._clock.now
        if len(self._members) >= self._members_max:
            lost = [member for member in self._members.values() if member.state == LOST]
            if not lost:
                return None
            self.remove(min(lost, key=lambda member: member.seen_at))
        member = Member(
            registration=hello.registration,
            client=client,
            role=role,
            name=hello.name,
            liveness=Liveness(now, self._suspect_s, self._lost_s),
            seen_at=now,
        )
        self._members[hello.registration] = member
        return member

    def _become(self, member: Member, state: LivenessState) -> None:
        """Change its state; what it follows counts exactly while it is not LOST."""
        before = member.state
        if state == before:
            return
        assert state in NEXT[before], f"{before} to {state}"
        member.state = state
        if LOST in (before, state):
            self._count(member, member.joined.values(), -1 if state == LOST else 1)

    def _disconnect(self, peer: bytes) -> None:
        if peer in self._connections:
            member, channel = self._connections.pop(peer)
            del member.peers[channel]
            member.welcomed_at.pop(channel, None)

    def _count(self, member: Member, positions: Iterable[Position], change: int) -> None:
        policy = member.client.policy
        for position in positions:
            self._followers[position.topic, position.level] += change
            if policy is not None:
                self._count_restricted(position.topic, (policy, position.level), change)

    def _count_restricted(self, topic: int, policy_level: tuple[Policy, int], change: int) -> None:
        of_topic = self._restricted.setdefault(topic, Counter())
        of_topic[policy_level] += change
        if not of_topic[policy_level]:
            del of_topic[policy_level]
        if not of_topic:
            del self._restricted[topic]
