"""Well-formed messages that are refused, and how often a peer is sent a refusal."""

from dataclasses import replace

import pytest

from topicast.statestore.validation import (
    AGAIN_MS,
    LIMITED_PEERS_MAX,
    REFUSAL_EVERY_S,
    RefusalLimiter,
    chunk_fault,
    delta_fault,
    hello_fault,
)
from topicast.tests.statestore.hub_driver import hello, value
from topicast.topics.topic import FULL, MINIMAL
from topicast.topics.wire.header import (
    DELTA_KIND,
    INVALIDATE_ALL,
    PROTOCOL,
    PROTOCOL_MIN,
    STUBBED,
    Header,
)
from topicast.topics.wire.messages import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    OPERATOR,
    PUBLISHER,
    READER,
    Chunk,
)

AT = {"topic": 1, "level": FULL, "epoch": 10, "start": 5, "to_version": 4, "floor": 0, "sent_us": 1}
DELTA = Header(
    **AT,
    protocol=PROTOCOL,
    kind=DELTA_KIND,
    flags=0,
    source=1,
    hops=0,
    origin=0,
    crc=0,
    entry_count=0,
    from_version=3,
)
CHUNK = Chunk(
    **AT,
    from_version=0,
    stream=7,
    sequence=0,
    resume_version=3,
    resume_key=b"db\0table\0",
    entries=(value(b"db\0table\0", 3),),
)


@pytest.mark.parametrize("role", [READER, PUBLISHER, OPERATOR])
@pytest.mark.parametrize("channel", [CONTROL_CHANNEL, BULK_CHANNEL])
@pytest.mark.parametrize("protocol", [(PROTOCOL_MIN, PROTOCOL), (0, 255), (PROTOCOL, 9)])
def test_hello_with_the_protocol_is_accepted(
    role: int, channel: int, protocol: tuple[int, int]
) -> None:
    assert hello_fault(hello("peer", role, channel, protocol=protocol)) is None


@pytest.mark.parametrize("protocol", [(0, PROTOCOL_MIN - 1), (PROTOCOL + 1, 255), (2, 1)])
def test_without_a_common_version_both_offers_are_named(protocol: tuple[int, int]) -> None:
    """P-VER-1."""
    fault = hello_fault(hello("peer", READER, CONTROL_CHANNEL, protocol=protocol))
    assert fault is not None
    assert fault.code == "VERSION"
    assert fault.message == (
        f"protocol {protocol[0]} to {protocol[1]} offered, "
        f"{PROTOCOL_MIN} to {PROTOCOL} spoken here: upgrade one side"
    )


@pytest.mark.parametrize(("role", "channel"), [(0, 1), (4, 1), (READER, 0), (READER, 3)])
def test_role_or_channel_that_is_none_is_refused(role: int, channel: int) -> None:
    fault = hello_fault(hello("peer", role, channel))
    assert fault is not None
    assert (fault.code, fault.message) == ("ROLE", f"role {role} on channel {channel} is none")


@pytest.mark.parametrize(
    "change", [{}, {"flags": STUBBED}, {"flags": STUBBED | INVALIDATE_ALL}, {"floor": 4}], ids=str
)
def test_delta_of_a_publisher_is_taken(change: dict[str, int]) -> None:
    assert delta_fault(DELTA._replace(**change)) is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"level": MINIMAL}, "level full only"),
        ({"flags": INVALIDATE_ALL}, "needs flag stubbed"),
        ({"floor": 5}, "floor 5 is above version 4"),
    ],
    ids=str,
)
def test_delta_that_breaks_a_rule_is_refused_with_its_topic(
    change: dict[str, int], problem: str
) -> None:
    """P-DATA-2, P-FLOOR-4."""
    fault = delta_fault(DELTA._replace(**change))
    assert fault is not None
    assert (fault.code, fault.topic) == ("DELTA", 1)
    assert problem in fault.message


@pytest.mark.parametrize(
    "change", [{}, {"floor": 4}, {"entries": (), "resume_version": 0, "resume_key": b""}], ids=str
)
def test_chunk_of_a_publisher_is_taken(change: dict[str, object]) -> None:
    assert chunk_fault(replace(CHUNK, **change)) is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"level": MINIMAL}, "level full"),
        ({"invalidate_all": True}, "no invalidate_all"),
        ({"floor": 5}, "floor 5 is above version 4"),
        ({"resume_version": 2}, "after its last entry"),
    ],
    ids=str,
)
def test_chunk_that_breaks_a_rule_is_refused_with_a_time_to_request_again(
    change: dict[str, object], problem: str
) -> None:
    """P-DATA-2, P-FLOOR-4."""
    fault = chunk_fault(replace(CHUNK, **change))
    assert fault is not None
    assert (fault.code, fault.topic, fault.retry_ms) == ("CHUNK", 1, AGAIN_MS)
    assert problem in fault.message


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
