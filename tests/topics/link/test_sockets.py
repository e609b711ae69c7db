"""What the options bound: garbage, frames too large, strangers' shapes, readers that stop."""

import os
import random
import signal
import socket
import subprocess
import sys

import pytest
import zmq

from topicast.tests.cli.processes import steady_port
from topicast.tests.keys import PAIR, own_link
from topicast.tests.waiting import until
from topicast.topics.link.curve import serve
from topicast.topics.link.sockets import (
    CURVE_BYTES,
    FRAME_BYTES_MAX,
    OPTIONS,
    PUBLISHED_MAX,
    SENT_BYTES_MAX,
    SUBSCRIPTION_BYTES_MAX,
    SocketType,
)

ANY = "tcp://127.0.0.1:0"
MIB = 1 << 20


@pytest.mark.parametrize("kind", SocketType)
def test_nothing_that_bounds_is_left_to_a_default(kind):
    always = {zmq.LINGER, zmq.SNDHWM, zmq.RCVHWM, zmq.MAXMSGSIZE, zmq.HANDSHAKE_IVL}
    assert always | {zmq.HEARTBEAT_IVL} <= set(OPTIONS[kind])
    assert OPTIONS[kind][zmq.LINGER] == 0
    assert min(OPTIONS[kind][zmq.SNDHWM], OPTIONS[kind][zmq.RCVHWM]) > 0  # 0 means no limit


@pytest.mark.parametrize("kind", SocketType)
def test_options_that_would_harm_are_never_set(kind):
    assert not {zmq.ROUTING_ID, zmq.XPUB_NODROP, zmq.CONFLATE} & set(OPTIONS[kind])


def test_what_one_role_sends_the_other_accepts():
    pairs = {
        SocketType.XPUB: SocketType.XSUB,
        SocketType.ROUTER: SocketType.DEALER,
        SocketType.DEALER: SocketType.ROUTER,
    }
    for sender, taker in pairs.items():
        assert SENT_BYTES_MAX[sender] + CURVE_BYTES == OPTIONS[taker][zmq.MAXMSGSIZE]


@pytest.mark.parametrize("kind", SocketType)
def test_every_option_is_taken_by_the_library_as_set(kind):
    write_only = {zmq.XPUB_VERBOSE, zmq.ROUTER_MANDATORY, zmq.ROUTER_HANDOVER}
    with zmq.Context() as context, context.socket(kind.value) as made:
        for option, value in OPTIONS[kind].items():
            made.setsockopt(option, value)
            assert option in write_only or made.getsockopt(option) == value


def test_connection_that_breaks_in_its_handshake_was_not_refused(hub):
    """Given a peer that ends before it has shown a key, as when this process stopped for long."""
    _throw(hub.bind_router("second", ANY), b"")
    until(lambda: hub.poll(0.05) == [] and hub.counts.handshakes_failed, what="its end")
    assert hub.counts.refused_handshake() is None


def test_garbage_on_the_port_is_no_frame_and_others_are_served(hub, reader, introduce, frames):
    rng = random.Random(3)
    peer = introduce(hub, reader)
    port = hub.bind_xpub("publisher", ANY)
    where = [hub.bind_router("second", ANY), port]
    for garbage in (
        b"",
        b"GET / HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"\x01\x00",  # ZMTP 1.0, a greeting without a version
        *(rng.randbytes(size) for size in (1, 9, 64, 1000, 100_000)),
        b"\xff" * 64,
        b"\x03\x00" * 50,
    ):
        for address in where:
            _throw(address, garbage)
    until(
        lambda: hub.poll(0.05) == [] and hub.counts.handshakes_failed >= 4, what="the end of them"
    )
    assert hub.counts.received == 1  # the introduction: not one frame of theirs
    for number in range(10):
        assert reader.send("control", b"%d" % number)
        assert _frame_of(hub, frames, "router") == b"%d" % number
        assert hub.send("router", b"served", peer)
        assert frames(reader, 1)[0].frame == b"served"


def _frame_of(hub, frames, name):
    """Return the frame that arrives at ``name``; strangers' may arrive at others."""
    got = []
    until(lambda: got.extend(r.frame for r in frames(hub, 1) if r.name == name) or got)
    assert len(got) == 1
    return got[0]


def _throw(address, garbage):
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as raw:
        try:
            raw.sendall(garbage)
        except OSError:
            return  # cut off while we were throwing: fine


@pytest.mark.parametrize("parts", [[b""] * 2, [b"a", b"b"], [b"x"] * 50])
def test_message_of_another_shape_is_dropped_and_counted(hub, stranger, frames, parts):
    dealer = stranger(zmq.DEALER, hub.bind_router("router", ANY))
    dealer.send_multipart(parts)
    dealer.send(b"of the right shape")
    assert [received.frame for received in frames(hub, 1)] == [b"of the right shape"]
    assert (hub.counts.received, hub.counts.dropped) == (1, 1)


