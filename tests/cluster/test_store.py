"""The simulated store behaves as the real one: each test runs on both."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from topicast.catalog.model.versions import Commit
from topicast.catalog.model.window_state import WindowState, unpack_state
from topicast.catalog.storage.loading import load_topics
from topicast.catalog.storage.store import Store
from topicast.tests.catalog.stores import NOW_US, transaction
from topicast.tests.cluster.store import NUM_TOPICS, SimStore
from topicast.tests.strategies import value
from topicast.topics.memory.memory_limit import MemoryLimit
from topicast.topics.topic import (
    NAMESPACE,
    Entry,
    Topic,
    prefix_tombstone,
    stub,
    tombstone,
    topic_ids,
)

PLACE = WindowState(last_id=7, stable_id=3, known=((5, bytes(16)),))
TABLE, BLOCK = b"a\0t\0", b"a\0t\0\x01"
Vector = tuple[int, list[int]]


class RealStore:
    """The SQLite store in a folder, as the simulation sees a store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store: Store | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._opened, name)

    @property
    def _opened(self) -> Store:
        assert self._store is not None
        return self._store

    @property
    def place(self) -> WindowState | None:
        return unpack_state(self._opened.window)

    def begin(self, start: int) -> None:
        self.close()
        self._store = Store.open(self._folder, num_topics=NUM_TOPICS, now_us=NOW_US, new_id=start)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def commit(self, commit: Commit) -> None:
        self._opened.commit(commit)

    def mint(self, now_us: int, at_least: int) -> None:
        self._opened.mint_epoch(now_us, at_least=at_least)

    def load(self) -> dict[int, Topic]:
        return load_topics(self._opened, topic_ids(NUM_TOPICS))

    def copy(self) -> "RealStore":
        self.close()
        shutil.copytree(self._folder, self._folder.with_name("copy"))
        self._store = None
        return type(self)(self._folder.with_name("copy"))


class LimitedStore(RealStore):
    """The store of a catalogd with a limit of memory: what it holds is read when it is used."""

    def load(self) -> dict[int, Topic]:
        return load_topics(self._opened, topic_ids(NUM_TOPICS), MemoryLimit(0))


AnyStore = SimStore | RealStore


