"""The places in which each message is accepted, and the id by which it is refused."""

import dataclasses
import json
from pathlib import Path

import pytest

from topicast.statestore.validation import request_id, role_fault
from topicast.topics.wire import decode
from topicast.topics.wire.messages import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    OPERATOR,
    PUBLISHER,
    READER,
    Message,
)

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "wire_v1.json"
ROLES = {READER: "reader", PUBLISHER: "publisher", OPERATOR: "operator"}
CHANNELS = {CONTROL_CHANNEL: "control", BULK_CHANNEL: "bulk"}
EVERYBODY = {f"{role} {channel}" for role in ROLES.values() for channel in CHANNELS.values()}
ON_CONTROL = {place for place in EVERYBODY if place.endswith("control")}
UNDERSTOOD = {  # other messages are for catalogd, or sent by a hub; Hello comes first
    "Join": {"reader control"},
    "Drop": {"reader control"},
    "Status": ON_CONTROL,
    "Inspect": ON_CONTROL,
    "Inspected": {"reader control"},
    "Bye": EVERYBODY,
    "Refused": EVERYBODY,
    "CatchUp": {"reader bulk"},
    "Credit": {"reader bulk"},
    "Cancel": {"reader bulk"},
    "Announce": {"publisher control"},
    "Heartbeat": {"publisher control"},
    "Chunk": {"publisher bulk"},
    "Delta": {"publisher bulk"},
}
ANSWERS = {
    "Compared",
    "Dropped",
    "Inspected",
    "Joined",
    "Pulled",
    "Refused",
    "Reported",
    "Synced",
    "Validated",
}
MESSAGES = {
    type(message).__name__: message
    for message in (
        decode(bytes.fromhex(vector["frame"])) for vector in json.loads(VECTORS.read_text())
    )
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_message_is_accepted_only_in_its_own_places(message: Message) -> None:
    """P-MSG-4."""
    places = {
        f"{ROLES[role]} {channel_name}"
        for role in ROLES
        for channel, channel_name in CHANNELS.items()
        if role_fault(type(message), role=role, channel=channel) is None
    }
    assert places == UNDERSTOOD.get(type(message).__name__, set())


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_request_is_refused_by_the_id_that_its_sender_knows(message: Message) -> None:
    """P-BAD-3: a refusal names its request or stream; 0 where there is none."""
    fields = {field.name for field in dataclasses.fields(message)}
    ids = [] if type(message).__name__ in ANSWERS else sorted({"request", "stream"} & fields)
    assert request_id(message) == (getattr(message, ids[0]) if ids else 0)


def test_nothing_has_no_id() -> None:
    assert request_id(None) == 0
