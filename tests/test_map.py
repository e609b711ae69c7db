"""CONTRIBUTING's table names the files that a change has to touch, and no others."""

import pytest

from topicast.tests import map as contributing


def test_rows_name_the_files_that_have_to_change() -> None:
    assert contributing.faults(contributing.rows()) == []


@pytest.mark.parametrize(
    ("row", "file", "fault"),
    [
        ("one more flag", "cli/pages/config.py", "is not named"),
        ("one more message", "statestore/members/permits.py", "is not named"),
        ("one more message", "topics/wire/refusal.py", "is not named"),
        ("carry one more field of a table to Spark", "cli/commands/show.py", "is not named"),
        (
            "another kind of object that becomes dirty",
            "catalog/follow/event_router.py",
            "is not named",
        ),
        ("keep one more kind of row in catalogd's store", "catalog/assembly.py", "is not named"),
        ("one more question to catalogd", "catalog/introspection.py", "is not named"),
    ],
)
def test_file_that_a_row_lacks_is_found(row: str, file: str, fault: str) -> None:
    table = dict(contributing.rows())
    table[row] -= {file}
    assert contributing.faults(table) == [f"{row}: {file} {fault}"]


def test_file_that_has_nothing_to_do_with_a_row_is_found() -> None:
    table = dict(contributing.rows())
    table["one more command"] |= {"topics/streams/sender.py"}
    assert contributing.faults(table) == [
        "one more command: topics/streams/sender.py has none of it"
    ]


def test_row_that_is_not_there_is_found() -> None:
    table = {row: named for row, named in contributing.rows().items() if row != "one more flag"}
    assert "no row: one more flag" in contributing.faults(table)
