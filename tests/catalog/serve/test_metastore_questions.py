"""Questions that the metastore answers: once each, in turn, and within bounds."""

from dataclasses import replace

import pytest

from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.metastore.port import ReadFacts
from topicast.catalog.serve import metastore_questions as questions
from topicast.tests.catalog.metastore.test_facts import function, statistics
from topicast.tests.cluster.alone import Alone, loaded
from topicast.tests.keys import client
from topicast.topics.errors import SourceError, SourceRefused
from topicast.topics.policy import parse_policy
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.connection import Bye, Refused
from topicast.topics.wire.messages.questions import STATISTICS_MAX, ReadFunctions, ReadStatistics

FUNCTIONS = ReadFunctions(request=4, db="d")
STATISTICS = ReadStatistics(request=4, db="d", table="t", columns=("id",), partitions=("ds=1",))


@pytest.fixture
def core() -> Alone:
    found = loaded()
    found.metastore.create_function(function("d", "first", "hdfs:///a.jar"))
    found.metastore.create_function(function("d", "second"))
    given = statistics("d", "t", "id", partition="ds=1")
    found.metastore.update_partition_column_statistics(given)
    found.turn(6)
    return found


def test_functions_are_answered_page_after_page(
    core: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-FACTS-3."""
    answer = core.answer_to(FUNCTIONS, Inspected, turns=3)
    assert [one["name"] for one in answer.records()] == ["first", "second"]
    assert answer.records()[0]["resources"] == ("JAR:hdfs:///a.jar",)
    monkeypatch.setattr(questions, "BYTES_MAX", 1)
    after, names = "", []
    while rows := core.answer_to(
        ReadFunctions(request=4, db="d", after=after), Inspected, turns=3
    ).rows:
        names += [row[0] for row in rows]
        after = str(names[-1])
    assert names == ["first", "second"]


def test_statistics_are_answered(core: Alone) -> None:
    (row,) = core.answer_to(STATISTICS, Inspected, turns=3).records()
    assert (row["partition"], row["column"], row["low"], row["high"]) == ("ds=1", "id", "-5", "9")


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (ReadFunctions(request=4, db="none"), "NO_OBJECT"),
        (ReadStatistics(request=4, db="d", table="none", columns=("id",)), "NO_OBJECT"),
        (ReadStatistics(request=4, db="d", table="t", columns=()), "CLAIM"),
        (ReadStatistics(request=4, db="d", table="t", columns=("a",) * STATISTICS_MAX), ""),
        (
            ReadStatistics(
                request=4,
                db="d",
                table="t",
                columns=("a", "b"),
                partitions=tuple(f"ds={n}" for n in range(STATISTICS_MAX // 2 + 1)),
            ),
            "CLAIM",
        ),
    ],
)
def test_question_that_nobody_can_answer_is_refused_without_a_call(
    core: Alone, question: ReadFunctions | ReadStatistics, code: str
) -> None:
    """P-FACTS-2."""
    core.metastore.calls.clear()
    core.ask(question)
    core.turn(3)
    (answer,) = core.replies()
    assert (answer.code if isinstance(answer, Refused) else "") == code
    assert bool({"functions", "statistics"} & set(core.metastore.calls)) == (not code)


def test_what_the_metastore_refuses_is_refused_for_good_and_its_silence_for_a_while(
    core: Alone,
) -> None:
    core.metastore.unreadable["t"] = "no such column family"
    answer = core.answer_to(STATISTICS, Refused, turns=3)
    assert (answer.code, answer.retry_ms) == ("UNREADABLE", 0)
    assert "column family" in answer.message
    core.metastore.unreadable.clear()
    core.catalogd.hold(Poll)
    core.turn(10)
    for error, code in ((SourceRefused("no"), "UNREADABLE"), (SourceError("down"), "SOURCE")):
        core.metastore.failures.append(error)
        answer = core.answer_to(FUNCTIONS, Refused, turns=3)
        assert (answer.code, answer.retry_ms > 0) == (code, code == "SOURCE")
    core.answer_to(FUNCTIONS, Inspected, turns=3)


def test_question_that_is_sent_again_is_answered_once_and_none_keeps_others_waiting(
    core: Alone,
) -> None:
    """P-FACTS-1."""
    core.catalogd.hold(ReadFacts)
    for request in range(questions.RUNNING_MAX + 3):
        for _ in range(2):
            core.ask(ReadFunctions(request=request, db="d"))
    core.turn()
    core.ask(ReadFunctions(request=0, db="d"))  # which runs
    core.ask(ReadFunctions(request=1, db="d"), peer=b"other")
    core.turn(2)
    assert len(core.catalogd.held) == questions.RUNNING_MAX
    core.create("d", "u")
    core.turn(6)
    assert core.is_loaded("u"), "reads for events go on"
    core.catalogd.resume()
    core.turn(4)
    assert len(core.replies()) == questions.RUNNING_MAX + 3
    core.reply(Inspected, b"other")


def test_too_many_questions_of_a_peer_are_refused_and_forgotten_when_it_leaves(core: Alone) -> None:
    core.catalogd.hold(ReadFacts)
    most = questions.RUNNING_MAX + questions.WAITING_PER_PEER_MAX
    for request in range(most):
        core.ask(ReadFunctions(request=request, db="d"))
        core.step()
    core.ask(ReadFunctions(request=most, db="d"))
    core.turn()
    assert core.reply(Refused).code == "BUSY"
    assert core.catalog.status().waiting_requests == most
    core.ask(Bye(reason="closed"))
    core.turn()
    assert core.catalog.status().waiting_requests == 0
    core.catalogd.resume()
    core.turn(3)
    assert core.replies() == []


def test_nothing_is_read_in_a_pause(core: Alone) -> None:
    core.order("events", "pause")
    core.turn(80)
    core.ask(FUNCTIONS)
    core.turn(3)
    answer = core.reply(Refused)
    assert (answer.code, "paused" in answer.message) == ("SOURCE", True)


@pytest.mark.parametrize("question", [FUNCTIONS, STATISTICS], ids=["functions", "statistics"])
def test_key_that_does_not_see_the_database_is_refused_whether_it_is_there_or_not(
    core: Alone, question: ReadFunctions | ReadStatistics
) -> None:
    policy = parse_policy("e", setting="databases")
    core.metastore.calls.clear()
    core.ask(question, client=replace(client(), policy=policy))
    core.turn(3)
    assert core.reply(Refused).code == "NOT_VISIBLE"
    assert not {"functions", "statistics"} & set(core.metastore.calls)


def test_question_before_the_names_are_read_is_refused_for_a_while() -> None:
    core = Alone()
    answer = core.answer_to(FUNCTIONS, Refused)
    assert (answer.code, answer.retry_ms > 0) == ("STARTING", True)


@pytest.mark.parametrize("partition", ["", "ds=1"])
def test_event_of_statistics_raises_the_version_of_its_table(core: Alone, partition: str) -> None:
    """Of the table alone: nothing says that its data has changed."""
    core.metastore.release_said = "4.0.1"
    before = core.catalog.tables.entry(("d", "t"))
    given = statistics("d", "t", "id", partition=partition)
    core.metastore.update_partition_column_statistics(given)
    core.turn(8)
    after = core.catalog.tables.entry(("d", "t"))
    assert before is not None
    assert after is not None
    assert after.version > before.version
    assert (after.data_version, after.value) == (before.data_version, before.value)
