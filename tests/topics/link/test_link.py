"""The link on real sockets: what is carried, what is refused, the thread that may call it."""

import os
import socket
import threading
import time
import warnings

import pytest

from topicast.tests.cli.processes import steady_port
from topicast.tests.keys import PAIR
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError, UsageError
from topicast.topics.link import ReceivedFrame
from topicast.topics.link.link import BATCH_MAX
from topicast.topics.link.sockets import FRAME_BYTES_MAX, PUBLISHED_BYTES_MAX, SENT_MAX

ANY = "tcp://127.0.0.1:0"


def test_port_0_takes_a_free_port_and_returns_it(hub):
    first, second = hub.bind_router("a", ANY), hub.bind_xpub("b", ANY)
    assert first.startswith("tcp://127.0.0.1:")
    assert 0 < int(first.rpartition(":")[2]) != int(second.rpartition(":")[2]) > 0


def test_answer_reaches_the_peer_that_sent_the_request(hub, reader, make_link, frames):
    address = hub.bind_router("router", ANY)
    other = make_link()
    for link, frame in ((reader, b"one"), (other, b"two")):
        link.connect_dealer("control", address, PAIR.public)
        assert link.send("control", frame)
    for received in frames(hub, 2):
        assert hub.send("router", b"answer to " + received.frame, received.peer)
    assert frames(reader, 1) == [ReceivedFrame("control", b"", b"answer to one")]
    assert frames(other, 1) == [ReceivedFrame("control", b"", b"answer to two")]


def test_frames_of_one_peer_keep_their_order(hub, reader, introduce, frames):
    introduce(hub, reader)
    for number in range(BATCH_MAX):
        assert reader.send("control", b"%d" % number)
    assert [int(received.frame) for received in frames(hub, BATCH_MAX)] == list(range(BATCH_MAX))


@pytest.mark.parametrize("at_once", [False, True])
def test_published_frames_reach_the_subscribers_to_their_prefix(
    hub, reader, follow, frames, at_once
):
    follow(hub, reader, b"a")
    published = [b"%c%d" % (letter, number) for number in range(BATCH_MAX) for letter in b"ab"]
    if at_once:
        hub.send_all("publisher", published)
    else:
        assert all(hub.send("publisher", frame) for frame in published)
    expected = [ReceivedFrame("data", b"", b"a%d" % number) for number in range(BATCH_MAX)]
    assert frames(reader, BATCH_MAX) == expected


IPV6 = pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")


@pytest.mark.parametrize("host", ["localhost", pytest.param("[::1]", marks=IPV6)])
def test_host_may_be_a_name_or_of_ipv6(hub, reader, frames, host):
    reader.connect_dealer("control", hub.bind_router("router", f"tcp://{host}:0"), PAIR.public)
    reader.send("control", b"hello")
    assert frames(hub, 1)[0].frame == b"hello"


def test_frames_that_arrived_before_a_link_sent_something_are_read_at_once(
    hub, reader, make_link, frames
):
    """ZeroMQ takes the signal of what has arrived back while it sends."""
    other = make_link()
    address = hub.bind_router("router", ANY)
    for link, name in ((reader, b"1 reader"), (other, b"2 other")):
        link.connect_dealer("control", address, PAIR.public)
        link.send("control", name)
    peers = [one.peer for one in sorted(frames(hub, 2), key=lambda one: one.frame)]
    for _ in range(20):
        for peer in peers:  # the reader's first: as a rule it is there once the other's is
            hub.send("router", b"news", peer)
        frames(other, 1)
        other.poll(0.005)  # ZeroMQ looks for signals while it sends, once a millisecond
        reader.send("control", b"more")
        # A frame that is still on its way gives its signal later: only a lost frame takes 5 s.
        assert reader.poll(5.0), "what has arrived waits for the next frame"


def test_frame_sent_before_the_hub_is_there_arrives_when_it_comes(hub, reader, frames):
    address = f"tcp://127.0.0.1:{steady_port()}"
    reader.connect_dealer("control", address, PAIR.public)
    assert reader.send("control", b"early")
    hub.bind_router("router", address)
    assert frames(hub, 1)[0].frame == b"early"


