"""An answer is of one moment, and brings what the client lacks, once."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from topicast.tests.catalog.holding import NOW_US, Holding, T, parts, struct
from topicast.tests.catalog.serve.pulling import (
    KEYED,
    PLACE,
    Answers,
    blocks_of,
    days,
    filtered,
    large,
    pull,
)
from topicast.topics.entries import VALUE
from topicast.topics.errors import UsageError
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.wire.messages import (
    SELECT_BLOCKS,
    SELECT_FILTER,
    SELECT_TABLE,
    SOURCE_EVENTS,
    Claimed,
    Pull,
)

# -- what is answered


def test_answer_says_of_which_moment_it_is() -> None:
    """P-PULL-1."""
    source = Answers()
    answer = source.one(pull())
    number, topic = source.holding.tables.topic_of(T)
    record = source.holding.namespace.find(T)
    assert record is not None
    assert (answer.epoch, answer.start) == PLACE
    assert (answer.topic, answer.topic_version) == (number, topic.version)
    assert answer.namespace_version == source.holding.namespace.version
    assert (answer.found, answer.last, answer.sequence) == (True, True, 0)
    assert answer.incarnation == record.incarnation
    assert [entry.key for entry in answer.entries] == [table_key(*T), block_key(*T, "")]


@pytest.mark.parametrize(
    "change",
    [
        lambda holding: holding.change({**parts("00"), "ds=29": None}),
        lambda holding: holding.tables.drop(T, source=SOURCE_EVENTS, at_us=NOW_US),
        lambda holding: holding.namespace.write(
            {"d": None}, {}, source=SOURCE_EVENTS, at_us=NOW_US
        ),
    ],
    ids=["changed", "dropped", "without its database"],
)
def test_parts_are_of_the_moment_in_which_the_answer_began(
    change: Callable[[Holding], None],
) -> None:
    """P-PULL-1: whatever happens to the table between two parts."""
    source = Answers()
    large(source)
    expected = source.answer(pull())
    coming = source.parts(pull())
    _, first = next(coming)
    change(source.holding)
    assert (first, *(message for _, message in coming)) == expected
    assert len({(one.topic_version, one.namespace_version) for one in expected}) == 1


def test_only_what_is_stale_or_missing_comes_and_what_is_gone_is_named() -> None:
    """P-PULL-2."""
    source = Answers()
    block, table = block_key(*T, ""), table_key(*T)
    version = source.holding.entry().version
    held = ((table, version), (block, version), (block + b"gone", 9))
    full = Pull(request=1, db="d", table="t", selector=SELECT_BLOCKS, credit=1, held=held)
    answer = source.one(full)
    assert (answer.entries, answer.gone) == ((), (block + b"gone",))
    source.holding.change(dict(parts("3")))
    answer = source.one(full)
    assert [entry.key for entry in answer.entries] == [block]
    answer = source.one(
        Pull(request=1, db="d", table="t", selector=SELECT_BLOCKS, credit=1, held=held[1:2])
    )
    assert [entry.key for entry in answer.entries] == [table, block]


def test_table_alone_comes_without_its_blocks() -> None:
    answer = Answers().one(pull(selector=SELECT_TABLE))
    assert [entry.key for entry in answer.entries] == [table_key(*T)]


def test_table_that_does_not_exist_is_said_to_be_none() -> None:
    """P-PULL-3: as of a version of the namespace, also where content is left over."""
    source = Answers()
    source.holding.whole(struct(("d", "left")), {}, table=("d", "left"))
    for name in ("none", "left"):
        answer = source.one(pull(name, x=1))
        assert not answer.found
        assert answer.namespace_version == source.holding.namespace.version
        assert (answer.incarnation, answer.entries, answer.gone) == (0, (), ())


def test_stub_is_not_sent_as_if_it_were_the_table() -> None:
    source = Answers()
    source.holding.tables.withdraw(T, source=SOURCE_EVENTS, at_us=NOW_US)
    assert source.one(pull()).entries == ()
    assert source.holding.entry().kind != VALUE


# -- what can be answered


def test_table_is_ready_when_it_is_held_or_does_not_exist() -> None:
    assert Answers().held() == (True, True)
    assert Answers().held(("d", "none")) == (True, True)
    assert Answers(held=False).held() == (False, False)


def test_content_of_an_earlier_incarnation_is_not_ready() -> None:
    source = Answers()
    source.holding.namespace.write({}, {T: "VIEW"}, renewed=[T], source=SOURCE_EVENTS, at_us=NOW_US)
    assert source.held() == (False, False)


def test_table_that_is_loading_is_ready_without_its_partitions() -> None:
    source = Answers()
    source.holding.whole(KEYED, None)
    assert source.held() == (True, False)


# -- what a filter selects


def test_filter_brings_only_the_blocks_within_its_reach() -> None:
    source = Answers()
    days(source)
    everything = blocks_of(source.answer(pull()))
    found = blocks_of(source.answer(filtered("ds = '077'")))
    assert len(everything) > 5
    assert len(found) == 1
    assert "ds=077" in next(iter(found.values()))
    some = blocks_of(source.answer(filtered("ds >= '180' or ds = '003'")))
    assert {name for names in some.values() for name in names} >= {"ds=003", "ds=180", "ds=199"}
    assert len(some) < len(everything)


def test_filter_that_no_name_tells_is_tried_on_every_block() -> None:
    source = Answers()
    days(source)
    found = blocks_of(source.answer(filtered("ds like '.*77'")))
    assert ["ds=077" in names or "ds=177" in names for names in found.values()] == [True, True]


def test_stale_block_outside_the_filter_is_named_as_gone() -> None:
    """P-PULL-2: what was held and is not named is of the answer's version."""
    source = Answers()
    days(source)
    held = [(entry.key, entry.version) for entry in source.one(pull()).entries]
    before = source.one(filtered("ds = '077'", *held))
    assert (before.entries, before.gone) == ((), ())
    source.holding.change(dict(parts("003", comment="changed")))
    answer = source.one(filtered("ds = '077'", *held))
    assert blocks_of((answer,)) == {}
    assert len(answer.gone) == 1
    (key,) = answer.gone
    assert (
        "ds=003" in blocks_of(source.answer(pull()))[key.removeprefix(block_key(*T, "")).decode()]
    )
    changed = source.one(filtered("ds = '003'", *held))
    assert [entry.key for entry in changed.entries][1:] == [key]
    assert changed.gone == ()


