"""Flags as fields of a dataclass: what each allows, and how it is put in words."""

from dataclasses import dataclass
from math import inf, nan

import pytest

from topicast.topics.errors import ConfigError
from topicast.topics.flags import ABOVE_0, check_flags, declared_flags, flag, own_first


@dataclass(frozen=True, kw_only=True)
class General:
    port: int = flag("Where.", default=80, bounds=(1, 99))
    note: str = "no flag"


@dataclass(frozen=True, kw_only=True)
class Special(General):
    rate: float | None = flag("How fast; else as it goes.", default=None, bounds=(ABOVE_0, inf))
    size: int = flag("How large.", default=1, bounds=(1, inf))
    share: float = flag("How much.", default=0.5, bounds=(ABOVE_0, 1), allowed="a share")
    kind: str = flag("Which.", default="a", choices=("a", "b"))
    port: int = flag("Where it listens.", default=81, bounds=(1, 99))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"port": 0}, "port=0 is not valid: from 1 to 99"),
        ({"port": 100}, "from 1 to 99"),
        ({"port": "80"}, "port='80' is not valid"),
        ({"port": None}, "port=None is not valid"),
        ({"rate": 0}, "rate=0 is not valid: above 0"),
        ({"rate": nan}, "rate=nan is not valid: above 0"),
        ({"size": 0}, "size=0 is not valid: 1 or more"),
        ({"share": 1.5}, "share=1.5 is not valid: a share"),
        ({"kind": "c"}, "kind='c' is not valid: a or b"),
    ],
)
def test_value_that_is_not_allowed_is_named_with_what_is(
    given: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        check_flags(Special(**given))  # type: ignore[arg-type]  # which are wrong
    assert problem in str(error.value)


def test_lowest_and_highest_value_and_none_by_default_are_allowed() -> None:
    check_flags(Special(port=1, rate=1e-300, size=1 << 80, share=1, kind="b"))
    check_flags(Special(port=99, rate=None))


def test_meaning_says_what_is_allowed() -> None:
    meanings = {name: own.described for name, own in declared_flags(Special).items()}
    assert meanings == {
        "port": "Where it listens. Allowed: from 1 to 99.",
        "rate": "How fast; else as it goes. Allowed: above 0.",
        "size": "How large. Allowed: 1 or more.",
        "share": "How much. Allowed: a share.",
        "kind": "Which. Allowed: a or b.",
    }


def test_fields_of_the_class_come_before_those_of_its_bases() -> None:
    names = [one.name for one in own_first(Special)]
    assert names == ["rate", "size", "share", "kind", "port", "note"]