def test_subscriptions_outlive_the_hub_and_ended_subscriptions_do_not(
    hub, reader, make_link, follow, frames
):
    stays, goes, marker = b"\x01\x00\x01\x02", b"\x01\x00\x02\x02", b"\x01marker"
    address = follow(hub, reader, stays, goes)
    reader.unsubscribe("data", goes)
    assert [received.frame for received in frames(hub, 1)] == [b"\x00" + goes]
    hub.close()
    reborn = make_link()
    reborn.bind_xpub("publisher", address)
    reader.subscribe("data", marker)
    seen: list[bytes] = []
    until(
        lambda: (
            reader.poll(0.01)
            or seen.extend(one.frame for one in reborn.poll(0.01))
            or b"\x01" + marker in seen
        ),
        what="the last subscription",
    )
    assert sorted(seen) == sorted([b"\x01" + stays, b"\x01" + marker])
    reborn.send("publisher", stays + b"again")
    assert frames(reader, 1)[0].frame == stays + b"again"


def test_largest_frame_of_each_role_is_carried(hub, reader, introduce, follow, frames):
    peer = introduce(hub, reader)
    large = b"a" * FRAME_BYTES_MAX
    assert hub.send("router", large, peer)
    assert frames(reader, 1)[0].frame == large
    assert reader.send("control", large)
    assert frames(hub, 1)[0].frame == large
    follow(hub, reader, b"a")
    assert hub.send("publisher", large[:PUBLISHED_BYTES_MAX])
    assert frames(reader, 1)[0].frame == large[:PUBLISHED_BYTES_MAX]


def test_every_readers_barrier_is_seen_also_when_others_subscribed_alike(
    hub, reader, make_link, follow, frames
):
    address = follow(hub, reader, b"topic", b"nonce-1")
    other = make_link()
    other.connect_xsub("data", address, PAIR.public)
    for prefix in (b"topic", b"nonce-2"):
        other.subscribe("data", prefix)
    assert [received.frame for received in frames(hub, 2)] == [b"\x01topic", b"\x01nonce-2"]


def test_end_of_a_prefix_arrives_when_its_last_reader_leaves(
    hub, reader, make_link, follow, frames
):
    address = follow(hub, reader, b"topic")
    other = make_link()
    other.connect_xsub("data", address, PAIR.public)
    other.subscribe("data", b"topic")
    other.subscribe("data", b"marker")
    frames(hub, 2)
    other.unsubscribe("data", b"topic")
    other.unsubscribe("data", b"marker")
    assert [received.frame for received in frames(hub, 1)] == [b"\x00marker"]
    reader.close()
    assert [received.frame for received in frames(hub, 1)] == [b"\x00topic"]


def test_subscribing_twice_and_unsubscribing_once_ends_it(hub, reader, follow, frames):
    follow(hub, reader, b"a")
    reader.subscribe("data", b"a")
    reader.unsubscribe("data", b"a")
    reader.unsubscribe("data", b"a")
    reader.subscribe("data", b"marker")
    assert [received.frame for received in frames(hub, 2)] == [b"\x00a", b"\x01marker"]
    hub.send("publisher", b"a")
    hub.send("publisher", b"marker")
    assert [received.frame for received in frames(reader, 1)] == [b"marker"]


def test_what_nobody_there_is_sent_is_refused_and_counted(hub):
    hub.bind_router("router", ANY)
    assert hub.send("router", b"anybody?", b"nobody") is False
    assert (hub.counts.sent, hub.counts.refused) == (0, 1)


def test_peer_that_left_is_refused(hub, reader, introduce):
    peer = introduce(hub, reader)
    reader.close()
    until(lambda: not hub.send("router", b"still there?", peer), what="the peer to be gone")


def test_full_queue_refuses_and_never_blocks(reader, make_link):
    address = f"tcp://127.0.0.1:{steady_port()}"
    reader.connect_dealer("control", address, PAIR.public)
    sent = [reader.send("control", b"queued") for _ in range(SENT_MAX + 1)]
    assert sent == [True] * SENT_MAX + [False]
    assert (reader.counts.sent, reader.counts.refused) == (SENT_MAX, 1)


