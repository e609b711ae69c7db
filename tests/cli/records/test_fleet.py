"""The list of drivers, as pure functions over records: no process, no hub."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from topicast.cli.records.fleet import (
    NOBODY,
    SHOWN,
    ListedDriver,
    called,
    completed,
    each_once,
    matches,
    mend,
    problem_lines,
    problems,
    shown,
    unreachable,
)
from topicast.cli.terminal.lists import listed
from topicast.pipeline.datasource.views import DRIVERS
from topicast.tests.cli.snapshots import assert_snapshot

NOW = datetime(2026, 11, 26, 8, 0, 30, tzinfo=timezone.utc)
BUDGET = "3 of 256 topics are not followed: the budget holds 64 MB; 80 MB would do"


def driver(number: int = 7, **more: Any) -> dict[str, Any]:
    made = {
        "application": f"nightly-etl-{number}",
        "application_id": f"app-{number}",
        "registration": f"{number:08x}" + "0" * 24,
        "user": "ann",
        "host": "node1.example.com",
        "pid": 4711,
        "state": "live",
        "reason": "",
        "control": "on",
        "since_s": 30.0,
        "staleness_s": 0.21,
        "hubs": 2,
        "statestored": "tcp://a:24000",
    }
    return made | more


THREE = (
    driver(1),
    driver(2, reason=BUDGET),
    driver(3, state="plain", reason="catalogd refuses the key: topicast doctor", staleness_s=75.0),
)


def lines(records: Any, *, width: int, wide: bool = False) -> list[str]:
    return listed(SHOWN, shown(completed(records, now=NOW)), width=width, wide=wide)


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("count", [0, 3, 50])
def test_list_looks_as_in_the_snapshot(count: int, width: int, pytestconfig: pytest.Config) -> None:
    """The worst first, a line each; --rewrite writes the snapshots."""
    many = (THREE[n % 3] | {"application": f"nightly-etl-{n}"} for n in range(count))
    made = lines(THREE if count == 3 else tuple(many), width=width) if count else [NOBODY]
    assert max(map(len, made)) <= width
    assert_snapshot(f"drivers-{count}-{width}", made, rewrite=pytestconfig.getoption("--rewrite"))


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("count", [1, 3, 50])
def test_any_number_of_drivers_fits_any_width_a_line_each(count: int, width: int) -> None:
    states = ("live", "connecting", "plain", "gone", "unreachable")
    records = [driver(n, state=states[n % 5], reason=BUDGET if n % 3 else "") for n in range(count)]
    found = lines(records, width=width)
    assert len(found) == 1 + count
    assert max(map(len, found)) <= width
    words = {word for one in records for word in (one["application"], one["state"])}
    assert words <= {word for line in found for word in line.split()}, "no word is broken"
    order = [line.split()[1] for line in found[1:]]
    gone = order.count("gone")
    assert order[-gone:] == ["gone"] * gone or not gone


def test_wide_has_every_column_whole() -> None:
    head, plain, budget, _ = lines(THREE, width=80, wide=True)
    assert budget.endswith(BUDGET)
    assert {"pid", "hubs", "statestored", "for"} <= set(head.split())
    assert "tcp://a:24000" in plain


def test_each_problem_is_told_at_length_with_what_to_do() -> None:
    found = completed(THREE, now=NOW)
    assert [called(one) for one in problems(found)] == ["nightly-etl-3", "nightly-etl-2"]
    assert problem_lines(problems(found)[:1], width=80) == [
        "nightly-etl-3  plain for 30 s, 75 s stale",
        "  catalogd refuses the key: topicast doctor",
        "  -> topicast doctor, on node1.example.com, says why",
        "  user         ann",
        "  host         node1.example.com",
        "  pid          4711",
        "  statestored  tcp://a:24000",
    ]


@pytest.mark.parametrize(
    ("more", "told_to_do"),
    [
        ({}, ""),
        ({"control": "off"}, "topicast drivers on --app 'nightly-etl-7'"),
        ({"state": "unreachable"}, "look at process 4711 on node1.example.com"),
        ({"state": "connecting", "since_s": 1.0}, ""),
        ({"state": "connecting"}, "topicast doctor, on node1.example.com, says why"),
        ({"state": "gone"}, ""),
    ],
)
def test_what_to_do_about_a_driver_follows_from_its_state(
    more: dict[str, Any], told_to_do: str
) -> None:
    assert mend(driver(**more)) == told_to_do


def test_record_is_whole_with_the_time_of_its_state() -> None:
    (one,) = completed([driver()], now=NOW)
    assert one["since"] == "2026-11-26T08:00:00Z"
    assert one["refreshes"] is None
    assert one["hubs"] == 2


def test_driver_is_named_by_application_or_the_beginning_of_its_id() -> None:
    one = driver(0xAB)
    for pattern in ("nightly-*", "app-171", "000000ab", one["registration"]):
        assert matches(one, pattern), pattern
    for pattern in ("000000", "web", "1" * 8):
        assert not matches(one, pattern), pattern


def test_unreachable_driver_is_shown_by_its_name_and_once() -> None:
    reader = {"name": "app-1@node1:7", "state": "LIVE", "lag_s": 3.0}
    silent = unreachable(reader, {}) | {"registration": "0a"}
    assert (silent["application_id"], silent["host"]) == ("app-1", "node1")
    assert (silent["state"], silent["reason"]) == (
        "unreachable",
        "it does not answer, and was current 3.0 s ago: it is stopped, or too busy",
    )
    lost = unreachable({"name": "node1:7", "state": "LOST", "lag_s": 9.0}, {})
    assert (lost["application_id"], lost["host"]) == ("node1:7", None)
    assert lost["reason"].startswith("its hub receives nothing from it, and was current 9.0 s ago")
    received = {"registration": "0a", "state": "on"}
    other = {"registration": "0b", "state": "off"}
    assert each_once([[silent, other], [received]]) == [received, other]
    assert each_once([[received], [silent]]) == [received]
    gone = {"registration": "0c", "driver": "d7", "state": "gone"}
    moved = {"registration": "0d", "driver": "d7", "state": "live"}
    assert each_once([[gone], [moved]]) == each_once([[moved], [gone]]) == [moved]
    said = {"application_id": "app-1", "host": "node1.lan", "state": "live"}
    silent = said | unreachable(reader, said)
    assert (silent["host"], silent["state"]) == ("node1.lan", "unreachable")


def test_page_for_operators_shows_what_is_printed() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert "\n".join(["$ topicast drivers", *lines(THREE, width=80), "```"]) in page


def test_data_source_has_each_fact_of_a_driver_that_the_command_has() -> None:
    of_this_command = {"driver", "mend", "name", "since", "since_s", "statestored"}
    assert get_type_hints(ListedDriver).keys() - of_this_command == set(DRIVERS.columns)
