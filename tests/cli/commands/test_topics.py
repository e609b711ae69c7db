"""Who follows what, and why, as an operator sees it; the subscriber is of this process."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from topicast.cli.client.operator import Operator
from topicast.cli.commands.topics import MEMBERS, in_use, late_first, meant, topic_lines
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.records.levels import SUMS, alike
from topicast.cli.terminal.lists import listed
from topicast.subscriber import Subscriber
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.processes import document, shown, topicast
from topicast.tests.cli.snapshots import assert_snapshot
from topicast.tests.integration.tables import database
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError
from topicast.topics.settings import parse_addresses
from topicast.topics.topic import MINIMAL_BYTES, NAMESPACE, table_topic
from topicast.topics.wire.messages.questions import ReadSubscribers

BY_HAND = {3: "full", 4: "minimal", 5: "minimal"}


@pytest.fixture(scope="module")
def reader(served: Served) -> Iterator[Subscriber]:
    """A subscriber of the name ``spark-7`` whose levels were set by hand."""
    with Subscriber(served.statestores, name="spark-7", timeout_s=30) as made:
        for topic, level in BY_HAND.items():
            made.join(topic, level)
        yield made


@pytest.fixture(scope="module")
def reported(served: Served, reader: Subscriber) -> str:
    """Return the hub's address, once the reader has reported what it holds."""
    with Operator(parse_addresses(served.statestores), timeout_s=30) as visit:
        until(
            lambda: any(
                "spark-7" in row and all(row[-2:]) for row in visit.hub(ReadSubscribers()).rows
            ),
            timeout_s=20,
            what="the reader's status",
        )
    return served.statestores


def lags(statestores: str) -> list[int]:
    """Return by how many versions the hub is behind, of each topic of which it is."""
    rows = document(statestores, "topics")
    return [row["lag_versions"] for row in rows if row["lag_versions"]]


def test_topics_show_bytes_and_members_at_each_level(reported: str) -> None:
    lines = [line.split() for line in shown(reported, "topics", "--all").splitlines()]
    assert len(lines) == 1 + 16 + 1
    assert "namespace" in [line[0] for line in lines]
    rows = document(reported, "topics")
    at = {row["topic"]: row for row in rows}
    assert len(at) == 16 + 1
    assert at[NAMESPACE]["full_bytes"] > 0
    assert {row["minimal_bytes"] for row in rows} == {MINIMAL_BYTES}
    assert (at[3]["full_members"], at[4]["minimal_members"]) == (1, 1)
    until(
        lambda: not any(row["lag_versions"] for row in document(reported, "topics")), what="no lag"
    )


def topic(number: int, **more: Any) -> dict[str, Any]:
    made = {"topic": number, "state": "LIVE", "version": 3, "floor": 0, "entries": 1}
    return made | {"full_bytes": 700, "lag_versions": 0} | more


def test_topics_that_hold_something_are_shown_and_those_that_are_behind_first() -> None:
    records = [
        topic(0, version=0, entries=0, full_bytes=0),
        topic(1),
        topic(2, full_bytes=900),
        topic(3, lag_versions=2, full_bytes=0, entries=0),
        topic(4, state="BEHIND", full_bytes=0, entries=0, version=0),
        topic(5, entries=None, full_bytes=None),  # as a key of some databases sees it
    ]
    assert [one["topic"] for one in in_use(records)] == [3, 4, 2, 1, 5]


def test_one_topic_has_its_tables_its_readers_and_who_is_behind() -> None:
    readers = [
        {
            "called": "etl",
            "level": "full",
            "lag_versions": 2,
            "lag_s": 4.1,
            "registration": "a" * 32,
        },
        {"called": "web", "level": "full", "lag_versions": 0, "registration": "b" * 32},
    ]
    assert topic_lines(topic(17), ["shop.orders"], readers, width=80) == [
        "topic 17: LIVE, version 3, 1 entry, 700 B",
        "",
        "1 table",
        "  shop.orders",
        "",
        "2 readers",
        "  reader  level  behind  for    id",
        "  etl     full   2       4.1 s  aaaaaaaa",
        "  web     full   0       -      bbbbbbbb",
        "",
        "behind: etl by 2 versions",
    ]
    assert topic_lines(topic(17), [], readers[1:], width=80)[-1] == "no reader is behind"


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("count", [0, 3, 50])
def test_readers_look_as_in_the_snapshots(
    count: int, width: int, pytestconfig: pytest.Config
) -> None:
    """Of a hub, those that are behind first, and of one topic: a line each."""
    rewrite = pytestconfig.getoption("--rewrite")
    members = [member(number) for number in range(count)]
    lines = (
        listed(MEMBERS, late_first(members), width=width)
        if count
        else ["no subscriber is connected"]
    )
    assert_snapshot(f"subscribers-{count}-{width}", lines, rewrite=rewrite)
    readers = [
        {
            **one,
            "called": f"nightly-etl-{number}",
            "level": "full",
            "lag_s": one["lag_s"] if one["lag_versions"] else None,
        }
        for number, one in enumerate(members)
    ]
    of_topic = topic_lines(topic(17), ["shop.orders"], readers, width=width)
    assert_snapshot(f"topic-{count}-{width}", of_topic, rewrite=rewrite)
    assert max(map(len, (*lines, *of_topic))) <= width


def member(number: int) -> dict[str, Any]:
    late = number % 3 == 1
    return {
        "name": f"app-20261126-{number}@node{number}.example.com:4711",
        "role": "reader",
        "state": "LIVE",
        "registration": f"{number:08x}" + "0" * 24,
        "lag_s": 4.1 if late else 0.2,
        "lag_versions": number if late else 0,
        "topics": 257,
        "held_bytes": 48_900,
        "budget_bytes": 64_000_000,
        "statestored": "tcp://a:24000",
    }


