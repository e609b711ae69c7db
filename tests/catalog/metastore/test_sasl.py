"""Logging in to a metastore, and frames, without one: tests/kerberos and test_releases have one."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.catalog.metastore.sasl import MESSAGE_BYTES_MAX, Exchange, Frames, Plain, negotiation

LOGIN = Plain("etl", "secret")
TOKEN = b"\0etl\0secret"


def said(status: int, content: bytes = b"") -> bytes:
    return struct.pack("!BI", status, len(content)) + content


def logged_in(*messages: bytes) -> tuple[Exchange | None, list[bytes]]:
    """Negotiate with a metastore that sends ``messages``; return the exchange, and what is sent."""
    arrived, sent = b"".join(messages), []
    steps = negotiation(LOGIN, "host")
    try:
        step = next(steps)
        while True:
            if isinstance(step, bytes):
                sent.append(step)
                step = next(steps)
            else:
                part, arrived = arrived[:step], arrived[step:]
                assert len(part) == step, "it waits for more"
                step = steps.send(part)
    except StopIteration as end:
        return end.value, sent


def test_mechanism_and_token_are_sent_and_the_metastore_completes() -> None:
    for answers in ((said(5),), (said(5, b"welcome"),)):
        exchange, sent = logged_in(*answers)
        assert sent == [said(1, b"PLAIN"), said(5, TOKEN)]
        assert exchange is not None
        assert not exchange.wraps


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (said(3, b"no such user"), "PLAIN refused: no such user"),
        (said(4), "PLAIN failed: no reason given"),
        (said(1, b"GSSAPI"), "does not speak SASL"),
        (b"\x80\x01\0\x02\0", "does not speak SASL"),
        (struct.pack("!BI", 3, MESSAGE_BYTES_MAX + 1), "does not speak SASL"),
    ],
)
def test_refusals_are_said(answer: bytes, why: str) -> None:
    with pytest.raises(ConnectionRefusedError, match=why):
        logged_in(answer)


def test_password_is_in_no_text_of_the_login() -> None:
    assert "secret" not in repr(LOGIN)


class Reversed:
    """An exchange whose frames hold their content backwards, eight bytes at most."""

    wraps = True

    def is_complete(self) -> bool:
        return True

    def step(self, challenge: bytes, /) -> bytes:
        return challenge

    def wrap(self, request: bytes) -> list[bytes]:
        return [request[at : at + 8][::-1] for at in range(0, len(request), 8)]

    def unwrap(self, content: bytes) -> bytes:
        return content[::-1]


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 400)), st.booleans())
def test_what_one_side_sends_the_other_reads_however_it_is_cut(
    requests: list[bytes], cuts: list[int], wraps: bool
) -> None:
    def frames() -> Frames:
        exchange = Reversed() if wraps else Plain("u", "p").begin("host")
        return Frames(exchange, frame_bytes_max=8)

    sender, reader = frames(), frames()
    sent = b"".join(map(sender.sent, requests))
    ends = sorted({0, len(sent), *(min(cut, len(sent)) for cut in cuts)})
    found = b"".join(reader.received(sent[a:b]) for a, b in pairwise(ends))
    assert found == b"".join(requests)


def test_frame_that_is_longer_than_allowed_is_not_waited_for() -> None:
    with pytest.raises(ConnectionAbortedError, match="frame of 9 bytes"):
        Frames(Reversed(), frame_bytes_max=8).received(struct.pack("!I", 9))
