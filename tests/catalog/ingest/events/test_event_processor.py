"""EventProcessor: events are followed, paused by an operator, or not told by the metastore."""

from dataclasses import replace

import pytest

from topicast.catalog.ingest.events.event_processor import ERROR_S
from topicast.catalog.ingest.events.event_window import START_OVERLAP
from topicast.catalog.ingest.events.identity import Identify
from topicast.catalog.ingest.events.poller import REFUSED_S, Poll
from topicast.catalog.metastore.port import Read
from topicast.catalog.status import CATCHING_UP, verdict
from topicast.tests.cluster.alone import Alone, loaded, part
from topicast.tests.cluster.fake_metastore import FakeMetastore
from topicast.topics.errors import SourceError, SourceRefused
from topicast.topics.objects.selector import ALL
from topicast.topics.wire.messages.catalog import Pull, Pulled, Sync, Synced
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.questions import Order

PAUSE = Order(request=1, sender="ann@host", order="events", arguments=("pause",))


def state(core: Alone) -> str:
    return core.catalog.event_processor.facts.state.value


def polls(core: Alone) -> int:
    return sum(isinstance(one, Poll) for one in core.effects)


def problem(core: Alone) -> str:
    problem = core.catalog.namespace.source_problem()
    return "" if problem is None else problem.text


def test_nothing_is_polled_in_a_pause_and_all_of_it_afterwards() -> None:
    core = loaded()
    assert state(core) == "ACTIVE"
    answer = core.order("events", "pause")
    assert isinstance(answer, dict)
    assert answer["state"] == "PAUSED"
    before = polls(core)
    core.create("d", "u")
    core.wait(30)
    assert (polls(core), core.tables()) == (before, ["t"])
    answer = core.order("events", "start")
    assert isinstance(answer, dict)
    assert answer["state"] == "ACTIVE"
    core.wait(2)
    assert core.tables() == ["t", "u"]
    assert [row.object for row in core.orders_given] == ["pause", "start"]
    assert core.orders_given[0].key


def test_events_that_were_read_before_a_pause_are_published_in_it() -> None:
    core = loaded()
    core.catalogd.hold(Poll)
    core.create("d", "u")
    core.wait(1)
    core.order("events", "pause", turns=1)
    core.catalogd.resume()
    core.wait(2)
    assert core.tables() == ["t", "u"], "the poll that was under way is finished"


def test_what_waits_for_the_end_of_a_pause_costs_no_turns() -> None:
    core = loaded()
    core.metastore.unreadable["u"] = "corrupt"
    core.create("d", "u")
    core.wait(20)  # it is tried again every few seconds
    core.order("events", "pause")
    core.wait(60)
    core.step()
    assert core.catalog.deadline(core.now) > core.now
    core.metastore.unreadable.clear()
    core.order("events", "start")
    core.wait(5)
    assert core.is_loaded("u")


def test_sync_in_a_pause_is_refused_with_who_has_paused_and_since_when() -> None:
    core = loaded()
    core.catalogd.hold(Poll)
    core.wait(1)
    core.ask(Sync(request=3))
    core.turn()
    core.ask(PAUSE, peer=b"operator")
    core.turn()
    for answer in (core.reply(Refused), core.answer_to(Sync(request=4), Refused)):
        assert answer.code == "NO_EVENTS"
        assert "paused by" in answer.message
        assert "ann@host" in answer.message
        assert "topicast events start" in answer.message


def test_readers_and_the_verdict_say_so_until_everything_of_the_pause_is_published() -> None:
    core = loaded()
    core.order("events", "pause")
    assert "paused by" in problem(core)
    assert "paused by" in core.reasons["events_paused"]
    core.create("d", "u")
    core.catalogd.hold(Poll)
    core.order("events", "start")
    assert problem(core), "nothing of the pause has been read yet"
    assert core.reasons == {"events_paused": CATCHING_UP}, "nobody needs to start them again"
    core.catalogd.resume()
    core.wait(2)
    assert not problem(core)
    assert core.tables() == ["t", "u"]
    assert verdict(core.catalog.status()).reasons == ()


def test_a_pause_outlasts_a_restart_and_names_are_as_they_were() -> None:
    core = loaded()
    core.order("events", "pause")
    core.create("d", "u")
    core.restart()
    core.wait(5)
    assert (state(core), core.tables()) == ("PAUSED", ["t"])
    assert "events_paused" in core.reasons
    core.order("events", "start")
    core.restart()
    core.wait(2)
    assert (state(core), core.tables()) == ("ACTIVE", ["t", "u"])
    assert not problem(core)


