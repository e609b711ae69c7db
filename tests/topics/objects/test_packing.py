from concurrent.futures import ThreadPoolExecutor

import msgpack
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects import values as packing

leaves = st.none() | st.integers(-(1 << 63), (1 << 64) - 1) | st.binary() | st.text()
documents = st.recursive(leaves, st.lists, max_leaves=20)


@given(documents)
def test_a_document_comes_back(document):
    assert packing.unpack(packing.pack(document)) == document


@given(st.binary(max_size=60))
def test_any_bytes_are_a_document_or_refused(value):
    for prefix in (b"", b"\x00", b"\x01", b"\x01" + zstandard.compress(value)[:9]):
        try:
            packing.unpack(prefix + value)
        except WireError:
            continue


@given(st.data())
def test_no_mutation_of_a_value_escapes(data):
    value = packing.pack([list(range(60)), b"x" * 100, "text" * 30])
    at = data.draw(st.integers(0, len(value) - 1))
    try:
        packing.unpack(value[:at] + data.draw(st.binary(max_size=2)) + value[at + 1 :])
    except WireError:
        return


def test_what_compresses_is_compressed_and_what_does_not_is_not():
    assert packing.pack(b"a" * 1000)[:1] == b"\x01"
    assert packing.pack(bytes(range(256)))[:1] == b"\x00"
    assert packing.pack(b"aaaaaaaa")[:1] == b"\x00"


@pytest.mark.parametrize("document", [{1: 2}, [{}, [{"a": 1}]], msgpack.ExtType(5, b"x")])
def test_maps_and_extensions_are_refused(document):
    with pytest.raises(WireError):
        packing.unpack(b"\x00" + msgpack.packb(document))


def test_lists_that_are_too_long_are_refused():
    with pytest.raises(WireError, match="too long"):
        packing.unpack(b"\x00" + msgpack.packb([0] * (packing.ITEMS_MAX + 1)))


def test_nested_lists_that_claim_much_take_little():
    with pytest.raises(WireError):
        packing.unpack(b"\x00" + b"\xdc\x04\x00" * 5000)


def test_a_bomb_is_refused_before_it_is_unpacked():
    bomb = zstandard.ZstdCompressor().compress(bytes(packing.DOCUMENT_BYTES_MAX + 1))
    with pytest.raises(WireError, match="too large"):
        packing.unpack(b"\x01" + bomb)


def test_a_frame_that_does_not_say_its_size_is_refused():
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"\xc0")
    with pytest.raises(WireError, match="size"):
        packing.unpack(b"\x01" + frame)


def test_values_larger_than_a_document_are_refused():
    with pytest.raises(UsageError, match="allowed"):
        packing.pack(bytes(packing.DOCUMENT_BYTES_MAX))
    with pytest.raises(WireError, match="allowed"):
        packing.unpack(b"\x00" + bytes(packing.DOCUMENT_BYTES_MAX + 1))


def test_a_value_holds_no_more_memory_than_its_bytes():
    value = packing.pack(b"a" * 100_000)
    assert value.__sizeof__() < len(value) + 64


def test_threads_pack_and_unpack_at_the_same_time():
    documents = [bytes([number]) * 100_000 for number in range(64)]
    with ThreadPoolExecutor(8) as threads:
        packed = list(threads.map(packing.pack, documents))
        assert list(threads.map(packing.unpack, packed)) == documents
