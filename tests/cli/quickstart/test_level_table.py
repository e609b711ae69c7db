"""The quickstart's table of topics: one row for what is alike."""

from topicast.cli.quickstart.level_table import rows_of, table_of
from topicast.subscriber.protocol.status import TopicInfo
from topicast.topics.topic import NAMESPACE


def info(number: int, level: str, *, held: int = 0, why: str = "never read here") -> TopicInfo:
    return TopicInfo(
        id=number,
        level=level,
        version=1,
        bytes=held,
        hits=0,
        lag_s=0.1,
        full_bytes=held,
        why=why,
    )


def test_topics_of_one_level_and_kind_of_reason_are_one_row_and_the_largest_speaks() -> None:
    topics = [
        info(0, "none"),
        info(1, "minimal", held=700, why="in use; full takes 1.5 KB, which is better used"),
        info(2, "minimal", held=800, why="in use; full takes 20.0 KB, which is better used"),
        info(3, "minimal", held=64, why="read for the first time"),
        info(4, "none"),
        info(5, "full", held=5000, why="saves 12 pulls an hour with 4.9 KB"),
        info(NAMESPACE, "full", held=2000, why="names are always held"),
    ]
    assert rows_of(topics) == [
        ("full", 1, 2000, "names are always held"),
        ("full", 1, 5000, "saves 12 pulls an hour with 4.9 KB"),
        ("minimal", 2, 1500, "in use; full takes 20.0 KB, which is better used"),
        ("minimal", 1, 64, "read for the first time"),
        ("none", 2, 0, "never read here"),
    ]


def test_table_is_aligned_and_its_bytes_are_readable() -> None:
    assert table_of([("minimal", 12, 1234567, "in use"), ("none", 244, 0, "never read")]) == [
        "level    topics  bytes      why",
        "minimal  12      1,234,567  in use",
        "none     244     0          never read",
    ]