def test_a_pause_answers_from_what_is_held_and_reads_nothing() -> None:
    core = loaded("t", "u")
    core.order("mode", "minimal")
    core.order("invalidate", "d.t")
    core.order("events", "pause")
    core.wait(1)
    core.metastore.calls.clear()
    held = Pull(request=4, db="d", table="u", selector=ALL, credit=1 << 20)
    assert core.answer_to(held, Pulled, turns=10).entries
    cold = replace(held, request=5, table="t")
    refused = core.answer_to(cold, Refused, turns=10)
    assert (refused.code, "paused by" in refused.message) == ("SOURCE", True)
    for words in (("refresh", "d.u"), ("invalidate", "d.u")):
        order = core.order(*words)
        assert isinstance(order, Refused)
        assert "paused by" in order.message
    assert isinstance(core.order("refresh", "d.u", "data"), dict), "readers alone list files again"
    assert core.metastore.calls == []
    core.order("events", "start")
    assert core.answer_to(cold, Pulled, turns=10).entries
    core.answer_to(Sync(request=8), Synced, turns=10)


def test_what_is_written_without_an_end_does_not_keep_a_pause_from_beginning() -> None:
    core = loaded()
    table = core.metastore.get_table("d", "t")
    core.catalogd.hold(Read)
    core.add(table, "more")
    core.wait(1)
    core.order("events", "pause")
    core.catalogd.resume()
    for number in range(100):
        core.add(table, f"more{number}")
        core.wait(0.1)
    assert len(core.partitions()) < 80, "of 10 s those of 5 at most"
    core.metastore.calls.clear()
    core.wait(5)
    assert core.metastore.calls == []


def test_a_log_that_was_cleaned_in_a_pause_is_a_gap() -> None:
    core = loaded()
    core.order("events", "pause")
    core.create("d", "u")
    core.create("d", "v")
    core.metastore.clean_log(core.metastore.current_event_id())
    core.create("d", "w")
    core.order("events", "start")
    core.wait(5)
    assert core.tables() == ["t", "u", "v", "w"]
    assert core.catalog.counts.event_gaps == 1


def test_start_at_an_earlier_event_reads_it_again_and_changes_nothing() -> None:
    core = loaded()
    core.wait(10)
    counted = core.catalog.counts.events
    versions = core.catalog.version_log.versions()
    core.order("events", "start", "0", turns=20)
    assert core.catalog.counts.events == counted + core.metastore.current_event_id()
    assert core.catalog.watermark == core.metastore.current_event_id()
    assert core.partitions() == ["ds=1", "ds=2"]
    assert core.catalog.version_log.versions() >= versions


def test_start_at_a_later_event_leaves_the_others_out_and_reads_what_they_may_concern() -> None:
    core = loaded()
    core.order("events", "pause")
    for name in ("u", "v", "w"):
        core.create("d", name)
    newest = core.metastore.current_event_id()
    core.order("events", "start", str(newest - 1), turns=30)
    assert core.tables() == ["t", "u", "v", "w"]
    assert core.catalog.counts.event_gaps == 1
    assert core.catalog.watermark == newest


@pytest.mark.parametrize("at", ["-1", "999999"])
def test_start_at_the_newest_event_or_a_future_event_reads_everything_again(at: str) -> None:
    core = loaded()
    core.order("events", "pause")
    table = core.create("d", "u", "ds")
    core.add(table, "7")
    core.order("events", "start", at, turns=40)
    assert (core.tables(), core.partitions("d", "u")) == (["t", "u"], ["ds=7"])
    assert core.catalog.watermark == core.metastore.current_event_id()
    core.add(table, "8")
    core.wait(2)
    assert core.partitions("d", "u") == ["ds=7", "ds=8"]


def test_start_at_the_newest_event_reads_everything_again_although_none_is_left_out() -> None:
    core = loaded()
    for _ in range(2 * START_OVERLAP):  # so that no event that is read once more is of the table
        core.metastore.log_unknown("OPEN_TXN", "d", "t")
    core.wait(10)
    core.metastore.logs = False
    core.metastore.add_partitions([part(core.metastore.get_table("d", "t"), "9")])
    core.order("events", "start", "-1", turns=40)
    assert core.partitions() == ["ds=1", "ds=2", "ds=9"]


def test_start_at_an_event_outlasts_a_catalogd_that_dies_at_once() -> None:
    core = loaded()
    core.wait(60)  # until no event is read again by itself
    core.catalogd.hold(Identify)
    answer = core.order("events", "start", "0", turns=2)
    assert isinstance(answer, dict)
    core.restart()
    core.catalogd.resume()
    core.wait(3)
    assert core.catalog.counts.events == core.metastore.current_event_id()
    core.restart()
    core.wait(3)
    assert core.catalog.counts.events < core.metastore.current_event_id(), "it was ordered once"


