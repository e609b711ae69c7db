"""Pulls: an answer is of one moment, brings what is lacking once, ends at its cap and goes on."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from topicast.catalog.serve import pull_server as cutting
from topicast.catalog.serve.pull_server import answer, held
from topicast.tests.catalog.holding import Holding, T, parts, struct
from topicast.topics.objects.encoding.values import decode_block, decode_listing
from topicast.topics.objects.names import TableId, block_key, table_key
from topicast.topics.objects.selector import ALL, TABLE_ONLY, Selector, by_filter
from topicast.topics.streams.sender import Part, pulled_cost
from topicast.topics.topic import VALUE, value_of
from topicast.topics.wire import encode
from topicast.topics.wire.codec import row_bytes
from topicast.topics.wire.header import (
    CHUNK_BYTES_MAX,
    FRAME_BYTES_MAX,
    PIECE_BYTES_MAX,
    VALUE_BYTES_MAX,
)
from topicast.topics.wire.messages.catalog import (
    Claimed,
    Pull,
    Pulled,
)
from topicast.topics.wire.messages.data import SOURCE_EVENTS

KEYED = struct(T, "ds")
PLACE = (5, 7)


class Answers:
    """Answers to pulls, from a holding that knows ``d.t`` and, with ``held``, its content."""

    def __init__(self, *, held: bool = True) -> None:
        self.holding = Holding()
        self.holding.namespace.write({"d": b"struct"}, {T: "EXTERNAL_TABLE"}, source=SOURCE_EVENTS)
        if held:
            self.holding.whole(KEYED, parts("1", "2"))

    def parts(self, pull: Pull) -> Iterator[Part]:
        return answer(self.holding.namespace, self.holding.tables, pull, position=PLACE)

    def answer(self, pull: Pull) -> tuple[Pulled, ...]:
        return tuple(message for _, message in self.parts(pull))

    def held(self, table: TableId = T) -> tuple[bool, bool]:
        return held(self.holding.namespace, self.holding.tables, table)

    def one(self, pull: Pull) -> Pulled:
        (message,) = self.answer(pull)
        return message


@pytest.fixture
def source() -> Answers:
    return Answers()


def pull(table: str = "t", *, request: int = 1, selector: Selector = ALL, **held: int) -> Pull:
    """Return a pull by someone who holds these blocks, by lower bound, at these versions."""
    keys = tuple((block_key("d", table, lower), version) for lower, version in held.items())
    return Pull(request=request, db="d", table=table, selector=selector, credit=1 << 20, held=keys)


def test_held_keys_that_are_of_no_table_or_of_another_table_are_gone(source: Answers) -> None:
    strange = (b"", b"x", b"d\0", table_key("d", "other"), table_key("e", "t"))
    found = source.one(replace(pull(), held=tuple((key, 1) for key in strange)))
    assert found.gone == strange
    assert [entry.key for entry in found.entries] == [table_key("d", "t"), block_key("d", "t", "")]


def large(source: Answers) -> None:
    """Give ``d.t`` partitions that take several parts."""
    rng = random.Random(1)
    for number in range(30):
        some = parts(f"{number:02d}", comment=rng.randbytes(15_000).hex())
        source.holding.change(dict(some))


def test_large_value_comes_in_pieces_that_follow_each_other(source: Answers) -> None:
    """P-PULL-18: each is a part of its own, made when it is sent."""
    comment = random.Random(1).randbytes(VALUE_BYTES_MAX).hex()
    source.holding.change(dict(parts("15", comment=comment)))
    source.holding.change(dict(parts("2", comment="small")))
    wanted = pull(selector=ALL)
    found = source.answer(wanted)
    assert [one.sequence for one in found] == list(range(len(found)))
    assert [one.last for one in found] == [False] * (len(found) - 1) + [True]
    assert all(len(encode(one)) <= FRAME_BYTES_MAX for one in found)
    assert [cost for cost, _ in source.parts(wanted)] == list(map(pulled_cost, found))
    of_large = [e for one in found for e in one.entries if e.size > VALUE_BYTES_MAX]
    assert max(len(value_of(entry)) for entry in of_large) == PIECE_BYTES_MAX
    held = source.holding.rows()
    (large,) = [entry for entry in held if entry.size > VALUE_BYTES_MAX]
    assert b"".join(map(value_of, of_large)) == large.value
    others = [e for one in found for e in one.entries if e.size <= VALUE_BYTES_MAX]
    assert sorted([large, *others]) == sorted(held)


def test_value_of_as_many_bytes_as_a_piece_ends_with_it(
    source: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-PULL-18: no empty piece follows, and none is missing."""
    note = random.Random(1).randbytes(VALUE_BYTES_MAX).hex()
    source.holding.change({}, thrift=struct(T, "ds", comment=note))
    monkeypatch.setattr(cutting, "PIECE_BYTES_MAX", source.holding.entry().size)
    found = source.one(pull(selector=TABLE_ONLY))
    assert found.last
    assert found.entries == (source.holding.entry(),)


