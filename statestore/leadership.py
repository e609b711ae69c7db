"""Leadership: the catalogds that are members of a hub, and which of them leads.

    catalogd ──Hello──▶ is sent Have ──Announce──▶ leads ──a later start announces──▶ refused

Invariant: the member that leads is a publisher.
"""

from math import inf
from typing import Final

from ..topics.errors import ConfigError
from ..topics.liveness import LOST, SUSPECT_S
from ..topics.settings import checked_pages
from ..topics.streams.sender import SendTo
from ..topics.turn import Turn
from ..topics.wire.messages.connection import Channel, Introduction, Refused, Role
from ..topics.wire.messages.publishers import Announce, Filed
from ..topics.wire.refusal import Refusal, refuse
from .content.ingest import Ingest, ToPublisher
from .effects import Effect
from .members.membership import Member, Membership
from .replies import Replies

RIVAL_S: Final = 120.0  # after it lost the lead: a catalogd takes it back within 60 s


class Leadership:
    """The catalogds of one hub. ``ingest`` files what the catalogd that leads sends."""

    def __init__(
        self, membership: Membership, ingest: Ingest, *, turn: Turn[Effect], replies: Replies
    ) -> None:
        self._turn = turn
        self._membership = membership
        self._ingest = ingest
        self._replies = replies
        self._started_at: float | None = None  # the first ``mark_alive``
        self.leader: Member | None = None
        """The member that announced its start last."""
        self._deposed = "", -inf  # the address of a catalogd that another took over from, and when

    def check(self) -> None:
        """Assert every invariant."""
        assert self.leader is None or self.leader.role == Role.PUBLISHER

    def peer(self, channel: Channel) -> bytes:
        """Return the connection of the catalogd that leads; empty if there is none."""
        return self.leader.peers.get(channel, b"") if self.leader else b""

    def silent_s(self) -> float:
        """Return how long no publisher was seen, since the hub's own start if there was none."""
        since = self.leader.seen_at if self.leader else self._started_at
        return self._turn.now - since if since is not None else 0.0

    def unannounced(self) -> Member | None:
        """Return a catalogd that is connected while none has announced itself."""
        if self.leader is not None:
            return None
        waiting = (one for one in self._membership if one.catalog_address and one.state != LOST)
        return next(waiting, None)

    def mark_alive(self) -> None:
        """Note that the catalogd that leads lives if it has sent a delta since it was seen."""
        if self._started_at is None:
            self._started_at = self._turn.now
        leader, delta_at = self.leader, self._ingest.last_delta_at
        if leader is not None and delta_at > leader.seen_at:
            self._membership.mark_alive(leader, at=delta_at)

    def send(self, message: ToPublisher) -> None:
        """Send a message to the catalogd that leads; if none leads, drop the message."""
        if isinstance(message, Refused):
            self._replies.count(message)
        control = isinstance(message, Filed)  # the others are about streams
        peer = self.peer(Channel.CONTROL if control else Channel.BULK)
        if peer:
            self._turn.add(SendTo(peer, message))

    def send_have(self, member: Member, peer: bytes) -> None:
        """Send a catalogd what the hub has, by which it decides whether it may announce itself."""
        member.have = self._ingest.have()
        self._turn.add(SendTo(peer, member.have))

    def announce(self, member: Member, peer: bytes, announce: Announce) -> Refused | None:
        """Let ``member`` lead, and refuse the member that led before; or return why it may not."""
        ingest = self._ingest
        before = ingest.catalog_address
        if self._judged_an_older_have(member, announce):
            self.send_have(member, peer)
            return None
        epoch, old = ingest.epoch, self.peer(Channel.CONTROL)
        fault = ingest.announce(announce)
        if fault is not None:
            return fault
        if ingest.epoch != epoch:
            self._membership.drop_everything()
        moved = member is not self.leader and before != announce.catalog_address
        if moved and self._is_alive(self.leader):
            self._deposed = before, self._turn.now
        self.leader = member
        if old and old != peer:
            text = f"start {announce.start} of epoch {announce.epoch} was announced after yours"
            self._replies.refuse(old, refuse(Refusal.START, text))
        return None

    def rival(self) -> str:
        """Return the address of a catalogd that led lately, and was alive when another took over.

        Two that publish to one hub take over from each other for ever.
        """
        address, at = self._deposed
        return address if self._turn.now - at <= RIVAL_S else ""

    def introduce(self, member: Member, message: Introduction) -> Refused | None:
        """Take a catalogd's address and pages; return what is wrong with them."""
        try:
            pages = checked_pages(message.pages) if message.pages else ""
        except ConfigError as error:
            return refuse(Refusal.WIRE, str(error))
        member.catalog_address, member.pages = message.catalog_address, pages
        return None

    def _judged_an_older_have(self, member: Member, announce: Announce) -> bool:
        """Return whether another start was compared with less than the hub holds by now."""
        ingest = self._ingest
        other_start = announce.epoch == ingest.epoch and announce.start != ingest.start
        return other_start and member.have != ingest.have()

    def _is_alive(self, member: Member | None) -> bool:
        """Return whether ``member`` has not left, and has sent something a moment ago."""
        return (
            member is not None
            and self._membership.get(member.registration) is member
            and self._turn.now - member.seen_at < SUSPECT_S
        )
