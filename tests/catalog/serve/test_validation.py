"""A claim is confirmed only while nothing that it speaks of has changed."""

from dataclasses import replace

import pytest

from topicast.catalog.serve.pull_server import stale_claims
from topicast.tests.catalog.holding import Holding, T, parts, struct
from topicast.topics.objects.names import table_key
from topicast.topics.wire.messages.catalog import Claimed
from topicast.topics.wire.messages.data import SOURCE_EVENTS

EPOCH = 5


@pytest.fixture
def found() -> Holding:
    """Return a catalogd that holds ``d.t`` with two partitions."""
    held = Holding()
    held.namespace.write({"d": b"struct"}, {T: "EXTERNAL_TABLE"}, source=SOURCE_EVENTS)
    held.whole(struct(T, "ds"), parts("1", "2"))
    return held


def claim(found: Holding, *, whole: bool, table: str = "t", back: int = 0) -> Claimed:
    version = found.tables.topic_of(T)[1].version - back
    return Claimed(db="d", table=table, version=version, whole=whole)


def named(found: Holding, *claims: Claimed, epoch: int = EPOCH) -> tuple[tuple[int, int], ...]:
    return stale_claims(found.namespace, found.tables, claims, claimed_in=epoch, epoch=EPOCH)


def judged(found: Holding, *claims: Claimed, epoch: int = EPOCH) -> tuple[int, ...]:
    return tuple(place for place, _ in named(found, *claims, epoch=epoch))


@pytest.mark.parametrize("whole", [True, False])
def test_claim_holds_until_the_table_changes(found: Holding, whole: bool) -> None:
    """P-VALID-1."""
    mine = claim(found, whole=whole)
    assert judged(found, mine) == ()
    found.whole(struct(T, "ds", columns=1), parts("1", "2"))
    assert judged(found, mine) == (0,)


@pytest.mark.parametrize("whole", [True, False])
def test_claim_from_the_future_is_of_a_store_that_was_lost(found: Holding, whole: bool) -> None:
    assert judged(found, claim(found, whole=whole, back=-1)) == (0,)


@pytest.mark.parametrize("change", [dict(parts("3")), {"ds=1": None}], ids=["added", "dropped"])
def test_changed_partition_ends_what_was_said_of_the_whole_only(
    found: Holding, change: dict[str, bytes | None]
) -> None:
    """P-VALID-1."""
    whole, own = claim(found, whole=True), claim(found, whole=False)
    found.change(change)
    assert judged(found, own, whole) == (1,)


def test_change_of_another_table_ends_nothing(found: Holding) -> None:
    mine = claim(found, whole=True)
    for number in range(20):
        found.whole(struct(("d", f"o{number}")), {}, table=("d", f"o{number}"))
    assert judged(found, mine) == ()


def test_what_cannot_be_confirmed_is_stale(found: Holding) -> None:
    """P-VALID-1: another epoch, no such table, another incarnation, below the floor."""
    mine = claim(found, whole=True)
    assert judged(found, mine, epoch=EPOCH - 1) == (0,)
    assert judged(found, claim(found, whole=False, table="none")) == (0,)
    assert judged(found, claim(found, whole=True, back=1)) == (0,)
    _, topic = found.tables.topic_of(T)
    topic.floor = topic.version + 1
    assert judged(found, mine) == (0,)
    assert judged(found, claim(found, whole=False)) == ()
    assert topic.changed_at(table_key("d", "never")) == 0


def test_nothing_is_confirmed_of_a_table_that_is_unreadable(found: Holding) -> None:
    """P-VALID-1."""
    found.tables.end_content(T, source=SOURCE_EVENTS)
    assert judged(found, claim(found, whole=True), claim(found, whole=False)) == (0, 1)


@pytest.mark.parametrize("whole", [True, False])
def test_version_that_is_named_is_the_lowest_that_would_be_true(
    found: Holding, whole: bool
) -> None:
    """P-VALID-2."""
    mine = claim(found, whole=whole)
    found.whole(struct(T, "ds", columns=1), parts("1", "2"))
    found.change({"ds=1": None, **dict(parts("3"))})
    found.tables.topic_of(T)[1].floor = mine.version
    for asked, epoch in ((mine, EPOCH), (mine, EPOCH - 1), (claim(found, whole=whole), EPOCH - 1)):
        ((place, version),) = named(found, asked, epoch=epoch)
        assert place == 0
        assert judged(found, replace(mine, version=version)) == ()
        assert judged(found, replace(mine, version=version - 1)) == (0,)
    assert named(found, claim(found, whole=whole, table="none")) == ((0, 0),)


def test_content_of_another_incarnation_confirms_nothing(found: Holding) -> None:
    found.namespace.write({}, {T: None}, source=SOURCE_EVENTS)
    found.namespace.write({}, {T: "EXTERNAL_TABLE"}, source=SOURCE_EVENTS)
    assert named(found, claim(found, whole=False)) == ((0, 0),)
