"""Where changes of the metastore cannot arrive, catalogd reports a problem, not an old view."""

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database, Table

from topicast.catalog.follow.notes import Noted
from topicast.catalog.ingest.events.event_window import WINDOW_S
from topicast.catalog.ingest.events.poller import (
    CHECK_S,
    EVENTS_OFF,
    LISTENER_SETTING,
    NO_LISTENER,
    REFUSED,
    REFUSED_S,
    UNPROVEN,
    Poll,
)
from topicast.catalog.metastore.port import LISTED_DATABASES_MAX, ListNames, Read
from topicast.catalog.reconcile.reconciliation import NAMES_S, OVER_S
from topicast.catalog.serve.pending import EVENT_WAIT_S_MAX
from topicast.tests.cluster.alone import Alone, loaded
from topicast.tests.cluster.fake_metastore import FakeMetastore, from_thrift
from topicast.topics.errors import SourceError, SourceRefused
from topicast.topics.wire.messages.catalog import Sync, Synced
from topicast.topics.wire.messages.connection import Refused

CALLS = 1000


def problem_of(core: Alone) -> str:
    problem = core.catalog.namespace.source_problem()
    return "" if problem is None else problem.text


def test_sync_without_a_listener_is_refused_with_the_setting_that_is_missing(core: Alone) -> None:
    """P-SYNC-3, P-PROBLEM-1."""
    assert (problem_of(core), core.reasons) == ("", {})
    core.metastore.records = False
    core.metastore.connections += 1  # it was restarted
    core.create("d", "u")
    answer = core.answer_to(Sync(request=9), Refused, turns=8)
    assert (answer.code, answer.retry_ms, answer.message) == ("NO_EVENTS", 0, NO_LISTENER)
    assert problem_of(core) == core.reasons["metastore_events"] == NO_LISTENER
    core.answer_to(Sync(request=10), Refused, turns=4)


def test_listener_that_is_missing_is_noticed_without_any_request(core: Alone) -> None:
    core.metastore.records = False
    core.wait(CHECK_S + 1)
    assert core.reasons == {"metastore_events": NO_LISTENER}


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
    assert (problem_of(core), core.reasons) == ("", {})
    core.answer_to(Sync(request=9), Synced, turns=4)


def test_problem_stays_and_syncs_wait_until_what_changed_has_been_read(core: Alone) -> None:
    """P-PROBLEM-2."""
    core.metastore.records = False
    core.wait(CHECK_S + 1)
    core.create("d", "u")
    core.metastore.records = True
    core.catalogd.hold(Read)
    core.wait(CHECK_S + 1)
    assert problem_of(core) == core.reasons["metastore_events"] == NO_LISTENER
    core.ask(Sync(request=9))
    core.turn(6)
    assert core.replies() == []
    core.catalogd.resume()
    core.turn(12)
    core.reply(Synced)
    assert (problem_of(core), core.tables()) == ("", ["t", "u"])


def test_listener_that_was_missing_is_not_forgotten_over_refusals(core: Alone) -> None:
    """P-PROBLEM-2. Given a restart, catalogd learns of the refusals alone."""
    core.metastore.records = False
    core.wait(CHECK_S + 1)
    core.create("d", "u")
    core.restart()
    core.metastore.records = True
    core.metastore.failures += [SourceRefused("not allowed")] * CALLS
    core.wait(REFUSED_S + 6)
    assert problem_of(core) == NO_LISTENER
    core.metastore.failures.clear()
    core.wait(CHECK_S + 1)
    assert (problem_of(core), core.tables()) == ("", ["t", "u"])


def test_metastore_that_does_not_say_whether_it_records_is_a_warning_until_an_event_comes(
    core: Alone,
) -> None:
    core.metastore.records = None
    core.metastore.connections += 1
    core.wait(CHECK_S + 1)
    assert (problem_of(core), core.reasons) == ("", {"events_unproven": UNPROVEN})
    core.answer_to(Sync(request=9), Synced, turns=8)
    core.create("d", "u")
    core.wait(1)
    assert core.reasons == {}


def test_sync_is_refused_while_the_metastore_refuses_its_events(core: Alone) -> None:
    """P-PROBLEM-2. Given refusals that last, they are told; what was recorded is simply read."""
    core.metastore.failures += [SourceRefused("not allowed")] * CALLS
    core.ask(Sync(request=9))
    core.wait(REFUSED_S + 6)
    answer = core.reply(Refused)
    assert (answer.code, answer.message) == ("NO_EVENTS", f"{REFUSED}not allowed")
    assert problem_of(core) == core.reasons["metastore_events"] == answer.message
    core.create("d", "u")
    core.metastore.failures.clear()
    reads = len(core.reads)
    core.wait(6)
    assert problem_of(core) == ""
    assert core.tables() == ["t", "u"]
    assert len(core.reads) - reads <= 3, "the new table, not everything"


