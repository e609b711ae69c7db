"""Keys of sockets: who gets in, who is put out, and that nobody else is, on real connections."""

import socket
from pathlib import Path

import pytest
import zmq

from topicast.tests.cli.processes import steady_port
from topicast.tests.keys import PAIR, own_link
from topicast.tests.waiting import until
from topicast.topics.errors import ConfigError
from topicast.topics.keys.credential import KeyPair
from topicast.topics.link import Handshake, Link, new_pair
from topicast.topics.link.curve import check_pair, derived_pair, join

ANY = "tcp://127.0.0.1:0"


@pytest.fixture
def make_other(request):
    """Make a link with keys of its own, closed at the end; return it with its public key."""

    def make():
        pair = new_pair()
        link = Link(pair)
        request.addfinalizer(link.close)
        return link, pair.public

    return make


def exchange(hub, reader, name="control"):
    """Poll both; return whether the reader's socket has ended a handshake."""
    hub.poll(0.01), reader.poll(0.01)
    return reader.handshake(name)


def test_frame_arrives_with_the_key_that_its_sender_has_proved(hub, make_other, frames):
    other, public = make_other()
    hub.admit("router", {public})
    other.connect_dealer("control", hub.bind_router("router", ANY), PAIR.public)
    other.send("control", b"hello")
    assert [(one.frame, one.public) for one in frames(hub, 1)] == [(b"hello", public)]
    until(lambda: exchange(hub, other) is Handshake.DONE)


def test_key_that_is_not_admitted_gets_past_no_handshake_until_it_is(hub, make_other, frames):
    other, public = make_other()
    other.connect_dealer("control", hub.bind_router("router", ANY), PAIR.public)
    other.send("control", b"hello")
    until(lambda: exchange(hub, other) is Handshake.REFUSED)
    until(
        lambda: hub.poll(0.01) or hub.counts.handshakes_failed
    )  # the hub may notice the refusal later than the reader
    assert hub.counts.received == 0
    refused = until(hub.counts.refused_handshake, what="the refusal")
    assert refused.ago_s < 60
    assert refused.host == "127.0.0.1"
    hub.admit("router", {PAIR.public, public})
    until(lambda: exchange(hub, other) is Handshake.DONE)
    other.send("control", b"hello")
    assert frames(hub, 1)[0].public == public


def test_refused_subscriber_has_its_subscriptions_once_it_is_admitted(hub, make_other, frames):
    other, public = make_other()
    other.connect_xsub("data", hub.bind_xpub("publisher", ANY), PAIR.public)
    other.subscribe("data", b"a")
    until(lambda: exchange(hub, other, "data") is Handshake.REFUSED)
    hub.admit("publisher", {public})
    got = []
    until(lambda: got.extend(hub.poll(0.01)) or other.poll(0.01) or got)
    assert [(one.frame, one.public) for one in got] == [(b"\1a", public)]


def test_key_is_admitted_to_one_socket_and_not_to_another(hub, make_other):
    other, public = make_other()
    hub.admit("router", {public})
    hub.admit("publisher", {PAIR.public})
    other.connect_dealer("control", hub.bind_router("router", ANY), PAIR.public)
    other.connect_xsub("data", hub.bind_xpub("publisher", ANY), PAIR.public)
    until(lambda: exchange(hub, other) is Handshake.DONE)
    until(lambda: exchange(hub, other, "data") is Handshake.REFUSED)


def test_server_that_dies_in_a_handshake_is_not_taken_for_a_server_with_another_key(hub, reader):
    with socket.create_server(("127.0.0.1", port := steady_port())) as dying:
        address = f"tcp://127.0.0.1:{port}"
        reader.connect_dealer("control", address, PAIR.public)
        connection, _ = dying.accept()
        connection.close()
        until(lambda: exchange(hub, reader) is Handshake.UNREACHED)
    hub.bind_router("router", address)
    seen = set()
    until(lambda: seen.add(exchange(hub, reader)) or Handshake.DONE in seen)
    assert Handshake.FAILED not in seen