def test_router_refuses_for_a_full_peer_and_serves_the_others(
    hub, reader, make_link, introduce, frames
):
    peer = introduce(hub, reader)
    other = make_link()
    other.connect_dealer("control", hub.bind_router("second", ANY), PAIR.public)
    other.send("control", b"hello")
    (greeting,) = frames(hub, 1)
    chunk = bytes(256 * 1024)  # reader takes none: its queue, the kernel's, then ours are full
    until(lambda: not hub.send("router", chunk, peer), what="the queue to be full", interval_s=0)
    assert hub.send("second", b"you are served", greeting.peer)
    assert frames(other, 1)[0].frame == b"you are served"


def test_flood_on_one_socket_leaves_a_place_for_another(hub, reader, introduce, make_link, frames):
    introduce(hub, reader)
    quiet = make_link()
    quiet.connect_dealer("control", hub.bind_router("quiet", ANY), PAIR.public)
    for _ in range(3 * BATCH_MAX):
        until(lambda: reader.send("control", b"flood"), interval_s=0)
    quiet.send("control", b"small")
    turns = []
    until(lambda: turns.append(hub.poll(0.05)) or _names(turns) >= {"router", "quiet"})
    assert max(sum(received.name == "router" for received in turn) for turn in turns) <= BATCH_MAX
    everything = [received for turn in turns for received in turn]
    missing = 3 * BATCH_MAX + 1 - len(everything)
    assert len(everything) + len(frames(hub, missing)) == 3 * BATCH_MAX + 1
    assert hub.counts.received == 3 * BATCH_MAX + 2


def _names(turns):
    return {received.name for turn in turns for received in turn}


def test_poll_returns_empty_when_its_time_is_over(hub):
    hub.bind_router("router", ANY)
    assert hub.poll(0) == hub.poll(-1.0) == hub.poll(0.001) == []


def test_frames_gather_while_a_link_rests_and_a_wake_ends_it(hub, reader):
    address = hub.bind_router("router", ANY)
    reader.connect_dealer("dealer", address, PAIR.public)
    reader.send("dealer", b"early")
    hub.rest(0.01)
    assert until(lambda: hub.poll(0.1))[0].frame == b"early"
    thread = threading.Thread(target=lambda: hub.rest(3600))
    thread.start()
    reader.send("dealer", b"late")
    assert thread.is_alive()
    hub.wake()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert until(lambda: hub.poll(0.1))[0].frame == b"late"


def test_many_wakes_are_one_and_none_blocks(hub):
    for _ in range(100_000):  # more than any buffer holds
        hub.wake()
    woken = 0
    while _poll_took_s(hub, 0.05) < 0.05:
        woken += 1
    assert 1 <= woken <= 10


def _poll_took_s(link, timeout_s):
    begun = time.perf_counter()
    assert link.poll(timeout_s) == []
    return time.perf_counter() - begun


def test_disconnected_socket_is_gone_and_its_name_is_free(hub, reader, introduce, frames):
    introduce(hub, reader)
    reader.disconnect("control")
    with pytest.raises(UsageError, match="no socket is named 'control'"):
        reader.send("control", b"hello")
    reader.connect_dealer("control", hub.bind_router("another", ANY), PAIR.public)
    assert reader.send("control", b"hello again")
    assert frames(hub, 1)[0].name == "another"


def test_new_socket_of_an_old_name_has_no_old_subscriptions(hub, reader, follow, frames):
    address = follow(hub, reader, b"a")
    reader.disconnect("data")
    assert frames(hub, 1)[0].frame == b"\x00a"
    reader.connect_xsub("data", address, PAIR.public)
    reader.subscribe("data", b"a")
    assert frames(hub, 1)[0].frame == b"\x01a"


