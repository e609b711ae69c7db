import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.objects.structs import (
    partition,
    string,
    string_map,
    strings,
    struct,
    table,
    values_of,
)
from topicast.topics.errors import WireError
from topicast.topics.objects.encoding import thrift
from topicast.topics.objects.encoding.thrift import Field

KINDS = st.sampled_from([2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15])
READERS = (
    thrift.read_bool,
    thrift.read_int,
    thrift.read_structs,
    thrift.read_text,
    thrift.read_text_map,
    thrift.read_texts,
)


@given(st.data(), KINDS, st.binary(max_size=3))
def test_skip_finds_the_end_of_any_value(data, kind, more):
    value = data.draw(values_of(kind))
    assert thrift.skip(value + more, 0, kind) == len(value)


@given(st.data(), KINDS)
def test_a_cut_value_is_refused(data, kind):
    value = data.draw(values_of(kind))
    with pytest.raises(WireError):
        thrift.skip(value[: data.draw(st.integers(0, len(value) - 1))], 0, kind)


@given(st.binary(max_size=40), KINDS)
def test_any_bytes_are_walked_or_refused(data, kind):
    try:
        end = thrift.skip(data, 0, kind)
    except WireError:
        return
    assert 0 < end <= len(data)


@given(st.data(), st.sampled_from([partition(), table()]))
def test_no_mutation_of_a_struct_breaks_a_reader(data, whole):
    at = data.draw(st.integers(0, len(whole) - 1))
    mutated = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :]
    try:
        thrift.check_struct(mutated)
        found = list(thrift.fields(mutated))
    except WireError:
        return
    for field in found:
        for read in READERS:
            try:
                read(mutated, field)
            except WireError:
                continue


def test_fields_say_id_type_and_place():
    data = struct((1, 8, bytes(4)), (-5, 11, string(b"abc")))
    assert list(thrift.fields(data)) == [Field(1, 8, 3, 7), Field(-5, 11, 10, 17)]
    assert thrift.struct_end(data) == len(data)
    assert thrift.struct_end(data + b"more") == len(data)


def test_what_follows_a_struct_is_refused():
    with pytest.raises(WireError, match="2 bytes follow"):
        thrift.check_struct(b"\0\0\0")


@pytest.mark.parametrize("kind", [12, 13, 14, 15])
def test_a_nesting_bomb_is_refused(kind):
    opened = {12: b"\x0c\0\1", 13: b"\x03\x0d\0\0\0\1\0", 14: b"\x0e\0\0\0\1", 15: b"\x0f\0\0\0\1"}
    with pytest.raises(WireError, match="deeper"):
        thrift.skip(opened[kind] * 10_000, 0, kind)


@pytest.mark.parametrize("kind", [8, 11, 12])
def test_a_list_that_claims_more_than_there_is_is_refused(kind):
    with pytest.raises(WireError):
        thrift.skip(bytes([kind]) + b"\x7f\xff\xff\xff" + bytes(100), 0, 15)


@pytest.mark.parametrize("data", [b"\x0b\xff\xff\xff\xff", b"\x01\0\0\0\1", b"\x10\0\0\0\1\0"])
def test_negative_lengths_and_unknown_types_are_refused(data):
    with pytest.raises(WireError):
        thrift.skip(data, 0, 15)


def test_readers_return_what_a_field_holds():
    data = struct(
        (1, 8, b"\xff\xff\xff\xfe"),
        (2, 2, b"\1"),
        (3, 11, string("é".encode())),
        (4, 15, strings(b"a", b"")),
        (5, 13, string_map(b="1", a="2")),
        (6, 15, b"\x0c\0\0\0\2\0\0"),
        (7, 15, b"\x02\0\0\0\0"),
        (8, 13, b"\0\0\0\0\0\0"),
    )
    number, flag, text, texts, pairs, structs, empty, nothing = thrift.fields(data)
    assert thrift.read_int(data, number) == -2
    assert thrift.read_bool(data, flag) is True
    assert thrift.read_text(data, text) == "é"
    assert thrift.read_texts(data, texts) == ("a", "")
    assert list(thrift.read_text_map(data, pairs).items()) == [("b", "1"), ("a", "2")]
    assert thrift.read_structs(data, structs) == (structs.start + 5, structs.start + 6)
    assert thrift.read_texts(data, empty) == ()
    assert thrift.read_structs(data, empty) == ()
    assert thrift.read_text_map(data, nothing) == {}


def test_struct_and_a_struct_in_it_are_read_in_one_walk():
    inner, string_field = struct((1, 8, bytes(4)), (2, 2, b"\1")), string(b"x")
    data = struct((1, 11, string_field), (7, 12, inner), (9, 12, struct()))
    outer = thrift.fields(data)
    assert thrift.fields_and_inner(data, 7) == (outer, thrift.fields(data, outer[1].start))
    assert thrift.fields_and_inner(data, 9) == (outer, [])
    assert thrift.fields_and_inner(data, 1) == (outer, []), "it is no struct"
    assert thrift.fields_and_inner(data, 8) == (outer, []), "it is not there"
    for end in range(len(data)):
        with pytest.raises(WireError):
            thrift.fields_and_inner(data[:end], 7)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("kind", "value"), [(4, bytes(8)), (15, b"\x02\0\0\0\1\0"), (13, b"\x02\x02\0\0\0\1\0\0")]
)
def test_a_field_of_another_type_is_refused(read, kind, value):
    data = struct((1, kind, value))
    with pytest.raises(WireError, match="field 1"):
        read(data, thrift.fields(data)[0])


def test_text_that_is_not_utf_8_is_refused():
    with pytest.raises(WireError, match="UTF-8"):
        thrift.text(b"\xff")