def test_server_with_another_key_than_we_were_told_is_noticed(hub, reader):
    reader.connect_dealer("control", hub.bind_router("router", ANY), new_pair().public)
    reader.send("control", b"hello")
    until(lambda: exchange(hub, reader) is Handshake.FAILED)
    assert hub.counts.received == 0


def test_server_that_has_its_next_key_is_found_with_what_was_sent_meanwhile(hub, reader):
    """Given the current key and the next, then a request and a subscription arrive either way."""
    other = new_pair().public
    reader.connect_dealer("control", hub.bind_router("router", ANY), (other, PAIR.public))
    reader.send("control", b"hello")
    reader.connect_xsub("data", hub.bind_xpub("publisher", ANY), (other, PAIR.public))
    reader.subscribe("data", b"a")
    got: set[bytes] = set()
    until(lambda: reader.poll(0) or got.update(one.frame for one in hub.poll(0.01)) or len(got) > 1)
    assert got == {b"hello", b"\1a"}
    until(lambda: exchange(hub, reader) is Handshake.DONE)


def test_rotated_server_is_found_by_those_who_know_its_next_key(hub, make_link):
    """Live connections end, on the same address; a reader of the old key is refused."""
    rotated = new_pair()
    address = hub.bind_router("router", ANY)
    knowing, old = make_link(), make_link()
    knowing.connect_dealer("control", address, PAIR.public)
    old.connect_dealer("control", address, PAIR.public)
    until(lambda: exchange(hub, knowing) is exchange(hub, old) is Handshake.DONE)
    knowing.trust("control", (PAIR.public, rotated.public))
    hub.use(rotated)
    until(lambda: exchange(hub, old) is Handshake.FAILED)
    until(lambda: exchange(hub, knowing) is Handshake.DONE)
    until(lambda: knowing.poll(0) or (knowing.send("control", b"again") and hub.poll(0.01)))


def test_server_that_has_none_of_the_keys_is_noticed(hub, reader):
    keys = (new_pair().public, new_pair().public)
    reader.connect_dealer("control", hub.bind_router("router", ANY), keys)
    reader.send("control", b"hello")
    until(lambda: exchange(hub, reader) is Handshake.FAILED)
    assert hub.counts.received == 0


def test_socket_without_keys_gets_no_frame_across(hub, frames):
    address = hub.bind_router("router", ANY)
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.linger = 0
        stranger.connect(address)
        stranger.send(b"hello")
        until(lambda: hub.poll(0.01) or hub.counts.handshakes_failed)
    assert hub.counts.received == 0


def test_revoked_dealer_is_disconnected_and_refused_and_others_are_not(
    hub, reader, introduce, make_other, frames
):
    peer = introduce(hub, reader)
    other, public = make_other()
    hub.admit("second", {public})
    other.connect_dealer("control", hub.bind_router("second", ANY), PAIR.public)
    other.send("control", b"hello")
    frames(hub, 1)
    hub.admit("second", ())
    until(lambda: exchange(hub, other) is Handshake.REFUSED)
    assert hub.counts.revoked == 1
    assert hub.send("router", b"still here", peer)
    assert frames(reader, 1)[0].frame == b"still here"


def test_revoked_subscriber_receives_nothing_more(hub, reader, follow, make_other, frames):
    other, public = make_other()
    hub.admit("publisher", {PAIR.public, public})
    address = follow(hub, reader, b"a")
    other.connect_xsub("data", address, PAIR.public)
    other.subscribe("data", b"a")
    frames(hub, 1)
    hub.admit("publisher", {PAIR.public})
    until(lambda: exchange(hub, other, "data") is Handshake.REFUSED)
    hub.send("publisher", b"a secret")
    assert frames(reader, 1)[0].frame == b"a secret"
    assert (other.poll(0.1), other.counts.received) == ([], 0)


