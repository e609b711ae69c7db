import pytest

from topicast.tests.topics.objects.structs import partition, string, string_map, strings, struct
from topicast.topics.errors import WireError
from topicast.topics.objects import templates as slots
from topicast.topics.objects.thrift import I32, I64, LIST, STRING


def test_slots_are_values_integers_location_and_parameter_values():
    data = partition(location="/x")
    found = [(slot.kind, data[slot.start : slot.end], slot.key) for slot in slots.find_slots(data)]
    assert found == [
        (LIST, strings(b"2026-11-01", b"03"), b""),
        (I32, b"\0\0\0\x11", b""),
        (I32, b"\0\0\0\0", b""),
        (slots.LOCATION, string(b"/x"), b""),
        (STRING, string(b"7"), b"numFiles"),
        (STRING, string(b"1234"), b"totalSize"),
        (STRING, string(b"1700000000"), b"ddlTime"),
    ]


def test_fields_of_other_types_than_hive_gives_them_are_no_slots():
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
    assert list(slots.find_slots(data)) == []


def test_what_follows_a_struct_is_refused():
    with pytest.raises(WireError, match="1 bytes follow"):
        list(slots.find_slots(b"\0\0"))


@pytest.mark.parametrize(
    ("raw", "slot"),
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
def test_a_string_is_kept_as_a_number_where_it_comes_back(raw, slot):
    assert slots.shortest(raw) == slot
    assert slots.filled(slot, STRING) == string(raw)
    assert slots.slot_text(slot) == raw.decode()


def test_slots_are_filled_with_what_fits():
    assert slots.filled(-2, I32) == b"\xff\xff\xff\xfe"
    assert slots.filled(-2, I64) == b"\xff" * 7 + b"\xfe"
    assert slots.filled((b"a", b""), LIST) == strings(b"a", b"")


@pytest.mark.parametrize(
    ("slot", "kind"),
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
def test_what_does_not_fit_a_hole_is_refused(slot, kind):
    with pytest.raises(WireError):
        slots.filled(slot, kind)


@pytest.mark.parametrize("slot", [(), b"\xff"])
def test_what_is_no_text_is_refused(slot):
    with pytest.raises(WireError):
        slots.slot_text(slot)


def test_a_list_of_strings_is_read():
    found = []
    data = b"xx" + slots.packed_list(("a", "é"))
    assert slots.read_list(data + b"more", 2, found) == len(data)
    assert found == [(b"a", "é".encode())]


@pytest.mark.parametrize("data", [strings(b"a")[:-1], b"\x02\0\0\0\0", b"\x0b", b""])
def test_no_list_of_strings_is_read_where_there_is_none(data):
    found = []
    assert slots.read_list(data, 0, found) == 0
