import re
from dataclasses import replace
from pathlib import Path

import pytest

from topicast.topics.errors import (
    HistoryGone,
    LeaseHeld,
    LinkError,
    NoSuchObject,
    NotVisible,
    SourceError,
    SourceRefused,
    TopicastError,
    UsageError,
    VersionMismatch,
    WireError,
)
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.refusal import Refusal, error_of, refuse, refuse_frame

PROTOCOL = Path(__file__).parents[3] / "docs" / "protocol.md"


def test_codes_are_retriable_where_the_protocol_says_to_repeat() -> None:
    table = PROTOCOL.read_text().partition("## Bad input")[2]
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \|.*\| ([^|]+) \|$", table, re.MULTILINE))
    retriable = {code for code, remedy in rows.items() if remedy.startswith("repeat after")}
    assert {code for code in Refusal if code.retriable} == retriable


def test_refusal_names_no_request_and_no_topic_until_its_sender_sets_them() -> None:
    expected = Refused(request=0, code="BUSY", message="why", retry_ms=0, topic=-1)
    assert refuse(Refusal.BUSY, "why") == expected
    assert refuse(Refusal.BUSY, "why", retry_ms=100, topic=3) == replace(
        expected, retry_ms=100, topic=3
    )


@pytest.mark.parametrize(
    ("code", "retry_ms", "error", "text"),
    [
        (Refusal.NO_OBJECT, 0, NoSuchObject, "no such object: shop.orders"),
        (Refusal.NOT_VISIBLE, 0, NotVisible, "why"),
        (Refusal.SOURCE, 100, SourceError, "why"),
        (Refusal.UNREADABLE, 0, SourceRefused, "why"),
        (Refusal.FILTER, 0, UsageError, "why"),
        (Refusal.HELD, 0, LeaseHeld, "why"),
        (Refusal.GONE, 0, HistoryGone, "why"),
        (Refusal.BUSY, 100, LinkError, "the hub is not ready: why"),
        (Refusal.CLAIM, 0, UsageError, "the hub refused: why"),
    ],
)
def test_refusal_is_one_error_to_whoever_has_sent_the_request(
    code: Refusal, retry_ms: int, error: type[TopicastError], text: str
) -> None:
    refused = refuse(code, "why", retry_ms=retry_ms, about="shop.orders")
    found = error_of(refused, "the hub")
    assert (type(found), str(found)) == (error, text)


def test_garbage_is_refused_with_what_is_spoken_here() -> None:
    refused = refuse_frame(WireError("frame of 2 bytes is too short"))
    assert refused.code == "WIRE"
    assert refused.message.startswith("frame of 2 bytes is too short; protocol 1 is spoken here")
    assert (refused.request, refused.retry_ms) == (0, 0)


def test_another_version_is_refused_as_such() -> None:
    refused = refuse_frame(VersionMismatch("1", "9"))
    assert refused.code == "VERSION"
    assert "upgrade one side" in refused.message
