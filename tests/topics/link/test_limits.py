"""Limits: a reader is sent what its key may be sent, whatever it subscribes to."""

import pytest
import zmq

from topicast.tests.keys import PAIR
from topicast.tests.waiting import until
from topicast.topics.link import Link, new_pair
from topicast.topics.link.link import BATCH_MAX

ANY = "tcp://127.0.0.1:0"


class LimitingHub:
    """A hub that sends a stranger to PAIR nothing but what begins with "cut"."""

    def __init__(self, hub: Link):
        self.hub = hub
        self.got = []  # subscriptions and their ends, as the hub received them
        self.address = hub.bind_xpub("publisher", ANY)
        hub.limit("publisher", self._prefixes_for)

    def _prefixes_for(self, public, prefix):
        if public == PAIR.public:
            return (prefix,)
        if prefix.startswith(b"each of "):
            return tuple(prefix[8:].split())
        return () if prefix == b"none" else (b"cut " + prefix,)

    def receives(self, *frames):
        until(lambda: self.poll() >= set(frames), what=f"{frames} at the hub")

    def poll(self):
        self.got += [(one.frame, one.public) for one in self.hub.poll(0.01)]
        return {frame for frame, _ in self.got}


@pytest.fixture
def limiting(hub):
    return LimitingHub(hub)


@pytest.fixture
def other(limiting):
    """Connect a link with keys of its own to the hub."""
    pair = new_pair()
    limiting.hub.admit("publisher", {PAIR.public, pair.public})
    link = Link(pair)
    link.connect_xsub("data", limiting.address, PAIR.public)
    yield link
    link.close()


def sent_to(reader, limiting, *frames, until_frame):
    """Send ``frames`` and then ``until_frame``; return what the reader receives before that."""
    limiting.hub.send_all("publisher", [*frames, until_frame])
    got = []

    def ended():
        got.extend(one.frame for one in reader.poll(0.01))
        return until_frame in got

    until(ended)
    return got[: got.index(until_frame)]


def test_each_reader_is_sent_what_its_key_may_be_sent(limiting, other, reader):
    reader.connect_xsub("data", limiting.address, PAIR.public)
    reader.subscribe("data", b"a")
    other.subscribe("data", b"a")
    until(lambda: limiting.poll() and len(limiting.got) == 2)
    frames = [b"a secret", b"cut a fact"]
    assert sent_to(other, limiting, *frames, until_frame=b"cut a end") == [b"cut a fact"]
    assert sent_to(reader, limiting, *frames, until_frame=b"a end") == [b"a secret"] * 2


def test_reader_that_may_be_sent_nothing_is_sent_nothing(limiting, other):
    other.subscribe("data", b"none")
    other.subscribe("data", b"")
    limiting.receives(b"\1none", b"\1")
    assert sent_to(other, limiting, b"none", b"x", until_frame=b"cut ") == []


def test_what_is_sent_ends_with_its_subscription(limiting, other):
    """P-POLICY-4."""
    other.subscribe("data", b"a")
    other.subscribe("data", b"b")
    other.unsubscribe("data", b"a")
    limiting.receives(b"\1a", b"\1b", b"\0a")
    assert [bool(public) for _, public in limiting.got] == [True, True, False], "of a begin alone"
    assert sent_to(other, limiting, b"cut a", until_frame=b"cut b") == []


def test_one_subscription_may_be_for_several_prefixes_and_ends_for_all(limiting, other):
    """P-SUB-5: on real sockets."""
    other.subscribe("data", b"each of a b c")
    limiting.receives(b"\1each of a b c")
    assert sent_to(other, limiting, b"a", b"d", b"b", until_frame=b"c") == [b"a", b"b"]
    other.unsubscribe("data", b"each of a b c")
    other.subscribe("data", b"each of b c")
    limiting.receives(b"\1each of b c")
    assert sent_to(other, limiting, b"a", b"b", until_frame=b"c") == [b"b"]


def test_each_prefix_of_a_subscription_counts_as_a_part_of_a_turn(limiting, other):
    many = b"each of " + b" ".join(b"%d" % number for number in range(BATCH_MAX // 2))
    for number in range(8):
        other.subscribe("data", b"%s x%d" % (many, number))
    turns = []

    def all_have_arrived():
        turns.append(sum(b"each" in one.frame for one in limiting.hub.poll(0.01)))
        return sum(turns) == 8

    until(all_have_arrived)
    assert max(turns) <= 2


def test_frame_for_which_nothing_is_subscribed_counts_as_one_part_of_a_turn(limiting, other):
    for number in range(20):
        other.subscribe("data", b"x%d" % number)
    other.subscribe("data", b"each of " + b" ".join(b"%d" % one for one in range(BATCH_MAX)))
    until(lambda: limiting.poll() and len(limiting.got) == 21)
    other.disconnect("data")
    turns = []

    def all_have_ended():
        turns.append(len(limiting.hub.poll(0.01)))
        return sum(turns) == 21

    until(all_have_ended)
    assert max(turns) > 1


def test_end_of_a_connection_is_received_as_the_end_of_its_subscriptions(limiting, other, reader):
    reader.connect_xsub("data", limiting.address, PAIR.public)
    reader.subscribe("data", b"a")
    other.subscribe("data", b"a")
    until(lambda: limiting.poll() and len(limiting.got) == 2)
    other.disconnect("data")
    limiting.receives(b"\0a")
    assert limiting.got[-1] == (b"\0a", "")


def test_frame_that_is_no_subscription_gets_nobody_what_another_may_be_sent(
    limiting, other, reader, stranger
):
    """P-POLICY-4: libzmq would send the third of them what the second may be sent."""
    odd = stranger(zmq.XSUB, limiting.address)
    odd.send(b"\5 no subscription")
    until(lambda: odd.getsockopt(zmq.EVENTS) & zmq.POLLOUT)
    reader.connect_xsub("data", limiting.address, PAIR.public)
    waits = zmq.Poller()
    waits.register(odd, zmq.POLLIN)
    for link, prefix in ((reader, b"secret"), (other, b"fact")):
        link.subscribe("data", prefix)
        waits.poll(200)  # nothing arrives: until all have connected, and sent
        link.poll(0.2)

    def both_are_heard():
        reader.poll(0.01), other.poll(0.01)  # they connect again
        return limiting.poll() >= {b"\1secret", b"\1fact"}

    until(both_are_heard)
    assert sent_to(other, limiting, b"secret", until_frame=b"cut fact") == []
    assert sent_to(reader, limiting, until_frame=b"secret end") == [b"secret"]
    assert limiting.hub.counts.dropped > 0
