import re
from dataclasses import replace
from pathlib import Path

from topicast.topics.errors import VersionMismatch, WireError
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.refusal import Refusal, refuse, refuse_frame

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


def test_garbage_is_refused_with_what_is_spoken_here() -> None:
    refused = refuse_frame(WireError("frame of 2 bytes is too short"))
    assert refused.code == "WIRE"
    assert refused.message.startswith("frame of 2 bytes is too short; protocol 1 is spoken here")
    assert (refused.request, refused.retry_ms) == (0, 0)


def test_another_version_is_refused_as_such() -> None:
    refused = refuse_frame(VersionMismatch("1", "9"))
    assert refused.code == "VERSION"
    assert "upgrade one side" in refused.message
