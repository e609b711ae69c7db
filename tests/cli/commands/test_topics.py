"""Who follows what, and why, as an operator sees it; the subscriber is of this process."""

import re
from collections.abc import Iterator

import pytest

from topicast.cli.commands.topics import meant
from topicast.cli.operator import Operator
from topicast.subscriber import Subscriber
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.processes import document, shown, topicast
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError
from topicast.topics.settings import parse_addresses
from topicast.topics.topic import MINIMAL_BYTES, NAMESPACE

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
                "spark-7" in row and all(row[-2:]) for row in visit.hub("subscribers").rows
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
    lines = [line.split() for line in shown(reported, "topics").splitlines()]
    assert len(lines) == 1 + 16 + 1
    assert lines[-1][0] == "namespace"
    rows = document(reported, "topics")
    at = {row["topic"]: row for row in rows}
    assert at[NAMESPACE]["full_bytes"] > 0
    assert {row["minimal_bytes"] for row in rows} == {MINIMAL_BYTES}
    assert (at[3]["full_members"], at[4]["minimal_members"]) == (1, 1)
    until(
        lambda: not any(row["lag_versions"] for row in document(reported, "topics")), what="no lag"
    )


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
    text = shown(reported, "topics", why)
    assert text.startswith("spark-7 holds ")
    lines = text.splitlines()
    assert lines[1].split() == ["level", "bytes", "full_bytes", "hits", "why", "count", "topics"]
    rows = [re.split(r"\s\s+", line) for line in lines[2:]]
    assert len({tuple(row[:-2]) for row in rows}) == len(rows), "each once"
    assert sum(int(row[-2]) for row in rows) == 16 + 1
    hand = [row for row in rows if row[0] == "minimal" and "set by hand" in row]
    assert {row[1] for row in hand} == {str(MINIMAL_BYTES)}
    assert sorted(row[-1] for row in hand) in (["4-5"], ["4", "5"]), "full, they may differ"


def test_beginning_of_a_registration_names_a_subscriber(reported: str) -> None:
    rows = document(reported, "subscribers")
    registration = next(row["registration"] for row in rows if row["name"] == "spark-7")
    found = document(reported, "topics", f"--why={registration[:12]}")
    assert found["registration"] == registration


def test_why_of_nobody_or_of_several_says_so(reported: str) -> None:
    where = f"--statestores={reported}"
    done = topicast("topics", "--why=spark-8", where)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no such object: subscriber spark-8\n"
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
    assert any(line.startswith("spark-7") and line.endswith(" 2      4-5") for line in lines)
    assert "publisher" not in "".join(lines)
