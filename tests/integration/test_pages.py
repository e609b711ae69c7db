"""The pages of real daemons show what they hold and what is with them."""

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.pages.secrets import secret_file
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.tables import database
from topicast.tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 300  # more than a page shows


def test_pages_show_what_the_daemons_hold(hive: EmbeddedMetastore, tmp_path: Path) -> None:
    passwords = secret_file(tmp_path / "passwords", "anna:s3cret")
    tables = {"paged.orders": PARTITIONS, "paged.plain": 0}
    daemons = Daemons(tmp_path, hive.uri)
    try:
        with database(hive.uri, tmp_path / "paged", tables):
            daemons.start("statestored", f"--webserver_password_file={passwords}")
            daemons.start("catalogd", f"--webserver_password_file={passwords}")
            with Subscriber(daemons.hub_address, name="<b>reader</b>") as reader:
                reader.sync(60)
                reader.partitions("paged.orders")
                _look(daemons)
            _look_at_writer(daemons, hive.uri)
    finally:
        daemons.close()


def _look_at_writer(daemons: Daemons, metastore: str) -> None:
    """Let a driver report a write: catalogd's page names it, and leads to its page at the hub."""
    hub, catalogd = (daemons.of(name).ready["web"] for name in ("statestored", "catalogd"))
    said = {"driver": "etl@here:1", "application": "etl", "user": "ann", "state": "live"}
    with Subscriber(
        daemons.hub_address, name="etl@here:1", metastore=metastore, driver_facts=lambda: said
    ) as driver:
        until(
            lambda: "etl" in [one["application"] for one in rows(hub, "drivers")],
            what="the driver on the hub's page",
        )
        driver.report_write("paged.plain")
        row = re.compile(
            rf'<a href="({re.escape(hub)}/drivers/[0-9a-f]{{8}})">driver etl \(ann\)</a>'
        )
        link = until(
            lambda: row.search(read(catalogd, "history", object="paged.plain")), what="the name"
        )
        assert "etl: the facts that it has announced" in page(hub, link[1].removeprefix(f"{hub}/"))


def _look(daemons: Daemons) -> None:
    hub, catalogd = (daemons.of(name).ready["web"] for name in ("statestored", "catalogd"))
    until(lambda: "<b>reader</b>" in names(hub), what="the reader among the subscribers")
    assert "&lt;b&gt;reader&lt;/b&gt;" in page(hub, "subscribers")
    assert "<b>reader" not in page(hub, "subscribers")
    (reader,) = (one for one in rows(hub, "subscribers") if one["name"] == "<b>reader</b>")
    own = f"subscribers/{reader['registration']}"
    (of_table,) = until(lambda: part(hub, own, "tables that it reads"), what="the table it reads")
    assert of_table["table"] == "paged.orders"
    assert of_table["why"]
    assert sum(one["topics"] for one in part(hub, own, "levels")) == 16 + 1
    assert document(hub, "drivers")["rows"] == []
    assert "no driver is attached" in page(hub, "drivers")
    until(lambda: fact(hub, "publisher").startswith("catalogd@"), what="the hub's publisher")
    until(
        lambda: [one["connected"] for one in rows(catalogd, "hubs")] == [True],
        what="a connected hub",
    )
    until(lambda: f'<a href="{hub}">statestored ' in page(catalogd, ""), what="the hub's page")
    until(lambda: f'<a href="{catalogd}">catalogd ' in page(hub, ""), what="catalogd's page")
    flags = {one["flag"]: (one["value"], one["origin"]) for one in rows(catalogd, "flags")}
    assert flags["num_topics"] == ("16", "command line")
    assert flags["blacklisted_dbs"][1] == "default"
    assert any(one["thread"] == "pages" for one in rows(hub, "threads"))
    assert any("clients admitted" in one["line"] for one in rows(hub, "logs"))

    assert "paged" in [one["database"] for one in rows(catalogd, "catalog")]
    assert rows(catalogd, "catalog", db="paged") == [
        {"table": "orders", "type": "EXTERNAL_TABLE"},
        {"table": "plain", "type": "EXTERNAL_TABLE"},
    ]
    assert rows(catalogd, "catalog", match="paged.*er*") == [{"table": "paged.orders"}]
    found = json.loads(read(catalogd, "catalog", json="", table="paged.orders"))
    assert [one["column"] for one in found["columns"]["rows"]] == ["a", "b", "ds"]
    until(lambda: partitions(catalogd) == PARTITIONS, what="the partitions")
    dashboard = (ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8")
    panels = set(re.findall(r"(?:topicast|process)_[a-z_]+", dashboard))
    until(lambda: panels <= measured(hub, catalogd), what="a value for each panel")
    until(
        lambda: fact(catalogd, "events", "state") == "ACTIVE, up to date",
        what="catalogd to be up to date",
    )
    changes = rows(catalogd, "history", object="paged.orders")
    assert {one["object"].partition("/")[0] for one in changes} == {"paged.orders"}
    assert "first read" in {one["by"] for one in changes}
    assert rows(catalogd, "history", by="nobody") == []
    assert {"name": "partitions", "value": "all read"} in found["catalog"]["rows"]
    (topic,) = (one["value"] for one in found["catalog"]["rows"] if one["name"] == "topic")
    until(lambda: f'href="/topics/{topic}"' in page(hub, "topics"), what="the topic that is read")
    assert {"name": "topic", "value": topic} in rows(hub, f"topics/{topic}")


def measured(*daemons: str) -> set[str]:
    """Return the names of all metrics that the daemons have a value of."""
    lines = "\n".join(page(one, "metrics") for one in daemons)
    return set(re.findall(r"^(\w+)[ {]", lines, re.MULTILINE))


def partitions(catalogd: str) -> int:
    """Return how many partitions all pages of the table show together."""
    count, more = 0, {"after": ""}
    while more:
        found = json.loads(read(catalogd, "catalog", json="", table="paged.orders", **more))
        count += len(found["partitions"]["rows"])
        more = found["partitions"].get("after", {})
    return count


def fact(daemon: str, name: str, of: str = "") -> str:
    """Return the fact ``of`` a page about one thing; empty: the one that is called as the page."""
    (found,) = (one["value"] for one in rows(daemon, name) if one["name"] == (of or name))
    return str(found)


def names(hub: str) -> list[str]:
    return [one["name"] for one in rows(hub, "subscribers")]


def rows(url: str, name: str, **query: str) -> list[dict[str, Any]]:
    return document(url, name, **query)["rows"]  # type: ignore[no-any-return]


def part(url: str, name: str, heading: str) -> list[dict[str, Any]]:
    return json.loads(read(url, name, json=""))[heading]["rows"]  # type: ignore[no-any-return]


def document(url: str, name: str, **query: str) -> dict[str, Any]:
    found = json.loads(read(url, name, json="", **query))
    return found[name.partition("/")[0]]  # type: ignore[no-any-return]


def page(url: str, name: str) -> str:
    return read(url, name)


def read(url: str, name: str, **query: str) -> str:
    secret = b64encode(b"anna:s3cret").decode()
    request = Request(
        f"{url}/{name}?{urlencode(query)}", headers={"Authorization": f"Basic {secret}"}
    )
    with urlopen(request, timeout=30) as response:
        return str(response.read().decode())
