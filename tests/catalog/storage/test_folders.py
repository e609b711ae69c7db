"""The folders of tables: the store has them, and the simulator's store answers as it does."""

from pathlib import Path
from random import Random

from topicast.catalog.model.folders import (
    Folder,
    FolderChanges,
    FolderRow,
    StoredFolders,
    bases_key,
    group_end,
)
from topicast.catalog.model.versions import Commit
from topicast.catalog.storage.store import Store
from topicast.tests.catalog.stores import NOW_US, opened, rows
from topicast.tests.cluster.store import SimFolders
from topicast.topics.objects.names import block_key, table_key

TABLES = [table_key("d", name) for name in ("t", "t0", "t\u00e9", "u")]
STEPS = ("", "0", "-", "\u00e9", "/a", "/a/b", "/a0", "/\U0001f600")
PLACES = [f"file:///w/t{step}" for step in STEPS]


def changes(rng: Random) -> FolderChanges:
    """Return what one commit may change: tables that end, and rows of several keys."""
    found = {}
    for group in rng.sample(TABLES, 2):
        db, name, _ = group.decode().split("\0")
        for key in (group, bases_key(group), block_key(db, name, ""), block_key(db, name, "ds=1")):
            places = rng.sample(PLACES, rng.randrange(3))
            found[key] = tuple(Folder(one, rng.choice(("", "ds=1"))) for one in places)
    return FolderChanges(ended=tuple(rng.sample(TABLES, rng.randrange(2))), rows=found)


def every(found: StoredFolders) -> list[FolderRow]:
    return sorted(found.folders_of(b"", b"\xff"))


def commit(store: Store, made: FolderChanges) -> None:
    store.commit(Commit(transactions=(), window=None, folders=made))


def test_store_and_simulated_store_find_the_same_folders(tmp_path: Path) -> None:
    rng, simulated = Random(5), SimFolders()
    with opened(tmp_path) as store:
        for _ in range(200):
            made = changes(rng)
            commit(store, made)
            simulated.commit(made)
            assert every(store) == every(simulated)
            for place in PLACES:
                assert sorted(store.folders_in(place)) == sorted(simulated.folders_in(place))
            some = rng.sample(PLACES, 3)
            assert sorted(store.folders_at(some)) == sorted(simulated.folders_at(some))
            group = rng.choice(TABLES)
            ours, its = (one.folders_of(group, group_end(group)) for one in (store, simulated))
            assert sorted(ours) == sorted(its)
    with opened(tmp_path, new_id=2) as store:
        assert every(store) == every(simulated)


def test_more_locations_than_one_query_takes_are_found(tmp_path: Path) -> None:
    places = [f"file:///w/{number}" for number in range(1200)]
    made = {table_key("d", f"t{one[10:]}"): (Folder(one, ""),) for one in places}
    with opened(tmp_path) as store:
        commit(store, FolderChanges(ended=(), rows=made))
        assert sorted(one.location for one in store.folders_at(places)) == sorted(places)


def test_new_epoch_has_no_folders(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        commit(store, FolderChanges(ended=(), rows={TABLES[0]: (Folder(PLACES[0], ""),)}))
        store.begin_anew(NOW_US, at_least=0)
        assert every(store) == []


def test_folders_are_found_by_an_index(tmp_path: Path) -> None:
    """Else a write would read the folders of all tables."""
    with opened(tmp_path):
        pass
    for where in ("location IN (?, ?)", "location > ? AND location < ?", "key >= ? AND key < ?"):
        query = f"SELECT * FROM folders WHERE {where}".replace("?", "'x'")
        plan = " ".join(str(row) for row in rows(tmp_path, f"EXPLAIN QUERY PLAN {query}"))
        assert "SEARCH" in plan
        assert "SCAN" not in plan