def test_topic_is_shown_as_it_is_and_a_number_that_is_no_topic_is_refused(reported: str) -> None:
    found = document(reported, "topics", "3")
    assert (found["topic"], [one["called"] for one in found["readers"]]) == (3, ["spark-7"])
    assert found["readers"][0]["level"] == "full"
    for word, code, text in (("99", 1, "topic 99"), ("orders", 2, "write its number")):
        done = topicast("topics", word, f"--statestores={reported}")
        assert (done.returncode, text in done.stderr) == (code, True)


@pytest.fixture(scope="module")
def why_table(
    hive: EmbeddedMetastore, reported: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The hub's address, behind which there is a table ``why.orders``."""
    with database(hive.uri, tmp_path_factory.mktemp("why"), {"why.orders": 0}):
        assert document(reported, "sync", "--timeout_s=60")["synced"]
        yield reported


def test_why_of_a_table_is_one_sentence(reported: str, why_table: str) -> None:
    number = table_topic("why", "orders", 16)
    text = shown(why_table, "topics", "--why=spark-7", "--table=Why.orders")
    assert text.startswith(f"why.orders is in topic {number}; spark-7 follows it at level ")
    assert text.count("\n") == 1
    done = topicast("topics", "--table=shop.orders", f"--statestores={reported}")
    assert (done.returncode, "name a subscriber, too" in done.stderr) == (2, True)


def test_why_of_a_table_that_is_not_there_says_so(why_table: str) -> None:
    done = topicast("topics", "--why=spark-7", "--table=why.oders", f"--statestores={why_table}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: no such object: why.oders (near it: why.orders): ")


def test_why_shows_the_level_of_each_topic_and_the_reason(reported: str) -> None:
    found = document(reported, "topics", "--why=spark-7")
    assert found["name"] == "spark-7"
    assert found["budget_bytes"] >= found["held_bytes"] > 0
    whys = {row["topic"]: (row["level"], row["why"]) for row in found["topics"]}
    assert len(whys) == 16 + 1
    assert {topic: whys[topic] for topic in BY_HAND} == {
        topic: (level, "set by hand") for topic, level in BY_HAND.items()
    }


@pytest.mark.parametrize("why", ["--why", "--why=spark-7"])
def test_why_puts_together_what_is_alike(reported: str, why: str) -> None:
    text = shown(reported, "topics", why, "--output=wide")
    assert text.startswith("spark-7 holds ")
    lines = text.splitlines()
    assert lines[1].split()[:3] == ["level", "topics", "bytes"]
    rows = [re.split(r"\s\s+", line) for line in lines[2:]]
    assert sum(int(row[1]) for row in rows) == 16 + 1
    hand = [row for row in rows if row[0] == "minimal" and "set by hand" in row]
    assert [(row[1], row[2], row[-1]) for row in hand] == [("2", f"{2 * MINIMAL_BYTES} B", "4-5")]


def test_topics_of_one_level_and_reason_are_one_line_with_their_sum() -> None:
    def one(number: int, level: str, size: int, why: str) -> dict[str, Any]:
        return {"topic": number, "level": level, "why": why} | dict.fromkeys(SUMS, size)

    found = alike([one(0, "minimal", 16, "a"), one(1, "full", 5, "b"), one(2, "full", 7, "b")])
    assert [(r["level"], r["count"], r["bytes"], r["ranges"]) for r in found] == [
        ("full", 2, 12, "1-2"),
        ("minimal", 1, 16, "0"),
    ]


def test_beginning_of_a_registration_names_a_subscriber(reported: str) -> None:
    rows = document(reported, "subscribers")
    registration = next(row["registration"] for row in rows if row["name"] == "spark-7")
    found = document(reported, "topics", f"--why={registration[:12]}")
    assert found["registration"] == registration


def test_why_of_nobody_or_of_several_says_so(reported: str) -> None:
    where = f"--statestores={reported}"
    done = topicast("topics", "--why=spark-8", where)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: no such object: subscriber spark-8: topicast subscribers lists them\n"
    )
    with Subscriber(reported, name="spark-9", timeout_s=30):
        done = topicast("topics", "--why", where)
    assert (done.returncode, done.stdout) == (2, "")
    assert "name a subscriber, as --why=NAME: spark-7 (" in done.stderr
    assert "spark-9 (" in done.stderr


def test_subscriber_that_moved_to_another_hub_is_shown_once(reported: str) -> None:
    rows = document(reported, "subscribers")
    assert {row["statestored"] for row in rows} == {reported}
    lost = {"name": "a", "registration": "0a", "state": "LOST", "lag_s": 9.0}
    moved = {**lost, "state": "LIVE", "lag_s": 0.1}
    assert meant([lost, moved], "a") == moved
    assert meant([moved | {"application": "etl"}], "etl")["name"] == "a"
    with pytest.raises(LinkError, match=r"a has sent nothing for 9.0 s"):
        meant([lost], "a")


def test_subscribers_by_level_with_their_topics(reported: str) -> None:
    rows = document(reported, "subscribers", "--topics")
    levels = {row["level"]: row for row in rows if row["name"] == "spark-7"}
    assert sorted(levels) == ["full", "minimal"]
    assert levels["minimal"]["topics"] == [4, 5]
    assert levels["minimal"]["count"] == 2
    assert {3, NAMESPACE} <= set(levels["full"]["topics"])
    lines = shown(reported, "subscribers", "--topics").splitlines()
    assert any(line.startswith("spark-7") and line.endswith("  2      4-5") for line in lines)
    assert "publisher" not in "".join(lines)
