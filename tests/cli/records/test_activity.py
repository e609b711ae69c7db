"""What ``topicast top`` prints, as pure functions of what the daemons have answered."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topicast.cli.records.activity import Look, activity, busiest, picture
from topicast.cli.records.changes import utc
from topicast.cli.records.overview import DaemonAnswers, Installation
from topicast.tests.cli.records.test_overview import AWAY, catalogd, hub
from topicast.tests.cli.snapshots import assert_snapshot

AT_US = 1_790_000_000_000_000
COUNTED = {"deltas": 1000, "delta_bytes": 80_000, "catch_ups": 3, "reader_lag_s": 0.2}
OWN = {"events": 500, "pulls": 40, "writes": 7, "reads": 90}


def stack(drivers: int, *, later: bool = False) -> Installation:
    """Return two hubs and catalogd; ``later``: 2 s after."""
    rise = 24 if later else 0
    first = hub("a", drivers=drivers - drivers // 3, deltas=1000 + rise, delta_bytes=80_000 + rise)
    second = hub("b", drivers=drivers // 3, deltas=1000 + rise, delta_bytes=80_000 + rise)
    hubs = [replace(one, facts={**COUNTED, **one.facts}) for one in (first, second)]
    return Installation(hubs=(*hubs,), catalogd=catalogd(**OWN | {"events": 500 + rise}))


def line(number: int, name: str = "shop.orders", **more: Any) -> dict[str, Any]:
    made = {"time": utc(AT_US - number * 1_000_000), "object": name, "version": 9, "by": "event 7"}
    return made | more


LINES = (
    line(1, "shop.orders/ds=1", by="driver nightly-etl (ann)"),
    line(2),
    line(3, "shop.customers_of_the_northern_region"),
    *(line(9, f"stage.t{number:02}") for number in range(40)),
)


def shown(drivers: int, *, width: int, height: int = 23) -> list[str]:
    before, now = stack(drivers), stack(drivers, later=True)
    found = activity(
        Look(at_us=AT_US, installation=before),
        Look(at_us=AT_US + 2_000_000, installation=now),
        LINES,
    )
    return picture(found, now, width=width, height=height)


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("count", [0, 3, 50])
def test_picture_looks_as_in_the_snapshot(
    count: int, width: int, pytestconfig: pytest.Config
) -> None:
    made = shown(count, width=width)
    assert len(made) <= 23
    assert max(map(len, made)) <= width
    assert_snapshot(f"top-{count}-{width}", made, rewrite=pytestconfig.getoption("--rewrite"))


def test_rates_are_those_between_two_looks_and_unknown_after_a_restart() -> None:
    before, now = stack(3), stack(3, later=True)
    looks = Look(at_us=AT_US, installation=before), Look(at_us=AT_US + 2_000_000, installation=now)
    found = activity(*looks, ())
    assert [one["deltas_per_s"] for one in found["statestoreds"]] == [12.0, 12.0]
    assert found["catalogd"] is not None
    assert (found["catalogd"]["events_per_s"], found["catalogd"]["pulls_per_s"]) == (12.0, 0.0)
    assert found["drivers"]["live"] == 3
    back = activity(looks[1], replace(looks[0], at_us=AT_US + 4_000_000), ())
    assert [one["deltas_per_s"] for one in back["statestoreds"]] == [None, None]
    assert back["statestoreds"][0]["catch_ups_per_s"] == 0.0


def test_daemons_that_do_not_answer_are_shown_so() -> None:
    lost = DaemonAnswers(kind="catalogd", address="tcp://c:26000", problems=("it does not answer",))
    look = Look(at_us=AT_US, installation=Installation(hubs=(AWAY, hub()), catalogd=lost))
    found = activity(look, look, ())
    assert [one["verdict"] for one in found["statestoreds"]] == ["not reached", "serving"]
    assert found["catalogd"] is None
    text = "\n".join(picture(found, look.installation, width=80, height=24))
    assert text.startswith("degraded: topicast status says why  2026-09-21 14:13:20 UTC\n")
    assert "catalogd c:26000: not reached" in text.splitlines()
    assert "Tables" not in text, "who would say which ones changed does not answer"


def test_tables_are_ranked_by_their_changes_and_orders_and_databases_are_none() -> None:
    orders = line(0, version=None), line(0, "shop")
    found = busiest((*orders, *LINES))
    assert [(one["table"], one["changes"]) for one in found[:2]] == [
        ("shop.orders", 2),
        ("shop.customers_of_the_northern_region", 1),
    ]
    assert found[0]["by"] == "driver nightly-etl (ann)", "the newest"
    assert busiest(()) == []


def test_page_for_operators_shows_what_is_printed() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert "\n".join(["$ topicast top", *shown(3, width=80, height=14), "```"]) in page
