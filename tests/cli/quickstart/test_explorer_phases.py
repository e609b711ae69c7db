"""The output of the explorer, in plain words."""

from topicast.cli.quickstart.explorer_phases import MODES, PHASES, followed, lines_of, rows_of
from topicast.subscriber.protocol.status import TopicInfo
from topicast.topics.topic import NAMESPACE

LEVELS = [["minimal", 12, 1234567, "in use"], ["none", 244, 0, "never read"]]
HOLDS = {"held_bytes": 2000, "budget_bytes": 24576, "levels": LEVELS}
LAST = [
    "It holds 2,000 of 24,576 bytes; everything would take 50,000.",
    "",
    "level    topics  bytes      why",
    "minimal  12      1,234,567  in use",
    "none     244     0          never read",
]


def test_beginning_says_how_much_there_is() -> None:
    reported = {**HOLDS, "tables": 24, "partitions": 1440}
    lines = lines_of("It begins.", reported, all_bytes=50_000)
    assert lines == ["It begins.", "There are 24 new tables with 1,440 partitions.", *LAST]


def test_reads_are_counted_with_those_that_were_pulled() -> None:
    lines = lines_of("It reads.", {**HOLDS, "reads": 30, "pulls": 6}, all_bytes=50_000)
    assert lines == ["It reads.", "6 of 30 reads were pulled from catalogd.", *LAST]


def test_comparisons_are_counted_with_those_that_differ() -> None:
    lines = lines_of("It turns.", {**HOLDS, "compared": 48, "different": 1}, all_bytes=50_000)
    assert lines[1] == (
        "48 answers compared with the metastore, byte for byte, while a table grew: 1 differ."
    )


def test_news_says_how_topics_are_followed_now() -> None:
    news = {"follows": {"full": 1, "minimal": 20, "none": 236}, "compared": 6, "different": 0}
    assert followed(news) == (
        "now follows its topics like this: 1 at full, 20 at minimal, 236 at none; "
        "6 tables compared with the metastore, 0 differ"
    )


def test_phases_that_change_the_mode_are_phases() -> None:
    assert set(MODES) < {word for word, _ in PHASES}


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
