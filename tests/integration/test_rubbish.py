"""Rubbish at the sockets of real daemons, of an operator with keys: refused, counted, no more."""

import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pytest
import zmq

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.integration.stage import Stage, staged
from topicast.tests.keys import user_keys
from topicast.tests.topics.following import chunk
from topicast.tests.waiting import until
from topicast.topics.keys.folder import OPERATOR
from topicast.topics.link.curve import join
from topicast.topics.objects.selector import by_filter
from topicast.topics.topic import FULL
from topicast.topics.wire import decode, encode
from topicast.topics.wire import header as h
from topicast.topics.wire.codec import pack, read_header
from topicast.topics.wire.messages.catalog import Pull
from topicast.topics.wire.messages.connection import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    READER,
    Hello,
    Refused,
    ServerKeys,
    Welcome,
)
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import Order, ReadHubs, ReadStatus, ReadSubscribers
from topicast.topics.wire.messages.readers import (
    CatchUp,
    Credit,
    Join,
    JoinAnswer,
    Joined,
    Position,
    Wanted,
)

HUB, CATALOGD = "statestored", "catalogd"
BOTH: Final = (HUB, CATALOGD)
HELLO: Final = Hello(
    role=READER,
    channel=CONTROL_CHANNEL,
    name="stranger",
    registration=bytes(16),
)
CHUNK: Final = chunk(1, 0, 1, topic=1, epoch=1, first=False, last=False)
NO_TOPIC: Final = 9999


@pytest.fixture(scope="module")
def stage(own_hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(own_hive, own_hive.uri, tmp_path_factory.mktemp("rubbish")) as found:
        yield found


NULL_GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)


class Stranger:
    """A raw DEALER at a daemon: sends any bytes, and reads the replies."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self._socket = socket

    def send(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def say(self, message: Message) -> None:
        self.send(encode(message))

    def receives(self, timeout_s: float = 20) -> Message | None:
        """Return the next message, but for the keys that every member is told; None: too late."""
        while self._socket.poll(timeout_s * 1000):
            message = decode(self._socket.recv())
            if not isinstance(message, ServerKeys):
                return message
        return None

    def is_refused(self, code: str) -> str:
        """Demand that it is refused, for ``code``; return the reason."""
        received = self.receives()
        assert isinstance(received, Refused), received
        assert received.code == code, received
        return received.message


@contextmanager
def stranger(stage: Stage, name: str, *greeting: Hello) -> Iterator[Stranger]:
    """Connect a raw DEALER to a daemon's port; ``greeting`` makes it a member of a hub."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        own = user_keys(OPERATOR).credential
        address = stage.daemons.of(name).ready["address"]
        join(dealer, own.pair, own.hub_key(address) if name == HUB else own.catalogd)
        dealer.connect(address)
        found = Stranger(dealer)
        for hello in greeting:
            found.say(hello)
            assert isinstance(found.receives(), Welcome)
        yield found


def serves(code: int, text: str) -> bool:
    """Tell whether a daemon serves, and complains of nothing but of the strangers here."""
    complaints = [line for line in text.splitlines() if line != "serving"]
    return code == 200 and all("a client without a key" in line for line in complaints)


@contextmanager
def undisturbed(stage: Stage) -> Iterator[None]:
    """Demand that well-behaved peers notice nothing, and that changes come through as before."""
    stage.sees(stage.revise())
    before, stats = stage.held(), stage.catalog.stats()
    yield
    assert stage.held() == before
    stage.sees(stage.revise())
    after = stage.catalog.stats()
    for count in ("hub", "catch_ups", "pulls", "wire_errors", "stale_replies"):
        assert getattr(after, count) == getattr(stats, count), count
    for name in BOTH:
        daemon = stage.daemons.of(name)
        until(lambda daemon=daemon: serves(*daemon.health()), what="health")


@contextmanager
def counted(stage: Stage, name: str, **times: int) -> Iterator[None]:
    """Demand that counts of a daemon rise by so much, on its page and in its metrics."""
    before = stage.facts(name)
    yield
    wanted = {count: before.get(count, 0) + more for count, more in times.items()}
    until(lambda: wanted.items() <= stage.facts(name).items(), timeout_s=20, what=f"{wanted}")
    metrics = stage.daemons.of(name).page("/metrics")
    for count, number in wanted.items():
        code = count.removeprefix("refused_")
        metric = f"{count}_total" if code == count else f'refusals_total{{reason="{code}"}}'
        assert f"topicast_{name}_{metric} {number:.1f}" in metrics


