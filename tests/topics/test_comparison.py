"""Two structs say the same whatever order the metastore chose; if not, it is said what differs."""

import random

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.objects.structs import (
    partition,
    string,
    string_map,
    struct,
    table,
    values_of,
    written,
)
from topicast.topics.comparison import (
    DATABASE,
    PARTITION,
    TABLE,
    database_as_held,
    differences,
    digest,
    same_struct,
)
from topicast.topics.errors import WireError
from topicast.topics.wire.header import VALUE_BYTES_MAX

STRUCT = 12


@given(values_of(STRUCT), values_of(STRUCT))
def test_what_differs_is_said_exactly_of_what_is_not_the_same(one: bytes, other: bytes) -> None:
    same = same_struct(one, other)
    assert same is (digest(one) == digest(other)) is (not [*differences(one, other, TABLE)])
    assert same_struct(one, one)


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.randoms())
def test_order_of_a_map_and_of_fields_means_nothing(
    names: list[str], chance: random.Random
) -> None:
    pairs = {name: name for name in names}
    mixed = dict(chance.sample([*pairs.items()], len(pairs)))
    one = struct((1, 11, string(b"a")), (9, 13, string_map(**pairs)))
    other = struct((9, 13, string_map(**mixed)), (1, 11, string(b"a")))
    assert same_struct(one, other)
    assert digest(one) == digest(other)
    assert [*differences(one, other, TABLE)] == []


def test_values_that_differ_are_named_as_the_metastore_names_them() -> None:
    assert [*differences(table(owner="bob"), table(), TABLE)] == [("owner", "bob", "ann")]
    (found,) = differences(partition(numRows="7"), partition(), PARTITION)
    assert found == ("parameters[numRows]", "7", None)


def test_value_of_another_type_is_a_difference() -> None:
    one, other = struct((1, 8, bytes(4))), struct((1, 10, bytes(8)))
    assert not same_struct(one, other)
    ((path, *_),) = differences(one, other, TABLE)
    assert path == "bytes"


def test_parameters_of_a_database_that_are_too_large_for_a_frame_are_not_held() -> None:
    noise = random.Random(1).randbytes(VALUE_BYTES_MAX).hex()
    small = written(Database("d", "said", "file:/w/d", {"a": "b"}))
    large = written(Database("d", "said", "file:/w/d", {"a": noise}))
    assert database_as_held(small) == small
    without = written(Database("d", "said", "file:/w/d", None))
    assert same_struct(database_as_held(large), without)
    assert [*differences(database_as_held(large), without, DATABASE)] == []


def test_damage_is_an_error_and_no_answer() -> None:
    with pytest.raises(WireError):
        same_struct(table()[:-5], table())
    with pytest.raises(WireError):
        digest(table()[:-5])
