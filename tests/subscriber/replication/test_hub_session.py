"""Barriers: subscriptions are fenced in turn, however fast more of them come."""

from itertools import count

from topicast.subscriber.protocol.shell import Effect, Subscribe, Unsubscribe
from topicast.subscriber.replication.hub_session import BARRIER_AGAIN_S, HubSession
from topicast.topics.replica_set import Account
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


class Session(HubSession):
    """A session of the first of two hubs, which has welcomed it; a barrier for A is under way."""

    def __init__(self) -> None:
        ids, nonces = count(1), count(1)
        super().__init__(
            ("hub-0", "hub-1"),
            name="",
            registration=bytes(16),
            next_id=ids.__next__,
            new_nonce=lambda: next(nonces).to_bytes(16, "big"),
        )
        self.tick(now=0.0)
        self.on_welcome(WELCOME, now=0.0)
        (self.first,) = self.wants(A, now=0.0)

    def wants(self, *accounts: Account, now: float = 0.1) -> list[bytes]:
        """Subscribe to ``accounts``; return the nonces of the barriers that are requested."""
        return barriers(self.subscribe(accounts, now=now))

    def receives(self, nonce: bytes, now: float = 0.3) -> list[bytes]:
        """Let a barrier arrive; return the nonces of those that are requested."""
        return barriers(self.on_barrier(nonce, now=now)[1])

    def all_fenced(self) -> set[Account]:
        """Return those of A, B and C that are fenced."""
        self.check()
        return set(filter(self.fenced, (A, B, C)))


def barriers(effects: tuple[Effect, ...]) -> list[bytes]:
    prefixes = [one.prefix for one in effects if isinstance(one, Subscribe)]
    return [one.removeprefix(BARRIER_PREFIX) for one in prefixes if one.startswith(BARRIER_PREFIX)]


def test_subscriptions_that_come_while_a_barrier_is_under_way_do_not_delay_it() -> None:
    session = Session()
    assert session.wants(A, B) == session.wants(A, B, C) == []
    (following,) = session.receives(session.first)
    assert session.all_fenced() == {A}
    assert session.receives(following) == []
    assert session.all_fenced() == {A, B, C}


def test_subscription_that_is_dropped_before_its_barrier_needs_none() -> None:
    session = Session()
    assert session.wants(A, B) == session.wants(A) == []
    assert session.receives(session.first) == []
    assert session.all_fenced() == {A}
    assert session.deadline > 0.3


def test_lost_barrier_is_requested_again_with_all_that_waits() -> None:
    session = Session()
    session.wants(A, B)
    again = session.tick(now=BARRIER_AGAIN_S)
    (following,) = barriers(again)
    assert sum(isinstance(effect, Unsubscribe) for effect in again) == 1
    assert session.receives(session.first, now=1.1) == []  # late, and of no meaning any more
    assert session.all_fenced() == set()
    assert session.receives(following, now=1.2) == []
    assert session.all_fenced() == {A, B}


def test_another_connection_begins_without_barriers() -> None:
    session = Session()
    session.wants(A, B)
    session.tick(now=50.0)  # the hub is silent, so there is another one
    session.on_welcome(WELCOME, now=50.0)
    assert session.receives(session.first, now=50.2) == []
    assert session.all_fenced() == set()
    (following,) = session.wants(A, B, now=50.3)
    assert session.receives(following, now=50.4) == []
    assert session.all_fenced() == {A, B}
