"""A metastore whose changes never arrive is a problem that everybody is told, never a view."""

import pytest

from topicast.catalog.ingest.poller import CHECK_S, EVENTS_OFF, NO_LISTENER, REFUSED, REFUSED_S
from topicast.catalog.metastore.port import Read
from topicast.tests.cluster.alone import Alone, loaded
from topicast.topics.errors import SourceRefused
from topicast.topics.wire.messages import Refused, Sync, Synced

CALLS = 1000


@pytest.fixture
def core() -> Alone:
    return loaded()


def told(core: Alone) -> str:
    return core.catalog.namespace.metastore_problem()


def test_sync_without_a_listener_is_refused_with_the_setting_that_is_missing(core: Alone) -> None:
    """P-SYNC-3, P-PROBLEM-1."""
    assert told(core) == core.catalog.status().problem == ""
    core.metastore.records = False
    core.create("d", "u")
    answer = core.answer_to(Sync(request=9), Refused, turns=4)
    assert (answer.code, answer.retry_ms, answer.message) == ("NO_EVENTS", 0, NO_LISTENER)
    assert told(core) == core.catalog.status().problem == NO_LISTENER
    core.answer_to(Sync(request=10), Refused, turns=4)


def test_listener_that_is_missing_is_noticed_without_any_request(core: Alone) -> None:
    core.metastore.records = False
    core.wait(CHECK_S + 1)
    assert core.catalog.status().problem == NO_LISTENER


@pytest.mark.parametrize("restarted", [False, True])
def test_changes_without_events_are_read_before_the_problem_is_over(
    core: Alone, *, restarted: bool
) -> None:
    """P-PROBLEM-2."""
    core.metastore.records = False
    core.wait(CHECK_S + 1)
    core.create("d", "u")
    core.wait(CHECK_S + 1)
    assert core.tables() == ["t"]
    if restarted:
        core.restart()
    core.metastore.records = True
    core.wait(CHECK_S + 1)
    assert core.tables() == ["t", "u"]
    assert told(core) == core.catalog.status().problem == ""
    core.answer_to(Sync(request=9), Synced, turns=4)


def test_problem_stays_and_syncs_wait_until_what_changed_has_been_read(core: Alone) -> None:
    """P-PROBLEM-2."""
    core.metastore.records = False
    core.wait(CHECK_S + 1)
    core.create("d", "u")
    core.metastore.records = True
    core.catalogd.hold(Read)
    core.wait(CHECK_S + 1)
    assert told(core) == core.catalog.status().problem == NO_LISTENER
    core.ask(Sync(request=9))
    core.turn(6)
    assert core.replies() == []
    core.catalogd.resume()
    core.turn(12)
    core.reply(Synced)
    assert (told(core), core.tables()) == ("", ["t", "u"])


def test_listener_that_was_missing_is_not_forgotten_over_refusals(core: Alone) -> None:
    """P-PROBLEM-2. Given a restart, catalogd learns of the refusals alone."""
    core.metastore.records = False
    core.wait(CHECK_S + 1)
    core.create("d", "u")
    core.restart()
    core.metastore.records = True
    core.metastore.failures += [SourceRefused("not allowed")] * CALLS
    core.wait(REFUSED_S + 6)
    assert told(core) == NO_LISTENER
    core.metastore.failures.clear()
    core.wait(CHECK_S + 1)
    assert (told(core), core.tables()) == ("", ["t", "u"])


def test_metastore_that_does_not_say_whether_it_records_is_believed(core: Alone) -> None:
    core.metastore.records = None
    core.wait(CHECK_S + 1)
    assert told(core) == ""
    core.answer_to(Sync(request=9), Synced, turns=4)


def test_sync_is_refused_while_the_metastore_refuses_its_events(core: Alone) -> None:
    """P-PROBLEM-2. Given refusals that last, they are told; what was recorded is simply read."""
    core.metastore.failures += [SourceRefused("not allowed")] * CALLS
    core.ask(Sync(request=9))
    core.wait(REFUSED_S + 6)
    answer = core.reply(Refused)
    assert (answer.code, answer.message) == ("NO_EVENTS", f"{REFUSED}not allowed")
    assert told(core) == core.catalog.status().problem == answer.message
    core.create("d", "u")
    core.metastore.failures.clear()
    reads = len(core.reads)
    core.wait(6)
    assert told(core) == ""
    assert core.tables() == ["t", "u"]
    assert len(core.reads) - reads <= 3, "the new table, not everything"


def test_events_that_are_off_are_told_and_no_fault() -> None:
    core = loaded(polling_interval_s=0.0)
    status = core.catalog.status()
    assert (status.problem, status.warning, told(core)) == ("", EVENTS_OFF, EVENTS_OFF)
