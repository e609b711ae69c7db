"""The history: a topic is read again as of each version that is kept, and refused before it."""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicast.catalog.model.versions import Transaction
from topicast.catalog.storage import history
from topicast.catalog.storage.database import FILE_NAME
from topicast.catalog.storage.history import AGE_MAX_US_DEFAULT, DROP_BYTES_MAX, HistoryReader
from topicast.catalog.storage.store import Store
from topicast.tests.catalog.stores import NOW_US, commit, entry, opened, transaction
from topicast.tests.strategies import value
from topicast.topics.errors import HistoryGone
from topicast.topics.topic import PREFIX, TOMBSTONE, Entry, prefix_tombstone

GROUPS = (b"db\0t\0", b"db\0u\0")
STEPS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["value", "value", "stub", "tombstone", "prefix"]),
            st.sampled_from(GROUPS),
            st.sampled_from([b"", b"\x01", b"\x01m"]),
        ),
        min_size=1,
        max_size=4,
    ),
    max_size=12,
)


def applied(before: dict[bytes, Entry], one: Transaction) -> dict[bytes, Entry]:
    """Return the entries after ``one``: its deletions, then what it writes."""
    groups = [entry.key for entry in one.entries if entry.kind == PREFIX]
    gone = {entry.key for entry in one.entries if entry.kind == TOMBSTONE}
    kept = {
        key: found
        for key, found in before.items()
        if key not in gone and not key.startswith(tuple(groups))
    }
    return kept | {e.key: e for e in one.entries if e.kind not in (TOMBSTONE, PREFIX)}


def whole(reader: HistoryReader, topic: int, version: int) -> list[Entry]:
    """Return all values and stubs of ``topic`` as of ``version``."""
    page, _ = reader.page_at(topic, version, after=b"", until=b"", bytes_max=sys.maxsize)
    return page


def read_at(folder: Path, version: int, topic: int = 0) -> dict[bytes, Entry]:
    with closing(HistoryReader(folder / FILE_NAME)) as reader, reader.moment():
        return {entry.key: entry for entry in whole(reader, topic, version)}


def paged_at(folder: Path, version: int, bytes_max: int) -> list[Entry]:
    """Return topic 0 as of ``version``, read in pages, each of another moment."""
    found: list[Entry] = []
    after = b""
    while True:
        with closing(HistoryReader(folder / FILE_NAME)) as reader, reader.moment():
            page, after = reader.page_at(0, version, after=after, until=b"", bytes_max=bytes_max)
        found += page
        if not after:
            return found


def write(store: Store, *versions: Sequence[Entry], at_us: int = NOW_US) -> None:
    first = store.versions[0] + 1
    for version, entries in enumerate(versions, first):
        commit(store, transaction(0, version, *entries, at_us=at_us))


def orders(version: int, *, size: int = 1) -> tuple[Entry, ...]:
    """Return a table and a block of ``size`` bytes."""
    group = GROUPS[0]
    return (value(group, version), value(group + b"\x01", version, bytes([version]) * size))


