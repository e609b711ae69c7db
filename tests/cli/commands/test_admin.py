import json
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.cli.operator import Operator
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.processes import document, topicast
from topicast.tests.integration.tables import connect
from topicast.tests.waiting import until
from topicast.topics.settings import parse_addresses


def test_sync_ends_when_what_was_committed_is_visible(
    served: Served, hive: EmbeddedMetastore
) -> None:
    with connect(hive.uri) as client:
        client.create_database(Database("ordered", "", f"{hive.warehouse}/ordered", {}))
        assert document(served.statestores, "sync", "--timeout_s=60")["synced"]


def ordered(served: Served, *words: str) -> dict[str, Any]:
    """Give an order, and return what its JSON says."""
    return dict(document(served.statestores, *words, "--timeout_s=60"))


def test_mode_is_shown_and_changed_everywhere(served: Served) -> None:
    mixed = {"mode": "mixed", "overrides": "", "offers": "none, minimal, full"}
    assert {**mixed, **ordered(served, "mode")} == {**mixed, "topics_to_backfill": 0}
    try:
        turned = ordered(served, "mode", "minimal", "--overrides=tmp_*.*=minimal")
        assert (turned["mode"], turned["overrides"]) == ("minimal", "tmp_*.*=minimal")
        with Operator(parse_addresses(served.statestores), timeout_s=60.0) as visit:
            until(
                lambda: dict(visit.catalog("status").rows)["mode"] == "minimal",
                timeout_s=20,
                what="the mode in catalogd's status",
            )
        page = "topicast_{}_offers 1.0"
        for name, daemon in (("statestored", served.statestored), ("catalogd", served.catalogd)):
            until(
                lambda name=name, daemon=daemon: page.format(name) in daemon.page("/metrics"),
                timeout_s=20,
                what=f"the offer at {name}",
            )
            reported = json.loads(daemon.page("/?json"))
            assert reported["offers"] == "none, minimal"
        assert (reported["mode"], reported["overrides"]) == ("minimal", "tmp_*.*=minimal")
        kept = ordered(served, "mode", "--overrides=")
        assert (kept["mode"], kept["overrides"]) == ("minimal", "")
    finally:
        ordered(served, "mode", "mixed", "--overrides=")


def test_orders_say_what_they_did(served: Served, hive: EmbeddedMetastore) -> None:
    with connect(hive.uri) as client:
        client.create_database(Database("obeyed", "", f"{hive.warehouse}/obeyed", {}))
    done = {"order": "refresh", "object": "obeyed", "tables": 0, "failed": 0}
    assert ordered(served, "refresh", "obeyed") == done
    assert ordered(served, "refresh", "obeyed", "--data") == done
    assert ordered(served, "invalidate")["failed"] == 0
    assert ordered(served, "refresh")["object"] == ""
    where = f"--statestores={served.statestores}"
    assert "obeyed" in topicast("invalidate", "obeyed", where, "--timeout_s=60").stdout


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        (("mode", "most"), 2, "catalog_topic_mode='most' is not valid: full, mixed or minimal"),
        (("mode", "full", "--overrides=a"), 2, "catalog_topic_mode_overrides='a' is not valid"),
        (("invalidate", "no.table"), 1, "no such object: no.table"),
        (("refresh", "no.table"), 1, "no such object: no.table"),
        (("refresh", "a.b.c"), 2, "write it as db.table"),
        (("invalidate", "sys"), 2, "--blacklisted_dbs"),
        (("invalidate", ""), 2, "leave it out for everything"),
        (("refresh", ""), 2, "leave it out for everything"),
        (("refresh", "", "--data"), 2, "name an object"),
        (("refresh", "--data"), 2, "refresh --data: name a database, a table or a partition"),
        (("refresh", "no.table", "--data"), 1, "no such object: no.table"),
        (("refresh", "default.a/ds", "--data"), 2, "'ds'"),
        (("refresh", "sys", "--data"), 2, "--blacklisted_dbs"),
        (("mode", "mixed", "--overrides=a.b=mixed"), 2, "PATTERN=full or PATTERN=minimal"),
    ],
)
def test_order_that_is_wrong_says_why(
    served: Served, words: tuple[str, ...], code: int, printed: str
) -> None:
    done = topicast(*words, f"--statestores={served.statestores}", "--timeout_s=60")
    assert done.returncode == code
    assert printed in done.stderr
    assert done.stdout == ""
    with Operator(parse_addresses(served.statestores), timeout_s=60.0) as visit:
        rows = dict(visit.order("mode", (), sender="test").rows)
    assert (rows["mode"], rows["overrides"]) == ("mixed", ""), "nothing changed"