def days(source: Answers, count: int = 200) -> None:
    """Give ``d.t`` so many partitions ``ds=000`` …, in several blocks."""
    for first in range(0, count, 20):
        source.holding.change(
            dict(parts(*(f"{number:03d}" for number in range(first, first + 20))))
        )


def filtered(text: str, *held: tuple[bytes, int]) -> Pull:
    return Pull(request=1, db="d", table="t", selector=by_filter(text), credit=1 << 20, held=held)


def blocks_of(answers: tuple[Pulled, ...]) -> dict[str, tuple[str, ...]]:
    """Return the names in each block that came, by its lower bound."""
    found = {}
    for entry in (entry for one in answers for entry in one.entries):
        if entry.key != table_key(*T):
            assert entry.value is not None
            lower = entry.key.removeprefix(block_key(*T, "")).decode()
            found[lower] = decode_block(entry.value, entry.version).names
    return found


def named(answers: tuple[Pulled, ...]) -> list[str]:
    """Return the names that came in ``answers``."""
    return [name for answer in answers for name in decode_listing(answer.names)]


# -- what is answered


def test_answer_says_of_which_moment_it_is(source: Answers) -> None:
    """P-PULL-1."""
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
        lambda holding: holding.tables.drop(T, source=SOURCE_EVENTS),
        lambda holding: holding.namespace.write({"d": None}, {}, source=SOURCE_EVENTS),
    ],
    ids=["changed", "dropped", "without its database"],
)
def test_parts_are_of_the_moment_in_which_the_answer_began(
    source: Answers, change: Callable[[Holding], None]
) -> None:
    """P-PULL-1: whatever happens to the table between two parts."""
    large(source)
    expected = source.answer(pull())
    coming = source.parts(pull())
    _, first = next(coming)
    change(source.holding)
    assert (first, *(message for _, message in coming)) == expected
    assert len({(one.topic_version, one.namespace_version) for one in expected}) == 1


def test_table_that_does_not_exist_is_said_to_be_none(source: Answers) -> None:
    """P-PULL-3: as of a version of the namespace, also where content is left over."""
    source.holding.whole(struct(("d", "left")), {}, table=("d", "left"))
    for name in ("none", "left"):
        answer = source.one(pull(name, x=1))
        assert (answer.found, answer.last, answer.sequence) == (False, True, 0)
        assert answer.namespace_version == source.holding.namespace.version
        assert (answer.incarnation, answer.entries, answer.gone) == (0, (), ())


def test_stub_is_not_sent_as_if_it_were_the_table(source: Answers) -> None:
    source.holding.tables.end_content(T, source=SOURCE_EVENTS)
    assert source.one(pull()).entries == ()
    assert source.holding.entry().kind != VALUE


# -- what can be answered


