"""Policies: the filtered topics for readers whose key is restricted to databases.

    a delta ──▶ every unrestricted subscriber, as it is
        └─cut once for each policy and level that somebody follows──▶ the readers of that policy

A frame for restricted readers begins with the number that their policy has at this hub. So it
matches no prefix of any other reader, and none of their prefixes matches a frame for others.
Without such readers a delta costs two look-ups.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from ...topics.keys.clients import Client
from ...topics.policy import Policy
from ...topics.topic import FULL, Topic
from ...topics.wire import encode
from ...topics.wire.header import (
    BARRIER_PREFIX,
    HEARTBEAT_PREFIX,
    NONCE_BYTES,
    policy_lead,
    prefixes_in,
    topic_level_of,
)
from ...topics.wire.messages.data import Delta, Heartbeat
from .stub_deltas import minimal

POLICIES_MAX: Final = (1 << 16) - 1  # that one process can number; number 0 is of all of them
EVERY: Final = 0
SIZED_MAX: Final = 2000  # groups of topics sized at once: 2 ms; a larger topic is sized alone

PolicyLevel = tuple[Policy, int]
"""A policy, and the level at which its readers follow a topic."""


class Policies:
    """The policies of one hub's readers: their numbers, subscriptions, and sizes of topics."""

    def __init__(self, followed: Callable[[int], Iterable[PolicyLevel]]) -> None:
        """``followed`` returns the policies and levels at which members follow a topic."""
        self._followed = followed
        self._numbers: dict[Policy, int] = {}  # never given anew: a connection may have had it
        self._subscribed: dict[int, dict[PolicyLevel, None]] = {}
        """By topic: the policies and levels of subscriptions, also before their readers join."""
        self._sizes: dict[tuple[Policy, int], tuple[int, int, int, int]] = {}
        """By policy and topic: its epoch, version and floor, and its bytes at FULL as of these."""
        self._to_size: Iterator[tuple[Policy, int, Topic]] = iter(())  # what is left of a round

    @property
    def any(self) -> bool:
        """Whether a reader with a policy has subscribed to anything yet."""
        return bool(self._numbers)

    def number(self, policy: Policy | None) -> int:
        """Return the number of ``policy`` here; EVERY if there is none, or none is left for it."""
        return EVERY if policy is None else self._number(policy) or EVERY

    def prefixes_for(self, client: Client | None, subscribed: bytes) -> tuple[bytes, ...]:
        """Return the prefixes that ``client`` (None: unknown) receives for ``subscribed``."""
        if client is None:
            return ()
        if client.policy is None:
            return prefixes_in(subscribed)
        if _is_barrier(subscribed):
            return (subscribed,)
        number = self._number(client.policy)
        if number is None:
            return ()
        if subscribed == HEARTBEAT_PREFIX:
            return policy_lead(EVERY) + subscribed, policy_lead(number) + subscribed
        lead = policy_lead(number)
        return tuple(lead + one for one in prefixes_in(subscribed) if topic_level_of(one))

    def subscribe(self, policy: Policy, prefixed: bytes) -> None:
        """Publish what a reader with ``policy`` subscribed to."""
        for topic, level in _topic_levels(prefixed):
            self._subscribed.setdefault(topic, {})[policy, level] = None

    def unsubscribe(self, prefixed: bytes) -> None:
        """Publish what a reader has unsubscribed from only if members follow it."""
        for topic, level in _topic_levels(prefixed):
            of_topic = self._subscribed.get(topic, {})
            for policy_level in [one for one in of_topic if one[1] == level]:
                del of_topic[policy_level]

    def deltas(self, delta: Delta) -> tuple[bytes, ...]:
        """Return the frames of ``delta``, which is at FULL, for all who follow less of it."""
        frames = []
        cut: dict[Policy, Delta] = {}
        for policy, level in self._policy_levels(delta.topic):
            if policy not in cut:
                cut[policy] = replace(delta, entries=policy.cut(delta.topic, delta.entries))
            one = cut[policy] if level == FULL else minimal(cut[policy])
            number = self._number(policy)
            if number is not None:
                frames.append(policy_lead(number) + encode(one))
        return tuple(frames)

    def has_policy_levels(self, topic: int) -> bool:
        """Return whether ``deltas`` of ``topic`` would return anything."""
        return bool(self._subscribed.get(topic) or self._followed(topic))

    def heartbeats(
        self, heartbeat: Heartbeat, topics: Mapping[int, Topic], policies: Iterable[Policy]
    ) -> tuple[bytes, ...]:
        """Return the frames of ``heartbeat`` for readers with a policy, ``policies`` of members.

        No total of a topic is in them. Now and then each policy has its own, with the sizes of
        what it may see, once all of them are known.
        """
        whole = encode(replace(heartbeat, sizes=()))
        if not heartbeat.sizes:
            return (policy_lead(EVERY) + whole,)
        sized = {policy: self._known_sizes(policy, topics) for policy in policies}
        return policy_lead(EVERY) + whole, *(
            policy_lead(number) + encode(replace(heartbeat, sizes=sizes))
            for policy, sizes in sized.items()
            if sizes and (number := self._number(policy)) is not None
        )

    def sizes(self, policy: Policy, topics: Mapping[int, Topic]) -> Mapping[int, int] | None:
        """Return the bytes at FULL of what ``policy`` sees of each of ``topics``.

        Topics without a size come first, then those that have changed, as many as one call may
        size. The size of the others may be that of a version before; where there is none, return
        None. After some calls all have a size.
        """
        unsized = [
            number for number, topic in topics.items() if not self._has(policy, number, topic)
        ]
        left = SIZED_MAX
        for number in (*unsized, *topics):
            if left > 0:
                left -= self._size(policy, number, topics[number])
        if not all(self._has(policy, number, topics[number]) for number in unsized):
            return None
        return {number: self._sizes[policy, number][-1] for number in topics}

    def renew_sizes(self, topics: Mapping[int, Topic], policies: Iterable[Policy]) -> None:
        """Size some topics for the ``policies`` of members; after some calls all of them."""
        left = SIZED_MAX
        while left > 0:
            one = next(self._to_size, None)
            if one is None:
                self._begin_sizing(topics, tuple(policies))
                return
            left -= 1 + self._size(*one)

    def check(self) -> None:
        """Assert every invariant."""
        assert EVERY not in self._numbers.values()
        assert len(set(self._numbers.values())) == len(self._numbers) <= POLICIES_MAX

    def _begin_sizing(self, topics: Mapping[int, Topic], policies: Collection[Policy]) -> None:
        """Begin a round, without the policies that no member has any more."""
        known = self._sizes.items()
        self._sizes = {key: size for key, size in known if key[0] in policies}
        topics = dict(topics)
        self._to_size = ((one, number, topics[number]) for one in policies for number in topics)

    def _has(self, policy: Policy, number: int, topic: Topic) -> bool:
        """Return whether topic ``number`` was sized in its present epoch."""
        known = self._sizes.get((policy, number))
        return known is not None and known[0] == topic.epoch

    def _size(self, policy: Policy, number: int, topic: Topic) -> int:
        """Size topic ``number`` unless its size is the newest; return how many groups that took."""
        as_of = (topic.epoch, topic.version, topic.floor)
        if self._sizes.get((policy, number), ())[:-1] == as_of:
            return 0
        size = topic.held_bytes_of(lambda group: policy.sees_group(number, group))
        self._sizes[policy, number] = (*as_of, size)
        return topic.num_groups

    def _policy_levels(self, topic: int) -> dict[PolicyLevel, None]:
        return {**self._subscribed.get(topic, {}), **dict.fromkeys(self._followed(topic))}

    def _number(self, policy: Policy) -> int | None:
        """Return the number of ``policy`` here; None: none is left, and it is sent nothing."""
        number = self._numbers.get(policy)
        if number is None and len(self._numbers) < POLICIES_MAX:
            number = self._numbers[policy] = len(self._numbers) + 1
        return number

    def _known_sizes(self, policy: Policy, topics: Mapping[int, Topic]) -> tuple[int, ...]:
        """Return the size of each topic, some of them perhaps not the newest; empty: not known."""
        found = [self._sizes.get((policy, number)) for number in topics]
        return tuple(one[-1] for one in found if one is not None) if all(found) else ()


def _is_barrier(prefixed: bytes) -> bool:
    return prefixed[:-NONCE_BYTES] == BARRIER_PREFIX


def _topic_levels(prefixed: bytes) -> Iterator[tuple[int, int]]:
    """Yield the topics and levels that are subscribed to by ``prefixed``, which may be a set."""
    return filter(None, map(topic_level_of, prefixes_in(prefixed)))