def test_start_in_a_pause_that_is_paused_again_at_once_is_where_it_was_ordered() -> None:
    core = loaded()
    core.wait(60)
    core.order("events", "pause")
    core.catalogd.hold(Identify)
    core.order("events", "start", "0", turns=2)
    core.order("events", "pause", turns=2)
    core.restart()
    core.catalogd.resume()
    assert state(core) == "PAUSED"
    core.order("events", "start", turns=30)
    assert core.catalog.counts.events == core.metastore.current_event_id()


def test_what_a_start_leaves_out_is_read_though_catalogd_dies_meanwhile() -> None:
    core = loaded(reconcile_calls_per_s=0)
    core.order("events", "pause")
    table = core.metastore.get_table("d", "t")
    core.metastore.alter_partitions("d", "t", [part(table, "1", rev="new")])
    core.catalogd.hold(Read)
    newest = core.metastore.current_event_id()
    core.order("events", "start", str(newest), turns=20)
    core.restart()
    core.catalogd.resume()
    core.wait(5)
    ((_, struct),) = core.catalog.tables.structs(("d", "t"), ["ds=1"])
    assert b"new" in struct


def test_skip_of_an_event_behind_others_that_were_not_read_says_which_are_passed() -> None:
    core = loaded()
    core.metastore.unsendable |= {core.metastore.current_event_id() + n for n in (1, 2, 3)}
    first = core.metastore.current_event_id() + 1
    for name in ("u", "v", "w"):
        core.create("d", name)
    core.wait(1)
    answer = core.order("events", "skip", str(first + 2), turns=20)
    assert isinstance(answer, dict)
    assert (answer["passed_from"], answer["passed_to"]) == (first, first + 2)
    assert core.tables() == ["t", "u", "v", "w"]


def test_skip_passes_an_event_that_was_not_read_and_reads_everything_again() -> None:
    core = loaded()
    core.metastore.unsendable.add(core.metastore.current_event_id() + 1)
    core.create("d", "u")
    core.create("d", "v")
    core.wait(1)
    passed = core.metastore.current_event_id() - 1
    answer = core.order("events", "skip", str(passed), turns=20)
    assert isinstance(answer, dict)
    assert (answer["passed_from"], answer["passed_to"]) == (passed, passed)
    assert (core.tables(), core.catalog.counts.events_passed) == (["t", "u", "v"], 1)
    assert core.orders_given[-1].object == f"skip {passed}"
    again = core.order("events", "skip", "1")
    assert isinstance(again, Refused)
    assert "was read before" in again.message


@pytest.mark.parametrize(
    "arguments",
    [(), ("stop",), ("pause", "5"), ("start", "-2"), ("start", "x"), ("start", "1", "2")],
)
def test_an_order_that_is_wrong_is_refused_and_changes_nothing(arguments: tuple[str, ...]) -> None:
    core = loaded()
    answer = core.order("events", *arguments)
    assert isinstance(answer, Refused)
    assert answer.code == "ORDER"
    assert (state(core), core.orders_given) == ("ACTIVE", [])


def test_events_that_are_off_can_be_neither_paused_nor_started() -> None:
    core = loaded(polling_interval_s=0.0)
    for verb in ("pause", "start"):
        answer = core.order("events", verb)
        assert isinstance(answer, Refused)
        assert "hms_event_polling_interval_s" in answer.message
    assert state(core) == "DISABLED"


def test_a_second_pause_keeps_the_name_of_the_first() -> None:
    core = loaded()
    core.order("events", "pause")
    first = core.catalog.event_processor.facts
    core.wait(5)
    core.order("events", "pause")
    assert core.catalog.event_processor.facts == first
    assert len(core.orders_given) == 1


def test_a_metastore_that_refuses_or_is_silent_is_an_error_until_it_answers() -> None:
    class Refusing(FakeMetastore):
        """A metastore that tells no events: ``fails`` says how."""

        fails: SourceError | None = None

        def current_event_id(self) -> int:
            if self.fails is not None:
                raise self.fails
            return super().current_event_id()

    source = Refusing()
    core = Alone(source=source)
    core.create_database("d")
    core.wait(2)
    source.fails = SourceRefused("not for you")
    core.wait(1)
    assert state(core) == "ACTIVE", "it may be a hiccup"
    core.wait(REFUSED_S + 5)
    assert state(core) == "ERROR"
    assert "not for you" in core.catalog.event_processor.facts.because
    source.fails = None
    core.wait(5)
    assert state(core) == "ACTIVE"
    source.fails = SourceError("down")
    core.wait(ERROR_S + 5)
    assert state(core) == "ERROR"
    core.order("events", "pause")
    assert state(core) == "PAUSED"