def test_table_is_ready_when_it_is_held_or_does_not_exist(source: Answers) -> None:
    assert source.held() == source.held(("d", "none")) == (True, True)
    assert Answers(held=False).held() == (False, False)
    source.holding.whole(KEYED, None)
    assert source.held() == (True, False), "without its partitions, while they are loaded"
    source.holding.namespace.write({}, {T: "VIEW"}, renewed=[T], source=SOURCE_EVENTS)
    assert source.held() == (False, False), "the content is of an earlier incarnation"


# -- what a filter selects


def test_filter_brings_only_the_blocks_within_its_reach(source: Answers) -> None:
    days(source)
    everything = blocks_of(source.answer(pull()))
    found = blocks_of(source.answer(filtered("ds = '077'")))
    assert len(everything) > 5
    assert len(found) == 1
    assert "ds=077" in next(iter(found.values()))
    some = blocks_of(source.answer(filtered("ds >= '180' or ds = '003'")))
    assert {name for names in some.values() for name in names} >= {"ds=003", "ds=180", "ds=199"}
    assert len(some) < len(everything)


def test_stale_block_outside_the_filter_is_named_as_gone(source: Answers) -> None:
    """P-PULL-2: what was held and is not named is of the answer's version."""
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


def test_filter_on_a_table_that_does_not_exist_is_answered_with_that() -> None:
    gone = Pull(request=1, db="d", table="none", selector=by_filter("x = 1"), credit=1, held=())
    assert not Answers().one(gone).found


# -- conditions


def test_page_of_a_table_that_has_changed_says_only_that_it_moved(source: Answers) -> None:
    """P-PULL-10."""
    days(source)
    first = source.answer(replace(pull(), bytes_max=1))[-1]
    more = replace(pull(), after=first.cursor, epoch=first.epoch, version=first.topic_version)
    assert source.answer(more)[0].entries
    source.holding.change(dict(parts("003", comment="changed")))
    (moved,) = source.answer(more)
    assert (moved.moved, moved.last, moved.sequence) == (True, True, 0)
    assert (moved.entries, moved.gone, moved.names, moved.cursor) == ((), (), b"", b"")
    assert moved.topic_version == source.holding.tables.topic_of(T)[1].version > more.version


def test_condition_is_on_the_table_and_not_on_its_topic(source: Answers) -> None:
    """P-PULL-10: a change of another table of the topic moves nothing."""
    days(source)
    _, topic = source.holding.tables.topic_of(T)
    still = replace(pull(), epoch=PLACE[0], version=topic.version)
    topic.version += 1
    assert not source.one(still).moved
    assert source.one(replace(still, version=topic.version - 2)).moved


@pytest.mark.parametrize("change", ["epoch", "floor", "incarnation"])
def test_condition_that_cannot_be_confirmed_counts_as_moved(source: Answers, change: str) -> None:
    """P-PULL-10."""
    _, topic = source.holding.tables.topic_of(T)
    still = replace(pull(), epoch=PLACE[0], version=topic.version)
    assert not source.one(still).moved
    if change == "epoch":
        still = replace(still, epoch=PLACE[0] - 1)
    elif change == "floor":
        topic.raise_floor(topic.version + 1)
    else:
        names = source.holding.namespace
        names.write({}, {T: "VIEW"}, renewed=[T], source=SOURCE_EVENTS)
    assert source.one(still).moved


# -- claims beside


def test_every_part_says_which_claims_beside_are_stale_as_of_its_version(source: Answers) -> None:
    """P-PULL-17."""
    days(source)
    mates = ("d", "other"), ("d", "more")
    names = dict.fromkeys(mates, "EXTERNAL_TABLE")
    source.holding.namespace.write({}, names, source=SOURCE_EVENTS)
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


def pages(source: Answers, ask: Pull) -> list[tuple[Pulled, ...]]:
    """Return the answers to ``ask``, each continued where the answer before ended."""
    found = [source.answer(ask)]
    while found[-1][-1].cursor:
        last = found[-1][-1]
        more = replace(ask, after=last.cursor, epoch=last.epoch, version=last.topic_version)
        found.append(source.answer(more))
    return found


