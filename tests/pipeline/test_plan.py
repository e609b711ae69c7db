"""Plan: which partitions a run lists."""

import pytest

from topicast.pipeline.sweep.plan import (
    AGAIN_MS,
    ALL,
    SweepPlan,
    SweptTable,
    note_history,
)
from topicast.topics.wire.messages.reports import FileFacts

TABLE = "d.t"


def known(*names: str, folder_ms: int = 7) -> dict[str, FileFacts]:
    return {
        name: FileFacts(
            partition=name,
            fingerprint=1,
            files=1,
            bytes=1,
            small=1,
            newest_ms=1,
            folder_ms=folder_ms,
        )
        for name in names
    }


def due(plan: SweepPlan, *names: str, folder_ms: int = 7) -> list[str]:
    before = known("a", "b", "c", "d", folder_ms=folder_ms)
    return list(plan.due(TABLE, names, before))


def plan(**swept: object) -> SweepPlan:
    return SweepPlan(as_of=50, first=10, tables={TABLE: SweptTable(revision=1, **swept)})  # type: ignore[arg-type]


def test_partition_is_listed_if_it_is_new_or_the_log_names_it_since_it_was_swept() -> None:
    run = plan(as_of=30)
    run.note(TABLE, "a", 30)
    run.note(TABLE, "b", 29)
    run.note("d.other", ALL, 40)
    assert due(run, "a", "b", "c", "new") == ["a", "new"]
    run.note(TABLE, ALL, 31)
    assert due(run, "a", "b", "c") == ["a", "b", "c"]
    assert due(plan(as_of=30), "a", folder_ms=AGAIN_MS) == ["a"]


@pytest.mark.parametrize("as_of", [0, 9, 51])
def test_table_that_the_log_does_not_reach_back_to_is_listed(as_of: int) -> None:
    assert due(plan(as_of=as_of), "a", "b") == ["a", "b"]


def test_run_that_was_interrupted_is_continued_behind_what_it_had_listed() -> None:
    first = plan(open_as_of=40, open_until="b")
    assert due(first, "a", "b", "c", "d") == ["c", "d"]
    first.note(TABLE, "a", 41)
    assert due(first, "a", "b", "c", "d") == ["a", "c", "d"]
    later = plan(as_of=30, open_as_of=40, open_until="b")
    for name in ("a", "c"):
        later.note(TABLE, name, 35)
    assert due(later, "a", "b", "c", "d") == ["c"]
    whole = plan(as_of=30, open_as_of=40, open_until="b", whole=True)
    assert due(whole, "a", "b", "c", "d") == ["c", "d"]
    marked = plan(as_of=30, open_as_of=40, whole=True)
    assert due(marked, "a", "b") == ["a", "b"]
    assert [whole.point_after(TABLE, name) for name in ("a", "b", "c")] == [0, 0, 50]


def test_log_is_read_from_the_oldest_point_that_it_reaches_back_to() -> None:
    assert plan(as_of=30, open_as_of=20).reads_from() == 20
    assert plan(as_of=5, open_as_of=20).reads_from() == 20
    assert plan(as_of=5).reads_from() == 50
    assert SweepPlan(as_of=1, first=1).reads_from() == 1


def test_partition_was_listed_after_the_line_before_the_point_as_of_which_it_is_known() -> None:
    run = plan(as_of=30, open_as_of=40, open_until="b")
    assert run.points() == {30, 40}
    run.times_ms = {30: 3000, 40: 4000}
    assert [run.swept_ms(TABLE, name) for name in ("a", "b", "c")] == [4000, 4000, 3000]
    assert run.swept_ms("d.never", "a") == 0
    assert plan(as_of=5).points() == frozenset()
    assert plan(as_of=5).swept_ms(TABLE, "a") == 0


def test_history_names_partitions_and_properties_of_a_table_are_no_files() -> None:
    run = plan(as_of=30)
    rows = [
        {"object": "d.t/a", "version": 3, "before": "x", "after": "y"},
        {"object": "d.t", "version": 3, "before": "p=1", "after": "p=2"},
        {"object": "d.t/b", "version": 4, "before": "", "after": ""},
        {"object": "d.other/c", "version": 3, "before": "", "after": ""},
    ]
    note_history(run, TABLE, rows, lines={3: 33})
    assert run.changed == {TABLE: {"a": 33}}
    note_history(run, TABLE, [{**rows[1], "before": "", "after": ""}], lines={3: 33})
    assert run.changed == {TABLE: {"a": 33, ALL: 33}}