def test_what_a_role_does_not_do_is_the_callers_mistake(hub, reader, introduce, follow):
    peer = introduce(hub, reader)
    follow(hub, reader, b"a")
    named = "a peer is named to a ROUTER"
    for use, problem in (
        (lambda: reader.subscribe("control", b"a"), "control is DEALER, not XSUB"),
        (lambda: reader.send("data", b""), "XSUB does not send"),
        (
            lambda: hub.send("publisher", bytes(PUBLISHED_BYTES_MAX + 1)),
            f"does not send {PUBLISHED_BYTES_MAX + 1} bytes",
        ),
        (lambda: hub.send("router", b"to whom?"), named),
        (lambda: hub.send_all("router", [b"to whom?"]), named),
        (lambda: reader.send("control", b"not you", peer), named),
        (lambda: hub.bind_xpub("router", ANY), "named 'router' already"),
    ):
        with pytest.raises(UsageError, match=problem):
            use()


def test_taken_port_is_named_with_what_to_do(hub, reader):
    address = hub.bind_router("router", ANY)
    with pytest.raises(LinkError, match=f"{address}: the port is in use; stop"):
        reader.bind_xpub("publisher", address)
    assert reader.bind_xpub("publisher", ANY)  # the name was not used up


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "not an address"),
        ("127.0.0.1:0", "not an address"),
        ("tcp://127.0.0.1", "not an address"),
        ("tcp://127.0.0.1:70000", "not an address"),
        ("carrier-pigeon://roof:1", "not an address"),
        ("tcp://no-such-host.invalid:0", "has no address"),
        ("tcp://" + 70 * "x" + ".invalid:0", "has no address"),
        ("tcp://192.0.2.1:0", "no such address"),
    ],
)
def test_address_that_cannot_be_bound_is_refused_with_the_reason(hub, address, problem):
    with pytest.raises(LinkError, match=problem) as refused:
        hub.bind_router("router", address)
    assert str(refused.value).startswith(f"{address}: ")


@pytest.mark.parametrize("address", ["", "nonsense", "tcp://127.0.0.1", "tcp://127.0.0.1:70000"])
def test_address_that_cannot_be_connected_to_is_refused(reader, address):
    with pytest.raises(LinkError, match="not an address"):
        reader.connect_dealer("control", address, PAIR.public)


def test_closed_link_frees_its_ports_and_refuses_everything_but_close_and_wake(hub, reader):
    address = hub.bind_router("router", f"tcp://127.0.0.1:{steady_port()}")
    hub.close()
    hub.close()
    hub.wake()
    assert hub.closed
    with pytest.raises(UsageError, match="closed"):
        hub.poll(0)
    with pytest.raises(UsageError, match="closed"):
        hub.bind_router("router", ANY)
    assert reader.bind_router("router", address) == address


def test_last_frames_of_a_connected_link_arrive_though_it_is_closed_at_once(
    hub, reader, introduce, frames
):
    introduce(hub, reader)
    last = [b"%d" % number * 1000 for number in range(100)]
    for frame in last:
        assert reader.send("control", frame)
    reader.close()
    assert [received.frame for received in frames(hub, len(last))] == last


def test_close_does_not_wait_for_what_was_not_sent(reader):
    address = f"tcp://127.0.0.1:{steady_port()}"
    reader.connect_dealer("control", address, PAIR.public)
    reader.send("control", b"never delivered")
    begun = time.perf_counter()
    reader.close()
    assert time.perf_counter() - begun < 5


def test_forked_child_may_close_its_link_and_nothing_else(hub, reader, introduce, frames):
    peer = introduce(hub, reader)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of every fork
        child = os.fork()
    if child == 0:
        os._exit(_count_refusals(hub, peer))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert hub.send("router", b"still here", peer)
    assert frames(reader, 1)[0].frame == b"still here"


def _count_refusals(link, peer):
    """Use ``link`` in a child in every way; return how many were refused."""
    refused = 0
    for use in (
        lambda: link.poll(0),
        lambda: link.send("router", b"", peer),
        link.wake,
        lambda: link.bind_router("other", ANY),
        lambda: link.disconnect("router"),
        link.close,
    ):
        try:
            use()
        except UsageError:
            refused += 1
    return refused
