"""The store on disk: bounds, history, kills. tests/cluster/test_store.py has the rest."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicast.catalog.model.modes import Mode, ModeState, unpack_mode_state
from topicast.catalog.model.versions import (
    ChangeRow,
    Commit,
    LeaseRow,
    OrderRow,
    Transaction,
    WriteRow,
    WriterRow,
)
from topicast.catalog.model.window_state import unpack_state
from topicast.catalog.storage import store as store_module
from topicast.catalog.storage.database import FILE_NAME
from topicast.catalog.storage.store import (
    CHANGES_AGE_MAX_US,
    LINEAGE_STARTS_MAX,
    TOMBSTONES_AGE_MAX_US,
)
from topicast.tests.catalog.stores import (
    NOW_US,
    TOPICS,
    commit,
    entries_of,
    entry,
    loaded,
    opened,
    rows,
    transaction,
)
from topicast.tests.strategies import value
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.objects.names import database_key, rules_key
from topicast.topics.topic import NAMESPACE, Topic, tombstone
from topicast.topics.wire.messages.data import SOURCE_EVENTS, SOURCE_ORDERS

MODE_STATE = ModeState(Mode("minimal"))
Operation = tuple[int, str, int, int]
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from([0, NAMESPACE]),
        st.sampled_from(["value", "value", "stub", "tombstone", "prefix", "discard"]),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    max_size=40,
)


@given(operations=OPERATIONS, group=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_reloaded_topic_equals_the_topic_in_memory(
    tmp_path_factory: pytest.TempPathFactory, operations: list[Operation], group: int
) -> None:
    folder = tmp_path_factory.mktemp("store")
    topics = {topic: Topic() for topic in TOPICS}
    with opened(folder) as store:
        waiting: list[Transaction] = []
        for number, kind, table, block in operations:
            topic = topics[number]
            if kind == "discard":
                commit(store, *waiting)
                waiting = []
                floor = topic.version - block
                store.delete_tombstones(number, floor)
                topic.raise_floor(floor)
                continue
            topic.version += 1
            rest = b"\x01p%d" % block if block else b""
            changed = entry(kind, b"db\0t%d\0" % table, rest, topic.version)
            topic.file([changed])
            waiting.append(transaction(number, topic.version, changed))
            if len(waiting) == group:
                commit(store, *waiting)
                waiting = []
        commit(store, *waiting)
    with opened(folder) as store:
        for number, topic in topics.items():
            again = loaded(store, number)
            assert (again.version, again.floor) == (topic.version, topic.floor)
            assert list(again.since(0)) == list(topic.since(0))


def test_failed_commit_leaves_nothing_behind(tmp_path: Path) -> None:
    too_large = value(b"a\0c\0", 1)._replace(size=1 << 80)
    with opened(tmp_path) as store:
        commit(store, transaction(0, 1, value(b"a\0b\0", 1)), event=5)
        second = transaction(0, 2, value(b"a\0b\0", 2, b"second"))
        with pytest.raises(OverflowError):
            commit(store, second, transaction(1, 1, too_large), event=6)
        assert (store.versions[0], store.last_event_id) == (1, 5)
        commit(store, second)
        assert [e.value for e in entries_of(store, 0)] == [b"second"]


def test_commit_of_nothing_new_writes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        commit(store)
        before = (tmp_path / f"{FILE_NAME}-wal").stat().st_size
        commit(store)
        assert (tmp_path / f"{FILE_NAME}-wal").stat().st_size == before


def test_changes_say_who_when_what_and_between_which_ids(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        commit(store, event=41)
        changes = (
            ChangeRow(object="db.t", kind=ChangeKind.DROPPED, before=3),
            ChangeRow(object="db.u", kind=ChangeKind.CREATED, before=0),
        )
        entry = tombstone(b"db\0t\0", 1)
        commit(store, transaction(2, 1, entry, changes=changes), event=42)
    columns = "source, at_us, topic, object, kind, version_before, version_after"
    events = "event_before, event_after"
    assert rows(tmp_path, f"SELECT {columns}, {events} FROM changes ORDER BY id") == [
        (SOURCE_EVENTS, NOW_US, 2, "db.t", "dropped", 3, 1, 41, 42),
        (SOURCE_EVENTS, NOW_US, 2, "db.u", "created", 0, 1, 41, 42),
    ]


def test_changes_are_bounded_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "CHANGES_BYTES_MAX", 1000)
    change = ChangeRow(object="d" * 45, kind=ChangeKind.CREATED, before=0)  # 100 bytes with its row
    for versions in (range(1, 26), (26,)):
        with opened(tmp_path) as store:
            for version in versions:
                commit(store, transaction(0, version, changes=(change,)))
    kept = rows(tmp_path, "SELECT version_after FROM changes ORDER BY id")
    assert kept == [(version,) for version in range(16, 27)]


def test_changes_are_bounded_by_age(tmp_path: Path) -> None:
    change = ChangeRow(object="db.t", kind=ChangeKind.CREATED, before=0)
    with opened(tmp_path) as store:
        for version, at_us in ((1, NOW_US), (2, NOW_US + CHANGES_AGE_MAX_US + 1)):
            one = transaction(0, version, changes=(change,), at_us=at_us)
            writers = (WriterRow(0, version, b"driver"),)
            store.commit(Commit(window=None, transactions=(one,), writers=writers))
    assert rows(tmp_path, "SELECT version_after FROM changes") == [(2,)]
    assert rows(tmp_path, "SELECT version FROM writers") == [(2,)]


def test_floor_is_due_below_which_tombstones_are_too_old(tmp_path: Path) -> None:
    late_us = NOW_US + TOMBSTONES_AGE_MAX_US
    with opened(tmp_path) as store:
        commit(
            store,
            transaction(0, 1, tombstone(b"a\0b\0", 1)),
            transaction(0, 2, tombstone(b"a\0c\0", 2), at_us=late_us),
            transaction(1, 1, tombstone(b"a\0e\0", 1), at_us=late_us),
        )
        assert [store.floor_due(topic, late_us) for topic in TOPICS] == [0] * len(TOPICS)
        assert (store.floor_due(0, late_us + 1), store.floor_due(1, late_us + 1)) == (1, 0)


def test_floor_is_due_below_which_tombstones_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "TOMBSTONES_BYTES_MAX", 3 * (4 + 32))
    with opened(tmp_path) as store:
        for version in range(1, 11):
            commit(store, transaction(0, version, tombstone(b"a\0%c\0" % version, version)))
        assert (store.floor_due(0, NOW_US), store.floor_due(1, NOW_US)) == (7, 0)
        store.delete_tombstones(0, 7)
        assert store.floor_due(0, NOW_US) == 0
        assert [e.version for e in entries_of(store, 0)] == [8, 9, 10]


def test_floor_rises_in_steps_to_where_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "TOMBSTONES_STEP", 3)
    late_us = NOW_US + TOMBSTONES_AGE_MAX_US + 1
    with opened(tmp_path) as store:
        for version in range(1, 9):
            commit(store, transaction(0, version, tombstone(b"a\0%c\0" % version, version)))
        commit(store, transaction(0, 9, tombstone(b"a\0z\0", 9), at_us=late_us))
        floors = []
        while floor := store.floor_due(0, late_us):
            floors.append(floor)
            store.delete_tombstones(0, floor)
        assert floors == [3, 6, 8]
        assert [e.version for e in entries_of(store, 0)] == [9]


def test_minted_epoch_is_above_every_epoch_seen_and_keeps_what_is_stored(tmp_path: Path) -> None:
    """P-START-3."""
    large = (1 << 64) - 1
    with opened(tmp_path, new_id=large) as store:
        commit(store, transaction(0, 1, value(b"a\0b\0", 1)))
        assert store.mint_epoch(5, at_least=0) == NOW_US + 1
        assert store.mint_epoch(NOW_US + 50, at_least=9) == NOW_US + 50
        assert store.mint_epoch(5, at_least=NOW_US + 99) == store.epoch == NOW_US + 100
        commit(store, transaction(0, 2, value(b"a\0c\0", 2)))
    with opened(tmp_path, new_id=2) as store:
        starts = [(s.start, s.epoch, s.versions[0]) for s in store.starts]
        assert starts == [(large, NOW_US + 100, 1), (2, NOW_US + 100, 2)]
        assert [e.version for e in entries_of(store, 0)] == [1, 2]


def test_store_that_begins_anew_holds_nothing_of_the_metastore(tmp_path: Path) -> None:
    """Given versions that go on, then whoever holds something of them takes a snapshot."""
    rules = value(rules_key(), 1)
    row = WriteRow(
        driver=b"d", number=1, object="d.t", partitions=(), open=False, at_us=5, version=1
    )
    lease = LeaseRow(table=("d", "t"), holder=b"h" * 16, owner="ann", lease_s=30)
    with opened(tmp_path) as store:
        commit(store, transaction(NAMESPACE, 1, rules, value(database_key("d"), 1)))
        commit(store, transaction(0, 1, value(b"a\0b\0", 1)))
        commit(store, transaction(0, 2, tombstone(b"a\0c\0", 2)))
        store.commit(Commit(window=None, mode_state=MODE_STATE, writes=(row,)))
        store.commit(Commit(window=None, leases=(lease,)))
        assert store.begin_anew(5, at_least=NOW_US + 8) == NOW_US + 9
    with opened(tmp_path, new_id=2) as store:
        assert [(s.start, s.epoch) for s in store.starts] == [(1, NOW_US + 9), (2, NOW_US + 9)]
        assert (store.last_event_id, store.window) == (None, b"")
        assert unpack_mode_state(store.mode_state) == MODE_STATE
        assert list(store.load_writes()) == [row]
        assert list(store.load_leases()) == [lease]
        assert entries_of(store, NAMESPACE) == [rules]
        assert entries_of(store, 0) == []
        assert (loaded(store, 0).version, loaded(store, 0).floor) == (2, 2)
        commit(store, transaction(0, 3, value(b"a\0b\0", 3)))


def test_only_the_last_starts_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LINEAGE_STARTS_MAX >= 1000
    monkeypatch.setattr(store_module, "LINEAGE_STARTS_MAX", 3)
    for new_id in range(1, 6):
        with opened(tmp_path, new_id=new_id) as store:
            assert store.starts[-1].start == new_id
    assert [s.start for s in store.starts] == [3, 4, 5]


CHILD = """
import sys
from pathlib import Path
from topicast.catalog.storage.store import Store
from topicast.catalog.model.versions import Commit
from topicast.catalog.model.folders import Folder, FolderChanges
from topicast.catalog.model.versions import ChangeRow, Transaction
from topicast.catalog.model.window_state import WindowState
from topicast.topics.topic import Entry, prefix_tombstone

