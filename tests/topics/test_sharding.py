"""Sharding: the topic of a table, by vectors that never change, and the order of vectors."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.strategies import text
from topicast.topics.errors import ConfigError
from topicast.topics.topic import (
    BARRIER,
    CONTROL,
    HEARTBEAT,
    NAMESPACE,
    NUM_TOPICS_DEFAULT,
    NUM_TOPICS_MAX,
    check_num_topics,
    is_topic,
    table_topic,
    topic_ids,
)

FILE = Path(__file__).parent.parent / "vectors" / "sharding_v1.json"
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
POWERS = st.integers(0, 12).map(lambda exponent: 1 << exponent)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['db']}.{v['table']}/{v['num']}")
def test_golden_vector_gives_the_same_topic(vector: dict[str, Any]) -> None:
    """P-SHARD-1."""
    assert table_topic(vector["db"], vector["table"], vector["num"]) == vector["topic"]


@given(text, text, POWERS)
def test_topic_of_a_table_holds_entries(db: str, table: str, num_topics: int) -> None:
    topic = table_topic(db, table, num_topics)
    assert is_topic(topic, num_topics)
    assert topic != NAMESPACE
    assert topic == table_topic(db, table, num_topics * 2) // 2  # doubling splits in place


def test_vectors_name_tables_first_and_the_namespace_last() -> None:
    """P-SHARD-3."""
    assert topic_ids(4) == (0, 1, 2, 3, NAMESPACE)
    assert all(is_topic(topic, 4) for topic in topic_ids(4))


@pytest.mark.parametrize("topic", [-1, 4, HEARTBEAT, BARRIER, CONTROL])
def test_other_ids_hold_no_entries(topic: int) -> None:
    assert not is_topic(topic, 4)


@given(POWERS)
def test_powers_of_two_are_numbers_of_topics(num_topics: int) -> None:
    assert check_num_topics(num_topics) == num_topics


@pytest.mark.parametrize("number", [-2, 0, 3, 255, NUM_TOPICS_MAX * 2])
def test_other_numbers_of_topics_are_refused(number: int) -> None:
    """P-SHARD-2."""
    with pytest.raises(ConfigError, match="a power of two from 1 to 4096"):
        check_num_topics(number)


def test_default_number_of_topics_is_allowed() -> None:
    assert check_num_topics(NUM_TOPICS_DEFAULT) == 256