def test_published_message_in_parts_is_dropped_and_counted(reader, frames):
    with zmq.Context() as context, context.socket(zmq.XPUB) as other_hub:
        other_hub.setsockopt(zmq.LINGER, 0)
        serve(other_hub, "hub", PAIR)
        reader.connect_xsub("data", f"tcp://127.0.0.1:{_bind(other_hub)}", PAIR.public)
        reader.subscribe("data", b"a")
        assert other_hub.recv() == b"\x01a"
        other_hub.send_multipart([b"a1", b"in parts"])
        other_hub.send(b"a2")
        assert [received.frame for received in frames(reader, 1)] == [b"a2"]
    assert reader.counts.dropped == 1


def _bind(made):
    return made.bind_to_random_port("tcp://127.0.0.1")


def test_what_a_reader_pushes_upstream_is_dropped_and_counted(hub, stranger, frames):
    pusher = stranger(zmq.XSUB, hub.bind_xpub("publisher", ANY))
    pusher.send(b"hello")
    pusher.send(b"\x02other")
    pusher.send(b"")
    pusher.send(b"\x01marker")
    assert [received.frame for received in frames(hub, 1)] == [b"\x01marker"]
    assert hub.counts.dropped == 3


@pytest.mark.parametrize("size", [FRAME_BYTES_MAX + 1, 16 * MIB])
def test_frame_too_large_cuts_its_sender_off_and_nobody_else(
    hub, reader, introduce, stranger, frames, size
):
    introduce(hub, reader)
    address = hub.bind_router("second", ANY)
    dealer = stranger(zmq.DEALER, address)
    monitor = dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    dealer.send(bytes(size))
    assert monitor.poll(10_000), "still connected"
    assert reader.send("control", b"I am well")
    assert [received.frame for received in frames(hub, 1)] == [b"I am well"]


def test_subscription_too_large_is_not_taken(hub, stranger, frames):
    address = hub.bind_xpub("publisher", ANY)
    greedy = stranger(zmq.SUB, address)
    greedy.setsockopt(zmq.SUBSCRIBE, b"x" * 10 * SUBSCRIPTION_BYTES_MAX)
    other = stranger(zmq.SUB, address)
    other.setsockopt(zmq.SUBSCRIBE, b"small")
    assert [received.frame for received in frames(hub, 1)] == [b"\x01small"]


