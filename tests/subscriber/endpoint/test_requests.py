"""Requests: the endpoint takes them whole however they are cut, and within their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.endpoint.requests import (
    ITEMS_MAX,
    REQUEST_BYTES_MAX,
    Request,
    RequestReader,
)
from topicast.tests.subscriber.endpoint.messages import NUMBER, call, table_request
from topicast.topics.errors import WireError

TABLE = call("get_table", "shop", "sales")
FILTER = call("get_partitions_by_filter", "shop", "sales", "ds = 'ü'", -1)
VALUES = call("get_partitions_ps_with_auth", "shop", "sales", ["1", ""], 5, "ann", ["a", "b"])
LEAD = TABLE[:4]


def read_all(data: bytes, *cuts: int, bytes_max: int = REQUEST_BYTES_MAX) -> list[Request]:
    """Return the requests in ``data``, which arrives in pieces."""
    reader = RequestReader(bytes_max=bytes_max)
    found = []
    ends = [*sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for begin, end in zip([0, *ends], ends, strict=False):
        reader.feed(data[begin:end])
        while (request := reader.next()) is not None:
            found.append(request)
    assert reader.is_half is (reader.held_bytes > 0)
    return found


def seen(request: Request) -> tuple[object, ...]:
    return request.method, int.from_bytes(request.number, "big")


@given(st.lists(st.integers(0, 10_000), max_size=20))
def test_requests_are_read_however_they_are_cut(cuts: list[int]) -> None:
    first, second, third = read_all(TABLE + FILTER + VALUES, *cuts)
    assert seen(first) == ("get_table", NUMBER)
    assert (first.arguments.text(1), first.arguments.text(2)) == ("shop", "sales")
    assert (second.arguments.text(3), second.arguments.number(4, default=9)) == ("ds = 'ü'", -1)
    assert third.arguments.texts(3) == ("1", "")
    assert third.arguments.number(4, default=-1) == 5


def test_a_request_has_the_number_that_its_reply_repeats() -> None:
    (request,) = read_all(call("get_all_databases", number=-3))
    assert request.number == b"\xff\xff\xff\xfd"
    (request,) = read_all(call("shutdown", oneway=True))
    assert seen(request) == ("shutdown", NUMBER)
    (request,) = read_all(call("get_table_req", table_request("shop", "sales")))
    assert request.arguments.struct(1).text(2) == "sales"


@pytest.mark.parametrize(
    "read",
    [
        lambda given: given.text(3),
        lambda given: given.texts(1),
        lambda given: given.number(1, default=0),
        lambda given: given.struct(1),
        lambda given: given.text(9),
    ],
)
def test_argument_of_another_type_is_refused(read: object) -> None:
    (request,) = read_all(VALUES)
    with pytest.raises(WireError, match="field"):
        read(request.arguments)  # type: ignore[operator]  # a lambda
    assert request.arguments.number(9, default=4) == 4


def field(kind: int, value: bytes) -> bytes:
    """Return a request with one argument."""
    return LEAD + b"\0\0\0\1m" + bytes(4) + bytes([kind]) + b"\0\1" + value + b"\0"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"GET / HTTP/1.1\r\n", "strict binary"),
        (b"\0\0\0\x09get_table", "strict binary"),
        (b"\x80\x01\0\x02", "strict binary"),
        (LEAD + b"\x7f\xff\xff\xff", "method"),
        (LEAD + b"\xff\xff\xff\xff", "negative"),
        (LEAD + b"\0\0\0\1\xff", "UTF-8"),
        (field(11, (1 << 30).to_bytes(4, "big")), "longer than"),
        (field(11, b"\xff\xff\xff\xff"), "negative"),
        (field(15, b"\x0b" + (2_000_000_000).to_bytes(4, "big")), "list of 2000000000"),
        (field(15, b"\x0b" + (ITEMS_MAX + 1).to_bytes(4, "big")), "allowed"),
        (field(13, b"\x0b\x0b" + (1 << 30).to_bytes(4, "big")), "list of"),
        (field(99, b""), "unknown Thrift type 99"),
        (field(12, b"\x0c\0\1" * 40), "deeper"),
        (field(15, b"\x0f\0\0\0\1" * 40), "deeper"),
    ],
)
def test_what_is_no_request_is_refused_at_once(data: bytes, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        read_all(data)


def test_request_may_be_as_long_as_its_limit() -> None:
    assert len(read_all(TABLE, bytes_max=len(TABLE))) == 1
    with pytest.raises(WireError, match="longer than"):
        read_all(TABLE, bytes_max=len(TABLE) - 1)
    assert len(read_all(TABLE * 3, bytes_max=len(TABLE))) == 3


def test_every_type_of_thrift_is_read() -> None:
    value = (
        (b"\x02\0\1\1" + b"\x03\0\2\xff" + b"\x04\0\3" + bytes(8) + b"\x06\0\4\0\7")
        + (b"\x08\0\5\0\0\0\7" + b"\x0a\0\6" + bytes(7) + b"\7")
        + (b"\x0d\0\7\x0b\x08\0\0\0\1\0\0\0\1a\0\0\0\7" + b"\x0e\0\x08\x03\0\0\0\1\7")
    )
    (request,) = read_all(field(12, value + b"\0"))
    inner = request.arguments.struct(1)
    assert [inner.number(at, default=0) for at in (2, 4, 5, 6)] == [-1, 7, 7, 7]
    for at in (1, 3, 7, 8):
        with pytest.raises(WireError):
            inner.number(at, default=0)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda raw: TABLE[:17] + raw))
def test_any_bytes_are_requests_or_refused(data: bytes) -> None:
    try:
        read_all(data)
    except WireError:
        return


@given(st.integers(0, len(VALUES) - 1), st.integers(0, 255))
def test_any_mutation_is_a_request_or_refused(at: int, byte: int) -> None:
    data = VALUES[:at] + bytes([byte]) + VALUES[at + 1 :]
    try:
        found = read_all(data)
    except WireError:
        return
    for request in found:
        assert isinstance(request.method, str)