print("opening", flush=True)
store = Store.open(Path(sys.argv[1]), num_topics=4, now_us=10**15, new_id=int(sys.argv[2]))
version = store.versions[0]
while True:
    version += 1
    content = str(version).encode()
    commit = []
    for topic in (0, 1):
        keys = (b"a\\0b\\0", b"a\\0b\\0\\x01" + content)
        entries = [Entry(key, version, 1, 1, len(content), content) for key in keys]
        if version % 5 == 0:
            entries.insert(0, prefix_tombstone(b"a\\0b\\0", version))
        commit.append(
            Transaction(
                topic=topic, from_version=version - 1, to_version=version, entries=tuple(entries),
                source=0, at_us=10**15, changes=(ChangeRow(object="a.b", kind="data", before=0),),
            )
        )
    window = WindowState(last_id=version, stable_id=version)
    ended = (b"a\\0b\\0",) if version % 5 == 0 else ()
    own = {b"a\\0b\\0\\x01" + content: (Folder("file:///w/" + str(version), ""),)}
    folders = FolderChanges(ended=ended, rows=own)
    store.commit(Commit(transactions=tuple(commit), window=window, folders=folders))
    print(version, flush=True)
"""


def killed_after(folder: Path, lines: int, new_id: int) -> int:
    """Run the child, SIGKILL it after ``lines`` lines; return the last version it had committed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", CHILD, str(folder), str(new_id)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        printed = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        printed += child.stdout.readlines()
    whole = [line for line in printed[1:] if line.endswith("\n")]
    return int(whole[-1]) if whole else 0


