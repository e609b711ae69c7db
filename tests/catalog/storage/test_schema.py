"""Opening a store: whatever is in the folder, it is used, or refused with a remedy."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from topicast.catalog.storage.database import FILE_NAME, SCHEMA
from topicast.catalog.storage.store import Store
from topicast.tests.catalog.stores import NOW_US, commit, opened, rows, transaction
from topicast.tests.strategies import value
from topicast.topics.errors import StoreError


def replace_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"")


def damage_head(folder: Path) -> None:
    (folder / FILE_NAME).write_bytes(b"no database" * 1000)


def damage_middle(folder: Path) -> None:
    path = folder / FILE_NAME
    path.write_bytes(path.read_bytes()[:8192] + b"\xff" * (path.stat().st_size - 8192))


def replace_file(folder: Path) -> None:
    (folder / FILE_NAME).unlink()
    (folder / FILE_NAME).mkdir()


def other_program(folder: Path) -> None:
    (folder / FILE_NAME).unlink()
    rows(folder, "CREATE TABLE recipes (name TEXT)")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (replace_folder, "cannot be used as state folder"),
        (damage_head, "is damaged"),
        (damage_middle, "is damaged"),
        (replace_file, "cannot be opened"),
        (other_program, "is not a store of catalogd"),
    ],
)
def test_spoiled_folder_is_refused_with_problem_and_remedy(
    tmp_path: Path, spoil: Callable[[Path], None], problem: str
) -> None:
    folder = tmp_path / "state"
    with opened(folder) as store:
        commit(store, transaction(0, 1, value(b"a\0b\0", 1)))
    spoil(folder)
    with pytest.raises(StoreError) as caught:
        Store.open(folder, num_topics=4, now_us=NOW_US, new_id=2)
    assert problem in caught.value.problem
    assert str(folder) in caught.value.path
    assert caught.value.remedy


def test_store_of_another_num_topics_is_refused_unchanged_and_not_left_locked(
    tmp_path: Path,
) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(StoreError, match="--num_topics=4"):
        Store.open(tmp_path, num_topics=8, now_us=NOW_US, new_id=2)
    with opened(tmp_path, new_id=3) as store:
        assert [s.start for s in store.starts] == [1, 3]


@pytest.mark.parametrize("schema", [0, SCHEMA + 1])
def test_store_of_another_schema_is_refused_and_not_a_byte_of_it_changes(
    tmp_path: Path, schema: int
) -> None:
    """Given it keeps its log in another way, too: that is its own release's choice."""
    with opened(tmp_path) as store:
        commit(store, transaction(0, 1, value(b"a\0b\0", 1)))
    rows(tmp_path, "PRAGMA journal_mode = DELETE")
    rows(tmp_path, f"PRAGMA user_version = {schema}")
    before = (tmp_path / FILE_NAME).read_bytes()
    said = re.escape(f"another release (schema {schema}, {SCHEMA} understood here)")
    with pytest.raises(StoreError, match=said) as caught:
        Store.open(tmp_path, num_topics=4, now_us=NOW_US, new_id=2)
    assert "--state_dir" in caught.value.remedy
    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize(
    "other",
    [
        "DROP TABLE folders",
        "CREATE TABLE more (id INTEGER)",
        "ALTER TABLE starts DROP COLUMN at_us",
    ],
)
def test_store_with_other_tables_or_columns_is_refused_unchanged(
    tmp_path: Path, other: str
) -> None:
    """Given a store of before the first release: its schema may have the same number."""
    with opened(tmp_path):
        pass
    rows(tmp_path, other)
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(StoreError, match="another release") as caught:
        Store.open(tmp_path, num_topics=4, now_us=NOW_US, new_id=2)
    assert "--state_dir" in caught.value.remedy
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_folder_in_use_names_the_process_that_holds_it(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreError) as caught:
        Store.open(tmp_path, num_topics=4, now_us=NOW_US, new_id=2)
    assert str(tmp_path) in str(caught.value)
    assert f"process id {os.getpid()}" in str(caught.value)
    with opened(tmp_path, new_id=3) as store:
        assert [s.start for s in store.starts] == [1, 3]