def mutated(frame: bytes) -> bytes:
    """Return the frame with one bit of its last byte turned over."""
    return frame[:-1] + bytes((frame[-1] ^ 1,))


def flagged(frame: bytes) -> bytes:
    """Return the frame with a flag that is none, and the CRC that belongs to it."""
    header = read_header(frame)
    return pack(header._replace(flags=header.flags | 0x80), frame[h.HEADER_BYTES :])


FILTERED = encode(Pull(request=5, db="d", table="t", selector=by_filter("x = 1"), credit=1))
GARBAGE: Final = {
    "random bytes": (random.Random(2).randbytes(500), "VERSION", "offered, 1 spoken here"),
    "nothing": (b"", "WIRE", "frame of 0 bytes is too short"),
    "another version": (b"\x09" + encode(HELLO)[1:], "VERSION", "9 offered, 1 spoken here"),
    "half a message": (encode(HELLO)[:20], "WIRE", "is not MessagePack"),
    "half a chunk": (encode(CHUNK)[:60], "WIRE", "frame of 60 bytes: 63 to"),
    "a flipped bit": (mutated(encode(CHUNK)), "WIRE", "crc differs: topic=1"),
    "an unknown flag": (flagged(encode(CHUNK)), "WIRE", "flags 0x8"),
    "an unknown topic": (
        pack(read_header(encode(CHUNK))._replace(topic=NO_TOPIC), b""),
        "WIRE",
        f"topic {NO_TOPIC}",
    ),
    "an unknown message": (h.CONTROL_PREFIX + b"\x92\xcc\xfa\x01", "WIRE", "type 250"),
    "an unknown filter": (FILTERED.replace(b"\xa1=", b"\xa1~"), "WIRE", "begins with its operator"),
    "a filter of nothing": (FILTERED.replace(b"\xa1x\x01", b"\xa1x\xc0"), "WIRE", "beside ="),
    "too many bytes": (h.CONTROL_PREFIX + bytes(h.FRAME_BYTES_MAX), "WIRE", "1048576 allowed"),
}


@pytest.mark.parametrize(
    ("name", "count"), [(HUB, "frames_undecodable"), (CATALOGD, "frames_undecodable")]
)
def test_garbage_is_refused_with_what_is_wrong(stage: Stage, name: str, count: str) -> None:
    with undisturbed(stage), counted(stage, name, **{count: len(GARBAGE)}):
        for frame, code, printed in GARBAGE.values():
            with stranger(stage, name) as peer:
                peer.send(frame)
                reason = peer.is_refused(code)
                assert printed in reason
                assert reason.endswith(("upgrade one side", "see docs/protocol.md"))


@pytest.mark.parametrize("name", BOTH)
def test_peer_without_keys_is_counted(stage: Stage, name: str) -> None:
    host, _, port = stage.daemons.of(name).ready["address"].removeprefix("tcp://").rpartition(":")
    with undisturbed(stage), counted(stage, name, handshakes_failed=2):
        for printed in (b"\xff" * 64, NULL_GREETING):
            with socket.create_connection((host, int(port)), timeout=20) as raw:
                raw.sendall(printed)


@pytest.mark.parametrize("name", BOTH)
def test_frame_that_no_socket_takes_ends_its_own_connection_only(stage: Stage, name: str) -> None:
    with undisturbed(stage), stranger(stage, name) as peer:
        peer.send(bytes(2 * h.FRAME_BYTES_MAX))
        assert peer.receives(timeout_s=0.2) is None
        answer = None
        while answer is None:  # what is said before the connection has ended is lost with it
            peer.say(HELLO)
            answer = peer.receives(timeout_s=2)
        assert isinstance(answer, Welcome if name == HUB else Refused)


@pytest.mark.parametrize("name", BOTH)
def test_message_of_several_parts_is_dropped_and_counted(stage: Stage, name: str) -> None:
    with undisturbed(stage), counted(stage, name, frames_dropped=1), stranger(stage, name) as peer:
        peer.send(encode(HELLO), b"and more")
        peer.say(HELLO)
        assert isinstance(peer.receives(), Welcome if name == HUB else Refused)


