"""Barriers: subscriptions are confirmed in turn, however fast more of them come."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count, pairwise

import pytest

from topicast.subscriber.protocol.effects import (
    ConnectHub,
    Effect,
    Effects,
    Send,
    Subscribe,
    Unsubscribe,
)
from topicast.subscriber.replication.hub_session import (
    BARRIER_AGAIN_S,
    HEARTBEATS_MISSED,
    HELLO_AGAIN_S,
    HELLO_AGAIN_S_MAX,
    HubSession,
)
from topicast.topics.liveness import HEARTBEAT_MS
from topicast.topics.streams.followers import TopicLevel
from topicast.topics.topic import ALL_OFFERED, FULL, MINIMAL, NAMESPACE
from topicast.topics.turn import Turn
from topicast.topics.wire.header import (
    BARRIER_PREFIX,
    prefix,
    set_prefix,
)
from topicast.topics.wire.messages.connection import Hello, Welcome
from topicast.topics.wire.messages.data import Heartbeat
from topicast.topics.wire.messages.readers import Drop

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
)
HEARTBEAT = Heartbeat(
    hub=1,
    epoch=10,
    start=1,
    sequence=1,
    interval_ms=10_000,
    sent_us=0,
    watermark=0,
    age_ms=0,
    catalog_address="",
    versions=(),
    floors=(),
    sizes=(),
    offers=ALL_OFFERED,
)
A, B, C = ((topic, MINIMAL) for topic in range(3))


class Session:
    """A session of the first of two hubs, which has welcomed it; a barrier for A is under way.

    Each call has its time, and returns what the session decides.
    """

    def __init__(self) -> None:
        self._turn = Turn[Effect]()
        self.session = session_of(self._turn, ("hub-0", "hub-1"))
        self.confirmed = self.session.confirmed
        self.tick(now=0.0)
        self.on_welcome(WELCOME, now=0.0)
        (self.first,) = self.wants(A, now=0.0)

    def tick(self, *, now: float) -> Effects:
        self._turn.now = now
        self.session.tick()
        return self._turn.end()

    def on_welcome(self, welcome: Welcome, *, now: float) -> None:
        self._turn.now = now
        self.session.on_welcome(welcome)
        self._turn.end()

    def on_joined(self, request: int, *, now: float) -> None:
        self._turn.now = now
        self.session.on_joined(request)

    def join(self, *, now: float) -> Effects:
        """Join no topic."""
        self._turn.now = now
        self.session.join([])
        return self._turn.end()

    def subscribe(self, topic_levels: Iterable[TopicLevel], *, now: float) -> Effects:
        self._turn.now = now
        self.session.subscribe(topic_levels)
        return self._turn.end()

    def wants(self, *topic_levels: TopicLevel, now: float = 0.1) -> list[bytes]:
        """Subscribe to ``topic_levels``; return the nonces of the barriers that are requested."""
        return barriers(self.subscribe(topic_levels, now=now))

    def repeats(self, *, now: float) -> Effects:
        """Return what is sent again, to a hub that is alive."""
        self._turn.now = now
        self.session.on_heartbeat(HEARTBEAT, has_data=True)
        self.session.tick()
        return self._turn.end()

    def receives(self, nonce: bytes, now: float = 0.3) -> list[bytes]:
        """Let a barrier arrive; return the nonces of those that are requested."""
        self._turn.now = now
        self.session.on_barrier(nonce)
        return barriers(self._turn.end())

    def all_confirmed(self) -> set[TopicLevel]:
        """Return those of A, B and C that are confirmed."""
        self.session.check()
        return set(filter(self.confirmed, (A, B, C)))


def session_of(
    turn: Turn[Effect], addresses: tuple[str, ...], *, command: bool = False
) -> HubSession:
    nonces = count(1)
    return HubSession(
        addresses,
        turn=turn,
        name="",
        command=command,
        registration=bytes(16),
        next_id=count(1).__next__,
        new_nonce=lambda: next(nonces).to_bytes(16, "big"),
    )


def barriers(effects: Effects) -> list[bytes]:
    prefixes = [one.prefix for one in effects if isinstance(one, Subscribe)]
    return [one.removeprefix(BARRIER_PREFIX) for one in prefixes if one.startswith(BARRIER_PREFIX)]


def wakes(*addresses: str) -> list[tuple[float, Effects]]:
    """Return when a session that no hub answers does something, and what."""
    turn = Turn[Effect]()
    session = session_of(turn, addresses)
    found: list[tuple[float, Effects]] = []
    for _ in range(12):
        session.tick()
        found.append((turn.now, turn.end()))
        turn.now = session.deadline
    return found


def test_only_hub_is_greeted_after_growing_pauses() -> None:
    """P-LIVE-8."""
    found = wakes("hub-0")
    pauses_s = [later - former for (former, _), (later, _) in pairwise(found)]
    own = 1 + session_of(Turn[Effect](), ("hub-0",)).jitter
    expected_s = [min(HELLO_AGAIN_S * 2**number, HELLO_AGAIN_S_MAX) * own for number in range(11)]
    assert pauses_s == pytest.approx(expected_s)
    assert 1 < own < 2
    assert all(Hello in [type(one.message) for one in effects if isinstance(one, Send)]
               for _, effects in found)  # fmt: skip


def test_welcome_of_a_connection_from_before_a_restart_opens_nothing() -> None:
    """P-LIVE-3: the reader has greeted no hub since, so that it follows none."""
    turn = Turn[Effect]()
    session = session_of(turn, ("hub",))
    session.on_welcome(WELCOME)
    assert turn.end() == ()


def test_silent_hub_is_left_for_another_though_it_is_not_to_be_greeted_yet() -> None:
    found = wakes("hub-0", "hub-1")
    assert all(effects for _, effects in found), "each time it is due for something"
    hubs = [(at, one.address) for at, some in found for one in some if isinstance(one, ConnectHub)]
    silent_s = HEARTBEATS_MISSED * HEARTBEAT_MS / 1000
    assert hubs == [(number * silent_s, f"hub-{number % 2}") for number in range(len(hubs))]
    assert len(hubs) > 2


@pytest.mark.parametrize("command", [False, True])
def test_greeting_says_whether_it_is_of_a_command_also_after_a_welcome(*, command: bool) -> None:
    """P-LIVE-12."""
    turn = Turn[Effect]()
    session = session_of(turn, ("hub-0",), command=command)

    def said(now: float) -> set[bool]:
        turn.now = now
        session.tick()
        sent = [one.message for one in turn.end() if isinstance(one, Send)]
        return {one.is_command for one in sent if isinstance(one, Hello)}

    assert said(0.0) == {command}
    turn.now = 0.1
    session.on_welcome(WELCOME)
    later = set[bool]().union(*(said(float(now)) for now in range(1, 120)))
    assert later == {command}, "to a hub that has fallen silent"


def test_subscriptions_that_come_while_a_barrier_is_under_way_do_not_delay_it() -> None:
    """P-SUB-2: each is confirmed by the first barrier after it, and by no other nonce."""
    session = Session()
    assert session.receives(bytes(16)) == []
    assert session.all_confirmed() == set()
    assert session.wants(A, B) == session.wants(A, B, C) == []
    (following,) = session.receives(session.first)
    assert session.all_confirmed() == {A}
    assert session.receives(following) == []
    assert session.all_confirmed() == {A, B, C}


def test_subscription_that_is_dropped_before_its_barrier_needs_none() -> None:
    session = Session()
    assert session.wants(A, B) == session.wants(A) == []
    assert session.receives(session.first) == []
    assert session.all_confirmed() == {A}
    assert session.session.deadline > 0.3


def test_late_barrier_is_requested_again_after_growing_pauses_and_the_first_that_comes_counts() -> (
    None
):
    session = Session()
    assert session.wants(A, B) == []
    sent, now = [session.first], 0.0
    for pause_s in (1, 2, 4, 8, 8):
        now += pause_s * BARRIER_AGAIN_S
        assert barriers(session.repeats(now=now - 0.01)) == []
        sent += barriers(session.repeats(now=now))
    assert len(set(sent)) == 6
    (following,) = session.receives(sent[1], now=now)
    assert session.all_confirmed() == {A}, "B was not subscribed to when the first was sent"
    assert session.receives(sent[2], now=now) == []
    assert session.receives(following, now=now) == []
    assert session.all_confirmed() == {A, B}


def test_barrier_that_never_comes_leaves_a_bounded_number_of_subscriptions() -> None:
    session, now = Session(), 0.0
    held = {session.first}
    for _ in range(2_000):
        now += 8 * BARRIER_AGAIN_S
        effects = session.repeats(now=now)
        held |= set(barriers(effects))
        ended = [one.prefix for one in effects if isinstance(one, Unsubscribe)]
        held -= {one.removeprefix(BARRIER_PREFIX) for one in ended}
        assert len(held) <= 8
    session.receives(max(held), now=now)
    assert session.all_confirmed() == {A}


def test_hub_that_was_slow_is_sent_a_join_again_later() -> None:
    """P-CATCH-12: four times what it took for its last answer."""
    session = Session()
    session.receives(session.first, now=3.0)
    assert session.session.answer_s == 3.0
    (joined,) = session.join(now=3.0)
    assert isinstance(joined, Send)
    assert session.repeats(now=3.0 + 4 * 3.0 - 0.01) == ()
    assert session.repeats(now=3.0 + 4 * 3.0) == (joined,)
    session.on_joined(joined.message.request, now=3.5)
    assert session.session.answer_s == 0.5


def test_hub_is_silent_after_four_of_the_intervals_that_it_names() -> None:
    """P-LIVE-8, P-LIVE-3: and a hub that names none is not greeted without a pause."""
    session = Session()
    session.receives(session.first)
    for heartbeat_ms, silent_s in ((10_000, 40.0), (250, 1.0), (0, 0.04)):
        session.on_welcome(replace(WELCOME, hub=heartbeat_ms + 2, heartbeat_ms=heartbeat_ms), now=1)
        assert session.session.deadline == pytest.approx(1 + silent_s, rel=1e-9)


def test_another_connection_begins_without_barriers() -> None:
    session = Session()
    session.wants(A, B)
    session.tick(now=50.0)  # the hub is silent, so the reader has left it for another
    session.on_welcome(WELCOME, now=50.0)
    assert session.receives(session.first, now=50.2) == []
    assert session.all_confirmed() == set()
    (following,) = session.wants(A, B, now=50.3)
    assert session.receives(following, now=50.4) == []
    assert session.all_confirmed() == {A, B}


MANY = [(topic, FULL) for topic in range(300)]


def prefixes(effects: Effects) -> list[tuple[bool, bytes]]:
    """Return what is subscribed to (True) and what is not any more, but for barriers."""
    found = [one for one in effects if isinstance(one, Subscribe | Unsubscribe)]
    ours = [one for one in found if not one.prefix.startswith(BARRIER_PREFIX)]
    return [(isinstance(one, Subscribe), one.prefix) for one in ours]


def without_topics() -> Session:
    """Return a session that follows nothing yet."""
    session = Session()
    session.wants()
    session.receives(session.first)
    return session


def test_topics_that_are_new_together_are_subscribed_to_in_sets() -> None:
    """P-SUB-1."""
    session = without_topics()
    wanted = [*MANY, (NAMESPACE, FULL), (0, MINIMAL)]
    effects = session.subscribe(wanted, now=0.1)
    assert set(prefixes(effects)) == {
        (True, set_prefix(range(256), FULL)),
        (True, set_prefix(range(256, 300), FULL)),
        (True, prefix(NAMESPACE, FULL)),
        (True, prefix(0, MINIMAL)),
    }
    (barrier,) = barriers(effects)
    assert session.receives(barrier) == []
    assert all(map(session.confirmed, wanted))


def test_hub_is_notified_of_what_is_followed_no_more() -> None:
    """P-SUB-1: of a topic that is followed at no level."""
    session = Session()
    session.receives(session.first)
    assert [type(one) for one in session.subscribe([A, (0, FULL)], now=0.4)].count(Send) == 0
    effects = session.subscribe([B], now=0.5)
    (drop,) = [one.message for one in effects if isinstance(one, Send)]
    assert isinstance(drop, Drop)
    assert drop.topics == (0,)


def test_what_is_left_of_a_set_is_subscribed_to_again_behind_its_end() -> None:
    """P-SUB-7."""
    session = without_topics()
    session.subscribe(MANY[:4], now=0.1)
    assert prefixes(session.subscribe([MANY[0], *MANY[2:4]], now=0.2)) == [
        (False, set_prefix(range(4), FULL)),
        (True, set_prefix([0, 2, 3], FULL)),
    ]
    assert prefixes(session.subscribe(MANY[3:4], now=0.3)) == [
        (False, set_prefix([0, 2, 3], FULL)),
        (True, prefix(3, FULL)),
    ]
    assert prefixes(session.subscribe((), now=0.4)) == [(False, prefix(3, FULL))]
