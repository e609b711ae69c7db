"""The message of an event is decoded by its format, or refused."""

import gzip
import json
from base64 import b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.catalog.ingest.actions import decode
from topicast.catalog.metastore.port import RawEvent, digest_of
from topicast.topics.errors import WireError


def event(id_: int, name: str = "t", *, message: str = "{}", how: str = "json-0.2") -> RawEvent:
    return RawEvent(
        id=id_,
        time_s=0,
        type="CREATE_TABLE",
        db="db",
        table=name,
        message=message,
        message_format=how,
        digest=digest_of("CREATE_TABLE", "db", name, message=message),
    )


@pytest.mark.parametrize("how", ["json-0.2", "gzip(json-2.0)", ""])
def test_message_is_read_by_its_format(how: str) -> None:
    message = json.dumps({"table": "t"})
    if how.startswith("gzip"):
        message = b64encode(gzip.compress(message.encode(), mtime=0)).decode()
    read = decode(event(7, message=message, how=how))
    assert (read.db, read.table) == ("db", "t")
    assert read.body == {"table": "t"}


@pytest.mark.parametrize(
    ("message", "how"),
    [
        ("", "json-0.2"),
        ("[]", "json-0.2"),
        ("{", "json-0.2"),
        ("[" * 100_000, "json-0.2"),
        ("9" * 10_000, "json-0.2"),
        ("{}", "protobuf"),
        ("{}", "gzip(json-2.0)"),
        ("ä", "gzip(json-2.0)"),
        (b64encode(b"{}").decode(), "gzip(json-2.0)"),
        ("!" + b64encode(gzip.compress(b"{}", mtime=0)).decode(), "gzip(json-2.0)"),
        (b64encode(gzip.compress(b"{}", mtime=0)[:-9]).decode(), "gzip(json-2.0)"),
        (b64encode(gzip.compress(b"\xff\xfe{", mtime=0)).decode(), "gzip(json-2.0)"),
    ],
)
def test_bad_message_is_refused(message: str, how: str) -> None:
    with pytest.raises(WireError, match=r"event 7 \(CREATE_TABLE\)"):
        decode(event(7, message=message, how=how))


@given(st.text(), st.sampled_from(["json-0.2", "gzip(json-2.0)", "other"]))
def test_decoding_raises_nothing_but_wire_errors(message: str, how: str) -> None:
    with suppress(WireError):
        decode(event(1, message=message, how=how))
