import pytest

from topicast.tests.topics.objects.structs import partition, string, string_map, strings, struct
from topicast.topics.errors import WireError
from topicast.topics.objects import slots as holes
from topicast.topics.objects.thrift import I32, I64, LIST, STRING


def test_holes_are_values_integers_location_and_parameter_values():
    data = partition(location="/x")
    found = [(cut.kind, data[cut.start : cut.end], cut.key) for cut in holes.cuts(data)]
    assert found == [
        (LIST, strings(b"2026-11-01", b"03"), b""),
        (I32, b"\0\0\0\x11", b""),
        (I32, b"\0\0\0\0", b""),
        (holes.LOCATION, string(b"/x"), b""),
        (STRING, string(b"7"), b"numFiles"),
        (STRING, string(b"1234"), b"totalSize"),
        (STRING, string(b"1700000000"), b"ddlTime"),
    ]


def test_fields_of_other_types_than_hive_gives_them_are_no_holes():
    data = struct(
        (1, 15, b"\x02\0\0\0\0"),
        (1, 11, string(b"a")),
        (6, 12, struct((2, 3, b"\0"), (1, 11, string(b"")))),
        (6, 11, string(b"")),
        (7, 13, b"\x0b\x02\0\0\0\0"),
        (7, 13, b"\x02\x0b\0\0\0\0"),
        (7, 15, strings()),
        (9, 13, string_map(a="1")),
    )
    assert list(holes.cuts(data)) == []


def test_what_follows_a_struct_is_refused():
    with pytest.raises(WireError, match="1 bytes follow"):
        list(holes.cuts(b"\0\0"))


@pytest.mark.parametrize(
    ("raw", "hole"),
    [
        (b"0", 0),
        (b"12", 12),
        (b"9" * 18, 10**18 - 1),
        (b"9" * 19, b"9" * 19),
        (b"", b""),
        (b"00", b"00"),
        (b"-1", b"-1"),
        (b"1 ", b"1 "),
        ("٣".encode(), "٣".encode()),
    ],
)
def test_a_string_is_kept_as_a_number_where_it_comes_back(raw, hole):
    assert holes.shortest(raw) == hole
    assert holes.filled(hole, STRING) == string(raw)
    assert holes.hole_text(hole) == raw.decode()


def test_holes_are_filled_with_what_fits():
    assert holes.filled(-2, I32) == b"\xff\xff\xff\xfe"
    assert holes.filled(-2, I64) == b"\xff" * 7 + b"\xfe"
    assert holes.filled((b"a", b""), LIST) == strings(b"a", b"")


@pytest.mark.parametrize(
    ("hole", "kind"),
    [
        (None, STRING),
        ((), STRING),
        (b"", LIST),
        (b"", I32),
        (1, LIST),
        (1 << 31, I32),
        (1 << 63, I64),
    ],
)
def test_what_does_not_fit_a_hole_is_refused(hole, kind):
    with pytest.raises(WireError):
        holes.filled(hole, kind)


@pytest.mark.parametrize("hole", [(), b"\xff"])
def test_what_is_no_text_is_refused(hole):
    with pytest.raises(WireError):
        holes.hole_text(hole)


def test_a_list_of_strings_is_read():
    found = []
    data = b"xx" + holes.packed_list(("a", "é"))
    assert holes.read_list(data + b"more", 2, found) == len(data)
    assert found == [(b"a", "é".encode())]


@pytest.mark.parametrize("data", [strings(b"a")[:-1], b"\x02\0\0\0\0", b"\x0b", b""])
def test_no_list_of_strings_is_read_where_there_is_none(data):
    found = []
    assert holes.read_list(data, 0, found) == 0
