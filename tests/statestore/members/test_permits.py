"""Which messages are accepted from whom, by which id they are refused, and how often."""

import dataclasses
import json
from pathlib import Path

import pytest

from topicast.statestore.members.permits import role_fault
from topicast.statestore.replies import LIMITED_PEERS_MAX, REFUSAL_EVERY_S, RefusalLimiter
from topicast.tests.statestore.hub_driver import HubDriver, hello, refused
from topicast.topics.wire import decode
from topicast.topics.wire.header import PROTOCOL, PROTOCOL_MIN
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.connection import CONTROL_CHANNEL, READER, Channel, Role, Welcome
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import HUB_ANSWERS
from topicast.topics.wire.refusal import request_id

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "wire_v1.json"
EVERYBODY = {f"{role.name} {channel.name}" for role in Role for channel in Channel}
ON_CONTROL = {sender for sender in EVERYBODY if sender.endswith("CONTROL")}
UNDERSTOOD = {  # other messages are for catalogd, or sent by a hub; Hello comes first
    "Join": {"READER CONTROL"},
    "Drop": {"READER CONTROL"},
    "ReaderStatus": ON_CONTROL,
    "KeepAlive": {"READER CONTROL"},
    **{one.__name__: {"READER CONTROL", "OPERATOR CONTROL"} for one in HUB_ANSWERS},
    "ReadWriter": ON_CONTROL,
    "DriverFacts": {"READER CONTROL"},
    **dict.fromkeys(
        ("NamedFacts", "LevelList", "TableUses", "MessageTrace"), frozenset(("READER CONTROL",))
    ),
    "Bye": EVERYBODY,
    "Refused": EVERYBODY,
    "CatchUp": {"READER BULK"},
    "Credit": {"READER BULK"},
    "Cancel": {"READER BULK"},
    "Announce": {"PUBLISHER CONTROL"},
    "ClientList": {"PUBLISHER CONTROL"},
    "Introduction": {"PUBLISHER CONTROL"},
    "Heartbeat": {"PUBLISHER CONTROL"},
    "Chunk": {"PUBLISHER BULK"},
    "Delta": {"PUBLISHER BULK"},
}
FRAMES = [bytes.fromhex(vector["frame"]) for vector in json.loads(VECTORS.read_text())]
MESSAGES = {type(message).__name__: message for message in map(decode, FRAMES)}
each_message = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


@each_message
def test_message_is_accepted_only_from_its_own_senders(message: Message) -> None:
    """P-MSG-4."""
    senders = {
        f"{role.name} {channel.name}"
        for role in Role
        for channel in Channel
        if role_fault(type(message), role=role, channel=channel) is None
    }
    assert senders == UNDERSTOOD.get(type(message).__name__, set())


@each_message
def test_request_is_refused_by_the_id_that_its_sender_knows(message: Message) -> None:
    """P-BAD-3: a refusal names its request or stream; 0 where there is none, as for answers."""
    fields = {field.name for field in dataclasses.fields(message)}
    is_named_so = type(message).__name__.endswith(("ed", "Swept"))  # Joined, Refused, Pulled
    is_answer = is_named_so or isinstance(message, Inspected)
    ids = [] if is_answer else sorted({"request", "stream"} & fields)
    assert request_id(message) == (getattr(message, ids[0]) if ids else 0)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("channel", Channel)
@pytest.mark.parametrize("protocol", [(PROTOCOL_MIN, PROTOCOL), (0, 255), (PROTOCOL, 9)])
def test_hello_with_the_protocol_is_accepted(
    role: int, channel: int, protocol: tuple[int, int]
) -> None:
    """P-VER-1."""
    welcome, *_ = HubDriver().receive(b"peer", hello("peer", role, channel, protocol=protocol))
    assert isinstance(welcome, Welcome)
    assert (welcome.protocol, welcome.features) == (PROTOCOL, 0)


@pytest.mark.parametrize("offered", [(0, PROTOCOL_MIN - 1), (PROTOCOL + 1, 255), (2, 1)])
def test_hello_without_a_common_version_is_refused_and_both_offers_are_named(
    offered: tuple[int, int],
) -> None:
    """P-VER-1."""
    driver = HubDriver()
    greeting = hello("peer", READER, CONTROL_CHANNEL, protocol=offered)
    fault = refused(driver.receive(b"peer", greeting))
    spoken = f"{PROTOCOL_MIN} to {PROTOCOL} spoken here: upgrade one side"
    assert fault.code == "VERSION"
    assert fault.message == f"protocol {offered[0]} to {offered[1]} offered, {spoken}"
    assert driver.status.subscribers == ()


@pytest.mark.parametrize(("role", "channel"), [(0, 1), (4, 1), (READER, 0), (READER, 3)])
def test_role_or_channel_that_does_not_exist_is_refused(role: int, channel: int) -> None:
    """P-SUB-4."""
    fault = refused(HubDriver().receive(b"peer", hello("peer", role, channel)))
    assert (fault.code, fault.message) == ("ROLE", f"there is no role {role} on channel {channel}")


def test_peer_is_sent_one_refusal_in_an_interval_whatever_others_are_sent() -> None:
    """P-BAD-3."""
    limiter = RefusalLimiter()
    assert limiter.allows(b"one", now=0.0)
    assert limiter.allows(b"two", now=0.0)
    assert not limiter.allows(b"one", now=REFUSAL_EVERY_S - 0.01)
    assert limiter.allows(b"one", now=REFUSAL_EVERY_S)
    assert not limiter.allows(b"one", now=REFUSAL_EVERY_S + 0.01)


def test_peer_that_was_refused_longest_ago_is_discarded_when_there_are_too_many() -> None:
    """P-BAD-3: a flood of strangers takes no memory."""
    limiter = RefusalLimiter()
    for number in range(LIMITED_PEERS_MAX):
        assert limiter.allows(b"peer-%d" % number, now=0.0)
    assert limiter.allows(b"peer-0", now=REFUSAL_EVERY_S)
    assert limiter.allows(b"stranger", now=0.0)
    assert len(limiter) == LIMITED_PEERS_MAX
    assert not limiter.allows(b"peer-0", now=REFUSAL_EVERY_S), "it was refused a moment ago"
    assert not limiter.allows(b"peer-2", now=0.0)
    assert limiter.allows(b"peer-1", now=0.0), "the oldest was discarded"
