"""Backports mean on every Python what newer Pythons have built in."""

import json
import pickle
from typing import Any, cast

import pytest

from topicast.topics.backports import IntEnum, StrEnum, assert_never


class Kind(StrEnum):
    TABLE = "table"


class Rank(IntEnum):
    FIRST = 1


def test_member_of_a_text_enum_is_its_text_wherever_it_is_written() -> None:
    assert (str(Kind.TABLE), f"{Kind.TABLE:>6}", "%s" % Kind.TABLE) == ("table", " table", "table")  # noqa: UP031 - as logs do
    assert Kind("table") is Kind.TABLE
    assert json.dumps([Kind.TABLE]) == '["table"]'
    assert pickle.loads(pickle.dumps(Kind.TABLE)) is Kind.TABLE


def test_member_of_an_integer_enum_is_its_digits_wherever_it_is_written() -> None:
    assert (str(Rank.FIRST), f"{Rank.FIRST:03}", "%s" % Rank.FIRST) == ("1", "001", "1")  # noqa: UP031 - as logs do
    assert Rank(1) is Rank.FIRST


def test_value_that_nothing_handles_is_named() -> None:
    with pytest.raises(AssertionError, match="nothing handles 'x'"):
        assert_never(cast(Any, "x"))
