import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.objects.structs import (
    BASE,
    partition,
    partitions,
    string,
    string_map,
    strings,
    struct,
    with_field,
)
from topicast.topics.errors import WireError
from topicast.topics.objects.encoding import templates
from topicast.topics.objects.encoding.templates import (
    RAW,
    Template,
    Templates,
    slot_text,
    template_of,
)

NAME = "ds=2026-11-01/hour=03"
OTHER = "ds=2026-11-02/hour=00"
PARTITION = partition()
SAME = partition(("2026-11-02", "00"), size="99", created=18)


def read_template(data, name):
    """Return the template of a struct; None where the name of a parameter is no text."""
    try:
        return template_of(data, name)
    except WireError as error:
        assert "is not UTF-8" in str(error)
        return None


def test_parameter_whose_name_is_no_text_is_refused():
    data = b"\r\x00\x07\x0b\x0b\x00\x00\x00\x01\x00\x00\x00\x01\x80\x00\x00\x00\x00\x00"
    for split in (template_of, Templates((), BASE).split):
        with pytest.raises(WireError, match="is not UTF-8"):
            split(data, "a=1")


@given(partitions(), st.sampled_from(["a=", "a=x", "a=0/b=7", NAME]))
def test_any_struct_comes_back_from_its_template(data, name):
    template = read_template(data, name)
    if template is None:
        return
    assert Template(template.skeleton).skeleton == template.skeleton
    slots = template.match(data, name)
    assert slots is not None
    assert len(slots) == template.slot_count
    assert template.fill(slots, name) == data


@given(st.lists(partitions(), max_size=6), st.integers(-1, 2))
def test_any_structs_come_back_from_numbered_templates(structs, likely):
    structs = [data for data in structs if read_template(data, "a=1") is not None]
    numbered = Templates((), BASE)
    for data in structs:
        guess = min(likely, len(numbered.skeletons) - 1)
        number, slots = numbered.split(data, "a=1", likely=guess)
        assert numbered.join(number, slots, "a=1") == data
    again = Templates(numbered.skeletons, "")
    for data in structs:
        number, slots = numbered.split(data, "a=1")
        assert again.join(number, slots, "a=1") == data


@given(st.data())
def test_no_mutation_of_a_struct_escapes_or_is_lost(data):
    at = data.draw(st.integers(0, len(PARTITION) - 1))
    mutated = PARTITION[:at] + data.draw(st.binary(max_size=2)) + PARTITION[at + 1 :]
    numbered = Templates((), BASE)
    numbered.split(PARTITION, NAME)
    try:
        number, slots = numbered.split(mutated, NAME, likely=0)
    except WireError:
        return
    assert numbered.join(number, slots, NAME) == mutated


def test_slots_are_values_integers_location_and_parameter_values():
    data = partition(location="/x")
    slots = template_of(data, OTHER).match(data, OTHER)
    assert slots == ((b"2026-11-01", b"03"), 17, 0, b"/x", 7, 1234, 1700000000)


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
    assert template_of(data, NAME).slot_count == 0


def test_what_follows_a_struct_is_refused():
    with pytest.raises(WireError, match="1 bytes follow"):
        template_of(b"\0\0", NAME)


@pytest.mark.parametrize(
    ("value", "slot"),
    [
        *(("0", 0), ("12", 12), ("9" * 18, 10**18 - 1), ("9" * 19, b"9" * 19), ("", b"")),
        *(("00", b"00"), ("-1", b"-1"), ("1 ", b"1 "), ("٣", "٣".encode())),
    ],
)
def test_string_is_kept_as_a_number_where_it_comes_back(value, slot):
    data = struct((7, 13, string_map(key=value)))
    template = template_of(data, NAME)
    assert template.match(data, NAME) == (slot,)
    assert template.fill((slot,), NAME) == data
    assert slot_text(slot) == value


@pytest.mark.parametrize("slot", [(), b"\xff"])
def test_what_is_no_text_is_refused(slot):
    with pytest.raises(WireError):
        slot_text(slot)


@pytest.mark.parametrize(
    "data", [struct((1, 15, strings(b"a"))), PARTITION], ids=["small", "hive's"]
)
def test_template_matches_no_cut_struct(data):
    template = template_of(data, OTHER)
    assert all(template.match(data[:end], OTHER) is None for end in range(len(data)))
    assert template.match(data + b"\0", OTHER) is None


def test_a_list_of_another_type_is_not_taken_for_values():
    flags = (1, 15, b"\x02\0\0\0\0")
    template = template_of(struct((1, 15, strings()), flags, (1, 15, strings(b"a"))), NAME)
    assert template.match(struct(flags, (1, 15, strings(b"a"))), NAME) is None


def test_partitions_that_differ_where_partitions_do_share_a_template():
    numbered = Templates((), BASE + "/")
    assert numbered.split(PARTITION, NAME) == (0, (17, 0, 7, 1234, 1700000000))
    assert numbered.split(SAME, OTHER, likely=0) == (0, (18, 0, 7, 99, 1700000000))
    assert numbered.split(SAME, OTHER) == (0, (18, 0, 7, 99, 1700000000))
    assert len(numbered.skeletons) == 1


