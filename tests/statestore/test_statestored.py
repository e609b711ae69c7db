"""Statestored's turn: what arrives together goes out in its order."""

import gc
from collections.abc import Callable, Iterable
from itertools import count, groupby

import pytest

from topicast.statestore.hub import Hub
from topicast.statestore.statestored import DATA, REQUESTS, Statestored
from topicast.tests.keys import client, guarded_keys
from topicast.tests.statestore.hub_driver import BULK, CONTROL, PublisherPeer, hello
from topicast.tests.statestore.hub_driver import DATA as DATA_ADDRESS
from topicast.topics.keys.clients import ClientRole, Clients
from topicast.topics.link import LinkCounts, ReceivedFrame
from topicast.topics.link.link import PrefixesFor
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import barrier_prefix
from topicast.topics.wire.messages.connection import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    PUBLISHER,
    READER,
    Bye,
    Refused,
)
from topicast.topics.wire.messages.data import Barrier, Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.publishers import Filed


class BatchLink:
    """A link that delivers ``arrived`` in one batch, and keeps what is sent."""

    def __init__(self) -> None:
        self.arrived: list[ReceivedFrame] = []
        self.sent: list[tuple[str, bytes]] = []
        self.counts = LinkCounts()

    def poll(self, timeout_s: float) -> list[ReceivedFrame]:
        arrived, self.arrived = self.arrived, []
        return arrived

    def admit(self, name: str, publics: frozenset[str]) -> None:
        pass

    def limit(self, name: str, prefixes_for: PrefixesFor) -> None:
        pass

    def send(self, name: str, frame: bytes, peer: bytes = b"") -> bool:
        self.sent.append((name, frame))
        return True

    def send_all(self, name: str, frames: Iterable[bytes]) -> None:
        self.sent += [(name, frame) for frame in frames]


class Daemon:
    """A statestored that has caught up with a publisher."""

    def __init__(self, clock: Callable[[], float] = lambda: 1000.0) -> None:
        self.link, self.publisher = BatchLink(), PublisherPeer()
        hub = Hub(hub_id=77, data_address=DATA_ADDRESS)
        self.client = client(ClientRole.CATALOGD)
        self.shell = Statestored(
            hub,
            self.link,
            clock=clock,
            wall_us=lambda: 1,
            clients=Clients([self.client, client()]),
            keys=guarded_keys(ClientRole.HUB),
        )
        replies = self.turn(
            (CONTROL, hello("publisher", PUBLISHER, CONTROL_CHANNEL)),
            (BULK, hello("publisher", PUBLISHER, BULK_CHANNEL)),
            (CONTROL, self.publisher.announce()),
        )
        while replies:
            replies = self.turn(*((BULK, part) for part in self.publisher.answer(replies)))
        self.broadcast()

    def turn(self, *arrive: tuple[bytes, Message]) -> list[Message]:
        """Let messages arrive together; return the messages to the publisher."""
        public = self.client.public
        self.link.arrived += [
            ReceivedFrame(REQUESTS, peer, encode(one), public) for peer, one in arrive
        ]
        self.shell.run_once()
        replies = [decode(frame) for name, frame in self.link.sent if name == REQUESTS]
        self.link.sent = [one for one in self.link.sent if one[0] == DATA]
        return replies

    def broadcast(self) -> list[Message]:
        """Return what was broadcast since the last call, but for heartbeats."""
        frames, self.link.sent = [frame for _, frame in self.link.sent], []
        return [one for one in map(decode, frames) if isinstance(one, Delta | Barrier)]


def test_deltas_keep_their_place_around_the_end_of_a_catch_up() -> None:
    daemon = Daemon()
    publisher = daemon.publisher
    publisher.change(1)  # is lost
    requests = daemon.turn((BULK, publisher.change(1)))
    parts = [(BULK, part) for part in publisher.answer(requests)]
    first, last = publisher.change(0), publisher.change(1)
    daemon.broadcast()
    daemon.turn((BULK, first), *parts, (BULK, last))
    replies = daemon.broadcast()
    assert [(one.topic, one.from_version, one.to_version) for one in replies] == [
        (0, 0, 1),
        (1, 0, 2),
        (1, 2, 3),
    ]