@pytest.mark.parametrize("text", ["nonsense", "other = 'x'", ""])
def test_filter_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Answers().answer(filtered(text))


def test_filter_on_a_table_that_does_not_exist_is_answered_with_that() -> None:
    gone = Pull(
        request=1, db="d", table="none", selector=SELECT_FILTER, credit=1, held=(), filter="x = 1"
    )
    assert not Answers().one(gone).found


# -- conditions


def test_page_of_a_table_that_has_changed_says_only_that_it_moved() -> None:
    """P-PULL-10."""
    source = Answers()
    days(source)
    first = source.answer(replace(pull(), bytes_max=1))[-1]
    more = replace(pull(), after=first.cursor, epoch=first.epoch, version=first.topic_version)
    assert source.answer(more)[0].entries
    source.holding.change(dict(parts("003", comment="changed")))
    (moved,) = source.answer(more)
    assert moved.moved
    assert (moved.entries, moved.gone, moved.names, moved.cursor) == ((), (), b"", b"")
    assert moved.topic_version == source.holding.tables.topic_of(T)[1].version > more.version


def test_condition_is_on_the_table_and_not_on_its_topic() -> None:
    """P-PULL-10: a change of another table of the topic moves nothing."""
    source = Answers()
    days(source)
    _, topic = source.holding.tables.topic_of(T)
    still = replace(pull(), epoch=PLACE[0], version=topic.version)
    topic.version += 1
    assert not source.one(still).moved
    assert source.one(replace(still, version=topic.version - 2)).moved


@pytest.mark.parametrize("change", ["epoch", "floor", "incarnation"])
def test_condition_that_cannot_be_confirmed_counts_as_moved(change: str) -> None:
    """P-PULL-10."""
    source = Answers()
    _, topic = source.holding.tables.topic_of(T)
    still = replace(pull(), epoch=PLACE[0], version=topic.version)
    assert not source.one(still).moved
    if change == "epoch":
        still = replace(still, epoch=PLACE[0] - 1)
    elif change == "floor":
        topic.raise_floor(topic.version + 1)
    else:
        names = source.holding.namespace
        names.write({}, {T: "VIEW"}, renewed=[T], source=SOURCE_EVENTS, at_us=NOW_US)
    assert source.one(still).moved


# -- claims beside


def test_every_part_says_which_claims_beside_are_stale_as_of_its_version() -> None:
    """P-PULL-17."""
    source = Answers()
    days(source)
    mates = ("d", "other"), ("d", "more")
    names = dict.fromkeys(mates, "EXTERNAL_TABLE")
    source.holding.namespace.write({}, names, source=SOURCE_EVENTS, at_us=NOW_US)
    for mate in mates:
        record = source.holding.namespace.find(mate)
        assert record is not None
        source.holding.whole(struct(mate), {}, table=mate, incarnation=record.incarnation)
    versions = [source.holding.tables.topic_of(mate)[1].version for mate in mates]
    beside = tuple(
        Claimed(db=db, table=table, version=version, whole=True)
        for (db, table), version in zip(mates, versions, strict=True)
    )
    asked = replace(pull(), epoch=PLACE[0], claims=beside)
    assert {part.stale for part in source.answer(asked)} == {()}
    assert {part.stale for part in source.answer(replace(asked, epoch=PLACE[0] - 1))} == {(0, 1)}
    more = {"table": mates[1], "incarnation": record.incarnation}
    source.holding.whole(struct(mates[1], columns=1), {}, **more)
    assert {part.stale for part in source.answer(asked)} == {(1,)}
    (moved,) = source.answer(replace(asked, version=1))
    assert (moved.moved, moved.stale) == (True, (1,))
