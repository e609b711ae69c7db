"""What a notebook shows: the verdict first, everything escaped, and lists of a bounded length."""

import re

from topicast.topics.notebook import ROWS_MAX, shown


def text(page: str) -> str:
    """Return what a person reads of it."""
    return re.sub(r"<[^>]*>", " ", page)


def test_verdict_comes_first_and_empty_facts_are_left_out() -> None:
    page = shown("it serves", [("held_bytes", 4711), ("reason", ""), ("lag_s", 0.25)])
    words = text(page).split()
    assert words == ["it", "serves", "held", "4.6", "KB", "lag", "0.25", "s"]
    assert page.index("<b>it serves</b>") < page.index("<table>")


def test_nothing_that_is_shown_is_taken_for_html() -> None:
    bad = "<script>alert(1)</script>&'\""
    page = shown(bad, [(bad, bad)], head=(bad,), rows=[(bad,)])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&#x27;&quot;") == 5


def test_list_ends_where_a_notebook_would_stall() -> None:
    page = shown("it", [], head=("name",), rows=[(f"c{n}",) for n in range(ROWS_MAX + 7)])
    assert f">c{ROWS_MAX - 1}<" in page
    assert f">c{ROWS_MAX}<" not in page
    assert "and 7 more" in page


def test_truth_is_yes_or_no() -> None:
    assert text(shown("it", [("ready", True), ("live", False)])).split()[1:] == [
        *("ready", "yes"),
        *("live", "no"),
    ]
