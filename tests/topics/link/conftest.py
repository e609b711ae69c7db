"""Links that are closed at the end of each test, and another program's sockets."""

from collections.abc import Callable, Iterator

import pytest
import zmq

from topicast.tests.cli.processes import steady_port
from topicast.tests.keys import BOUND, PAIR, own_link
from topicast.tests.waiting import until
from topicast.topics.link import Link, ReceivedFrame
from topicast.topics.link.curve import join

ANY = "tcp://127.0.0.1:0"


@pytest.fixture
def make_link() -> Iterator[Callable[[], Link]]:
    links: list[Link] = []

    def make() -> Link:
        links.append(own_link(*BOUND))
        return links[-1]

    yield make
    for link in links:
        link.close()
        assert link.closed


@pytest.fixture
def hub(make_link: Callable[[], Link]) -> Link:
    return make_link()


@pytest.fixture
def reader(make_link: Callable[[], Link]) -> Link:
    return make_link()


@pytest.fixture
def stranger() -> Iterator[Callable[[int, str], "zmq.Socket[bytes]"]]:
    """Connect a socket of any type, with keys: it sends what no Link would."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets: list[zmq.Socket[bytes]] = []

    def connect(kind: int, address: str) -> "zmq.Socket[bytes]":
        sockets.append(context.socket(kind))
        join(sockets[-1], PAIR, PAIR.public)
        sockets[-1].connect(address)
        return sockets[-1]

    yield connect
    context.destroy(linger=0)  # with what a test made of them, such as monitors


@pytest.fixture
def frames() -> Callable[[Link, int], list[ReceivedFrame]]:
    """Poll a link until so many frames have arrived; return all that have."""

    def poll(link: Link, count: int) -> list[ReceivedFrame]:
        got: list[ReceivedFrame] = []
        until(lambda: got.extend(link.poll(0.02)) or len(got) >= count, what=f"{count} frames")
        return got

    return poll


@pytest.fixture
def introduce(frames: Callable[[Link, int], list[ReceivedFrame]]) -> Callable[[Link, Link], bytes]:
    """Connect a reader's "control" to a hub's "router"; return the name the hub knows it by."""

    def connect(hub: Link, reader: Link) -> bytes:
        reader.connect_dealer("control", hub.bind_router("router", ANY), PAIR.public)
        assert reader.send("control", b"hello")
        (received,) = frames(hub, 1)
        assert (received.name, received.frame) == ("router", b"hello")
        return received.peer

    return connect


@pytest.fixture
def follow(frames: Callable[[Link, int], list[ReceivedFrame]]) -> Callable[..., str]:
    """Connect a reader's "data" to a hub's "publisher", subscribed; return the address."""

    def connect(hub: Link, reader: Link, *prefixes: bytes) -> str:
        address = hub.bind_xpub("publisher", f"tcp://127.0.0.1:{steady_port()}")
        reader.connect_xsub("data", address, PAIR.public)
        for prefix in prefixes:
            reader.subscribe("data", prefix)
        frames(hub, len(prefixes))
        return address

    return connect
