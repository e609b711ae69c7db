"""Barriers: subscriptions are fenced in turn, however fast more of them come."""

from collections.abc import Callable
from itertools import count

from topicast.subscriber.protocol.shell import Effect, Subscribe, Unsubscribe
from topicast.subscriber.replication.hub_session import BARRIER_AGAIN_S, HubSession
from topicast.topics.topic import MINIMAL
from topicast.topics.wire.header import BARRIER_PREFIX
from topicast.topics.wire.messages import Welcome

WELCOME = Welcome(
    hub=1,
    epoch=10,
    start=1,
    num_topics=3,
    heartbeat_ms=10_000,
    lost_ms=8000,
    data_address="data",
    catalog_address="",
    catalog_name="",
    protocol=1,
    features=0,
)
A, B, C = ((topic, MINIMAL) for topic in range(3))


def welcomed() -> HubSession:
    """Return a session of the first of two hubs, which has welcomed it."""
    ids, nonces = count(1), count(1)
    session = HubSession(
        ("hub-0", "hub-1"),
        name="",
        registration=bytes(16),
        next_id=ids.__next__,
        new_nonce=lambda: next(nonces).to_bytes(16, "big"),
    )
    session.tick(now=0.0)
    session.on_welcome(WELCOME, now=0.0)
    return session


def barriers(effects: tuple[Effect, ...]) -> list[bytes]:
    """Return the nonces of the barriers that are requested."""
    prefixes = [one.prefix for one in effects if isinstance(one, Subscribe)]
    return [
        prefix.removeprefix(BARRIER_PREFIX)
        for prefix in prefixes
        if prefix.startswith(BARRIER_PREFIX)
    ]


def begin() -> tuple[HubSession, Callable[[bytes, float], list[bytes]], bytes]:
    """Return the dialogue with a barrier under way, what answers one, and its nonce."""
    one = welcomed()
    (nonce,) = barriers(one.subscribe([A], now=0.0))

    def answer(nonce: bytes, now: float) -> list[bytes]:
        return barriers(one.on_barrier(nonce, now=now)[1])

    return one, answer, nonce


def test_subscriptions_that_come_while_a_barrier_is_under_way_do_not_delay_it() -> None:
    one, answer, nonce = begin()
    assert barriers(one.subscribe([A, B], now=0.1)) == []
    assert barriers(one.subscribe([A, B, C], now=0.2)) == []
    (following,) = answer(nonce, 0.3)
    assert [one.fenced(account) for account in (A, B, C)] == [True, False, False]
    assert answer(following, 0.4) == []
    assert [one.fenced(account) for account in (A, B, C)] == [True, True, True]


def test_subscription_that_is_dropped_before_its_barrier_needs_none() -> None:
    one, answer, nonce = begin()
    one.subscribe([A, B], now=0.1)
    one.subscribe([A], now=0.2)
    assert answer(nonce, 0.3) == []
    assert (one.fenced(A), one.fenced(B)) == (True, False)
    assert one.deadline is None or one.deadline > 0.3


def test_lost_barrier_is_requested_again_with_all_that_waits() -> None:
    one, answer, nonce = begin()
    one.subscribe([A, B], now=0.1)
    again = one.tick(now=BARRIER_AGAIN_S)
    (following,) = barriers(again)
    assert sum(isinstance(effect, Unsubscribe) for effect in again) == 1
    assert answer(nonce, 1.1) == []  # late, and of no meaning any more
    assert not one.fenced(A)
    assert answer(following, 1.2) == []
    assert one.fenced(A)
    assert one.fenced(B)


def test_another_connection_begins_without_barriers() -> None:
    one, answer, nonce = begin()
    one.subscribe([A, B], now=0.1)
    one.tick(now=50.0)  # the hub is silent, so there is another one
    one.on_welcome(WELCOME, now=50.0)
    assert answer(nonce, 0.2) == []
    assert not one.fenced(A)
    (following,) = barriers(one.subscribe([A, B], now=0.3))
    assert answer(following, 0.4) == []
    assert one.fenced(A)
    assert one.fenced(B)
