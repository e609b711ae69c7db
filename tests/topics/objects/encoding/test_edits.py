from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.objects.leaves import MemoryLeaves
from topicast.topics.objects.encoding import edits


class Word(NamedTuple):
    name: str
    text: str


class Words:
    """Blocks of at most four words, as plain text: an edit knows nothing of what it edits."""

    records_max = 4

    def decode(self, value, version):
        return [Word(*line.split("=", 1)) for line in value.decode().split("\n") if line]

    def encode(self, records):
        return "\n".join(f"{word.name}={word.text}" for word in records).encode()

    def merge(self, name, old, change):
        return old if old is not None and old.text == change else Word(name, change)


def edited(leaves, changes):
    done = edits.edit(leaves, changes, Words())
    leaves.apply(done.blocks, 1)
    edits.check(leaves, Words())
    return done


def held(leaves):
    return {
        word.name: word.text for v, b in leaves.blocks.values() for word in Words().decode(b, v)
    }


def filled(names, each=100):
    leaves = MemoryLeaves()
    for start in range(0, len(names), each):
        edited(leaves, dict.fromkeys(names[start : start + each], "old"))
    leaves.reads = 0
    return leaves


words = st.text("abc", min_size=1, max_size=3)
batches = st.lists(st.dictionaries(words, st.none() | st.sampled_from("xy"), max_size=12))


@given(batches)
def test_edits_do_what_a_dict_does(batches):
    leaves, expected = MemoryLeaves(), {}
    for changes in batches:
        before = dict(expected)
        expected.update(changes)
        expected = {name: text for name, text in expected.items() if text is not None}
        done = edited(leaves, changes)
        assert held(leaves) == expected
        assert list(done.names) == sorted(
            name for name in before | expected if before.get(name) != expected.get(name)
        )
        if not expected:
            assert "" not in leaves.blocks or not done.names


class Text(str):
    """A text that says by a weak reference whether it is still in memory."""

    __slots__ = ("__weakref__",)


class Made(Mapping):
    """Changes that are made when they are read; ``most`` of them were in memory together."""

    def __init__(self, names):
        self.names = names
        self.alive = WeakSet()
        self.most = 0

    def __getitem__(self, name):
        made = Text(name)
        self.alive.add(made)
        self.most = max(self.most, len(self.alive))
        return made

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)


class Lengths(Words):
    """Blocks of words that keep the length of a text, and not the text."""

    def merge(self, name, old, change):
        return Word(name, str(len(change)))


@pytest.mark.parametrize("before", ["", "abcdefgh"])
def test_changes_that_are_made_when_they_are_read_are_never_in_memory_together(before):
    changes = Made([f"{letter}{number:02}" for letter in "abcdefgh" for number in range(30)])
    edits.edit(filled(before), changes, Lengths())
    assert 1 <= changes.most <= 2


def test_what_is_appended_leaves_full_blocks():
    leaves = filled("abcdefghij", each=1)
    assert {lower: len(value.split(b"\n")) for lower, (_, value) in leaves.blocks.items()} == {
        "": 4,
        "e": 4,
        "i": 2,
    }


def test_a_full_block_in_the_middle_splits_in_halves():
    leaves = filled("aceg" + "stuv")
    done = edited(leaves, {"b": "new"})
    assert [(lower, value.count(b"=")) for lower, value in done.blocks] == [("", 3), ("e", 2)]


def test_a_bound_is_as_short_as_parts_two_names():
    leaves = filled(["d1/a", "d1/b", "d1/c", "d1/d", "d2/a" * 300])
    assert list(leaves.blocks) == ["", "d2"]
    edited(leaves, {"d1/aa": "new"})
    assert sorted(leaves.blocks) == ["", "d1/c", "d2"]


def test_many_changes_in_one_block_split_it_evenly():
    leaves = filled("aceg" + "stuv")
    done = edited(leaves, dict.fromkeys("bdfhij", "new"))
    assert [value.count(b"=") for _, value in done.blocks] == [4, 4, 2]


def test_an_emptied_block_is_removed_and_the_first_only_as_the_last():
    leaves = filled("abcd" + "efgh" + "ijkl")
    assert edited(leaves, dict.fromkeys("abcdefgh")).blocks == (("", b""), ("e", None))
    assert edited(leaves, dict.fromkeys("ijkl")).blocks == (("i", None),)
    assert edited(leaves, {"a": "again"}).blocks == (("", b"a=again"),)
    assert edited(leaves, {"a": None}).blocks == (("", None),)
    leaves = filled("abcd" + "efgh")
    assert edited(leaves, dict.fromkeys("abcdefgh")).blocks == (("", None), ("e", None))


def test_what_changes_nothing_writes_nothing():
    leaves = filled("abcdefgh")
    assert edited(leaves, {"a": "old", "x": None}) == edits.Edited((), ())
    assert edited(leaves, {}) == edits.Edited((), ())
    assert edited(MemoryLeaves(), {"x": None}) == edits.Edited((), ())


def test_only_touched_blocks_are_read():
    leaves = filled("abcdefghijklmnopqrstuvwxyz")
    done = edits.edit(leaves, {"f": "new", "g": "new", "y": None}, Words())
    assert [lower for lower, _ in done.blocks] == ["e", "y"]
    assert leaves.reads == 2


def test_a_block_of_large_records_splits_by_its_bytes():
    leaves = MemoryLeaves()
    large = "x" * (edits.BLOCK_BYTES_MAX // 2)
    edited(leaves, {"a": large, "b": large, "c": "small", "d": large * 3})
    assert {lower: value.count(b"=") for lower, (_, value) in leaves.blocks.items()} == {
        "": 1,
        "b": 1,
        "c": 1,
        "d": 1,
    }


@pytest.mark.parametrize(
    "blocks",
    [
        {"b": b"b=x"},
        {"": b"a=1\nb=2\nc=3\nd=4\ne=5"},
        {"": b"a=1", "b": b""},
        {"": b"b=1\na=1"},
        {"": b"a=1\nc=1", "b": b"c=1"},
        {"": b"a=1", "c": b"b=1"},
        {"": b"c=1", "b": b"d=1"},
    ],
)
def test_check_finds_what_breaks_the_invariant(blocks):
    leaves = MemoryLeaves()
    leaves.apply(blocks.items(), 1)
    with pytest.raises(AssertionError):
        edits.check(leaves, Words())
