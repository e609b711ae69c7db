"""The version log: one version for each transaction, and nothing pending that was taken."""

import pytest

from topicast.catalog.model.versions import ChangeKind, ChangeRow, GroupLeaves, VersionLog
from topicast.topics.entries import Entry, prefix_tombstone, tombstone
from topicast.topics.topic import Topic

GROUP = b"d\0t\0"
BLOCKS = GROUP + b"\1"


def value(key: bytes, version: int, content: bytes = b"v") -> Entry:
    return Entry(key, version, version, version, len(content), content)


def block(lower: str, version: int) -> Entry:
    return value(BLOCKS + lower.encode(), version)


@pytest.fixture
def version_log() -> VersionLog:
    return VersionLog({0: Topic(), 3: Topic()})


def write(version_log: VersionLog, topic: int, *keys: bytes, **more: object) -> tuple[Entry, ...]:
    fields = {"source": 1, "at_us": 5, **more}
    return version_log.write(topic, lambda version: [value(key, version) for key in keys], **fields)


def test_each_transaction_has_the_next_version_of_its_topic(version_log: VersionLog) -> None:
    assert [entry.version for entry in write(version_log, 0, GROUP, BLOCKS)] == [1, 1]
    write(version_log, 0, GROUP)
    write(version_log, 3, GROUP)
    assert version_log.versions() == (2, 1)
    version_log.check()
    steps = [(one.topic, one.from_version, one.to_version) for one in version_log.take()]
    assert steps == [(0, 0, 1), (0, 1, 2), (3, 0, 1)]


def test_no_entries_are_no_transaction(version_log: VersionLog) -> None:
    assert write(version_log, 0) == ()
    assert version_log.versions() == (0, 0)
    assert version_log.take() == ()


def test_what_was_taken_is_pending_no_longer(version_log: VersionLog) -> None:
    write(version_log, 0, GROUP)
    assert len(version_log.take()) == 1
    assert version_log.take() == ()
    assert version_log.topics[0].get(GROUP) is not None, "the topic keeps it"


def test_history_is_read_after_the_entries_were_built(version_log: VersionLog) -> None:
    rows: list[ChangeRow] = []
    row = ChangeRow(object="d", kind=ChangeKind.CREATED, before=0)

    def build(version: int) -> list[Entry]:
        rows.append(row)
        return [value(GROUP, version)]

    version_log.write(0, build, source=2, at_us=9, changes=rows)
    (one,) = version_log.take()
    assert (one.changes, one.source, one.at_us) == ((row,), 2, 9)


def test_transaction_that_cannot_be_built_leaves_nothing_behind(version_log: VersionLog) -> None:
    def build(version: int) -> list[Entry]:
        raise ValueError(version)

    with pytest.raises(ValueError, match="1"):
        version_log.write(0, build, source=1, at_us=5)
    assert version_log.versions() == (0, 0)
    assert version_log.take() == ()


def test_entry_of_another_version_is_noticed(version_log: VersionLog) -> None:
    version_log.write(0, lambda version: [value(GROUP, version - 1)], source=1, at_us=5)
    with pytest.raises(AssertionError):
        version_log.check()


# -- the blocks of one group


@pytest.fixture
def topic() -> Topic:
    """A table with blocks at "", "c" and "f", beside a table of the same beginning."""
    found = Topic()
    found.file([value(GROUP, 1), block("c", 1), block("", 1), block("f", 1)])
    found.file([value(b"d\0tt\0\1x", 1)])
    return found


def test_blocks_are_found_by_the_names_that_they_hold(topic: Topic) -> None:
    leaves = GroupLeaves(topic, GROUP, BLOCKS)
    assert leaves.bounds == ["", "c", "f"]
    found = [leaves.floor(name) for name in ("", "b", "c", "e", "f", "z")]
    assert found == ["", "", "c", "c", "f", "f"]
    assert [leaves.after(lower) for lower in ("", "c", "f")] == ["c", "f", None]
    assert leaves.read("c") == (1, b"v")


def test_group_without_blocks_has_no_bounds(topic: Topic) -> None:
    leaves = GroupLeaves(topic, b"d\0none\0", b"d\0none\0\1")
    assert leaves.floor("a") is None
    assert leaves.after("") is None


def test_what_is_written_to_a_group_is_applied_to_its_bounds(topic: Topic) -> None:
    leaves = GroupLeaves(topic, GROUP, BLOCKS)
    written = [
        *(value(GROUP, 2), block("c", 2), block("d", 2), block("a", 2)),
        *(tombstone(BLOCKS + b"f", 2), tombstone(BLOCKS + b"none", 2)),
        prefix_tombstone(b"d\0tt\0", 2),
    ]
    topic.file(written)
    leaves.apply(written)
    assert leaves.bounds == ["", "a", "c", "d"]
    assert leaves.bounds == GroupLeaves(topic, GROUP, BLOCKS).bounds
    assert leaves.read("c") == (2, b"v")
