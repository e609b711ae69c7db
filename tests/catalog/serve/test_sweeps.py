"""Sweeps: a change of files counts once, whoever sees it and however often it is sent."""

from contextlib import closing
from dataclasses import astuple
from pathlib import Path

from topicast.catalog.model.versions import Commit, SweepRow
from topicast.catalog.storage.history import HistoryReader
from topicast.tests.catalog.stores import opened
from topicast.tests.cluster.alone import Alone
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import SOURCE_OVERWRITES, SOURCE_REPORTS
from topicast.topics.wire.messages.reports import FileFacts, Sweep, Swept

TABLE = ("d", "t")


def facts(partition: str = "ds=1", fingerprint: int = 9) -> FileFacts:
    return FileFacts(
        partition=partition, fingerprint=fingerprint, files=2, bytes=100, small=1, newest_ms=7
    )


def sweep(revision: int, *changed: str, fingerprint: int = 9, overwritten: bool = False) -> Sweep:
    return Sweep(
        request=7,
        db=TABLE[0],
        table=TABLE[1],
        revision=revision,
        facts=(facts(fingerprint=fingerprint),),
        changed=changed,
        overwritten=overwritten,
        removed=(),
    )


def test_sweep_is_kept_if_it_was_compared_with_the_present_revision_and_changes_count_once(
    core: Alone,
) -> None:
    """P-SWEEP-1, P-SWEEP-2."""
    first = core.answer_to(sweep(0), Swept)
    assert (first.revision, first.version, first.kept) == (1, 0, True)
    changed = core.answer_to(sweep(1, "ds=1", fingerprint=10), Swept)
    assert (changed.revision, changed.kept) == (2, True)
    assert changed.version > 0
    again = core.answer_to(sweep(1, "ds=1", fingerprint=10), Swept)
    assert again == Swept(request=7, revision=2, version=0, kept=False)
    assert core.answer_to(sweep(2, ""), Swept).version == changed.version + 1


def test_change_is_of_the_partitions_that_are_named_and_says_whether_files_are_gone(
    core: Alone,
) -> None:
    """P-SWEEP-2, P-SWEEP-3: an empty name is the table's own."""
    core.answer_to(sweep(0), Swept)
    for revision, (name, gone) in enumerate([("ds=1", False), ("", True), ("ds=1", True)], 1):
        core.answer_to(sweep(revision, name, overwritten=gone), Swept)
        change = core.committed[-1]
        assert change.source == (SOURCE_OVERWRITES if gone else SOURCE_REPORTS)
        assert [one.object for one in change.changes] == [f"d.t/{name}" if name else "d.t"]
    rows = [row for commit in core.commits for row in commit.sweeps]
    assert [(row.revision, row.anew) for row in rows] == [
        (1, True),
        (2, False),
        (3, False),
        (4, False),
    ]


def test_revision_survives_a_restart_of_catalogd(core: Alone) -> None:
    """P-SWEEP-3."""
    core.answer_to(sweep(0), Swept)
    core.restart()
    assert not core.answer_to(sweep(0, "ds=1"), Swept).kept
    assert core.answer_to(sweep(1, "ds=1"), Swept).kept


def test_table_made_again_has_no_revision_and_a_dropped_table_is_refused(core: Alone) -> None:
    """P-SWEEP-4."""
    core.answer_to(sweep(0), Swept)
    core.metastore.drop_table(*TABLE, delete_data=False)
    core.turn(30)
    assert core.answer_to(sweep(1, "ds=1"), Refused).code == "NO_OBJECT"
    core.create(*TABLE, "ds")
    core.turn(30)
    again = core.answer_to(sweep(1, "ds=1"), Swept)
    assert (again.kept, again.revision) == (False, 0)


def test_number_that_no_store_takes_is_refused(core: Alone) -> None:
    """P-SWEEP-1."""
    assert core.answer_to(sweep(0, fingerprint=1 << 63), Refused).code == "CLAIM"
    assert core.answer_to(sweep(0, fingerprint=(1 << 63) - 1), Swept).kept


def test_store_has_the_facts_of_the_incarnation_by_pages(tmp_path: Path) -> None:
    """P-SWEEP-3, P-SWEEP-4."""
    some = tuple(facts(f"ds={number}") for number in range(5))
    row = SweepRow(table=TABLE, incarnation=3, revision=1, anew=True, facts=some)
    later = SweepRow(table=TABLE, incarnation=3, revision=2, removed=("ds=4",))
    with opened(tmp_path) as store:
        store.commit(Commit(window=None, sweeps=(row, later)))
        assert list(store.load_sweeps()) == [SweepRow(table=TABLE, incarnation=3, revision=2)]
        with closing(HistoryReader(store.path)) as reader:
            rows = [(2, 0, *astuple(one)) for one in some[:4]]
            assert reader.files(TABLE, 3, after=None, count=3) == rows[:3]
            assert reader.files(TABLE, 3, after="ds=2", count=3) == rows[3:]
            assert reader.files(TABLE, 4, after=None, count=3) == []
    with opened(tmp_path, new_id=2) as store:
        anew = SweepRow(table=TABLE, incarnation=4, revision=1, anew=True, facts=some[:1])
        store.commit(Commit(window=None, sweeps=(anew,)))
        with closing(HistoryReader(store.path)) as reader:
            assert reader.files(TABLE, 4, after=None, count=9) == [(1, 0, *astuple(some[0]))]


def test_store_has_how_far_a_table_is_swept_and_the_sums_of_its_facts(tmp_path: Path) -> None:
    """P-SWEEP-5."""
    steps = (
        SweepRow(table=TABLE, incarnation=3, revision=1, anew=True, facts=(facts(), facts("ds=2"))),
        SweepRow(table=TABLE, incarnation=3, revision=2, as_of=5, until="ds=1", whole=True),
        SweepRow(table=TABLE, incarnation=3, revision=3),
        SweepRow(table=TABLE, incarnation=3, revision=4, as_of=6, last=True, at_us=99),
        SweepRow(table=TABLE, incarnation=4, revision=1, anew=True),
    )
    found = [(2, 200, 4, 2, 7)] * 4 + [(0, 0, 0, 0, 0)]
    sums = [(count, files, size, small, newest) for count, size, files, small, newest in found]
    states = [(0, 0, 0, "", 0), (0, 0, 5, "ds=1", 1), (0, 0, 5, "ds=1", 1), (6, 99, 0, "", 0)]
    states.append((0, 0, 0, "", 0))
    with opened(tmp_path) as store, closing(HistoryReader(store.path)) as reader:
        for row, state, of_facts in zip(steps, states, sums, strict=True):
            store.commit(Commit(window=None, sweeps=(row,)))
            (read,) = reader.sweeps([(TABLE, row.incarnation)])
            assert read == ("d.t", row.revision, *state, *of_facts)
            assert reader.sweeps([(TABLE, row.incarnation + 1)]) == []
