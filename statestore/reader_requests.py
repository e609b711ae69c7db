"""Reader requests: how a hub answers its readers, from its topics and its members.

Join ─▶ Joined    Drop ─▶ Dropped    ReaderStatus ─▶ nothing    CatchUp ─▶ a stream, Credit, Cancel
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from ..topics.policy import Policy
from ..topics.streams.sender import Sender, chunks, everything
from ..topics.topic import FULL, Topic, offered
from ..topics.wire.messages.connection import Refused
from ..topics.wire.messages.fields import Message
from ..topics.wire.messages.readers import (
    Cancel,
    CatchUp,
    Credit,
    Drop,
    Dropped,
    Join,
    JoinAnswer,
    Joined,
    Position,
    ReaderStatus,
    TopicState,
)
from ..topics.wire.refusal import Refusal, refuse
from .content.ingest import Ingest
from .content.policies import Policies
from .members.membership import Member, Membership

WAIT_MS: Final = 250  # until a reader repeats a request that needs a publisher first
SIZING_MS: Final = 10  # until it repeats a Join; each sizes topics for 2 ms, 40,000 tables need 20

ReaderRequest = Join | Drop | ReaderStatus | CatchUp | Credit | Cancel


class ReaderRequests:
    """The side of a hub that faces its readers; it has no state of its own.

    ``stamp`` returns the current (start, time in µs) of what is sent.
    """

    def __init__(
        self,
        ingest: Ingest,
        membership: Membership,
        *,
        sender: Sender,
        policies: Policies,
        stamp: Callable[[], tuple[int, int]],
    ) -> None:
        self._ingest = ingest
        self._membership = membership
        self._sender = sender
        self._policies = policies
        self._stamp = stamp

    def answer(self, member: Member, peer: bytes, request: ReaderRequest) -> Message | None:
        """Obey ``request`` and return its answer, which may be a refusal; None: it needs none."""
        match request:
            case Join():
                return self._on_join(member, request)
            case Drop(request=number, topics=topics):
                self._membership.drop(member, topics)
                return Dropped(request=number)
            case ReaderStatus():
                return self._on_status(member, request)
            case CatchUp():
                return self._on_catch_up(member, peer, request)
            case Credit(stream=stream, amount=amount):
                self._sender.credit(peer, stream, amount)
            case Cancel(stream=stream):
                self._sender.cancel(peer, stream)
        return None

    def _on_join(self, member: Member, join: Join) -> Message:
        ingest = self._ingest
        if not ingest.followed:
            text = "no catalogd has announced itself here yet"
            return refuse(Refusal.RETRY, text, retry_ms=WAIT_MS)
        fault = self._too_many(len(join.positions))
        if fault is not None:
            return fault
        sizes = self._sizes(join, member.client.policy)
        if sizes is None:
            text = "the sizes of what this key sees are being counted"
            return refuse(Refusal.RETRY, text, retry_ms=SIZING_MS)
        states = tuple(self._topic_state(one, member, sizes) for one in join.positions)
        answered = zip(join.positions, states, strict=True)
        self._membership.join(
            member, (one for one, state in answered if state.answer != JoinAnswer.DENIED)
        )
        return Joined(request=join.request, epoch=ingest.epoch, start=ingest.start, topics=states)

    def _on_status(self, member: Member, status: ReaderStatus) -> Refused | None:
        followed = self._ingest.followed
        if not followed:
            return None  # the hub was restarted: the reader joins anew once a publisher announced
        fault = self._too_many(len(status.positions))
        if fault is not None:
            return fault
        unknown = [one.topic for one in status.positions if one.topic not in followed]
        if unknown:
            return refuse(Refusal.TOPIC, f"no topic {unknown[0]}", topic=unknown[0])
        self._membership.update(member, status, lag_of=partial(lag_versions, self._ingest))
        return None

    def _on_catch_up(self, member: Member, peer: bytes, catch_up: CatchUp) -> Message | None:
        fault = self._too_many(len(catch_up.wanted))
        if fault is not None:
            return fault
        policy = member.client.policy
        parts = chunks(
            catch_up.stream,
            catch_up.wanted,
            find=self._ingest.find,
            stamp=self._stamp,
            visible=everything if policy is None else policy.cut,
        )
        return self._sender.open(peer, catch_up.stream, credit=catch_up.credit, parts=parts)

    def _too_many(self, positions: int) -> Refused | None:
        topics = len(self._ingest.followed)
        if not topics or positions <= 2 * topics:  # two levels
            return None
        return refuse(Refusal.TOO_MANY, f"{positions} topics at once, and there are {topics}")

    def _sizes(self, join: Join, policy: Policy | None) -> Mapping[int, int] | None:
        """Return what topics to be joined at FULL take of a reader; None: it is not known yet."""
        followed = self._ingest.followed
        wanted = [
            one.topic for one in join.positions if one.level == FULL and one.topic in followed
        ]
        topics = {number: followed[number].topic for number in wanted}
        if policy is not None:
            return self._policies.sizes(policy, topics)
        return {number: topic.full_bytes for number, topic in topics.items()}

    def _topic_state(
        self, position: Position, member: Member, sizes: Mapping[int, int]
    ) -> TopicState:
        """Return the answer to one position of a Join; a reader that is ahead is current.

        A reader that follows the topic at that level already may keep it though the level is not
        offered any more.
        """
        number, level = position.topic, position.level
        followed = self._ingest.followed.get(number)
        allowed = member.follows(number, level) or offered(self._ingest.offers, number, level)
        if followed is None or not allowed:
            return TopicState(
                topic=number, level=level, answer=JoinAnswer.DENIED, version=0, full_bytes=0
            )
        return TopicState(
            topic=number,
            level=level,
            answer=self._join_answer(position, followed.topic),
            version=followed.topic.version,
            full_bytes=sizes[number] if level == FULL else 0,
        )

    def _join_answer(self, position: Position, topic: Topic) -> JoinAnswer:
        if position.epoch != self._ingest.epoch:
            return JoinAnswer.SNAPSHOT
        if position.version >= topic.version:
            return JoinAnswer.CURRENT
        return JoinAnswer.BEHIND if position.version >= max(topic.floor, 1) else JoinAnswer.SNAPSHOT


def lag_versions(ingest: Ingest, positions: Iterable[Position]) -> int:
    """Return how many versions ``positions``, of topics that exist, are behind the hub's in all."""
    epoch, followed, lag = ingest.epoch, ingest.followed, 0
    for position in positions:  # hundreds of each reader
        version = followed[position.topic].topic.version
        if position.epoch != epoch:
            lag += version
        elif position.version < version:
            lag += version - position.version
    return lag