BULK: Final = replace(HELLO, channel=BULK_CHANNEL)
WANTED: Final = Wanted(topic=NO_TOPIC, level=FULL, epoch=1, version=0)
WRONG: Final[dict[str, tuple[tuple[Hello, ...], Message, str, str]]] = {
    "no greeting": ((), ReadStatus(request=5), "HELLO", "say hello first"),
    "no common version": (
        (),
        replace(HELLO, protocol_min=9, protocol_max=9),
        "VERSION",
        "upgrade one side",
    ),
    "no role": ((), replace(HELLO, role=9), "ROLE", "role 9"),
    "unknown topic to catch up": (
        (BULK,),
        CatchUp(stream=5, credit=1 << 20, wanted=(WANTED,)),
        "UNKNOWN",
        f"no topic {NO_TOPIC}: there are 16",
    ),
    "what catalogd knows": ((HELLO,), ReadHubs(request=5), "ROLE", "ReadHubs is not understood"),
    "bulk on control": ((HELLO,), Credit(stream=5, amount=1), "ROLE", "control"),
}


def test_what_a_hub_cannot_do_is_refused_with_the_reason(stage: Stage) -> None:
    codes = Counter(f"refused_{code}" for _, _, code, _ in WRONG.values())
    with undisturbed(stage), counted(stage, HUB, **codes):
        for greeting, message, code, printed in WRONG.values():
            with stranger(stage, HUB, *greeting) as peer:
                peer.say(message)
                assert printed in peer.is_refused(code)


def test_join_of_an_unknown_topic_is_denied(stage: Stage) -> None:
    position = Position(topic=NO_TOPIC, level=FULL, epoch=1, version=0)
    with undisturbed(stage), stranger(stage, HUB, HELLO) as peer:
        peer.say(Join(request=5, positions=(position,)))
        joined = peer.receives()
        assert isinstance(joined, Joined)
        assert [(one.topic, one.answer) for one in joined.topics] == [(NO_TOPIC, JoinAnswer.DENIED)]


REFUSED_REQUESTS: Final[dict[str, tuple[Message, str, str]]] = {
    "a greeting": (HELLO, "UNEXPECTED", "catalogd does not answer Hello: see docs/"),
    "what a hub knows": (
        ReadSubscribers(request=5),
        "UNEXPECTED",
        "catalogd does not answer ReadSubscribers: see docs/",
    ),
    "filter of another table": (
        Pull(request=5, db="outage", table="t", selector=by_filter("x = 1"), credit=1 << 20),
        "FILTER",
        "outage.t: x is not a partition column",
    ),
    "unknown order": (
        Order(request=5, sender="x", order="burn", arguments=()),
        "ORDER",
        "burn",
    ),
}


def test_what_catalogd_cannot_do_is_refused_with_the_reason(stage: Stage) -> None:
    with undisturbed(stage), counted(stage, CATALOGD, refused=len(REFUSED_REQUESTS)):
        for message, code, printed in REFUSED_REQUESTS.values():
            with stranger(stage, CATALOGD) as peer:
                peer.say(message)
                assert printed in peer.is_refused(code)


SUBSCRIPTIONS: Final = {
    "nothing, which is everything": b"\1",
    "another version": b"\1" + b"\x09" + h.prefix(1, FULL)[1:],
    "an unknown topic": b"\1" + h.prefix(NO_TOPIC, FULL),
    "an unknown level": b"\1" + h.prefix(1, 7),
    "random bytes": b"\1" + random.Random(3).randbytes(100),
    "a barrier that is too long": b"\1" + h.barrier_prefix(bytes(h.NONCE_BYTES + 1)),
}


def test_odd_subscriptions_are_counted(stage: Stage) -> None:
    """There is nobody to answer to: a data socket only speaks to all."""
    twice = 2 * len(SUBSCRIPTIONS)  # begin and end
    with (
        undisturbed(stage),
        counted(stage, HUB, subscriptions_invalid=twice, frames_dropped=1),
        zmq.Context() as context,
        context.socket(zmq.XSUB) as socket,
    ):
        socket.linger = 0
        own = user_keys(OPERATOR).credential
        join(socket, own.pair, own.hub_key(stage.daemons.hub_address))
        socket.connect(stage.facts(HUB)["data_address"])
        for subscription in SUBSCRIPTIONS.values():
            socket.send(subscription)
        socket.send(b"\x05" + h.prefix(1, FULL))  # no subscription at all
        before = stage.facts(HUB)["subscriptions_invalid"]
        until(lambda: stage.facts(HUB)["subscriptions_invalid"] > before, timeout_s=20, what="them")
