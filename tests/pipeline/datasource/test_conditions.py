"""Conditions: what is taken of Spark's filters, and which names they let through."""

from dataclasses import dataclass

from topicast.pipeline.datasource.conditions import Condition, Conditions, condition_of


@dataclass
class EqualTo:
    """A filter, as Spark 4.1 and newer hand it on."""

    attribute: tuple[str, ...]
    value: object


class In(EqualTo):
    pass


class StringStartsWith(EqualTo):
    pass


class GreaterThan(EqualTo):
    pass


def conditions_of(filters: list[EqualTo]) -> Conditions:
    """Return the conditions that are made of ``filters``."""
    made = map(condition_of, filters)
    return Conditions(tuple(one for one in made if one is not None))


def test_conditions_on_names_are_taken_and_others_left() -> None:
    found = conditions_of(
        [
            EqualTo(("db",), "sales"),
            In(("table",), ["a", None, "b"]),
            StringStartsWith(("table",), "a"),
            EqualTo(("table",), None),
            EqualTo(("parameters", "db"), "x"),
            EqualTo(("type",), "VIRTUAL_VIEW"),
            GreaterThan(("db",), "m"),
        ]
    )
    assert found.each == (
        Condition("db", ("sales",)),
        Condition("table", ("a", "b")),
        Condition("table", ("a",), prefix=True),
    )
    assert found.tables() == {("sales", "a")}
    assert found.databases() == Condition("db", ("sales",))
    allowed = [one for one in ("a", "b", "ab") if found.allow(("sales", one))]
    assert allowed == ["a"]
    assert not found.allow(("other", "a"))


def test_no_conditions_let_every_name_through() -> None:
    assert not Conditions()
    assert Conditions().allow(("any", "table"))
    assert Conditions().tables() is None
    assert Conditions().databases() is None


def test_databases_alone_or_prefixes_name_no_tables() -> None:
    assert conditions_of([EqualTo(("db",), "d")]).tables() is None
    prefix = conditions_of([EqualTo(("db",), "d"), StringStartsWith(("table",), "t")])
    assert prefix.tables() is None
    many = [f"t{number}" for number in range(1001)]
    assert conditions_of([EqualTo(("db",), "d"), In(("table",), many)]).tables() is None
