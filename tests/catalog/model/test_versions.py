"""The version log, its transactions, and whether a peer goes on from this lineage."""

from contextlib import nullcontext

import pytest

from topicast.catalog.model.group_leaves import GroupLeaves
from topicast.catalog.model.lineage import (
    EPOCH_MAX,
    PeerDecision,
    StartRecord,
    by_topic,
    judge,
)
from topicast.catalog.model.versions import ChangeRow, Transaction, VersionLog
from topicast.tests.strategies import value
from topicast.topics.errors import WireError
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.topic import NAMESPACE, Entry, Topic, prefix_tombstone, tombstone
from topicast.topics.turn import Turn

GROUP = b"d\0t\0"
BLOCKS = GROUP + b"\1"


def block(lower: str, version: int) -> Entry:
    return value(BLOCKS + lower.encode(), version)


@pytest.fixture
def version_log() -> VersionLog:
    clock = Turn[object]()
    clock.now_us = 9
    return VersionLog({0: Topic(), 3: Topic()}, clock)


def write(version_log: VersionLog, topic: int, *keys: bytes) -> list[Entry]:
    with version_log.transaction(topic, source=1) as written:
        written.add(value(key, written.version) for key in keys)
    return written.entries


def test_each_transaction_has_the_next_version_of_its_topic(version_log: VersionLog) -> None:
    assert [entry.version for entry in write(version_log, 0, GROUP, BLOCKS)] == [1, 1]
    write(version_log, 0, GROUP)
    write(version_log, 3, GROUP)
    assert version_log.versions() == (2, 1)
    version_log.check()
    steps = [(one.topic, one.from_version, one.to_version) for one in version_log.take()]
    assert steps == [(0, 0, 1), (0, 1, 2), (3, 0, 1)]


def test_transaction_has_its_source_its_time_and_its_lines_of_the_history(
    version_log: VersionLog,
) -> None:
    with version_log.transaction(0, source=2) as written:
        written.add([value(GROUP, written.version)])
        written.note("d", ChangeKind.CREATED, 0)
    (one,) = version_log.take()
    rows = (ChangeRow(object="d", kind=ChangeKind.CREATED, before=0),)
    assert (one.changes, one.source, one.at_us) == (rows, 2, 9)


def test_transaction_without_an_entry_is_none(version_log: VersionLog) -> None:
    with version_log.transaction(0, source=2) as written:
        written.note("d", ChangeKind.CREATED, 0)
    assert version_log.versions() == (0, 0)
    assert version_log.take() == ()


def test_transaction_that_cannot_be_made_leaves_nothing_behind(version_log: VersionLog) -> None:
    def fail() -> None:
        with version_log.transaction(0, source=1) as written:
            written.add([value(GROUP, written.version)])
            raise ValueError(written.version)

    with pytest.raises(ValueError, match="1"):
        fail()
    assert version_log.versions() == (0, 0)
    assert version_log.take() == ()


def test_entry_of_another_version_is_noticed(version_log: VersionLog) -> None:
    with version_log.transaction(0, source=1) as written:
        written.add([value(GROUP, written.version - 1)])
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


def transaction(from_version: int, to_version: int, *entries: Entry) -> Transaction:
    versions = {"from_version": from_version, "to_version": to_version}
    return Transaction(topic=0, entries=entries, source=0, at_us=1, **versions)


def entry(version: int, schema_version: int = 1, data_version: int = 1) -> Entry:
    return Entry(b"a\0b\0", version, schema_version, data_version, 1, b"x")


@pytest.mark.parametrize(
    ("one", "sound"),
    [
        (transaction(0, 1, entry(1)), True),
        (transaction(4, 6, entry(6), entry(6)), True),
        (transaction(1, 2), True),
        (transaction(1, 1), False),
        (transaction(2, 1), False),
        (transaction(-1, 1), False),
        (transaction(1, 2, entry(1)), False),
        (transaction(1, 3, entry(2)), False),
        (transaction(1, 2, entry(3)), False),
        (transaction(1, 2, entry(2, schema_version=3)), False),
        (transaction(1, 2, entry(2, data_version=3)), False),
    ],
)
def test_versions_of_a_transaction_and_its_entries_agree(one: Transaction, sound: bool) -> None:
    with nullcontext() if sound else pytest.raises(AssertionError):
        one.check()


EPOCH = 1000
STARTS = (
    StartRecord(start=11, epoch=EPOCH, versions=(0, 0, 0)),
    StartRecord(start=22, epoch=EPOCH, versions=(5, 0, 3)),
    StartRecord(start=33, epoch=EPOCH, versions=(8, 1, 3)),
)
CURRENT = {0: 9, 1: 1, NAMESPACE: 4}


@pytest.mark.parametrize(
    ("epoch", "start", "versions", "verdict"),
    [
        (0, 0, {}, PeerDecision.OLD),
        (EPOCH - 1, 99, {0: 10**6}, PeerDecision.OLD),
        (EPOCH + 1, 33, {0: 1}, PeerDecision.AHEAD),
        (EPOCH, 99, {0: 1}, PeerDecision.AHEAD),
        (EPOCH, 0, {}, PeerDecision.AHEAD),
        (EPOCH, 33, {0: 9, 1: 1, NAMESPACE: 4}, PeerDecision.ACCEPTED),
        (EPOCH, 33, {}, PeerDecision.ACCEPTED),
        (EPOCH, 33, {0: 10}, PeerDecision.AHEAD),
        (EPOCH, 33, {0: 1, NAMESPACE: 5}, PeerDecision.AHEAD),
        (EPOCH, 22, {0: 8, 1: 1, NAMESPACE: 3}, PeerDecision.ACCEPTED),
        (EPOCH, 22, {0: 9}, PeerDecision.AHEAD),
        (EPOCH, 22, {NAMESPACE: 4}, PeerDecision.AHEAD),
        (EPOCH, 11, {0: 5, 1: 0, NAMESPACE: 3}, PeerDecision.ACCEPTED),
        (EPOCH, 11, {0: 6}, PeerDecision.AHEAD),
        (EPOCH, 11, {1: 1}, PeerDecision.AHEAD),
        (EPOCH, 33, {7: 1}, PeerDecision.AHEAD),
        (EPOCH, 33, {7: 0}, PeerDecision.ACCEPTED),
        (EPOCH_MAX, 33, {}, PeerDecision.AHEAD),
    ],
)
def test_peer_is_judged_by_epoch_then_start_then_where_the_next_start_began(
    epoch: int, start: int, versions: dict[int, int], verdict: PeerDecision
) -> None:
    """P-START-2."""
    assert judge(STARTS, CURRENT, epoch=epoch, start=start, held=versions) is verdict


def test_epoch_that_nobody_can_have_minted_is_refused() -> None:
    with pytest.raises(WireError):
        judge(STARTS, CURRENT, epoch=EPOCH_MAX + 1, start=33, held={})


def test_vector_is_read_by_topic() -> None:
    assert by_topic((5, 6, 7)) == {0: 5, 1: 6, NAMESPACE: 7}
    assert by_topic(()) == {}
