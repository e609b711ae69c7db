"""How much content a daemon keeps in memory, by what the whole process takes."""

import pytest

from topicast.tests.strategies import value
from topicast.topics.errors import ConfigError
from topicast.topics.memory.limited_topic import LimitedTopic
from topicast.topics.memory.memory_limit import OVER_S, MemoryFacts, MemoryLimit, memory_short

MB = 1 << 20
GROUPS = [b"d\0t%d\0" % number for number in range(100)]


def filled(limit: MemoryLimit) -> LimitedTopic:
    """Return a topic with a megabyte in each of a hundred tables."""
    topic = LimitedTopic(1, limit.warm)
    topic.file([value(group, n + 1, bytes(MB)) for n, group in enumerate(GROUPS)])
    return topic


def test_process_that_takes_too_much_cools_what_is_too_much_and_gives_it_back() -> None:
    limit = MemoryLimit(200 * MB)
    topic = filled(limit)
    assert limit.measured(180 * MB), "ten more than the target"
    assert limit.hold(), "freed memory is to be given back"
    assert 89 * MB < topic.held_bytes < 91 * MB
    assert limit.facts.cooled == pytest.approx(10, abs=1)
    assert not limit.hold()


def test_process_with_room_lets_content_take_half_of_it() -> None:
    limit = MemoryLimit(200 * MB)
    filled(limit)
    assert not limit.measured(130 * MB)
    assert limit.warm.limit_bytes == limit.warm.held_bytes + 20 * MB
    assert not limit.hold()
    assert limit.facts == MemoryFacts(200 * MB, 130 * MB, 100, 0)


def test_process_that_is_short_with_nothing_warm_says_so() -> None:
    limit = MemoryLimit(50 * MB)
    filled(limit)
    limit.measured(180 * MB)
    assert list(memory_short(limit.facts)) == [], "content leaves memory first"
    limit.hold()
    (reason,) = memory_short(limit.facts)
    assert reason.code == "memory_short"
    assert "180 MB are taken, more than --mem_limit=50MB" in reason.what
    limit.measured(49 * MB)
    assert list(memory_short(limit.facts)) == []
    assert list(memory_short(None)) == []


def test_process_that_stays_above_its_limit_says_so_whatever_is_warm() -> None:
    limit = MemoryLimit(50 * MB)
    filled(limit)  # and used so often that it does not stay cold
    for _ in range(int(OVER_S) - 1):
        limit.measured(180 * MB)
        assert list(memory_short(limit.facts)) == []
    limit.measured(180 * MB)
    (reason,) = memory_short(limit.facts)
    assert reason.what == "180 MB are taken, more than --mem_limit=50MB, for 60 s"
    limit.measured(50 * MB)
    limit.measured(51 * MB)
    assert list(memory_short(limit.facts)) == [], "it was below in between"


def test_limit_that_the_index_alone_exceeds_is_refused_with_the_least_that_is_allowed() -> None:
    limit = MemoryLimit(100 * MB)
    limit.measured(85 * MB)
    limit.check_start(entries=7)
    limit.measured(88 * MB)
    with pytest.raises(ConfigError, match=r"mem_limit='100MB'.*at least 103 MB: .* 7,000 entries"):
        limit.check_start(entries=7000)
