import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.cli.client.operator import Operator
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.pipeline.sweep.known import known_at
from topicast.pipeline.sweep.plan import Point
from topicast.subscriber import Subscriber
from topicast.subscriber.engine.reachability import UNREACHED_S
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.documents import assert_of_schema
from topicast.tests.cli.processes import command, document, shown, topicast
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.tables import connect
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.settings import parse_addresses
from topicast.topics.topic import table_topic
from topicast.topics.wire.messages.questions import ReadSubscribers
from topicast.topics.wire.messages.reports import FileFacts

NOWHERE = "tcp://127.0.0.1:1"


@pytest.fixture(scope="module")
def client(hive: EmbeddedMetastore) -> Iterator[HMSClient]:
    with connect(hive.uri) as made:
        yield made


@pytest.fixture(scope="module")
def statestores(client: HMSClient, served: Served, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The stack, on a metastore that holds ``look.days`` (partitioned) and ``look.plain``."""
    location = f"file:{tmp_path_factory.mktemp('look')}"
    client.create_database(Database("look", "to be looked at", location, {}))
    days = make_table("look", "days", location=location, keys=("ds",))
    client.create_table(days)
    client.create_table(make_table("look", "plain", location=location))
    client.add_partitions([make_partition(days, [f"2026-11-0{day}"]) for day in range(1, 5)])
    synced(served.statestores)
    return served.statestores


def synced(statestores: str) -> None:
    """Wait until what the metastore has is visible."""
    assert document(statestores, "sync", "--timeout_s=60")["synced"]


def test_subscribers_show_the_publisher(statestores: str) -> None:
    found = document(statestores, "subscribers")
    assert "publisher" in {member["role"] for member in found}


@pytest.mark.parametrize("pattern", ["look", "look.*", "LOOK.*", "look.?????"])
def test_tables_are_listed_by_database_or_pattern(statestores: str, pattern: str) -> None:
    rows = [line.split() for line in shown(statestores, "tables", pattern).splitlines()]
    listed = [["look.days"], ["look.plain"]]
    assert rows[0] == ["table"]
    assert rows[1:] == [row for row in listed if "?" not in pattern or row == ["look.plain"]]


def test_tables_are_picked_by_text_limited_and_shown_with_their_topics(statestores: str) -> None:
    found = document(statestores, "tables", "--match=K.DAYS", "--topics")
    topic = table_topic("look", "days", 16)
    assert found == [{"database": "look", "table": "days", "topic": topic, "state": "", "why": ""}]
    done = topicast("tables", "look", "--limit=1", f"--statestores={statestores}")
    assert done.stdout == "table\nlook.days\n"
    assert done.stderr.startswith("note: 1 of ")
    assert document(statestores, "tables", "--match=l*k.days") == document(
        statestores, "tables", "--match=K.DAYS"
    )
    assert shown(statestores, "tables", "--match=nowhere") == "no table matches nowhere\n"


def test_tables_show_what_sweeps_have_found_of_their_files(statestores: str) -> None:
    nothing = {
        "files": None,
        "bytes": None,
        "small_percent": None,
        "newest": None,
        "swept_at": None,
    }
    listed = document(statestores, "tables", "look.plain", "--files")
    plain = {"database": "look", "table": "plain", "state": "", "why": ""}
    assert listed == [plain | nothing]
    one = FileFacts(
        partition="", fingerprint=1, files=8, bytes=900, small=2, newest_ms=1_790_000_000_000
    )
    with known_at(statestores) as known:
        known.send("look.plain", 0, [one], changed={}, removed=(), point=Point(1, last=True))
    (found,) = document(statestores, "tables", "look.plain", "--files")
    assert (found["files"], found["bytes"], found["small_percent"]) == (8, 900, 25)
    assert found["newest"] == "2026-09-21T14:13:20.000Z"
    today = {time.strftime("%Y-%m-%d", time.gmtime(time.time() - ago_s)) for ago_s in (0, 600)}
    assert found["swept_at"][:10] in today
    assert "25" in shown(statestores, "tables", "look", "--files")


def test_table_is_described(statestores: str) -> None:
    text = shown(statestores, "describe", "look.days")
    lines = [line.split() for line in text.splitlines()]
    assert ["type", "EXTERNAL_TABLE"] in lines
    assert ["ds", "string", "yes", "-"] in lines
    assert ["parameter", "EXTERNAL", "TRUE"] in lines
    found = document(statestores, "describe", "look.days")
    assert found["columns"][0] == {"name": "a", "type": "int", "comment": "first"}
    assert found["partition_columns"] == [{"name": "ds", "type": "string", "comment": ""}]


def test_database_is_described(statestores: str) -> None:
    assert "description  to be looked at" in shown(statestores, "describe", "look")


def test_partitions_are_listed_by_filter(statestores: str) -> None:
    text = shown(statestores, "partitions", "look.days", "ds >= '2026-11-03'")
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["ds=2026-11-03", "ds=2026-11-04"]
    found = document(statestores, "partitions", "look.days")
    assert len(found) == 4


IF_NEW = "lists what there is; if it was made just now, topicast sync first"
IN_LOOK = f"topicast tables look {IF_NEW}"


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("describe look.nothing", f"look.nothing: {IN_LOOK}"),
        ("describe nothing", f"nothing: topicast tables {IF_NEW}"),
        ("partitions look.dayz", f"look.dayz (near it: look.days): {IN_LOOK}"),
        ("statistics look.nothing", f"look.nothing: {IN_LOOK}"),
        ("functions nothing", f"nothing: topicast tables {IF_NEW}"),
        ("refresh look.nothing", f"look.nothing: {IN_LOOK}"),
        (
            "statistics look.days ds=2026-11-01 ds=2027-01-01",
            "look.days/ds=2027-01-01: topicast partitions look.days lists those that there are",
        ),
    ],
)
def test_object_that_is_not_there_is_named_with_what_lists_those_that_are(
    statestores: str, words: str, where: str
) -> None:
    done = topicast(*words.split(), f"--statestores={statestores}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: no such object: {where}\n"


def test_statistics_of_a_column_that_is_not_there_are_wrong_use(statestores: str) -> None:
    done = topicast("statistics", "look.days", "--columns=a,ds", f"--statestores={statestores}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "look.days has no column ds with statistics; name one of a, b" in done.stderr
    assert shown(statestores, "statistics", "look.days", "--columns=A") == "no statistics\n"


def test_database_that_is_not_there_is_named_where_its_tables_are_listed(statestores: str) -> None:
    done = topicast("tables", "lok", f"--statestores={statestores}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: no such object: lok (near it: look): topicast tables {IF_NEW}\n"
    assert document(statestores, "tables", "lok.*") == []


@pytest.mark.parametrize("word", ["tables", "watch", "describe"])
def test_empty_name_is_wrong_use(statestores: str, word: str) -> None:
    done = topicast(word, "", f"--statestores={statestores}")
    assert (done.returncode, done.stdout) == (2, "")
    assert ("'' is no pattern" in done.stderr) or ("name is ''" in done.stderr)


def test_filter_that_cannot_be_read_is_an_error(statestores: str) -> None:
    done = topicast("partitions", "look.days", "ds >>= 1", f"--statestores={statestores}")
    assert done.returncode == 2
    assert "ds >>= 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_watch_shows_a_change_until_it_is_interrupted(
    statestores: str, client: HMSClient, tmp_path: Path
) -> None:
    """Given a watch, when a table is created, then it is shown; SIGINT ends the watch with 0."""
    seen = tmp_path / "seen"
    with seen.open("w") as out:
        watch = subprocess.Popen(
            command("main", "watch", "look.*", "--output=json", f"--statestores={statestores}"),
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        assert watch.stderr is not None
        with watch.stderr:
            assert watch.stderr.readline() == "watching look.*\n"
        client.create_table(make_table("look", "later", location=f"file:{tmp_path}"))
        line = until(lambda: seen.read_text().partition("\n")[0], what="the change")
        change = json.loads(line)
        assert_of_schema("watch", change)
        assert (change["object"], change["kind"]) == ("look.later", "created")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(60) == 0
    finally:
        watch.kill()
        watch.wait()


def test_command_that_reads_is_listed_nowhere_and_says_that_it_leaves(
    statestores: str, tmp_path: Path
) -> None:
    """Given a watch, then only the hub knows of it, as a command; SIGTERM ends it at once."""

    def commands() -> list[str]:
        with Operator(parse_addresses(statestores), timeout_s=30) as visit:
            members = visit.hub(ReadSubscribers()).records()
        return [str(one["name"]) for one in members if one["role"] == "command"]

    assert commands() == []
    watch = subprocess.Popen(
        command("main", "watch", "look.*", f"--statestores={statestores}"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TOPICAST_NAME": "a-watch"},
    )
    try:
        assert watch.stderr is not None
        assert watch.stderr.readline() == "watching look.*\n"
        assert commands() == ["a-watch"]
        for word in ("subscribers", "drivers"):
            done = topicast(word, "--output=json", f"--statestores={statestores}")
            listed = json.loads(done.stdout)
            assert "a-watch" not in [one["name"] for one in listed]
            assert "operator" not in [one.get("role") for one in listed]
        watch.send_signal(signal.SIGTERM)
        assert (watch.wait(60), watch.stderr.read()) == (143, "")
        assert commands() == [], "it has said goodbye"
    finally:
        watch.kill()
        watch.communicate()


def test_watch_ends_after_a_count(statestores: str, client: HMSClient, tmp_path: Path) -> None:
    table = make_table("look", "counted", location=f"file:{tmp_path}")
    synced(statestores)  # what other tests have changed would count, too
    with subprocess.Popen(
        command("main", "watch", "--count=1", f"--statestores={statestores}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watch:
        assert watch.stderr is not None
        assert watch.stderr.readline() == "watching *\n"
        client.create_table(table)
        out, _ = watch.communicate(timeout=60)
    assert watch.returncode == 0
    assert "look.counted  created" in out


def test_watch_without_room_for_every_topic_says_what_it_does_not_show(statestores: str) -> None:
    with Subscriber(statestores, budget="16MB") as catalog:
        needed_bytes = catalog.shortage().needed_bytes
    watch = command("main", "watch", f"--budget={needed_bytes - 1}", f"--statestores={statestores}")
    with subprocess.Popen(watch, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        said = running.stderr.readline()
        running.kill()
    assert said.startswith("note: 1 of 16 topics are not followed: all of them need a budget of ")
    assert said.endswith(" KB (--budget); changes of their tables are not shown\n")


@pytest.mark.parametrize(
    "words",
    ["tables", "describe a.b", "sync", "mode", "invalidate --all", "refresh a.b"],
)
def test_hub_that_is_not_there_is_not_reachable(words: str) -> None:
    user_keys("operator")
    timeout_s = UNREACHED_S + 1 if words == "sync" else 0.5
    done = topicast(*words.split(), f"--timeout_s={timeout_s}", f"--statestores={NOWHERE}")
    assert (done.returncode, done.stdout) == (3, "")
    assert NOWHERE in done.stderr
    assert done.stderr.count("\n") == 1, "said once"


def test_address_that_is_none_is_wrong_use() -> None:
    done = topicast("status", "--statestores=http://x:1")
    assert done.returncode == 2
    assert "statestores" in done.stderr


def test_budget_below_the_namespace_says_how_much_is_needed(statestores: str) -> None:
    done = topicast("tables", "--budget=1KB", f"--statestores={statestores}")
    assert done.returncode == 1
    assert "bytes" in done.stderr


def test_output_into_a_closed_pipe_is_no_traceback(statestores: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command("main", "topics", f"--statestores={statestores}"),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=30,
    )
    os.close(writing)
    assert "Traceback" not in done.stderr


def test_history_shows_what_became_of_a_table_and_its_partitions(
    statestores: str, client: HMSClient
) -> None:
    location = client.get_database("look").locationUri
    made = make_table("look", "told", location=location, keys=("ds",))
    client.create_table(made)
    client.add_partitions([make_partition(made, ["1"]), make_partition(made, ["2"])])
    synced(statestores)
    found = client.get_table("look", "told")
    found.sd.cols[0].type = "bigint"
    client.alter_table("look", "told", found)
    synced(statestores)
    client.drop_partition("look", "told", ["1"], False)
    synced(statestores)
    client.drop_table("look", "told", False)
    synced(statestores)
    rows = document(statestores, "history", "look.told")
    assert [(row["object"], row["kind"], row["origin"]) for row in rows] == [
        ("look.told", "dropped", "events"),
        ("look.told/ds=1", "dropped", "events"),
        ("look.told", "schema", "events"),
        ("look.told", "created", "events"),
        ("look.told/ds=1", "created", "events"),
        ("look.told/ds=2", "created", "events"),
    ]
    assert (rows[2]["before"], rows[2]["after"]) == ("column a=int", "column a=bigint")
    assert f"location={location}" in rows[1]["before"]
    (newest,) = document(statestores, "history", "LOOK.told", "--count=1")
    assert newest == rows[0]
    assert newest["time"].endswith("Z")
    assert all(row["by"].startswith("event") for row in rows)
    done = topicast("history", "look.told", "--since=2100-01-01", f"--statestores={statestores}")
    assert (done.returncode, done.stdout) == (0, "no change\n")


def test_events_show_changes_and_orders_with_who_caused_them(
    statestores: str, client: HMSClient, tmp_path: Path
) -> None:
    client.create_table(make_table("look", "caused", location=f"file:{tmp_path}"))
    synced(statestores)
    shown(statestores, "refresh", "look.caused", "--data")
    found = document(statestores, "events", "--since=1h", "--object=look.caused")
    kinds = [(one["kind"], one["origin"]) for one in found]
    assert kinds[0] == ("data", "orders")
    assert kinds[-1] == ("created", "events")
    assert found[-1]["by"].startswith("event")
    assert found[0]["by"].startswith("operator ("), "the name of its key"
    orders = document(statestores, "events", "--by=operator", "--limit=1")
    assert (orders[0]["origin"], len(orders)) == ("orders", 1)
    assert shown(statestores, "events", "--object=nowhere.*") == "no change\n"


def test_history_of_what_is_no_table_or_never_was_says_so(statestores: str) -> None:
    done = topicast("history", "look", f"--statestores={statestores}")
    assert (done.returncode, "write it as db.table" in done.stderr) == (2, True)
    done = topicast("history", "look.never", f"--statestores={statestores}")
    assert (done.returncode, done.stderr.startswith("note: nothing is known of look.never")) == (
        0,
        True,
    )
