"""The pages in a real browser: no wider than the screen, without errors, light and dark."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.pages.secrets import secret_file
from topicast.tests.integration.chromium import DARK, LIGHT, Browser, chromium
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.tables import database
from topicast.tests.waiting import until

PHONE, DESK = 390, 1200  # pixels
SECRET = f"Basic {b64encode(b'anna:s3cret').decode()}"
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
            assert seen.errors == [], page
            assert seen.scripts == 0, page
    assert len(back) == 2, f"{page} is as light as it is dark"
