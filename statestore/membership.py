"""Members: who is connected, whether it is still there, what it follows, how far it is behind.

    Hello ──▶ LIVE ──silent──▶ SUSPECT ──silent──▶ LOST ──KEPT_S, or its place is needed──▶ gone
                ▲──────────── heard ────────────────┘                    Bye: gone at once

A member is one registration with at most one connection per channel.
Invariant: each connection belongs to the member that names it, and nobody else.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ..topics.entries import NONE
from ..topics.liveness import LIVE, LOST, LOST_S, SUSPECT_S, Liveness
from ..topics.wire.messages import OPERATOR, Have, Hello, Position, Status

MEMBERS_MAX: Final = 4096  # four times the drivers that the design names
KEPT_S: Final = 300.0  # a lost member is shown for so long: time for an operator to look


@dataclass(slots=True, kw_only=True)
class Member:
    """One registered peer. ``peers``: its connection of each channel."""

    registration: bytes
    role: int
    name: str
    liveness: Liveness
    heard_at: float
    since: float
    state: str = LIVE
    peers: dict[int, bytes] = field(default_factory=dict)
    joined: dict[int, Position] = field(default_factory=dict)
    judged: Have | None = None  # what a publisher was told that the hub has
    lag_versions: int = 0
    lag_us: int = 0
    held_bytes: int = 0
    budget_bytes: int = 0

    def follows(self, topic: int, level: int) -> bool:
        """Tell whether it has joined ``topic`` at ``level``."""
        position = self.joined.get(topic)
        return position is not None and position.level == level


class Members:
    """Everybody who said Hello and was not forgotten."""

    def __init__(
        self,
        *,
        members_max: int = MEMBERS_MAX,
        suspect_s: float = SUSPECT_S,
        lost_s: float = LOST_S,
    ) -> None:
        self._members_max = members_max
        self._suspect_s = suspect_s
        self._lost_s = lost_s
        self._members: dict[bytes, Member] = {}
        self._connections: dict[bytes, tuple[Member, int]] = {}
        self._followers: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def at(self, peer: bytes) -> tuple[Member, int] | None:
        """Return the member behind a connection, and the connection's channel."""
        return self._connections.get(peer)

    def followers(self, topic: int, level: int) -> int:
        """Tell how many members follow ``topic`` at ``level``; lost ones do not."""
        return self._followers.get((topic, level), 0)

    def greet(self, peer: bytes, hello: Hello, *, now: float) -> Member | None:
        """Take a Hello; a second one changes nothing. None: every place is taken.

        A connection that had another registration leaves it; a member that comes with a new
        connection for a channel loses the old one; in another role it is another member.
        """
        member = self._members.get(hello.registration)
        if member is not None and member.role != hello.role:
            self.leave(member)
            member = None
        member = member or self._admit(hello, now)
        if member is None:
            return None
        if self._connections.get(peer) != (member, hello.channel):
            self.hang_up(peer)
            old = member.peers.get(hello.channel)
            if old is not None:
                self.hang_up(old)
            member.peers[hello.channel] = peer
            self._connections[peer] = (member, hello.channel)
        member.name = hello.name
        self.heard(member, now=now)
        return member

    def heard(self, member: Member, *, now: float) -> None:
        """Take a sign of life; who was LOST follows again what it had joined."""
        member.heard_at = now
        member.liveness.heard(now)
        if member.state == LOST:
            self._count(member.joined.values(), 1)
        member.state = LIVE

    def join(self, member: Member, positions: Iterable[Position]) -> None:
        """Follow each topic at the level of its position; the last word on a topic stands."""
        for position in positions:
            self.drop(member, (position.topic,))
            if position.level != NONE:
                member.joined[position.topic] = position
                self._count((position,), 1)

    def drop(self, member: Member, topics: Iterable[int]) -> None:
        """Follow ``topics`` no longer."""
        for topic in topics:
            position = member.joined.pop(topic, None)
            if position is not None:
                self._count((position,), -1)

    def report(self, member: Member, message: Status, *, lag_of: Callable[[Position], int]) -> None:
        """Take what a reader says of itself; ``lag_of`` judges where it stands in one topic."""
        self.join(member, message.positions)
        member.lag_us = message.lag_us
        member.held_bytes = message.held_bytes
        member.budget_bytes = message.budget_bytes
        member.lag_versions = sum(map(lag_of, member.joined.values()))

    def hang_up(self, peer: bytes) -> None:
        """Forget a connection; its member stays."""
        found = self._connections.pop(peer, None)
        if found is not None:
            member, channel = found
            del member.peers[channel]

    def leave(self, member: Member) -> None:
        """Forget a member, its connections and what it followed."""
        if member.state != LOST:
            self._count(member.joined.values(), -1)
        for peer in tuple(member.peers.values()):
            self.hang_up(peer)
        del self._members[member.registration]

    def expire(self, *, now: float) -> tuple[Member, ...]:
        """Judge everybody's silence and return who has just become LOST."""
        lost: list[Member] = []
        for member in tuple(self._members.values()):
            if member.state == LOST:
                if now >= member.heard_at + KEPT_S:
                    self.leave(member)
                continue
            member.state = member.liveness.state(now)
            if member.state == LOST:
                self._count(member.joined.values(), -1)
                if member.role == OPERATOR:
                    self.leave(member)  # it came to look, and went
                else:
                    lost.append(member)
        return tuple(lost)

    def forget_topics(self) -> None:
        """Forget what everybody follows: the topics of another epoch are other topics."""
        for member in self._members.values():
            member.joined.clear()
            member.lag_versions = 0
        self._followers.clear()

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._members) <= self._members_max
        for peer, (member, channel) in self._connections.items():
            assert member.peers[channel] == peer
            assert self._members[member.registration] is member
        named = [peer for member in self._members.values() for peer in member.peers.values()]
        assert sorted(named) == sorted(self._connections)
        counted: dict[tuple[int, int], int] = {}
        for member in self._members.values():
            for topic, position in member.joined.items():
                assert topic == position.topic
                if member.state != LOST:
                    key = (topic, position.level)
                    counted[key] = counted.get(key, 0) + 1
        assert counted == {key: count for key, count in self._followers.items() if count}

    def _admit(self, hello: Hello, now: float) -> Member | None:
        if len(self._members) >= self._members_max:
            lost = [member for member in self._members.values() if member.state == LOST]
            if not lost:
                return None
            self.leave(min(lost, key=lambda member: member.heard_at))
        member = Member(
            registration=hello.registration,
            role=hello.role,
            name=hello.name,
            liveness=Liveness(now, self._suspect_s, self._lost_s),
            heard_at=now,
            since=now,
        )
        self._members[hello.registration] = member
        return member

    def _count(self, positions: Iterable[Position], change: int) -> None:
        for position in positions:
            key = (position.topic, position.level)
            self._followers[key] = self._followers.get(key, 0) + change
