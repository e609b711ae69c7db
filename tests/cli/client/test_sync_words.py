"""SyncWords: why a table is not followed, and that nobody need answer for a table to be shown."""

import pytest

from topicast.catalog.ingest.loads.follow_rules import PARAMETER
from topicast.cli.client.sync_words import of_databases, off_by_default, why_not
from topicast.tests.keys import user_keys

OFF, ON = {PARAMETER: "true"}, {PARAMETER: "false"}


@pytest.mark.parametrize(
    ("table", "database", "default", "said"),
    [
        ({}, {}, False, ""),
        (OFF, ON, False, "impala.disableHmsSync of the table is true"),
        ({}, OFF, False, "impala.disableHmsSync of its database is true"),
        (ON, OFF, True, ""),
        (None, {}, True, "--disable_hms_sync_by_default"),
        ({}, ON, True, ""),
    ],
)
def test_reason_is_the_first_that_says_anything(
    table: dict[str, str] | None, database: dict[str, str], default: bool, said: str
) -> None:
    assert why_not(table, database, off_by_default=default) == said


def test_note_names_a_few_databases() -> None:
    assert of_databases([]) == ""
    assert of_databases(f"db{number}" for number in range(7)).startswith(
        "tables of db0, db1, db2, db3, db4 and 2 others are not followed"
    )


def test_nobody_need_answer_for_the_flag() -> None:
    user_keys("operator")
    assert off_by_default("tcp://127.0.0.1:1", 2.0) is False
