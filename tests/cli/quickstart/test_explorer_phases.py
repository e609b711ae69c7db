"""The output of the explorer, in plain words."""

from topicast.cli.quickstart.explorer_phases import MODES, PHASES, followed, lines_of

HOLDS = {"held_bytes": 2000, "budget_bytes": 24576, "levels": [["none", 256, 0, "never read here"]]}
LAST = [
    "It holds 2,000 of 24,576 bytes; everything would take 50,000.",
    "",
    "level  topics  bytes  why",
    "none   256     0      never read here",
]


def test_beginning_says_how_much_there_is() -> None:
    reported = {**HOLDS, "tables": 24, "partitions": 1440}
    lines = lines_of("It begins.", reported, all_bytes=50_000)
    assert lines == ["It begins.", "There are 24 new tables with 1,440 partitions.", *LAST]


def test_reads_are_counted_with_those_that_were_pulled() -> None:
    lines = lines_of("It reads.", {**HOLDS, "reads": 30, "pulls": 6}, all_bytes=50_000)
    assert lines == ["It reads.", "Of 30 reads 6 were pulled from catalogd.", *LAST]


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
