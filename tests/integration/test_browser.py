"""The pages in a real browser: no wider than the screen, without errors, light and dark."""

import os
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.pages.secrets import secret_file
from topicast.tests.cli.processes import command
from topicast.tests.integration.chromium import DARK, LIGHT, Browser, chromium
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.tables import database
from topicast.tests.waiting import until

PHONE, DESK = 390, 1200  # pixels
SECRET = f"Basic {b64encode(b'anna:s3cret').decode()}"
LINES = 24  # of a page, below its title
DAYS = 2000
OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
LACKS = "3 of 16 topics are not followed: the budget is too small"
DRIVERS = ((("nightly-etl", LACKS), "64MB"), (("explorer", "", "shop.orders"), "24KB"))
ANSWERS = {  # a part of what is shown, by the question
    "Which driver is stale, and why?": rf"stale\s+0\.\d s\n(.*\n)*reason\s+{LACKS}",
    "Who has changed `shop.orders` in the last ten minutes, and what?": r"schema"
    r"\s+events? [\d-]+\s+column a int -> bigint\s+shop\.orders",
    "Why does this driver not hold this table in full?": r"shop\.orders\s+\d+\s+minimal\s.* KB\s.*",
    "May the hub be restarted now?": r"a restart now\s+2 drivers have no other hub: plain "
    r"Spark until it is back; no catch-up in flight",
}
LONG = "a_table_with_a_name_of_which_no_part_may_be_cut_" + "x" * 60
COMMENT = "<script>document.title = 'run'</script>"
PAGES = {  # at least: each that a daemon leads to is looked at
    "statestored": {"/", "/drivers", "/topics", "/subscribers", "/publisher", "/memory"},
    "catalogd": {"/", "/hubs", "/catalog", "/topics", "/loading", "/events", "/history"},
}


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with chromium(tmp_path / "browser") as found:
        yield found


@pytest.mark.nightly
def test_each_page_fits_a_phone_and_a_desk_and_has_no_script_and_no_error(
    browser: Browser, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    passwords = secret_file(tmp_path / "passwords", "anna:s3cret")
    tables = {f"seen.{LONG}": 30, "seen.plain": 0}
    with (
        closing(Daemons(tmp_path, hive.uri)) as daemons,
        database(hive.uri, tmp_path / "seen", tables) as client,
    ):
        commented = client.get_table("seen", LONG)
        commented.parameters["comment"] = COMMENT
        client.alter_table("seen", LONG, commented)
        for name in PAGES:
            daemons.start(name, f"--webserver_password_file={passwords}")
        with Subscriber(daemons.hub_address, name=f"reader-{LONG}") as reader:
            reader.sync(60)
            reader.partitions(f"seen.{LONG}")
            for name, at_least in PAGES.items():
                look_at_all(browser, daemons.of(name).ready["web"], at_least)
            look_at_tables(browser, daemons.of("catalogd").ready["web"])


@pytest.mark.nightly
def test_four_questions_are_answered_by_the_clicks_that_the_page_names(
    browser: Browser, own_hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """docs/operations.md: each by two clicks at most, in the first lines of a page."""
    passwords = secret_file(tmp_path / "passwords", "anna:s3cret")
    with (
        closing(Daemons(tmp_path, own_hive.uri)) as daemons,
        database(own_hive.uri, tmp_path / "shop", {"shop.orders": DAYS}) as client,
        ExitStack() as drivers,
    ):
        for name in PAGES:
            daemons.start(name, f"--webserver_password_file={passwords}")
        for words, budget in DRIVERS:
            drivers.enter_context(driver(daemons.hub_address, *words, budget=budget))
        changed = client.get_table("shop", "orders")
        changed.sd.cols[0].type = "bigint"
        client.alter_table("shop", "orders", changed)
        for question, (name, clicks) in asked().items():
            url, answer = daemons.of(name).ready["web"], re.compile(ANSWERS[question])

            def first_lines(url: str = url, clicks: Sequence[str] = clicks) -> str:
                seen = browser.walk(url, clicks=clicks, width=DESK, authorization=SECRET)
                assert seen.errors == []
                lines = seen.text.partition(seen.title)[2].splitlines()
                return "\n".join(list(filter(str.strip, lines))[:LINES])

            until(
                lambda lines=first_lines, answer=answer: answer.search(lines()),  # type: ignore[misc]
                what=f"{question}: {answer.pattern} in {first_lines()}",
            )


def asked() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the daemon of each question of docs/operations.md, and what is clicked there."""
    chapter = OPERATIONS.partition("## Four questions\n")[2].partition("\n## ")[0]
    found = {
        question: (daemon, tuple(re.findall(r"\*([^*]+)\*", way)))
        for question, daemon, way in re.findall(r"\*\*(.*)\*\* \((\w+): (.*)\)\n", chapter)
    }
    assert set(found) == set(ANSWERS)
    assert all(len(clicks) <= 2 for _, clicks in found.values())
    return found


@contextmanager
def driver(statestores: str, *words: str, budget: str) -> Iterator[None]:
    """Run what looks as a driver to a hub."""
    line = command("topicast.tests.integration.driver_like", statestores, *words)
    environment = {**os.environ, "TOPICAST_BUDGET": budget}
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "open\n"
        yield
        one.communicate()


def look_at_all(browser: Browser, url: str, at_least: set[str]) -> None:
    """Look at each page that the front page of a daemon leads to."""
    front = browser.see(f"{url}/", width=DESK, authorization=SECRET)
    own = [f"{url}/", *(link for link in front.links if link.startswith(f"{url}/"))]
    assert {urlsplit(one).path for one in own} >= at_least
    for page in own:
        look(browser, page)


def look_at_tables(browser: Browser, url: str) -> None:
    table = f"{url}/catalog?table=seen.{LONG}"
    until(
        lambda: COMMENT in browser.see(table, width=DESK, authorization=SECRET).text,
        what="the comment as text",
    )
    assert "its changes" in browser.see(table, width=DESK, authorization=SECRET).text
    for page in (table, f"{url}/catalog?db=seen", f"{url}/history?object=seen.*", f"{url}/topics"):
        look(browser, page)


def look(browser: Browser, page: str) -> None:
    """Assert that ``page`` is as it should be, narrow and wide, in light and in dark."""
    back = set()
    for width in (PHONE, DESK):
        for scheme in (LIGHT, DARK):
            seen = browser.see(page, width=width, scheme=scheme, authorization=SECRET)
            back.add(seen.back)
            assert seen.title.startswith(("statestored", "catalogd")), page
            assert seen.widest <= width, f"{page} at {width}: {seen.widest} pixels wide"
            assert width != PHONE or not seen.cut, f"{page}: a table is wider than a phone"
            assert seen.errors == [], page
            assert seen.scripts == 0, page
    assert len(back) == 2, f"{page} is as light as it is dark"
