import pytest

from topicast.cli.pages.parts.grid import ROWS_MAX, Grid, shown
from topicast.topics.wire.messages.fields import Cell

MANY = 2 * ROWS_MAX + 1


def grid(rows: list[tuple[Cell, ...]], **more: object) -> Grid:
    return Grid(about="<all>", columns=("name", "held_bytes"), rows=rows, **more)  # type: ignore[arg-type]


def test_text_is_escaped_wherever_it_comes_from() -> None:
    found = grid([("<script>", 1)], links={"name": lambda row: f'/x?of={row["name"]}"'})
    html = found.html("/things", {})
    assert "<p>&lt;all&gt;</p>" in html
    assert '<a href="/x?of=&lt;script&gt;&quot;">&lt;script&gt;</a>' in html
    assert "<script>" not in html


def test_numbers_stand_below_each_other_with_their_units() -> None:
    html = grid([("a", 1500), ("b", None)]).html("/things", {})
    assert '<th class="right">held</th>' in html
    assert '<td class="right">1.5 KB</td>' in html
    assert '<td class="right">–</td>' in html


def test_prose_has_room_and_names_have_none_to_spare() -> None:
    reason = "3 of 16 topics are not followed"
    html = grid([(reason, 1), ("", 2)]).html("/things", {})
    assert f'<td class="prose">{reason}</td>' in html
    assert "prose" not in grid([("a name with spaces", 1)]).html("/things", {})


def test_page_shows_some_rows_and_leads_to_those_before_and_behind() -> None:
    of_many = grid([(f"n{number}", number) for number in range(MANY)])
    first = of_many.html("/things", {"all": ""})
    assert f">n{ROWS_MAX - 1}<" in first
    assert f">n{ROWS_MAX}<" not in first
    assert f"1 to {ROWS_MAX} of {MANY}" in first
    assert f'<a href="/things?all=&amp;from={ROWS_MAX}">next</a>' in first
    assert "previous" not in first
    last = of_many.html("/things", {"from": str(2 * ROWS_MAX)})
    assert f"{MANY} to {MANY} of {MANY}" in last
    assert f'<a href="/things?from={ROWS_MAX}">previous</a>' in last
    assert "next" not in last


def test_rows_that_go_on_elsewhere_are_led_to_behind_the_last() -> None:
    found = grid([("a", 1)], after={"after": "ff"})
    assert '<a href="/things?from=0&amp;after=ff">next</a>' in found.html("/things", {})
    assert found.document() == {
        "rows": [{"name": "a", "held_bytes": 1}],
        "after": {"after": "ff"},
    }


@pytest.mark.parametrize("first", ["-1", "x", "9" * 100, "٣", str(MANY)])
def test_place_that_is_not_among_the_rows_is_the_first(first: str) -> None:
    """Grids of one page share the place: a long grid goes on, a short grid is shown whole."""
    html = grid([("a", 1)], empty="nobody").html("/things", {"from": first})
    assert ">a<" in html
    assert "nobody" not in html


def test_search_that_has_found_nothing_so_far_goes_on() -> None:
    html = grid([], empty="none so far", after={"after": "ff"}).html("/things", {"match": "x"})
    assert "none so far" in html
    assert '<a href="/things?match=x&amp;from=0&amp;after=ff">go on</a>' in html


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("entries", 12345, "12,345"),
        ("pid", 12345, "12345"),
        ("lag_s", 75, "75 s"),
        ("connected", True, "yes"),
        ("reason", "", "–"),
    ],
)
def test_cells_are_shown_as_people_read_them(column: str, value: Cell, text: str) -> None:
    assert shown(column, value) == text


def test_cells_of_many_columns_say_what_they_are_and_empty_cells_do_not() -> None:
    """A phone shows such a row as a paragraph; the first cell is its name."""
    columns = ("application", "state", "stale_s", "reason")
    found = Grid(about="", columns=columns, rows=[("etl", "live", 1.5, "")])
    html = found.html("/drivers", {})
    assert '<td>etl</td><td data-head="state ">live</td>' in html
    assert '<td class="right" data-head="stale ">1.5 s</td><td>–</td>' in html
    assert "data-head" not in grid([("a", 1)]).html("/things", {})
