"""Subscriptions as a hub counts them: at minimal, barriers, and those of strangers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.statestore.data_subscriptions import DataSubscriptions
from topicast.statestore.effects import Subscription
from topicast.statestore.status import HubCounts
from topicast.tests.statestore.hub_driver import seeded
from topicast.topics.policy import Policy
from topicast.topics.topic import (
    BARRIER,
    CONTROL,
    FULL,
    HEARTBEAT,
    MINIMAL,
    NAMESPACE,
    NONE,
    NUM_TOPICS_MAX,
)
from topicast.topics.wire.header import (
    BARRIER_PREFIX,
    HEARTBEAT_PREFIX,
    NONCE_BYTES,
    PROTOCOL,
    barrier_prefix,
    prefix,
    set_prefix,
)

BEGINS, ENDS = b"\1", b"\0"
NONCE = bytes(range(NONCE_BYTES))
TOPICS = range(1 << 16)  # all that two bytes can name


def nobody(_topic: int, _level: int) -> int:
    return 0


@pytest.fixture
def counts() -> HubCounts:
    return HubCounts()


@pytest.fixture
def subscriptions(counts: HubCounts) -> DataSubscriptions:
    return DataSubscriptions(counts, nobody)


def test_set_at_minimal_is_a_subscription_to_each_of_its_topics(
    subscriptions: DataSubscriptions, counts: HubCounts
) -> None:
    """P-SUB-5."""
    some = set_prefix([1, 3], MINIMAL)
    assert subscriptions.take(BEGINS + some) is None
    assert [subscriptions.has_minimal(topic) for topic in range(4)] == [False, True, False, True]
    assert subscriptions.take(ENDS + some) is None
    assert not any(map(subscriptions.has_minimal, range(4)))
    assert counts == HubCounts()


@pytest.mark.parametrize("topic", [0, NUM_TOPICS_MAX - 1, NAMESPACE])
def test_topic_has_minimal_from_its_first_subscriber_to_its_last(
    subscriptions: DataSubscriptions, counts: HubCounts, topic: int
) -> None:
    """P-DATA-2: only while there is a subscriber."""
    for _ in range(2):
        assert subscriptions.take(BEGINS + prefix(topic, MINIMAL)) is None
        assert subscriptions.has_minimal(topic)
    assert subscriptions.take(ENDS + prefix(topic, MINIMAL)) is None
    assert not subscriptions.has_minimal(topic)
    subscriptions.take(ENDS + prefix(topic, MINIMAL))
    assert counts == HubCounts()


@pytest.mark.parametrize("prefixed", [prefix(1, FULL), prefix(NAMESPACE, FULL), HEARTBEAT_PREFIX])
def test_prefix_that_is_sent_in_any_case_is_not_recorded(
    subscriptions: DataSubscriptions, counts: HubCounts, prefixed: bytes
) -> None:
    for first in (BEGINS, ENDS):
        assert subscriptions.take(first + prefixed) is None
        assert not any(map(subscriptions.has_minimal, TOPICS))
    assert counts == HubCounts()


def test_barrier_is_answered_by_exactly_its_bytes_whenever_it_begins(
    subscriptions: DataSubscriptions, counts: HubCounts
) -> None:
    """P-SUB-2."""
    prefixed = barrier_prefix(NONCE)
    assert subscriptions.take(BEGINS + prefixed) == prefixed
    assert subscriptions.take(BEGINS + prefixed) == prefixed
    assert subscriptions.take(ENDS + prefixed) is None
    assert counts == HubCounts(barriers=2)


ODD = [
    b"",
    prefix(1, MINIMAL)[:3],
    prefix(1, MINIMAL) + b"\0",
    prefix(1, NONE),
    prefix(1, FULL + 1),
    prefix(NUM_TOPICS_MAX, MINIMAL),
    prefix(HEARTBEAT, MINIMAL),
    prefix(BARRIER, MINIMAL),
    prefix(CONTROL, MINIMAL),
    *(BARRIER_PREFIX + bytes(size) for size in (0, NONCE_BYTES - 1, NONCE_BYTES + 1)),
    *(
        bytes((version,)) + known[1:]
        for known in (prefix(1, MINIMAL), barrier_prefix(NONCE))
        for version in (0, PROTOCOL + 1, 255)
    ),
]


@pytest.mark.parametrize("prefixed", ODD, ids=bytes.hex)
def test_odd_subscription_is_counted_and_changes_nothing(
    subscriptions: DataSubscriptions, counts: HubCounts, prefixed: bytes
) -> None:
    """P-SUB-2, P-VER-2: also half a nonce, and a first byte that is not the protocol's version."""
    assert subscriptions.take(BEGINS + prefixed) is None
    assert not any(map(subscriptions.has_minimal, TOPICS))
    assert counts == HubCounts(subscriptions_invalid=1)


@given(st.lists(st.binary(max_size=256)))
def test_whatever_strangers_subscribe_to_is_held_for_existing_topics_only(
    frames: list[bytes],
) -> None:
    """P-BAD-1."""
    subscriptions = DataSubscriptions(HubCounts(), nobody)
    for frame in frames:
        barrier = subscriptions.take(frame)
        assert barrier is None or frame == BEGINS + barrier
    assert not any(map(subscriptions.has_minimal, range(NUM_TOPICS_MAX, NAMESPACE)))
    assert not any(map(subscriptions.has_minimal, range(NAMESPACE + 1, 1 << 16)))


@pytest.mark.parametrize(
    ("frame", "ignored"),
    [
        (b"\1" + prefix(1, FULL), True),
        (b"\1" + prefix(NAMESPACE, FULL), True),
        (b"\1" + set_prefix([1, 2], FULL), True),
        (b"\1" + set_prefix([1, 2], MINIMAL), False),
        (b"\1" + set_prefix([1, 2], NONE), False),
        (b"\0" + prefix(1, FULL), False),
        (b"\1" + prefix(1, MINIMAL), False),
        (b"\1" + prefix(NUM_TOPICS_MAX, FULL), False),
        (b"\1" + prefix(1, FULL) + b"x", False),
        (b"\1" + HEARTBEAT_PREFIX, False),
        (b"\1" + barrier_prefix(bytes(16)), False),
        (b"\1", False),
    ],
)
def test_only_a_subscription_at_full_is_ignored(frame: bytes, ignored: bool) -> None:
    driver, _ = seeded()
    assert driver.hub.ignores(frame, None) is ignored
    assert not driver.hub.ignores(frame, Policy(("sales",)))
    before = driver.status
    if ignored:
        assert driver.handle(Subscription(frame)) == []
        assert driver.status == before
