"""What a change of files is, by facts alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.pipeline.sweep.facts import (
    facts_of,
    is_first_change,
    is_unexplained,
    lacks_files,
)
from topicast.pipeline.sweep.listing import FolderEntry
from topicast.topics.wire.messages.reports import FileFacts

MB = 1 << 20


def entry(name: str, *, size: int = 100, at_ms: int = 1000) -> FolderEntry:
    return FolderEntry(f"file:/w/t/{name}", False, size, at_ms)


def facts(*files: FolderEntry) -> FileFacts:
    return facts_of("ds=1", files, small_bytes=MB)


OLD = facts(entry("a"), entry("b"))


def test_facts_count_files_and_small_files_and_have_the_newest_change() -> None:
    found = facts(entry("a", size=MB, at_ms=5), entry("b", size=MB - 1, at_ms=9))
    assert (found.files, found.bytes, found.small, found.newest_ms) == (2, 2 * MB - 1, 1, 9)
    assert facts().newest_ms == 0


@given(st.permutations([entry("a"), entry("b"), entry("c", size=7)]))
def test_fingerprint_does_not_depend_on_the_order_of_a_listing(files: list[FolderEntry]) -> None:
    assert facts(*files) == facts(*sorted(files, key=lambda one: one.path))
    assert 0 <= facts(*files).fingerprint < 1 << 63


@pytest.mark.parametrize(
    "now",
    [
        facts(entry("a")),
        facts(entry("a"), entry("b"), entry("c")),
        facts(entry("a"), entry("c")),
        facts(entry("a"), entry("b", size=101)),
        facts(entry("a"), entry("b", at_ms=1001)),
    ],
    ids=["removed", "added", "renamed", "grown", "rewritten"],
)
def test_any_change_of_files_is_another_fingerprint(now: FileFacts) -> None:
    assert now.fingerprint != OLD.fingerprint


@pytest.mark.parametrize(("noticed_ms", "changed"), [(None, False), (1000, False), (999, True)])
def test_what_no_sweep_has_seen_is_a_change_if_it_is_newer_than_what_readers_noticed(
    noticed_ms: int | None, changed: bool
) -> None:
    assert is_first_change(OLD, noticed_ms=noticed_ms) is changed


def test_change_is_explained_if_readers_were_notified_after_it() -> None:
    added = facts(entry("a"), entry("b"), entry("c", at_ms=2000))
    assert not is_unexplained(OLD, added, folder_ms=2000, noticed_ms=2000)
    assert is_unexplained(OLD, added, folder_ms=2000, noticed_ms=1999)
    assert is_unexplained(OLD, added, folder_ms=2000, noticed_ms=None)
    assert not is_unexplained(OLD, OLD, folder_ms=9000, noticed_ms=None)


def test_change_behind_a_listing_that_came_after_the_notification_is_not_explained() -> None:
    """Given a store that keeps whole seconds: the file seems to be there before readers noticed."""
    added = facts(entry("a"), entry("b"), entry("c", at_ms=2000))
    assert is_unexplained(OLD, added, folder_ms=0, noticed_ms=2400, swept_ms=2400)
    assert not is_unexplained(OLD, added, folder_ms=0, noticed_ms=2400, swept_ms=2399)
    assert not is_unexplained(OLD, OLD, folder_ms=0, noticed_ms=2400, swept_ms=2400)


def test_removed_file_counts_by_the_time_of_its_folder_and_always_where_that_is_not_known() -> None:
    removed = facts(entry("a"))
    assert is_unexplained(OLD, removed, folder_ms=3000, noticed_ms=2999)
    assert not is_unexplained(OLD, removed, folder_ms=3000, noticed_ms=3000)
    assert is_unexplained(OLD, removed, folder_ms=0, noticed_ms=9999)


def test_only_more_files_with_more_bytes_are_surely_nothing_that_is_gone() -> None:
    assert not lacks_files(OLD, facts(entry("a"), entry("b"), entry("c")))
    assert lacks_files(OLD, facts(entry("c"), entry("d")))
    assert lacks_files(OLD, facts(*(entry(name, size=1) for name in "abc")))


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("part-0.parquet", False),
        ("_SUCCESS", True),
        (".part-0.crc", True),
        ("_temporary", True),
        ("_ds=1", False),
        ("x._COPYING_", True),
    ],
)
def test_hidden_is_what_spark_does_not_read(name: str, hidden: bool) -> None:
    assert entry(name).hidden is hidden
