import gc
import random

from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.store.table_snapshot import EMPTY, LEAF_MAX, covering, entries, find, put
from topicast.topics.entries import STUB, TOMBSTONE, Entry, prefix_tombstone, tombstone

GROUP = b"db\0t\0"


def _entry(name: str, version: int, kind: int = 0) -> Entry:
    value = b"v" * (version % 5) if kind == 0 else None
    size = len(value) if value is not None else 0
    return Entry(GROUP + name.encode(), version, version, version, size, value, kind)


def test_entry_is_found_by_key_and_by_what_it_covers() -> None:
    rows = put(EMPTY, [_entry("b", 1), _entry("f", 1)])
    assert find(rows, GROUP + b"b") == _entry("b", 1)
    assert find(rows, GROUP + b"c") is None
    assert covering(rows, GROUP + b"c") == _entry("b", 1)
    assert covering(rows, GROUP + b"z") == _entry("f", 1)
    assert covering(rows, GROUP + b"a") is None
    assert covering(EMPTY, GROUP) is None


def test_older_entry_does_not_roll_back() -> None:
    rows = put(EMPTY, [_entry("a", 5)])
    assert put(rows, [_entry("a", 4)]) == rows
    assert put(rows, [tombstone(GROUP + b"a", 5)]) == rows
    assert put(rows, [tombstone(GROUP + b"a", 6)]) == EMPTY


def test_prefix_removes_lower_versions_and_spares_its_own_transaction() -> None:
    rows = put(EMPTY, [_entry("a", 5), _entry("b", 7)])
    rows = put(rows, [prefix_tombstone(GROUP, 7), _entry("c", 7), _entry("a", 6)])
    assert [e.key for e in entries(rows)] == [GROUP + b"a", GROUP + b"b", GROUP + b"c"]
    before = [_entry("a", 8), prefix_tombstone(GROUP, 9)]
    assert put(rows, before) == EMPTY


def test_one_change_copies_one_leaf_and_shares_the_others() -> None:
    rows = put(EMPTY, [_entry(f"{i:06}", 1) for i in range(31_250)])
    assert len(rows) <= LEAF_MAX
    changed = put(rows, [_entry("020000", 2)])
    assert sum(one is not other for one, other in zip(rows, changed, strict=True)) == 1


OPERATION = st.tuples(
    st.integers(0, 700), st.integers(1, 30), st.sampled_from([0, 0, 0, STUB, TOMBSTONE, None])
)


@given(st.lists(st.lists(OPERATION, max_size=40), max_size=12), st.integers(0, 2**32))
def test_rows_equal_a_plain_map_after_any_transactions(
    transactions: list[list[tuple[int, int, int | None]]], seed: int
) -> None:
    start = random.Random(seed).sample(range(700), 400)
    rows = put(EMPTY, [_entry(f"{i:03}", 1) for i in start])
    model = {entry.key: entry for entry in entries(rows)}
    for transaction in transactions:
        changes = []
        for name, version, kind in {step[:2]: step for step in transaction}.values():
            if kind is None and name < 680:
                continue  # prefixes are rare, or nothing would be left
            change = (
                prefix_tombstone(GROUP, version)
                if kind is None
                else _entry(f"{name:03}", version, kind)
            )
            changes.append(change)
        changes.sort(key=lambda e: e.version)
        for change in changes:
            _apply(model, change)
        rows = put(rows, changes)
        assert list(entries(rows)) == [model[key] for key in sorted(model)]
        assert all(0 < len(leaf) <= LEAF_MAX for leaf in rows)


def _apply(model: dict[bytes, Entry], change: Entry) -> None:
    if change.key == GROUP and change.kind == prefix_tombstone(GROUP, 1).kind:
        for key in [k for k, e in model.items() if e.version < change.version]:
            del model[key]
        return
    have = model.get(change.key)
    if have is not None and have.version >= change.version:
        return
    model.pop(change.key, None)
    if change.kind != TOMBSTONE:
        model[change.key] = change


def test_of_two_changes_of_one_key_the_newer_stands() -> None:
    assert put(EMPTY, [_entry("a", 5), _entry("a", 4)]) == put(EMPTY, [_entry("a", 5)])


def test_garbage_collector_leaves_what_is_held_alone() -> None:
    rows = put(EMPTY, [_entry(f"{i:03}", i) for i in range(700)])
    rows = put(rows, [_entry("350", 1000)])
    gc.collect()
    assert not any(gc.is_tracked(row) for leaf in rows for row in leaf)
