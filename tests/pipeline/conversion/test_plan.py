"""Plan: what is converted again, where it is written, and what may be deleted when."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from topicast.pipeline.conversion.plan import (
    AT,
    VERSION,
    PartitionFile,
    PartitionJob,
    change_of,
    compare,
    is_due,
    location_of,
    note_of,
    read_note,
    unneeded,
    version_of,
)
from topicast.tests.subscriber.structs import partition_struct
from topicast.topics.errors import UsageError
from topicast.topics.objects.tables import Partition, read_partition

FILES = (PartitionFile("file:/raw/ds=1/a", 10, 1000), PartitionFile("file:/raw/ds=1/b", 20, 2000))
FOLDER = "file:/lake/convert-abc-1"


def partition(location: str, parameters: Mapping[str, str] = {}) -> Partition:
    thrift = partition_struct("raw", "e", "ds=1", {})
    return replace(read_partition(thrift, ["ds"], 3), location=location, parameters=parameters)


def job(copy: Partition | None = None) -> PartitionJob:
    found = compare(SOURCE, FILES, copy)
    assert found is not None
    return found


def converted(one: PartitionJob, folder: str = FOLDER, *, now: float = 5000.0) -> Partition:
    change = change_of(one, folder, now=now)
    return partition(change.location, change.parameters)


SOURCE = partition("file:/raw/ds=1")


def test_version_changes_with_any_file_and_not_with_their_order() -> None:
    version = version_of(SOURCE.location, FILES)
    assert version_of(SOURCE.location, FILES[::-1]) == version
    others = [FILES[:1], (*FILES, PartitionFile("file:/raw/ds=1/c", 0, 0)), ()]
    others += [(FILES[0], FILES[1]._replace(**one)) for one in ({"size": 21}, {"changed_ms": 1})]
    found = {version_of(SOURCE.location, files) for files in others}
    assert len(found | {version, version_of("file:/elsewhere", FILES)}) == len(others) + 2


def test_partition_is_converted_once_for_each_version_of_its_files() -> None:
    first = job()
    assert first.old == ""
    copy = converted(first)
    assert (copy.parameters[VERSION], copy.parameters[AT]) == (first.version, "5000.000")
    assert compare(SOURCE, FILES, copy) is None
    again = compare(SOURCE, FILES[:1], copy)
    assert again is not None
    assert again.old == copy.location
    assert location_of(again, FOLDER) != location_of(first, FOLDER)


def test_location_is_a_function_of_partition_and_version_below_the_folder_of_a_batch() -> None:
    assert location_of(job(), FOLDER) == location_of(job(), FOLDER)
    assert location_of(job(), FOLDER).startswith(f"{FOLDER}/part=")
    other = replace(job(), name="ds=2")
    assert location_of(other, FOLDER) != location_of(job(), FOLDER)


def test_partition_of_the_copy_that_convert_did_not_make_is_left_alone() -> None:
    with pytest.raises(UsageError, match="convert did not make"):
        compare(SOURCE, FILES, partition("file:/lake/ds=1"))


def test_what_was_replaced_is_deleted_an_hour_after_the_change_and_never_what_is_read() -> None:
    first = job()
    old = converted(first)
    again = replace(first, version="2", old=old.location)
    note = note_of([again], "file:/lake/convert-abc-2", now=5000.0)
    copies = {"ds=1": converted(again, note.folder, now=9000.0)}
    assert not is_due(note, copies, before=4999.0)
    assert not is_due(note, copies, before=8999.0)
    assert is_due(note, copies, before=9000.0)
    assert unneeded(note, copies) == (old.location,)


def test_what_an_interrupted_run_has_left_is_deleted_though_no_partition_names_it() -> None:
    note = note_of([job()], FOLDER, now=5000.0)
    assert is_due(note, {}, before=5000.0)
    assert unneeded(note, {}) == note.made
    elsewhere = converted(job(), FOLDER.replace("file:/", "file:///"))
    assert unneeded(note, {"ds=1": elsewhere}) == ()  # however the metastore writes it


def test_note_is_read_again_and_half_of_a_note_is_none() -> None:
    note = note_of([job()], FOLDER, now=5000.5)
    assert read_note(note.text()) == note
    for text in ("", note.text()[:-2], "[]", "{}", '{"at": "x"}'):
        assert read_note(text) is None