def test_deltas_of_one_turn_are_sent_together_and_acknowledged_once() -> None:
    """P-START-7."""
    daemon = Daemon()
    deltas = [daemon.publisher.change(topic) for topic in (0, 1, 0, 2)]
    assert daemon.turn(*((BULK, delta) for delta in deltas)) == [
        Filed(epoch=10, start=5, versions=((0, 2), (1, 1), (2, 1)))
    ]
    assert daemon.broadcast() == deltas


def test_deltas_before_a_barrier_and_after_it_stay_there() -> None:
    daemon = Daemon()
    before, after = daemon.publisher.change(0), daemon.publisher.change(0)
    barrier = barrier_prefix(bytes(16))
    daemon.link.arrived = [
        ReceivedFrame(REQUESTS, BULK, encode(before), daemon.client.public),
        ReceivedFrame(DATA, b"", b"\1" + barrier),
        ReceivedFrame(REQUESTS, BULK, encode(after), daemon.client.public),
    ]
    daemon.turn()
    assert daemon.broadcast() == [before, decode(barrier), after]


def test_rubbish_between_deltas_is_refused_and_changes_nothing_else() -> None:
    """P-BAD-3."""
    daemon = Daemon()
    before, after = daemon.publisher.change(0), daemon.publisher.change(0)
    daemon.link.arrived = [
        ReceivedFrame(REQUESTS, BULK, frame, daemon.client.public)
        for frame in (encode(before), b"rubbish", encode(after))
    ]
    replies = daemon.turn()
    assert [one.code for one in replies if isinstance(one, Refused)] == ["VERSION"]
    assert daemon.broadcast() == [before, after]


def test_heartbeats_do_not_wait_until_all_who_come_at_once_are_answered() -> None:
    """P-HEARTBEAT-2: each look at the clock is 10 ms after the look before."""
    daemon = Daemon((looks / 100 for looks in count()).__next__)
    readers = [f"reader-{number}" for number in range(100)]
    hellos = [encode(hello(name, READER, CONTROL_CHANNEL)) for name in readers]
    daemon.link.arrived = [
        ReceivedFrame(REQUESTS, name.encode(), one, client().public)
        for name, one in zip(readers, hellos, strict=True)
    ]
    for _ in readers:
        daemon.shell.run_once()
    sent = [type(decode(frame)) for _, frame in daemon.link.sent]
    apart = [len(list(run)) for kind, run in groupby(sent) if kind is not Heartbeat]
    assert len(sent) > 100
    assert max(apart) * 0.02 <= 0.3


def test_nothing_that_the_hub_lets_go_is_in_a_cycle() -> None:
    """So the daemon may tell the garbage collector to leave old objects alone."""
    now = 1000.0
    daemon = Daemon(lambda: now)
    gc.collect()
    gc.disable()
    try:
        for number in range(3):
            for name in (b"leaves", b"is lost"):
                come = encode(hello(f"{name!r} {number}", READER, CONTROL_CHANNEL))
                daemon.link.arrived += [ReceivedFrame(REQUESTS, name, come, client().public)]
            gone = [encode(Bye(reason="done")), b"rubbish"]
            daemon.turn()
            daemon.link.arrived += [
                ReceivedFrame(REQUESTS, b"leaves", frame, client().public) for frame in gone
            ]
            daemon.turn((BULK, daemon.publisher.change(0)))
            for pause_s in (*[0.05] * 200, 400.0):  # a member is lost after 8 s, gone after 300
                now += pause_s
                daemon.turn()
        daemon.publisher = PublisherPeer(epoch=11)
        daemon.turn(
            (CONTROL, hello("publisher", PUBLISHER, CONTROL_CHANNEL)),
            (CONTROL, daemon.publisher.announce()),
        )
        now += 1.0
        for _ in range(4):  # a status is made in slices
            daemon.turn()
        assert (daemon.shell.status.epoch, len(daemon.shell.status.subscribers)) == (11, 1)
        daemon.broadcast()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_error_of_ours_ends_the_daemon_with_what_came_and_went_before_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon()

    def fails(timeout_s: float) -> list[ReceivedFrame]:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(daemon.link, "poll", fails)
    with pytest.raises(RuntimeError):
        daemon.shell.run()
    (logged,) = [one.getMessage() for one in caplog.records if "steps=" in one.getMessage()]
    assert " in Announce; " in logged
