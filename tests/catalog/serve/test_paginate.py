"""Answers end where they have to, and go on from there."""

from dataclasses import replace

import pytest

from topicast.catalog.serve import paginate as cutting
from topicast.tests.catalog.holding import T
from topicast.tests.catalog.serve.pulling import (
    Answers,
    blocks_of,
    days,
    filtered,
    large,
    named,
    pull,
)
from topicast.topics.bulk import pulled_cost
from topicast.topics.objects.names import block_key
from topicast.topics.wire.codec import row_bytes
from topicast.topics.wire.header import CHUNK_BYTES_MAX
from topicast.topics.wire.messages import Pull, Pulled


def pages(source: Answers, ask: Pull) -> list[tuple[Pulled, ...]]:
    """Return the answers to ``ask``, each continued where the one before ended."""
    found = [source.answer(ask)]
    while found[-1][-1].cursor:
        last = found[-1][-1]
        more = replace(ask, after=last.cursor, epoch=last.epoch, version=last.topic_version)
        found.append(source.answer(more))
    return found


def test_large_answer_comes_in_parts_that_fit_a_frame() -> None:
    source = Answers()
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