@pytest.fixture(params=["simulated", "real", "limited"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    if request.param == "simulated":
        yield SimStore(epoch=NOW_US)
        return
    kind = LimitedStore if request.param == "limited" else RealStore
    real = kind(tmp_path / "state")
    yield real
    real.close()


def _vectors(store: AnyStore) -> list[Vector]:
    return [(one.start, list(one.versions)) for one in store.starts]


def _picture(store: AnyStore) -> dict[int, tuple[int, int, int, list[Entry]]]:
    return {n: (t.epoch, t.version, t.floor, list(t.since(0))) for n, t in store.load().items()}


def test_new_store_has_every_topic_at_version_0_and_one_start(store: AnyStore) -> None:
    store.begin(9)
    assert _vectors(store) == [(9, [0, 0, 0])]
    assert (store.epoch, store.place) == (NOW_US, None)
    assert _picture(store) == {n: (NOW_US, 0, 0, []) for n in (0, 1, NAMESPACE)}


def test_what_was_committed_is_there_at_the_next_start(store: AnyStore) -> None:
    store.begin(1)
    first, second = value(TABLE, 1), value(BLOCK, 2, b"block")
    written = transaction(0, 1, first), transaction(0, 2, second)
    store.commit(Commit(transactions=written, window=PLACE))
    name = transaction(NAMESPACE, 1, stub(value(b"d\0a\0", 1)))
    store.commit(Commit(transactions=(name,), window=PLACE))
    store.begin(2)
    assert store.place == PLACE
    assert list(store.load()[0].since(1)) == [second]
    assert _picture(store)[NAMESPACE][1] == 1
    assert _vectors(store) == [(1, [0, 0, 0]), (2, [2, 0, 1])]


def test_later_entries_replace_and_tombstones_delete(store: AnyStore) -> None:
    store.begin(1)
    store.commit(
        Commit(
            window=None,
            transactions=(
                transaction(0, 1, value(TABLE, 1), value(BLOCK, 1)),
                transaction(0, 2, value(TABLE, 2, b"new"), tombstone(BLOCK, 2)),
                transaction(1, 1, value(TABLE, 1), value(BLOCK, 1)),
                transaction(1, 2, prefix_tombstone(TABLE, 2), value(TABLE, 2)),
            ),
        )
    )
    topics = store.load()
    assert [(e.key, e.version) for e in topics[0].rows(TABLE)] == [(TABLE, 2)]
    assert [e.version for e in topics[0].since(0)] == [2, 2]
    assert list(topics[1].since(1)) == [prefix_tombstone(TABLE, 2), value(TABLE, 2)]
    assert topics[1].get(BLOCK) is None


def test_forgotten_tombstones_are_gone_and_the_floor_is_kept(store: AnyStore) -> None:
    store.begin(1)
    store.commit(
        Commit(
            window=None,
            transactions=(
                transaction(0, 1, value(TABLE, 1), value(BLOCK, 1)),
                transaction(0, 2, tombstone(BLOCK, 2)),
            ),
        )
    )
    store.delete_tombstones(0, 2)
    for topic, floor in ((0, 1), (1, 0)):
        store.delete_tombstones(topic, floor)
    store.begin(2)
    assert _picture(store)[0] == (NOW_US, 2, 2, [value(TABLE, 1)])
    assert _picture(store)[1] == (NOW_US, 0, 0, [])


def test_new_epoch_goes_on_with_versions_and_begins_the_starts_anew(store: AnyStore) -> None:
    store.begin(1)
    store.begin(2)
    store.commit(Commit(transactions=(transaction(1, 1, value(TABLE, 1)),), window=PLACE))
    store.mint(NOW_US - 5, NOW_US + 10)
    assert store.epoch == NOW_US + 11
    assert _vectors(store) == [(2, [0, 1, 0])]
    assert _picture(store)[1] == (NOW_US + 11, 1, 0, [value(TABLE, 1)])
    store.mint(NOW_US + 100, 0)
    assert store.epoch == NOW_US + 100


def test_old_copy_knows_nothing_of_what_came_after_it(store: AnyStore) -> None:
    store.begin(1)
    store.commit(Commit(transactions=(transaction(0, 1, value(TABLE, 1)),), window=PLACE))
    old = store.copy()
    store.begin(2)
    store.commit(Commit(transactions=(transaction(0, 2, value(TABLE, 2)),), window=None))
    store.delete_tombstones(0, 1)
    old.begin(3)
    assert _vectors(old) == [(1, [0, 0, 0]), (3, [1, 0, 0])]
    assert _picture(old)[0] == (NOW_US, 1, 0, [value(TABLE, 1)])
    assert old.place == PLACE
    assert _picture(store)[0][1] == 2
    getattr(old, "close", lambda: None)()


def test_commit_with_a_gap_is_refused(store: AnyStore) -> None:
    store.begin(1)
    with pytest.raises(AssertionError):
        store.commit(Commit(transactions=(transaction(0, 2, value(TABLE, 2)),), window=None))
    assert _picture(store)[0][1] == 0


@pytest.mark.parametrize("seed", range(5))
def test_after_the_same_steps_both_hold_the_same(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    simulated, real = SimStore(epoch=NOW_US), RealStore(tmp_path / "state")
    for store in (simulated, real):
        store.begin(1)
    floor = 0
    for version in range(1, 41):
        group = rng.choice([b"a\0t\0", b"a\0u\0"])
        changes = [value(group, version, rng.randbytes(3)), value(group + b"\x01", version)]
        changes += [tombstone(group + b"\x01", version), prefix_tombstone(group, version)]
        one = transaction(0, version, rng.choice(changes))
        if rng.random() < 0.2:
            floor = rng.randint(floor, version)
        for store in (simulated, real):
            store.commit(
                Commit(transactions=(one,), window=WindowState(last_id=version, stable_id=0))
            )
            store.delete_tombstones(0, floor)
            if version % 9 == 0:
                store.begin(version)
    assert _picture(simulated) == _picture(real)
    assert _vectors(simulated) == _vectors(real)
    assert simulated.place == real.place
    real.close()