@pytest.mark.real
def test_kill_9_at_any_moment_loses_nothing_and_leaves_no_half(tmp_path: Path) -> None:
    dice = random.Random(20240601)
    reported = 0
    for new_id in range(1, 13):
        lines = 1 if new_id % 4 == 1 else dice.randint(2, 60)
        reported = max(reported, killed_after(tmp_path, lines, new_id))
        with opened(tmp_path, new_id=100 + new_id) as store:
            found = store.versions[0]
            assert reported <= found <= reported + 1
            assert store.versions[1] == found
            assert (store.last_event_id or 0) == found
            window = unpack_state(store.window)
            assert (window.last_id if window else 0) == found
            if found:
                first, second = loaded(store, 0), loaded(store, 1)
                assert list(first.since(0)) == list(second.since(0))
                newest = first.get(b"a\0b\0")
                assert newest is not None
                assert newest.value == str(found).encode()
                since_prefix = found - found // 5 * 5 + 1 if found >= 5 else found
                assert len(first.rows(b"a\0b\0")) == 1 + since_prefix
                since = range(found - since_prefix + 1, found + 1)
                lies = [one.location for one in store.folders_of(b"", b"\xff")]
                assert sorted(lies) == sorted(f"file:///w/{number}" for number in since)
        done = rows(tmp_path, "SELECT count(*) FROM changes")
        assert done == [(2 * found,)]
        reported = found
    assert reported > 20