def test_what_the_name_implies_leaves_no_hole():
    template = Templates((), BASE)
    number, slots = template.split(PARTITION, NAME)
    read = template.template(number)
    assert read.values(slots, NAME) == ("2026-11-01", "03")
    assert read.location(slots, NAME) == f"{BASE}/{NAME}"


def test_what_the_name_does_not_imply_is_kept():
    template = template_of(PARTITION, OTHER)
    slots = template.match(PARTITION, OTHER)
    assert slots[0] == (b"2026-11-01", b"03")
    assert template.values(slots, OTHER) == ("2026-11-01", "03")
    assert template.location(slots, OTHER) == f"{BASE}/{NAME}"


def test_a_location_elsewhere_makes_another_template():
    numbered = Templates((), BASE)
    numbered.split(PARTITION, NAME)
    moved = partition(location="s3://elsewhere/1")
    number, slots = numbered.split(moved, NAME, likely=0)
    assert (number, b"s3://elsewhere/1" in slots) == (1, True)
    assert numbered.join(number, slots, NAME) == moved


def test_parameters_say_which_hole_is_theirs():
    template = template_of(PARTITION, NAME)
    assert [key for key, _ in template.parameters] == ["numFiles", "totalSize", "ddlTime"]
    slots = template.match(PARTITION, NAME)
    assert [slots[at] for _, at in template.parameters] == [7, 1234, 1700000000]


def test_a_struct_without_values_or_location_has_none():
    template = template_of(struct((4, 8, bytes(4))), NAME)
    assert template.values((0,), NAME) == ()
    assert template.location((0,), NAME) == ""


def test_values_that_are_no_list_are_refused():
    with pytest.raises(WireError, match="no list"):
        template_of(PARTITION, OTHER).values((b"",), OTHER)


@pytest.mark.parametrize("skeleton", [b"", b"\0", b"\x04\0", b"\x01\0\0", b"\0\x08\0"])
def test_a_skeleton_that_is_none_is_refused(skeleton):
    with pytest.raises(WireError):
        Template(skeleton)


@pytest.mark.parametrize(
    "slots",
    [
        *((), (17, 0, 7, 1234), (17, 0, 7, 1, 1, 1), (b"", 0, 7, 1, 1), (17, 0, 7, (), 1)),
        *((17, 0, 7, None, 1), (1 << 31, 0, 7, 1, 1)),
    ],
)
def test_slot_values_that_do_not_fit_are_refused(slots):
    numbered = Templates((), BASE)
    numbered.split(PARTITION, NAME)
    with pytest.raises(WireError):
        numbered.join(0, slots, NAME)


@pytest.mark.parametrize("slot", [b"", 1])
def test_values_slot_that_is_filled_with_no_list_is_refused(slot):
    template = template_of(struct((1, 15, strings(b"a"))), NAME)
    with pytest.raises(WireError):
        template.fill((slot,), NAME)


def test_a_name_that_implies_no_values_is_refused():
    numbered = Templates((), BASE)
    _, slots = numbered.split(PARTITION, NAME)
    with pytest.raises(WireError, match="names a partition"):
        numbered.join(0, slots, "no name")


@pytest.mark.parametrize(("number", "slots"), [(0, ()), (5, ()), (-2, ()), (RAW, ()), (RAW, (1,))])
def test_a_number_without_template_is_refused(number, slots):
    with pytest.raises(WireError):
        Templates((), "").join(number, slots, NAME)


def test_a_struct_beyond_the_last_number_is_kept_whole():
    numbered = Templates((), BASE)
    for i in range(templates.TEMPLATES_MAX):
        assert numbered.split(partition(**{f"key{i}": "1"}), NAME)[0] == i
    assert numbered.split(PARTITION, NAME) == (RAW, (PARTITION,))
    assert numbered.join(RAW, (PARTITION,), NAME) == PARTITION
    assert len(numbered.skeletons) == templates.TEMPLATES_MAX


def test_a_template_that_takes_too_many_bytes_is_not_numbered():
    large = with_field(PARTITION, 99, 11, (1 << 20).to_bytes(4, "big") + bytes(1 << 20))
    assert Templates((), BASE).split(large, NAME)[0] == RAW
    nearly_full = Templates([bytes(templates.TEMPLATES_BYTES_MAX - 100)], BASE)
    assert nearly_full.split(PARTITION, NAME)[0] == RAW


def test_a_template_with_too_many_holes_is_not_numbered():
    many = partition(**{f"k{i}": "1" for i in range(templates.SLOTS_MAX)})
    assert Templates((), BASE).split(many, NAME) == (RAW, (many,))


def test_a_template_stays_read_from_one_edit_to_the_next_unless_it_is_large():
    large = with_field(PARTITION, 99, 11, (1 << 15).to_bytes(4, "big") + bytes(1 << 15))
    for data, stays in ((PARTITION, True), (large, False)):
        first, second = Templates((), BASE), Templates((), BASE)
        number, slots = first.split(data, NAME)
        assert second.split(data, NAME) == (number, slots)
        assert (first.template(number) is second.template(number)) is stays
        assert second.join(number, slots, NAME) == data