@given(steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_every_version_is_read_again_as_it_was(steps: list[list[tuple[str, bytes, bytes]]]) -> None:
    """P-SCAN-1."""
    with TemporaryDirectory() as name, opened(Path(name)) as store:
        states: list[dict[bytes, Entry]] = [{}]
        for version, step in enumerate(steps, 1):
            entries = {(kind == "prefix", g, r): entry(kind, g, r, version) for kind, g, r in step}
            one = transaction(0, version, *entries.values())
            states.append(applied(states[-1], one))
            commit(store, one)
        for version, state in enumerate(states):
            assert read_at(Path(name), version) == state, version
            by_key = [state[key] for key in sorted(state)]
            for bytes_max in (0, 12):
                assert paged_at(Path(name), version, bytes_max) == by_key, (version, bytes_max)


def test_replacements_tell_what_each_transaction_did_newest_first(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        write(store, orders(1), (value(GROUPS[0], 2),), (prefix_tombstone(GROUPS[0], 3),))
        write(store, (value(GROUPS[0], 4),), (value(GROUPS[1], 5),))
        with closing(HistoryReader(tmp_path / FILE_NAME)) as reader:
            found = list(reader.replacements(0, GROUPS[0], count=100))
            newest = list(reader.replacements(0, GROUPS[0], count=1))
            cut = list(reader.replacements(0, GROUPS[0], count=2))
    table, block = orders(1)
    second, fourth = value(GROUPS[0], 2), value(GROUPS[0], 4)
    assert [(one.version, one.key, one.before, one.after) for one in found] == [
        (4, table.key, None, fourth),
        (3, table.key, second, None),
        (3, block.key, block, None),
        (2, table.key, table, second),
        (1, table.key, None, table),
        (1, block.key, None, block),
    ]
    assert newest == found[:1]
    assert cut == found[:3], "of version 3 there is another one"


def test_history_is_bounded_in_bytes_and_says_where_it_begins(tmp_path: Path) -> None:
    bytes_max = 50_000
    with opened(tmp_path, history_bytes_max=bytes_max) as store:
        for version in range(1, 40):
            write(store, orders(version, size=4000))
        with closing(HistoryReader(tmp_path / FILE_NAME)) as reader:
            floor = reader.floor(0)
        assert 39 - floor == bytes_max // (4001 + 2 * history.IMAGE_OVERHEAD_BYTES + 11)
        for version in range(floor, 40):
            assert read_at(tmp_path, version) == {e.key: e for e in orders(version, size=4000)}
        with pytest.raises(HistoryGone, match=f"as of version 3: .* begins at version {floor}"):
            read_at(tmp_path, 3)


def test_history_is_bounded_in_age(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        write(store, orders(1), orders(2))
        write(store, orders(3), at_us=NOW_US + AGE_MAX_US_DEFAULT + 1)
        assert read_at(tmp_path, 2) == {e.key: e for e in orders(2)}
        with pytest.raises(HistoryGone):
            read_at(tmp_path, 1)


def test_large_drop_is_not_kept_and_marked(tmp_path: Path) -> None:
    blocks = [value(GROUPS[0] + b"\x01%03d" % n, 1, bytes(700_000)) for n in range(13)]
    assert sum(block.size for block in blocks) > DROP_BYTES_MAX
    with opened(tmp_path) as store:
        write(store, blocks, (prefix_tombstone(GROUPS[0], 2),), orders(3))
        with pytest.raises(HistoryGone, match=r"db\.t before version 2: it was dropped with more"):
            read_at(tmp_path, 1)
        assert read_at(tmp_path, 2) == {}
        with closing(HistoryReader(tmp_path / FILE_NAME)) as reader:
            found = list(reader.replacements(0, GROUPS[0], count=100))
    assert [(one.version, one.lost) for one in found] == [(3, False), (3, False), (2, True)]


@pytest.mark.parametrize("after", [b"", GROUPS[0], GROUPS[0] + b"\x01005"])
def test_large_drop_is_noticed_by_a_reader_of_each_page_before_it(
    tmp_path: Path, after: bytes
) -> None:
    """P-SCAN-2: also where the table's own entry had changed before the drop."""
    group = GROUPS[0]
    blocks = [value(group + b"\x01%03d" % n, 1, bytes(700_000)) for n in range(13)]
    with opened(tmp_path) as store, closing(HistoryReader(tmp_path / FILE_NAME)) as reader:
        write(store, (value(group, 1), *blocks), (value(group, 2),), (prefix_tombstone(group, 3),))
        with pytest.raises(HistoryGone, match=r"db\.t before version 3"):
            reader.page_at(0, 1, after=after, until=b"", bytes_max=1000)


def test_another_metastore_begins_a_history_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        write(store, orders(1), orders(2))
        store.begin_anew(NOW_US, at_least=0)
        assert read_at(tmp_path, 2) == {}
        with pytest.raises(HistoryGone):
            read_at(tmp_path, 1)


def test_restart_goes_on_with_the_history(tmp_path: Path) -> None:
    for new_id in (1, 2, 3):
        with opened(tmp_path, new_id=new_id) as store:
            write(store, orders(new_id))
    for version in (1, 2, 3):
        assert read_at(tmp_path, version) == {e.key: e for e in orders(version)}


def test_reader_sees_one_moment_while_catalogd_commits(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        write(store, orders(1))
        with closing(HistoryReader(tmp_path / FILE_NAME)) as reader, reader.moment():
            assert reader.versions() == {0: 1}
            write(store, orders(2))
            assert {e.key: e for e in whole(reader, 0, 1)} == {e.key: e for e in orders(1)}
            assert reader.versions() == {0: 1}