def test_frames_that_were_under_way_when_their_key_was_revoked_are_dropped(hub, make_other):
    other, public = make_other()
    hub.admit("router", {public})
    other.connect_dealer("control", hub.bind_router("router", ANY), PAIR.public)
    while other.send("control", b"x" * 1000):  # until both queues are full
        pass
    until(lambda: other.poll(0.01) or other.handshake("control") is Handshake.DONE)
    until(lambda: hub.poll(0.01))
    for _ in range(6):
        other.poll(0.05)  # while nobody polls the hub, its queue fills
    received = hub.counts.received
    hub.admit("router", ())
    until(lambda: exchange(hub, other) is Handshake.REFUSED)
    assert hub.counts.received == received
    assert hub.counts.revoked > 1


def test_descriptor_that_became_anothers_is_left_alone(hub, reader, make_other, frames):
    """Given a key whose connection is gone, when it is revoked, then its descriptor's heir stays.

    The heir has sent nothing yet, so the hub does not know that the descriptor is its own.
    """
    gone, public = make_other()
    hub.admit("router", {PAIR.public, public})
    address = hub.bind_router("router", ANY)
    gone.connect_dealer("control", address, PAIR.public)
    gone.send("control", b"hello")
    frames(hub, 1)
    before = set(Path("/proc/self/fd").iterdir())
    gone.close()
    until(lambda: set(Path("/proc/self/fd").iterdir()) < before)
    reader.connect_dealer("control", address, PAIR.public)
    until(lambda: reader.poll(0.01) or reader.handshake("control") is Handshake.DONE)
    hub.admit("router", {PAIR.public})
    assert hub.counts.revoked == 0
    reader.send("control", b"hello")
    peer = frames(hub, 1)[0].peer
    assert hub.send("router", b"here", peer)


def test_name_of_a_connection_is_not_taken_over_with_another_key(hub, frames):
    """A client may choose the name by which a ROUTER knows it; its key it must prove."""
    address = hub.bind_router("router", ANY)
    with zmq.Context() as context, context.socket(zmq.DEALER) as first:
        first.linger, first.routing_id = 0, b"chosen"
        join(first, PAIR, PAIR.public)
        first.connect(address)
        first.send(b"mine")
        assert frames(hub, 1)[0].peer == b"chosen"
    thief_pair = new_pair()
    hub.admit("router", {PAIR.public, thief_pair.public})
    with zmq.Context() as context, context.socket(zmq.DEALER) as thief:
        thief.linger, thief.routing_id = 0, b"chosen"
        join(thief, thief_pair, PAIR.public)
        thief.connect(address)
        thief.send(b"mine, too")
        got = []
        until(lambda: got.extend(hub.poll(0.01)) or got or hub.counts.revoked)
        assert [one.public for one in got] in ([], [thief_pair.public])


def test_pair_whose_keys_do_not_belong_together_is_refused():
    with pytest.raises(ConfigError, match="belongs to the secret") as caught:
        Link(KeyPair(public=new_pair().public, secret=PAIR.secret))
    assert PAIR.secret not in str(caught.value)


def test_link_that_admits_nobody_serves_nobody(reader, request):
    hub = own_link()
    request.addfinalizer(hub.close)
    reader.connect_dealer("control", hub.bind_router("router", ANY), PAIR.public)
    until(lambda: exchange(hub, reader) is Handshake.REFUSED)


def test_derived_pair_is_the_same_each_time_and_another_for_each_purpose() -> None:
    one = derived_pair(PAIR, b"executors 1")
    check_pair(one)
    assert one == derived_pair(PAIR, b"executors 1")
    others = derived_pair(PAIR, b"executors 2"), derived_pair(new_pair(), b"executors 1"), PAIR
    assert one.secret not in {other.secret for other in others}
