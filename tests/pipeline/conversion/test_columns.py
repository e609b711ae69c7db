"""Columns: what a copy's become when those of its source change."""

import pytest

from topicast.pipeline.conversion.columns import Conflict, drift
from topicast.topics.objects.tables import Column

ID, CITY = Column("id", "int"), Column("city", "string")


def test_same_columns_change_nothing_whatever_their_case_and_order() -> None:
    found = drift([Column("CITY", "string"), Column("Id", "int")], [ID, CITY])
    assert not found.changes
    assert found.columns == (ID, CITY)


def test_new_columns_come_last_and_those_that_are_gone_stay() -> None:
    found = drift([ID, Column("score", "struct<a:int>")], [ID, CITY])
    assert found.columns == (ID, CITY, Column("score", "struct<a:int>"))
    assert (found.added, found.widened, found.changes) == (("score",), (), True)


@pytest.mark.parametrize(
    ("source", "copy", "becomes"),
    [
        ("bigint", "int", "bigint"),
        ("smallint", "tinyint", "smallint"),
        ("double", "float", "double"),
        ("int", "bigint", "bigint"),
        ("float", "double", "double"),
    ],
)
def test_column_gets_the_wider_type(source: str, copy: str, becomes: str) -> None:
    found = drift([Column("n", source)], [Column("n", copy)])
    assert found.columns == (Column("n", becomes),)
    assert found.widened == (("n",) if becomes != copy else ())


@pytest.mark.parametrize(
    ("source", "copy"),
    [("string", "int"), ("int", "string"), ("double", "int"), ("array<int>", "array<bigint>")],
)
def test_types_of_which_neither_holds_the_other_conflict(source: str, copy: str) -> None:
    with pytest.raises(Conflict, match=f"column n is {source} in the source and {copy} in"):
        drift([Column("n", source)], [Column("n", copy)])