def test_orders_and_mode_state_are_kept_with_what_they_caused(tmp_path: Path) -> None:
    order = OrderRow(sender="ann@host", key="ann", order="mode", object="minimal", at_us=NOW_US)
    with opened(tmp_path) as store:
        commit(store, transaction(0, 1, value(b"a\0b\0", 1)))
        store.commit(Commit(window=None, orders=(order,), mode_state=MODE_STATE))
        commit(store, transaction(0, 2, value(b"a\0b\0", 2)))
    with opened(tmp_path, new_id=2) as store:
        assert unpack_mode_state(store.mode_state) == MODE_STATE
    kept = rows(tmp_path, "SELECT who, kind, object, topic, source, at_us FROM changes")
    assert kept == [("ann (ann@host)", "mode", "minimal", -1, SOURCE_ORDERS, NOW_US)]


def test_heads_are_all_but_the_values_and_values_are_read_by_key(tmp_path: Path) -> None:
    own = b"d\0t\0"
    block = own + b"\x01"
    with opened(tmp_path) as store:
        first = value(own, 1, b"one")
        commit(store, transaction(0, 1, first), transaction(0, 2, value(block, 2, b"two")))
        commit(store, transaction(0, 3, tombstone(block, 3)))
        ((topic, version, floor, heads, tombstones),) = store.load([0], values=False)
        assert (topic, version, floor) == (0, 3, 0)
        assert heads == [first._replace(value=None)]
        assert tombstones == [tombstone(block, 3)]
        assert store.version(0) == 3
        many = [b"d\0none\0%d" % number for number in range(2000)]
        assert store.read(0, [*many, own]) == {own: first}
        assert store.read(1, [own]) == {}
