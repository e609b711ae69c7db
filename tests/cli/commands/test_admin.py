import json
import os
import signal
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.cli.client.operator import Operator
from topicast.cli.commands.admin import done_in_words, mode_in_words
from topicast.cli.commands.drivers import switched
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.processes import document, topicast
from topicast.tests.integration.tables import connect
from topicast.tests.waiting import until
from topicast.topics.keys.folder import OPERATOR, find_credential
from topicast.topics.settings import parse_addresses
from topicast.topics.wire.messages.answers import NamedFacts
from topicast.topics.wire.messages.questions import ReadStatus


def test_sync_ends_when_what_was_committed_is_visible(
    served: Served, hive: EmbeddedMetastore
) -> None:
    with connect(hive.uri) as client:
        client.create_database(Database("ordered", "", f"{hive.warehouse}/ordered", {}))
        assert document(served.statestores, "sync", "--timeout_s=60")["synced"]


def test_sync_says_whether_there_is_what_it_names(served: Served, hive: EmbeddedMetastore) -> None:
    with connect(hive.uri) as client:
        client.create_database(Database("synced", "", f"{hive.warehouse}/synced", {}))
        assert document(served.statestores, "sync", "Synced", "--timeout_s=60")["exists"]
        missing = document(served.statestores, "sync", "synced.x", "--timeout_s=60")
        assert missing["synced"]
        assert missing["exists"] is False
        client.drop_database("synced", True, True)


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
                lambda: dict(visit.catalog(ReadStatus()).rows)["mode"] == "minimal",
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
    where = f"--statestores={served.statestores}"
    printed = topicast("invalidate", "obeyed", where, "--timeout_s=60").stdout
    assert printed == "invalidate of obeyed: 0 tables discarded, and read when pulled\n"
    until(  # content that a mode of another test withheld is sent first
        lambda: (
            topicast("mode", where, "--timeout_s=60").stdout
            == "the mode is mixed: readers may follow a topic at none, minimal, full\n"
        ),
        what="the mode, with nothing left to be sent",
    )


def test_order_that_waits_for_the_metastore_is_not_said_to_be_unanswered(
    served: Served, hive: EmbeddedMetastore
) -> None:
    assert hive.pid is not None
    os.kill(hive.pid, signal.SIGSTOP)
    try:
        done = topicast(
            "refresh", "default", f"--statestores={served.statestores}", "--timeout_s=1"
        )
    finally:
        os.kill(hive.pid, signal.SIGCONT)
    assert done.returncode == 4
    assert "refresh default is not done after 1 s, and may still be done" in done.stderr


def test_order_that_was_carried_out_is_a_sentence() -> None:
    assert done_in_words("refresh", "", tables=7, failed=0) == (
        "refresh: 7 tables read again and published"
    )
    assert done_in_words("refresh", "d.t", tables=1, failed=1) == (
        "refresh of d.t: 1 table read again and published; 1 failed, and is tried again: topicast "
        "status names it"
    )
    facts = {"mode": "full", "overrides": "tmp.*=minimal", "offers": "full"}
    assert mode_in_words(facts | {"topics_to_backfill": 1}) == (
        "the mode is full: readers may follow a topic at full; tables with another mode: "
        "tmp.*=minimal; the content of 1 topic is still to be sent"
    )
    assert switched("dry-run", "etl-*").startswith("drivers of etl-* are dry-run, also those that")


def test_an_order_for_everything_is_asked_for_and_says_first_how_much_it_is(served: Served) -> None:
    where = f"--statestores={served.statestores}", "--timeout_s=60", "--output=json"
    tables = json.loads(topicast("tables", *where).stdout)
    for order in ("invalidate", "refresh"):
        done = topicast(order, *where)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{order}: name an object, or add --all for everything" in done.stderr
        done = topicast(order, "--all", *where)
        facts = json.loads(done.stdout)
        assert (done.returncode, facts["object"], facts["failed"]) == (0, "", 0)
        assert done.stderr.startswith(f"note: {order} --all: {len(tables)} tables in ")


def test_catalogd_logs_each_order_with_the_key_that_gave_it(served: Served) -> None:
    ordered(served, "refresh", "default")
    ordered(served, "refresh", "default", "--data")
    ordered(served, "mode", "mixed")
    topicast("drivers", "off", "--app=nobody-*", f"--statestores={served.statestores}")
    topicast("drivers", "on", "--app=nobody-*", f"--statestores={served.statestores}")
    topicast("refresh", "--all", f"--statestores={served.statestores}", "--timeout_s=60")
    log = served.catalogd.log.read_text()
    key = find_credential(OPERATOR, environ=os.environ).name
    for what in (
        "order=refresh object=default",
        "order=refresh object=default data",
        "order=mode object=mixed",
        "order=drivers object=off nobody-*",
        "order=drivers object=on nobody-*",
        "order=refresh object=everything",
    ):
        assert f"order: {what} key={key} by=" in log


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        (("mode", "most"), 2, "catalog_topic_mode='most' is not valid: full, mixed or minimal"),
        (("mode", "full", "--overrides=a"), 2, "catalog_topic_mode_overrides='a' is not valid"),
        (("invalidate", "no.table"), 1, "no such object: no.table"),
        (("refresh", "no.table"), 1, "no such object: no.table"),
        (("refresh", "a.b.c"), 2, "write it as db.table"),
        (("invalidate", "sys"), 2, "--blacklisted_dbs"),
        (("invalidate", ""), 2, "add --all for everything"),
        (("refresh", ""), 2, "add --all for everything"),
        (("refresh", "", "--all"), 2, "not both"),
        (("invalidate", "default", "--all"), 2, "not both"),
        (("refresh", "", "--data"), 2, "name an object"),
        (("refresh", "--all", "--data"), 2, "refresh --data: name a database"),
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
        rows = dict(visit.order("mode", (), NamedFacts, sender="test").rows)
    assert (rows["mode"], rows["overrides"]) == ("mixed", ""), "nothing changed"
