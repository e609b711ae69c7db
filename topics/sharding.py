"""Sharding: the topic of a table, and the ids of the topics that are of no table.

Every process computes the same topic from the same name: CRC-32 of the UTF-8 of ``db.table``,
scaled to ``num_topics``. Test vectors: ``tests/vectors/sharding_v1.json``.
"""

from typing import Final
from zlib import crc32

from .errors import ConfigError

NUM_TOPICS_DEFAULT: Final = 256
NUM_TOPICS_MAX: Final = 4096  # a vector of positions stays under one 64 KB frame
NAMESPACE: Final = 0xFFFE
HEARTBEAT: Final = 0xFFFF
BARRIER: Final = 0xFFFD
CONTROL: Final = 0xFFFC


def table_topic(db: str, table: str, num_topics: int) -> int:
    """Return the topic of ``db.table``, from 0 to ``num_topics - 1``; names as HMS returns them."""
    return (crc32(f"{db}.{table}".encode()) * num_topics) >> 32


def topic_ids(num_topics: int) -> tuple[int, ...]:
    """Return every topic that holds entries, in the order of vectors: tables, then namespace."""
    return (*range(num_topics), NAMESPACE)


def is_topic(topic: int, num_topics: int) -> bool:
    """Return whether ``topic`` holds entries."""
    return 0 <= topic < num_topics or topic == NAMESPACE


def check_num_topics(num_topics: int) -> int:
    """Return ``num_topics``.

    Raises:
        ConfigError: it is not a power of two between 1 and 4096.
    """
    if not 1 <= num_topics <= NUM_TOPICS_MAX or num_topics & (num_topics - 1):
        raise ConfigError("num_topics", num_topics, f"a power of two from 1 to {NUM_TOPICS_MAX}")
    return num_topics