def test_large_answer_comes_in_parts_that_fit_a_frame(source: Answers) -> None:
    large(source)
    answer = source.answer(pull(x=1))
    assert len(answer) > 1
    assert [one.sequence for one in answer] == list(range(len(answer)))
    assert [one.last for one in answer] == [False] * (len(answer) - 1) + [True]
    assert [one.gone for one in answer] == [(block_key(*T, "x"),)] + [()] * (len(answer) - 1)
    keys = [entry.key for one in answer for entry in one.entries]
    assert keys == sorted(set(keys))
    assert len(keys) > 10
    costs = [cost for cost, _ in source.parts(pull(x=1))]
    assert costs == [pulled_cost(one) for one in answer]
    assert max(costs) < CHUNK_BYTES_MAX + 1024


def test_part_looks_at_few_blocks_and_may_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "LOOKED_MAX", 2)
    source = Answers()
    days(source)
    answers = source.answer(filtered("ds like '.*199'"))
    assert [answer.sequence for answer in answers] == list(range(len(answers)))
    assert [answer.last for answer in answers] == [False] * (len(answers) - 1) + [True]
    assert sum(not answer.entries for answer in answers) > 1
    assert len(blocks_of(answers)) == 1


def test_names_alone_come_sorted_and_as_they_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-PULL-8."""
    monkeypatch.setattr(cutting, "LOOKED_MAX", 2)
    source = Answers()
    days(source)
    answers = source.answer(replace(pull(), names_only=True))
    assert len(answers) > 2
    assert named(answers) == sorted(source.holding.names())
    assert [answer.entries for answer in answers] == [()] * len(answers)
    few = source.answer(replace(filtered("ds >= '180'"), names_only=True))
    assert named(few) == [f"ds={number}" for number in range(180, 200)] + ["ds=2"]
    assert named(source.answer(replace(pull("none"), names_only=True))) == []


@pytest.mark.parametrize(
    "ask",
    [
        pull(),
        filtered("ds like '.*7.*'"),
        filtered("ds > '100'"),
        replace(pull(), names_only=True),
        replace(filtered("ds like '.*7.*'"), names_only=True),
    ],
    ids=["all", "tried on each", "within reach", "names", "names tried on each"],
)
@pytest.mark.parametrize("bytes_max", [1, 150, 600])
def test_answer_ends_at_its_cap_and_goes_on_from_its_cursor(
    monkeypatch: pytest.MonkeyPatch, ask: Pull, bytes_max: int
) -> None:
    """P-PULL-9."""
    monkeypatch.setattr(cutting, "LOOKED_MAX", 3)
    source = Answers()
    days(source)
    whole = source.answer(ask)
    assert whole[-1].cursor == b""
    found = pages(source, replace(ask, bytes_max=bytes_max))
    assert len(found) > 1 or bytes_max > 100
    assert all(page[-1].last and not page[-1].moved for page in found)
    assert all(part.cursor == b"" for page in found for part in page[:-1])
    flat = tuple(part for page in found for part in page)
    assert blocks_of(flat) == blocks_of(whole)
    assert named(flat) == named(whole)
    sizes = [sum(sum(map(row_bytes, part.entries)) for part in page) for page in found]
    largest = max((row_bytes(entry) for part in whole for entry in part.entries), default=0)
    assert max(sizes) <= max(bytes_max, largest)


def test_answer_is_capped_also_for_who_names_no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-PULL-9."""
    monkeypatch.setattr(cutting, "ANSWER_BYTES_MAX", 500)
    source = Answers()
    days(source)
    whole = source.answer(replace(pull(), bytes_max=1 << 40))
    assert 0 < sum(len(part.entries) for part in whole) < 4
    assert whole[-1].cursor
