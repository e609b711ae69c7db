"""Lists: which columns fit a width, and how much of the prose."""

from hypothesis import given
from hypothesis import strategies as st

from topicast.cli.terminal.lists import PROSE_CHARS_MIN, Heading, amount, listed, span, wrapped
from topicast.topics.sizes import size

NAME, SIZE = Heading(name="name", rank=0), Heading(name="size", rank=2, text=size)
WHY, OWNER = Heading(name="why", rank=1, prose=True), Heading(name="owner", rank=3)
COLUMNS = (NAME, SIZE, OWNER, WHY)
ONE = {"name": "etl", "size": 1_200, "owner": "ann", "why": "it is said in some words " * 3}


def test_least_important_column_is_left_out_first_and_prose_is_cut_at_a_word() -> None:
    wide, narrow, narrower, least = (listed(COLUMNS, [ONE], width=w) for w in (200, 60, 40, 24))
    assert wide[0].split() == ["name", "size", "owner", "why"]
    assert narrow[0].split() == ["name", "size", "why"]
    assert narrow[1] == "etl   1.2 KB  it is said in some words it is said in some …"
    assert narrower[1] == "etl   it is said in some words it is …"
    assert least == ["name", "etl"]


def test_column_that_is_empty_in_each_record_is_left_out() -> None:
    records = [{"name": "a", "size": None, "why": ""}, {"name": "b"}]
    assert listed(COLUMNS, records, width=80) == ["name", "a", "b"]


@given(
    st.lists(st.text("ab ", min_size=1, max_size=200), min_size=1, max_size=5),
    st.integers(PROSE_CHARS_MIN + 10, 300),
)
def test_no_line_is_longer_than_the_terminal_and_no_word_is_broken(
    texts: list[str], width: int
) -> None:
    records = [{"name": "etl", "size": len(text), "why": text} for text in texts]
    head, *lines = listed(COLUMNS, records, width=width)
    assert len(lines) == len(texts)
    assert max(map(len, (head, *lines))) <= width
    if "why" in head:
        at = head.index("why")
        for line, text in zip(lines, texts, strict=True):
            assert {word for word in line[at:].split() if word not in "-…"} <= set(text.split())


def test_name_that_is_longer_than_a_line_is_whole() -> None:
    """A name that is cut cannot be given to the next command."""
    long = {"name": "x" * 100, "why": "some words"}
    assert listed(COLUMNS, [long], width=80)[1].startswith("x" * 100)
    assert wrapped("x" * 100 + " y", width=80) == ["x" * 100, "y"]


def test_numbers_are_in_words() -> None:
    assert [size(n) for n in (0, 1000, 1024, 48_912, 256 << 20, 10**16)] == [
        *("0 B", "1000 B", "1.0 KB", "47.8 KB", "256.0 MB", "9094.9 TB"),
    ]
    assert [span(s) for s in (0.21, 9.96, 75.0, 300.0, 7200.0, 200_000.0)] == [
        *("0.2 s", "10.0 s", "75 s", "5 min", "2 h", "2 d"),
    ]
    assert [amount(n, "driver", "drivers") for n in (0, 1, 2)] == [
        *("0 drivers", "1 driver", "2 drivers"),
    ]
