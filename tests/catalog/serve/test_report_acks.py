"""Reporting: every report is answered once, after its commit, and nobody pays for a flood."""

import pytest

from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.ingest.writes.reports import INTENT_LAPSES_S
from topicast.catalog.model.versions import Commit
from topicast.catalog.serve import report_acks as module
from topicast.catalog.serve.pending import EVENT_WAIT_S_MAX
from topicast.catalog.serve.report_acks import BURST, WRITES_PER_S
from topicast.tests.cluster.alone import TURN_S, Alone, loaded
from topicast.topics.wire.messages.connection import Bye, Refused
from topicast.topics.wire.messages.data import SOURCE_REPORTS
from topicast.topics.wire.messages.reports import INTENT, WRITTEN, Report, Reported, Write

DRIVER = b"d" * 16


def report(
    *of: str, request: int = 1, number: int = 1, state: int = WRITTEN, metastore: str = ""
) -> Report:
    writes = tuple(Write(number=number + n, state=state, object=one) for n, one in enumerate(of))
    return Report(request=request, driver=DRIVER, metastore=metastore, finished=0, writes=writes)


def test_report_without_writes_is_answered_and_leaves_nothing(core: Alone) -> None:
    """It asks whether its metastore is followed."""
    core.effects.clear()
    core.ask(report())
    core.turn()
    assert not any(isinstance(effect, Commit) for effect in core.effects)
    assert core.reply(Reported).outcomes == ()


def test_report_is_answered_behind_its_commit(core: Alone) -> None:
    """P-REPORT-1."""
    core.effects.clear()
    core.ask(report("d.t", request=7))
    core.turn()
    (commit,) = [e for e in core.effects if isinstance(e, Commit)]
    answer = core.reply(Reported)
    (verdict,) = answer.outcomes
    (transaction,) = commit.transactions
    assert (answer.request, answer.epoch, answer.start) == (7, *core.catalog.position)
    assert (verdict.topic, verdict.version) == (transaction.topic, transaction.to_version)
    assert transaction.source == SOURCE_REPORTS
    assert [row.number for row in commit.writes] == [1]


def test_table_that_is_not_known_yet_is_polled_for(core: Alone) -> None:
    """P-REPORT-3: a report may overtake the event of the table that it names."""
    core.catalogd.hold(Poll)
    core.turn(2)
    core.create("d", "new")
    core.ask(report("d.new"))
    core.turn(3)
    assert core.replies() == [], "the poll that runs began before the question"
    core.catalogd.resume()
    core.turn(20)
    (verdict,) = core.reply(Reported).outcomes
    assert verdict.problem == ""
    assert core.topics[verdict.topic].version >= verdict.version > 0


def test_without_events_nothing_is_waited_for() -> None:
    core = Alone(polling_interval_s=0.0)
    core.create_database("d")
    core.turn(5)
    assert core.answer_to(report("d.none"), Reported).outcomes[0].code == "NO_OBJECT"


def test_path_is_found_by_a_catalogd_that_has_read_no_entry_since_its_start(core: Alone) -> None:
    core.restart()
    core.turn(6)
    (verdict,) = core.answer_to(report("file:/w/d/t/ds=1"), Reported, turns=1).outcomes
    assert verdict.version > 0


@pytest.mark.parametrize("table", ["d.none", "d.t"], ids=["waits for a poll", "is ready"])
def test_report_that_is_repeated_while_it_waits_is_answered_once(core: Alone, table: str) -> None:
    """P-REPORT-2."""
    core.ask(report(table))
    core.answer_to(report(table), Reported, turns=20)
    assert core.catalog.reports.counts()["reported_writes_repeated"] == 0


def test_report_is_applied_though_the_driver_leaves(core: Alone) -> None:
    before = core.catalog.version_log.versions()
    core.ask(report("d.t"))
    core.ask(Bye(reason=""))
    core.turn()
    assert core.catalog.version_log.versions() > before


def test_intent_lapses_by_time_alone(core: Alone) -> None:
    """P-REPORT-4."""
    core.answer_to(report("d.t", state=INTENT), Reported)
    before = core.catalog.version_log.versions()
    core.turn(int(INTENT_LAPSES_S / TURN_S) - 2)
    assert core.catalog.version_log.versions() == before
    core.turn(10)
    assert core.catalog.version_log.versions() > before


@pytest.mark.parametrize("theirs", ["", "thrift://other:9083", "thrift://hms:9084"])
def test_report_of_another_metastore_is_refused(theirs: str) -> None:
    """P-REPORT-5."""
    core = loaded(metastore="thrift://hms:9083,thrift://hms2:9083")
    before = core.catalog.version_log.versions()
    answer = core.answer_to(report("d.t", metastore=theirs), Refused)
    assert answer.code == "METASTORE"
    assert "thrift://hms:9083" in answer.message
    assert (theirs or "(none)") in answer.message
    assert core.catalog.version_log.versions() == before


@pytest.mark.parametrize(
    "theirs", ["thrift://HMS2", "thrift://x:1, thrift://hms:9083/", "hms:9083"]
)
def test_one_common_address_makes_it_the_same_metastore(theirs: str) -> None:
    """P-REPORT-5."""
    core = loaded(metastore="thrift://hms:9083,thrift://hms2:9083")
    core.answer_to(report("d.t", metastore=theirs), Reported)


def flood(core: Alone, writes: int, request: int) -> object:
    many = report(*["d.t"] * writes, request=request, number=request * writes)
    return core.answer_to(many, object)


def test_driver_that_reports_too_much_is_put_off_and_no_other(core: Alone) -> None:
    """P-REPORT-6."""
    half = int(BURST / 2)
    assert isinstance(flood(core, half, 1), Reported)
    assert isinstance(flood(core, half, 2), Reported)
    put_off = flood(core, half, 3)
    assert isinstance(put_off, Refused)
    assert (put_off.code, put_off.retry_ms > 0) == ("RATE", True)
    other = Report(
        request=9,
        driver=b"o" * 16,
        metastore="",
        finished=0,
        writes=(Write(number=1, state=WRITTEN, object="d.t"),),
    )
    core.ask(other, peer=b"other")
    core.turn()
    core.reply(Reported, b"other")
    core.turn(int(half / WRITES_PER_S / TURN_S) + 1)
    assert isinstance(flood(core, half, 4), Reported)


def test_rates_are_remembered_of_the_drivers_that_reported_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ALLOWANCES_MAX", 2)
    core = loaded()
    assert isinstance(flood(core, int(BURST), 1), Reported)
    assert isinstance(flood(core, int(BURST), 2), Refused)
    for number in range(2):
        one = Report(request=1, driver=bytes([number]) * 16, metastore="", finished=0, writes=())
        core.ask(one, peer=bytes([number]))
    assert isinstance(flood(core, int(BURST), 3), Reported), "its rate has been evicted"


def test_reports_that_wait_too_long_are_answered(core: Alone) -> None:
    core.catalogd.hold(Poll)
    core.ask(report("d.none"))
    core.turn(int(EVENT_WAIT_S_MAX / TURN_S) + 5)
    assert core.reply(Reported).outcomes[0].code == "NO_OBJECT"