def test_connection_that_says_nothing_is_closed(hub):
    port = int(hub.bind_router("router", ANY).rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as silent:
        silent.settimeout(10)
        while silent.recv(64):
            pass  # the greeting; then the end, after HANDSHAKE_MS


@pytest.mark.real
def test_stopped_reader_costs_64_mib_at_most_and_the_others_nothing():
    """In a process of its own: what tests before have freed would hide the queue."""
    run = [sys.executable, "-c", STOPPED]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(run, env=path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    sent, received, grown = map(int, done.stdout.split())
    assert sent == 4 * PUBLISHED_MAX == received
    assert 32 * MIB < grown < 64 * MIB  # its queue is there, and it is bounded


STOPPED = """
import psutil
from topicast.tests.keys import BOUND, PAIR, own_link
from topicast.tests.topics.link.stopping import reader_that_stops
from topicast.tests.cli.processes import steady_port
from topicast.tests.waiting import until
from topicast.topics.link.sockets import PUBLISHED_MAX

hub, reader, frame = own_link(*BOUND), own_link(*BOUND), b"a" * 64 * 1024
address = hub.bind_xpub("publisher", "tcp://127.0.0.1:0")
reader.connect_xsub("data", address, PAIR.public)
reader.subscribe("data", b"a")
seen = []
with reader_that_stops(address):
    until(lambda: seen.extend(hub.poll(0.02)) or len(seen) == 2, timeout_s=20)
    before = psutil.Process().memory_info().rss
    peak = 0  # in the end the stopped reader is cut off, and its queue is freed
    for _ in range(4 * PUBLISHED_MAX // 10):  # 250 MiB, few of them under way
        assert all(hub.send("publisher", frame) for _ in range(10))
        got = []
        until(lambda: got.extend(reader.poll(0.02)) or len(got) == 10, timeout_s=20)
        assert {one.frame for one in got} == {frame}
        peak = max(peak, psutil.Process().memory_info().rss)
print(hub.counts.sent, reader.counts.received, peak - before)
hub.close(), reader.close()
"""


FLOODED = """
import psutil, sys, time
from topicast.tests.keys import own_link
from topicast.tests.waiting import until
from topicast.topics.keys.credential import KeyPair

reader = own_link(pair=KeyPair(public=sys.argv[3], secret=sys.argv[4]))
reader.connect_xsub("data", sys.argv[1], sys.argv[3], inbox_bytes=int(sys.argv[2]))
reader.subscribe("data", b"a")
until(lambda: reader.poll(0.02))
before = psutil.Process().memory_info().rss
began = time.monotonic()
until(lambda: time.monotonic() > began + 6.0)  # it reads nothing, and nobody pings for it
grown = psutil.Process().memory_info().rss - before
got = []
until(lambda: got.extend(reader.poll(0.02)) or any(b"last" in one.frame for one in got))
print(grown)
reader.close()
"""


@pytest.mark.real
@pytest.mark.parametrize("killed", [False, True], ids=["hub stays", "hub dies"])
def test_reader_that_reads_nothing_holds_its_inbox_at_most_and_goes_on(killed):
    """Given 250 MB for it, also if the hub dies meanwhile: ZeroMQ ended the process then."""
    address = f"tcp://127.0.0.1:{steady_port()}"
    run = [sys.executable, "-c", FLOODED, address, str(4 * MIB), PAIR.public, PAIR.secret]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    hub, frame = own_link("publisher"), b"a" * 64 * 1024
    hub.bind_xpub("publisher", address)
    with subprocess.Popen(run, env=path, stdout=subprocess.PIPE, text=True) as reader:
        try:
            until(lambda: hub.poll(0.02))
            hub.send("publisher", frame)
            for _ in range(400):
                hub.send_all("publisher", [frame] * 10)
                hub.rest(0.005)
            if killed:
                hub.close()
                hub = own_link("publisher")
                hub.bind_xpub("publisher", address)
            while reader.poll() is None:
                hub.poll(0.1)
                hub.send("publisher", b"a last")
            assert reader.returncode == 0
            assert int(reader.stdout.read()) < 4 * MIB + 2 * MIB
        finally:
            reader.kill()
            hub.close()


READER = """
import sys, time
from topicast.tests.keys import own_link
from topicast.topics.keys.credential import KeyPair
link = own_link(pair=KeyPair(public=sys.argv[1], secret=sys.argv[2]))
link.connect_xsub("data", {address!r}, sys.argv[1])
link.subscribe("data", b"a")
end = time.monotonic() + 2
while time.monotonic() < end:
    link.poll(0.5)
print("a heartbeat is under way", flush=True)
while True:
    link.poll(1)
"""


@pytest.mark.real
def test_process_that_froze_is_cut_off_and_comes_back_when_it_thaws(hub, frames):
    address = hub.bind_xpub("publisher", ANY)
    command = [sys.executable, "-c", READER.format(address=address), PAIR.public, PAIR.secret]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as frozen:
        try:
            assert frames(hub, 1)[0].frame == b"\x01a"
            assert frozen.stdout.readline()
            frozen.send_signal(signal.SIGSTOP)
            assert frames(hub, 1)[0].frame == b"\x00a"  # the time to live in its heartbeat is over
            frozen.send_signal(signal.SIGCONT)
            assert frames(hub, 1)[0].frame == b"\x01a"
        finally:
            frozen.kill()


STALLED = """
import time
from topicast.tests.cli.processes import steady_port
from topicast.tests.keys import BOUND, PAIR, own_link
from topicast.tests.waiting import until

hub, reader = own_link(*BOUND), own_link(*BOUND)
reader.connect_dealer("control", hub.bind_router("router", "tcp://127.0.0.1:0"), PAIR.public)
reader.connect_xsub("data", hub.bind_xpub("publisher", "tcp://127.0.0.1:0"), PAIR.public)
reader.subscribe("data", b"a")
reader.send("control", b"hello")
got = []
until(lambda: got.extend(hub.poll(0.02)) or len(got) == 2)
peer = next(one.peer for one in got if one.peer)
sent = {"control": 0, "data": 0}
for number in range(20_000):
    sent["control"] += hub.send("router", b"a%06d" % number, peer)
    sent["data"] += hub.send("publisher", b"a%06d" % number)
    reader.rest(0.001 if number % 500 == 0 else 0.0)
began = time.monotonic()
until(lambda: time.monotonic() > began + 2.5)
seen = {"control": [], "data": []}
def all_are_here():
    for one in reader.poll(0.02):
        seen[one.name].append(int(one.frame[1:]))
    return len(seen["control"]) == sent["control"]
until(all_are_here)
print(all(found == sorted(found) and len(found) > 250 for found in seen.values()))
"""


@pytest.mark.real
def test_reader_that_stalls_with_full_queues_goes_on_where_it_was():
    """In a process of its own, which ZeroMQ ended."""
    run = [sys.executable, "-c", STALLED]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(run, env=path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