def test_refusals_are_told_over_a_restart_until_events_are_read_again(core: Alone) -> None:
    """P-PROBLEM-2."""
    core.metastore.failures += [SourceRefused("not allowed")] * CALLS
    core.wait(REFUSED_S + 6)
    told = problem_of(core)
    core.restart()
    core.create("d", "u")
    core.wait(1)
    assert problem_of(core) == told == f"{REFUSED}not allowed"
    core.metastore.failures.clear()
    core.wait(6)
    assert (problem_of(core), core.tables()) == ("", ["t", "u"])


def test_events_that_are_off_are_told_and_no_fault() -> None:
    core = loaded(polling_interval_s=0.0)
    assert (problem_of(core), core.reasons) == (EVENTS_OFF, {"events_off": EVENTS_OFF})


# -- names that change without an event


def test_names_that_change_without_an_event_are_read_and_said_though_the_listener_is_set(
    core: Alone,
) -> None:
    core.metastore.logs = False
    core.create("d", "u")
    core.metastore.drop_table("d", "t", True)
    core.metastore.create_database(Database("e", "", "file:/w/e", {}))
    core.create("e", "v")
    core.wait(NAMES_S + 1)
    assert (core.tables(), core.tables("e")) == (["u"], ["v"])
    assert problem_of(core) == "", "an event of it may still come"
    core.answer_to(Sync(request=8), Synced, turns=4)
    core.wait(WINDOW_S + 1)
    problem = problem_of(core)
    assert problem.startswith("database e is there, and no event reported it: ")
    assert LISTENER_SETTING in problem
    assert core.reasons == {"metastore_events": problem}
    assert [one.text for one in core.effects if isinstance(one, Noted)] == [problem]
    answer = core.answer_to(Sync(request=9), Refused, turns=4)
    assert (answer.code, answer.message) == ("NO_EVENTS", problem)


def test_partitions_that_change_without_an_event_are_read_and_said() -> None:
    core = loaded("t", "u")
    core.create("d", "flat")
    core.wait(3)
    core.metastore.logs = False
    core.add(core.metastore.get_table("d", "u"), "3")
    core.metastore.drop_partition("d", "u", ["1"], False)
    core.wait(NAMES_S + 5)
    assert core.partitions("d", "u") == ["ds=2", "ds=3"]
    core.wait(WINDOW_S + 2)
    assert problem_of(core).startswith(
        "partition ds=1 of table d.u is gone, and no event reported it: "
    )


@pytest.mark.parametrize("change", ["add", "drop", "table"])
def test_partition_whose_event_is_late_is_read_and_nothing_is_said(
    core: Alone, change: str
) -> None:
    core.catalogd.hold(Poll)
    if change == "table":
        core.metastore.drop_table("d", "t", True)
    elif change == "drop":
        core.metastore.drop_partition("d", "t", ["1"], False)
    else:
        core.add(core.metastore.get_table("d", "t"), "3")
    core.wait(NAMES_S + 1)
    core.catalogd.resume()
    core.wait(3 * WINDOW_S)
    expected = {"table": [], "drop": ["ds=2"], "add": ["ds=1", "ds=2", "ds=3"]}
    assert (core.partitions(), problem_of(core)) == (expected[change], "")


@pytest.mark.parametrize("late_s", [0.0, 2.0])
def test_name_whose_event_is_late_is_read_and_nothing_is_said(core: Alone, late_s: float) -> None:
    """Given a listing that is answered before its events are read."""
    core.catalogd.hold(Poll)
    core.create("d", "u")
    core.metastore.drop_table("d", "t", True)
    core.wait(NAMES_S + late_s)
    assert core.tables() in (["t"], ["t", "u"])
    core.catalogd.resume()
    core.wait(3 * WINDOW_S)
    assert (core.tables(), problem_of(core)) == (["u"], "")


def test_name_that_is_listed_and_cannot_be_read_is_no_change() -> None:
    class Haunted(FakeMetastore):
        """A metastore that lists a table that nobody can read."""

        def table_names(self, db: str) -> tuple[tuple[str, str], ...]:
            return (*super().table_names(db), ("ghost", "MANAGED_TABLE"))

        def names(self, db: str) -> tuple[str, ...]:
            return tuple(name for name, _ in self.table_names(db))

    core = Alone(source=Haunted())
    core.create_database("d")
    core.create("d", "t")
    core.wait(2 * NAMES_S + 3 * WINDOW_S)
    assert (core.tables(), problem_of(core)) == (["t"], "")


def test_lost_events_are_no_missing_listener(core: Alone) -> None:
    """Given a listing before the gap is noticed: what differs was in events that are lost."""
    core.catalogd.hold(Poll)
    core.create("d", "u")
    core.wait(NAMES_S + 1)
    core.create("d", "v")
    core.metastore.clean_log(core.metastore.current_event_id())
    core.catalogd.resume()
    core.wait(3 * WINDOW_S)
    assert (core.tables(), problem_of(core), core.catalog.counts.event_gaps) == (
        ["t", "u", "v"],
        "",
        1,
    )


@pytest.mark.parametrize("connects", [False, True])
def test_missed_changes_are_forgotten_once_events_come_and_everything_was_read(
    core: Alone, *, connects: bool
) -> None:
    """P-PROBLEM-2. Events alone prove nothing for a while: another server may record none."""
    core.metastore.logs = False
    core.create("d", "u")
    core.wait(NAMES_S + WINDOW_S + 1)
    assert problem_of(core)
    table = core.metastore.get_table("d", "t")
    table.owner = "somebody"
    core.metastore.alter_table("d", "t", table)
    core.metastore.logs = True
    core.create("d", "v")
    core.wait(2)
    assert problem_of(core), "one of several servers may record its changes"
    if connects:
        core.metastore.connections += 1
    else:
        core.wait(OVER_S)
    core.create("d", "w")
    core.wait(6)
    assert (problem_of(core), core.tables()) == ("", ["t", "u", "v", "w"])
    held = core.catalog.tables.value(("d", "t"))
    assert held is not None
    assert from_thrift(Table, held.thrift).owner == "somebody"


def test_sync_compares_names_where_nothing_says_that_events_come() -> None:
    """P-SYNC-3, P-SYNC-4. Given more databases than one listing holds; until an event has come."""
    core = loaded()
    for number in range(LISTED_DATABASES_MAX + 2):
        core.create_database(f"e{number:03d}")
    core.metastore.records = None
    core.wait(CHECK_S + WINDOW_S)
    core.metastore.connections += 1
    core.wait(2)
    core.metastore.logs = False
    core.create("d", "u")
    core.create("e101", "v")
    core.answer_to(Sync(request=9), Synced, turns=12)
    assert (core.tables(), core.tables("e101")) == (["t", "u"], ["v"])
    core.metastore.logs = True
    core.create("d", "w")
    core.wait(2)
    core.effects.clear()
    core.answer_to(Sync(request=10), Synced, turns=4)
    assert not [one for one in core.effects if isinstance(one, ListNames)], "events come"


def test_sync_that_waits_for_names_says_so_when_it_is_sent_again_and_is_answered_once() -> None:
    core = loaded()
    core.metastore.records = None
    core.metastore.connections += 1
    core.wait(CHECK_S + 2)
    core.catalogd.hold(ListNames)
    for _ in range(3):
        core.ask(Sync(request=9))
        core.turn()
    first, second = core.replies()
    assert isinstance(first, Refused)
    assert (first, first.code) == (second, "LAGGING"), "it still waits, and is told for what"
    assert first.message.startswith("catalogd compares every name")
    assert core.catalog.status().waiting_requests == 1
    core.catalogd.resume()
    core.turn(6)
    core.reply(Synced)
    core.catalogd.hold(ListNames)
    core.ask(Sync(request=10))
    core.wait(EVENT_WAIT_S_MAX + 1)
    assert core.reply(Refused).code == "SOURCE"


def test_names_are_listed_a_few_databases_at_a_time() -> None:
    core = loaded()
    for number in range(2 * LISTED_DATABASES_MAX):
        core.create_database(f"e{number:03d}")
    core.wait(9 * NAMES_S)
    listings = [one for one in core.effects if isinstance(one, ListNames)]
    assert [one.after for one in listings[:4]] == ["", "e097", "e197", ""]
    assert len(listings) <= 5, "half of the calls are for objects"


def test_names_are_listed_again_after_a_failure() -> None:
    class Hiccup(FakeMetastore):
        """A metastore that fails to list its databases once."""

        hiccups = 0

        def databases(self) -> tuple[str, ...]:
            if self.hiccups:
                self.hiccups -= 1
                raise SourceError("down")
            return super().databases()

    source = Hiccup()
    core = Alone(source=source)
    core.create_database("d")
    core.wait(2)
    source.hiccups, source.logs = 1, False
    core.create("d", "u")
    core.wait(NAMES_S + 3)
    assert (core.tables(), source.hiccups) == (["u"], 0)
