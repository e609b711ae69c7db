"""The core as a whole: what its caller sees of age, levels, changes, operators and driver."""

from dataclasses import replace
from functools import partial
from math import inf

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.subscriber.fetch.fetcher import PartitionRequest
from topicast.subscriber.protocol import effects
from topicast.subscriber.protocol.commands import Command, Started
from topicast.subscriber.protocol.effects import Connection
from topicast.tests.cluster.cluster import NetworkOrder
from topicast.tests.cluster.shop import Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.topics.following import delta
from topicast.topics.errors import (
    LinkError,
    NoSuchObject,
    NotReady,
    NotVisible,
    SourceError,
    UsageError,
    VersionMismatch,
    WireError,
)
from topicast.topics.objects.drivers import COUNTS_S
from topicast.topics.objects.names import EVERYTHING
from topicast.topics.objects.rules import DRY_RUN, OFF, ON
from topicast.topics.objects.selector import TABLE_ONLY
from topicast.topics.policy import Policy
from topicast.topics.topic import STUB, VALUE, accounted_bytes, table_topic
from topicast.topics.turn import Tick
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.catalog import Sync
from topicast.topics.wire.messages.connection import Bye, Refused, Welcome
from topicast.topics.wire.messages.data import Delta, Heartbeat
from topicast.topics.wire.messages.publishers import Announce
from topicast.topics.wire.messages.questions import (
    Order,
    ReadDriver,
    ReaderQuestion,
    ReadLevels,
    ReadStats,
    ReadTrace,
    ReadUsage,
)
from topicast.topics.wire.messages.readers import DriverFacts, Dropped, Join


def test_age_grows_while_catalogd_is_silent_and_bounds_what_memory_answers() -> None:
    shopping = Shopping(max_staleness_s=5)
    view = shopping.reader.member.view
    assert view.fresh_until > shopping.cluster.now + 4
    shopping.alter(Heartbeat, lambda beat: replace(beat, age_ms=2000), count=30)
    shopping.pass_time(0.5)
    assert 2.0 <= shopping.stats().staleness_s <= 2.6
    assert view.fresh_until < shopping.cluster.now + 3.1
    shopping.lose("hub-0", "reader-0", Heartbeat)
    shopping.pass_time(4)
    assert 6.0 <= shopping.stats().staleness_s <= 6.7
    assert view.fresh_until < shopping.cluster.now


def test_what_is_held_ages_while_the_machine_sleeps() -> None:
    """Given a laptop that wakes up, what it has from before is as old as its sleep was long."""
    shopping = Shopping(late=True, max_staleness_s=60)
    assert shopping.columns("shop.orders") == ("id",)
    shopping.reader.suspend(3600)
    with pytest.raises(LinkError, match="silent for more than 60"):
        shopping.columns("shop.orders")
    shopping.reshape("shop.orders", "id", "new")
    shopping.pass_time(2)
    assert shopping.columns("shop.orders") == ("id", "new")
    assert shopping.stats().staleness_s < 1


@pytest.mark.parametrize("late", range(4))
def test_start_ends_when_the_last_topic_comes_whichever_that_is(late: int) -> None:
    shopping = Shopping(late=True, start=False)
    held_back = NetworkOrder(("hub-0", "reader-0"), "Chunk", late, hold=True, left=99)
    shopping.cluster.orders.append(held_back)
    reader = shopping.reader
    worker = shopping.begin(lambda _: reader.workers[-1].call(reader.member.ready, timeout_s=60))
    shopping.pass_time(1.5)
    assert worker.alive
    shopping.release()
    assert not worker.alive


def test_all_is_current_as_of_the_last_heartbeat_that_every_topic_agrees_with() -> None:
    shopping = Shopping()
    core, cluster = shopping.reader.member, shopping.cluster
    assert cluster.now - core.current_at <= 0.5
    shopping.lose("hub-0", "reader-0", Delta)
    shopping.shop.create("shop.missed")
    shopping.pass_time(0.5)
    since = core.current_at
    shopping.lose("hub-0", "reader-0", Heartbeat)
    shopping.pass_time(4)
    assert core.current_at == since
    core.restart()
    assert core.current_at == core.view.current_at == -inf


def test_undecodable_frames_are_counted_and_messages_of_no_use_ignored(shopping: Shopping) -> None:
    shopping.reader.handle(effects.DroppedFrame(Connection.DATA, WireError("no message")))
    refused = Refused(request=1, code="TOPIC", message="x", retry_ms=0)
    for connection, message in (
        (Connection.CONTROL, Dropped(request=1)),
        (Connection.DATA, Dropped(request=1)),
        (Connection.CONTROL, refused),
    ):
        shopping.reader.handle(effects.Received(connection, message))
    assert shopping.stats().wire_errors == 1
    assert shopping.columns("shop.orders") == ("id",)


def test_hub_of_another_version_is_named_with_both_versions_until_a_hub_registers_us() -> None:
    """P-VER-3."""
    shopping = Shopping(start=False)
    shopping.lose("hub-0", "reader-0", Welcome)
    shopping.pass_time(1)
    error = VersionMismatch("1", "2")
    shopping.reader.handle(effects.DroppedFrame(Connection.DATA, error))
    assert "version" not in shopping.reader.member.subscriptions.missing()
    shopping.reader.handle(effects.DroppedFrame(Connection.CONTROL, error))
    said = "it does not speak our protocol: protocol version 2 offered, 1 spoken here"
    assert said in shopping.reader.member.subscriptions.missing()
    shopping.mend()
    shopping.start()
    assert shopping.columns("shop.orders") == ("id",)


def test_changes_that_came_at_once_are_notified_at_once_and_before_an_answer() -> None:
    shopping = Shopping(watching=True)
    shopping.lose("hub-0", "reader-0", Delta, Heartbeat)
    for name in ("shop.orders", "shop.sales"):
        shopping.shop.reshape(name, ("new",))
    shopping.settle()
    core, now = shopping.reader.member, shopping.cluster.now
    deltas = [one for one in shopping.messages(Delta, sender="hub-0") if one.entries][-2:]
    received = [effects.Received(Connection.DATA, delta) for delta in deltas]
    read = Command(
        partial(core.read, PartitionRequest("shop", "sales", TABLE_ONLY)), deadline=now + 1
    )
    changes, answer, *_ = core.handle_all([read, *received], now=now)
    assert isinstance(changes, effects.Notify)
    assert {change.object for change in changes.changes} == {"shop.orders", "shop.sales"}
    assert answer == effects.Complete(read)
    later = core.handle(Tick(), now=now)
    assert not any(isinstance(one, effects.Notify) for one in later)


def test_story_of_a_topic_has_what_came_and_went_for_it_in_order(shopping: Shopping) -> None:
    shopping.shop.reshape("shop.orders", ("new",))
    shopping.settle()
    core, topic = shopping.reader.member, shopping.topic("shop.orders")
    (delta,) = [one for one in shopping.messages(Delta, sender="hub-0") if one.topic == topic][-1:]
    story = [line.partition(" ")[2] for line in core.story(topic)]
    assert story.index("in Welcome") < story.index(
        f"in Delta topic={topic} version={delta.to_version}"
    )
    others = [line for line in core.story() if line not in core.story(topic)]
    assert others
    assert all("topic=" in line for line in others)


def test_operation_that_fails_leaves_no_effect_of_it_behind(shopping: Shopping) -> None:
    """Given an error of ours in the middle of a turn, the next turn performs nothing of it."""
    core, now = shopping.reader.member, shopping.cluster.now

    def fail() -> Started[None]:
        core.sync(EVERYTHING, within_s=1)
        raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError):
        core.handle(Command(fail, deadline=now + 1), now=now)
    core.restart()
    sent = [one for one in core.handle(Tick(), now=now) if isinstance(one, effects.Send)]
    assert not any(isinstance(one.message, Sync) for one in sent)


def test_subscriber_that_leaves_says_goodbye(shopping: Shopping) -> None:
    shopping.reader.handle(effects.Leave())
    shopping.pass_time(0.1)
    assert shopping.messages(Bye)


def test_calls_before_anything_is_there_wait_and_are_served() -> None:
    shopping = Shopping(start=False)
    stats = shopping.stats()
    assert (stats.staleness_s, stats.ready, stats.hub) == (inf, False, "hub-0")
    table = shopping.begin(lambda catalog: catalog.table("shop.orders"))
    names = shopping.begin(lambda catalog: catalog.databases())
    with pytest.raises(UsageError):  # how many topics there are is not known yet
        shopping.call(lambda catalog: catalog.join(1))
    assert table.alive
    assert names.alive
    shopping.start()
    assert not table.alive
    assert not names.alive


def test_call_that_times_out_before_catalogd_is_known_says_so() -> None:
    shopping = Shopping(start=False)
    shopping.lose("catalogd", "hub-0", Announce)
    with pytest.raises(NotReady, match="address is not known"):
        shopping.table("shop.orders")
    with pytest.raises(NotReady):
        shopping.call(lambda catalog: catalog.sync(0.2))


def test_heartbeat_without_its_start_is_of_no_use() -> None:
    shopping = Shopping(start=False)
    shopping.alter(Heartbeat, lambda beat: replace(beat, start=0))
    shopping.pass_time(3)
    assert shopping.messages(Join) == []


def test_topics_have_their_version_and_the_bytes_that_are_held(shopping: Shopping) -> None:
    topics = shopping.cluster.catalogd.published.topics
    for number, info in shopping.topics().items():
        rows = [row for row in topics[number].since(0) if row.kind in (VALUE, STUB)]
        assert info.version == topics[number].version
        assert info.bytes == sum(map(accounted_bytes, rows))


def inspected(shopping: Shopping, kind: type[ReaderQuestion]) -> Inspected | Refused:
    """Return what the subscriber answers to an operator, through its hub."""
    question = kind(request=5, member=bytes(16))
    shopping.reader.handle(effects.Received(Connection.CONTROL, question))
    answers = [m for _, m in shopping.sent if isinstance(m, Inspected | Refused)]
    assert decode(encode(answers[-1])) == answers[-1]
    return answers[-1]


def rows_of(answer: Inspected | Refused) -> dict[str, object]:
    """Return an answer of names and values."""
    assert isinstance(answer, Inspected)
    assert (answer.request, answer.columns) == (5, ("name", "value"))
    return {str(name): value for name, value in answer.rows}


def test_operators_see_each_topic_with_level_bytes_and_reason() -> None:
    shopping = Shopping(automatic=True, budget_bytes=3000)
    shopping.table("shop.orders")
    shopping.pass_time(0.1)
    answer = inspected(shopping, ReadLevels)
    assert isinstance(answer, Inspected)
    rows = answer.records()
    (row,) = [row for row in rows if row["why"] == "read for the first time"]
    topic = shopping.topic("shop.orders")
    assert (row["id"], row["level"]) == (topic, "minimal")
    assert row["full_bytes"] == shopping.topics()[topic].full_bytes
    assert {row["lag_s"] for row in rows if row["level"] == "none"} == {None}


def test_operators_see_the_tables_that_were_read_last() -> None:
    shopping = Shopping(automatic=True)
    shopping.table("shop.orders")
    shopping.pass_time(3)
    answer = inspected(shopping, ReadUsage)
    assert isinstance(answer, Inspected)
    (row,) = answer.records()
    assert (row["table"], row["topic"]) == ("shop.orders", shopping.topic("shop.orders"))
    assert 0 < row["read_s"] <= 3


def test_operators_see_the_messages_that_came_and_went(shopping: Shopping) -> None:
    shopping.shop.reshape("shop.orders", ("new",))
    shopping.settle()
    shopping.pass_time(3)
    answer = inspected(shopping, ReadTrace)
    assert isinstance(answer, Inspected)
    rows = answer.records()
    topic = shopping.topic("shop.orders")
    deltas = [row for row in rows if row["message"] == "Delta" and row["topics"] == str(topic)]
    assert deltas[-1]["version"] == shopping.topics()[topic].version
    assert deltas[-1]["ago_s"] > 3
    assert (rows[-1]["way"], rows[-1]["message"], rows[-1]["ago_s"]) == ("in", "ReadTrace", 0)


def test_operators_see_counters_by_name(shopping: Shopping) -> None:
    rows = rows_of(inspected(shopping, ReadStats))
    assert rows["budget_bytes"] == shopping.stats().budget_bytes


def test_operators_see_what_the_application_reports_with_topics_and_budget() -> None:
    facts = {"application": "etl", "problem": None, "last_error": "\udcff" + "x" * 5000}
    shopping = Shopping(driver_facts=lambda: facts)
    rows = rows_of(inspected(shopping, ReadDriver))
    assert (rows["application"], rows["problem"]) == ("etl", None)
    assert rows["last_error"] == "?" + "x" * 4095, "whatever it is, it can be sent"
    assert (rows["full_topics"], rows["minimal_topics"]) == (5, 0)
    stats = shopping.stats()
    assert (rows["budget_bytes"], rows["held_bytes"]) == (stats.budget_bytes, stats.held_bytes)
    assert isinstance(rows["staleness_s"], float)


def drivers(shopping: Shopping) -> list[tuple[str, str, str, int]]:
    """Return what the hub knows of each driver, which may go to no other hub."""
    status = shopping.cluster.hubs[0].hub.status(now=shopping.cluster.now)
    assert {one.hubs for one in status.drivers} <= {1}
    return [(one.application, one.state, one.reason, one.pid) for one in status.drivers]


def test_driver_announces_itself_at_each_registration_and_when_it_changes() -> None:
    """P-INSPECT-3."""
    facts: dict[str, str | int | None] = {"application": "etl", "pid": 7, "state": "connecting"}
    shopping = Shopping(driver_facts=lambda: facts)
    assert drivers(shopping) == [("etl", "connecting", "", 7)]
    facts |= {"state": "live", "reason": "1 of 4 topics are not followed"}
    shopping.pass_time(1.5)
    assert drivers(shopping) == [("etl", "live", "1 of 4 topics are not followed", 7)]
    facts["reason"] = ""
    problem = effects.ConnectionProblem("catalogd refuses the key")
    shopping.reader.handle(problem)
    shopping.pass_time(1.5)
    assert drivers(shopping) == [("etl", "live", "catalogd refuses the key", 7)], "if it has no own"
    before = len(shopping.messages(DriverFacts))
    shopping.pass_time(5)
    assert len(shopping.messages(DriverFacts)) == before, "nothing has changed"
    shopping.cluster.hubs[0].crash()
    shopping.cluster.hubs[0].revive()
    shopping.pass_time(5)
    assert drivers(shopping) == [("etl", "live", "catalogd refuses the key", 7)]


def test_counts_of_a_driver_are_announced_now_and_then_and_at_its_end() -> None:
    facts = {"application": "etl", "state": "live", "memory_reads": 0}
    shopping = Shopping(driver_facts=lambda: facts)
    shopping.pass_time(2 * COUNTS_S)
    before = len(shopping.messages(DriverFacts))
    for _ in range(30):
        facts["memory_reads"] += 1
        shopping.pass_time(1.5)
    assert len(shopping.messages(DriverFacts)) <= before + 1
    shopping.pass_time(COUNTS_S)
    known = shopping.cluster.hubs[0].hub.status(now=shopping.cluster.now).driver_counts
    assert known["memory_reads"] == 30
    facts["memory_reads"] += 1
    shopping.reader.handle(effects.Leave())
    shopping.pass_time(1.5)
    known = shopping.cluster.hubs[0].hub.status(now=shopping.cluster.now).driver_counts
    assert known["memory_reads"] == 31


def test_subscriber_that_is_no_driver_announces_nothing() -> None:
    shopping = Shopping()
    assert drivers(shopping) == []
    assert shopping.messages(DriverFacts) == []


def test_question_to_a_driver_is_refused_by_a_subscriber_that_is_none() -> None:
    answer = inspected(Shopping(), ReadDriver)
    assert isinstance(answer, Refused)
    assert (answer.request, answer.code) == (5, "INSPECT")
    assert "no attached driver" in answer.message


def test_driver_is_wanted_as_the_newest_rule_for_one_of_its_names_says() -> None:
    shopping = Shopping(start=False)

    def wanted(*names: str) -> str:
        return shopping.call(lambda catalog: catalog.driver.wanted(*names))

    def order(*words: str) -> None:
        message = Order(request=1, sender="ann", order="drivers", arguments=words)
        shopping.cluster.catalogd.order(message)
        shopping.settle()

    assert wanted("etl", "app-7") == ON, "nothing was received yet"
    shopping.start()
    order("off")
    order("dry-run", "app-7")
    assert wanted("etl", "app-7") == DRY_RUN
    assert wanted("etl", "app-8") == OFF
    order("on")
    assert wanted("etl", "app-8") == ON
    with pytest.raises(UsageError, match="of type int, not a text"):
        wanted(7)  # type: ignore[arg-type]


def test_sync_that_catalogd_can_never_answer_fails_at_once_and_says_why() -> None:
    """P-SYNC-3, P-PROBLEM-1. Given a metastore that was restarted without a listener."""
    shopping = Shopping()
    shopping.shop.records = False
    shopping.shop.connections += 1
    began = shopping.cluster.now
    with pytest.raises(SourceError, match="DbNotificationListener"):
        shopping.call(lambda catalog: catalog.sync(30))
    assert shopping.cluster.now - began <= 2
    shopping.pass_time(1)
    assert "DbNotificationListener" in shopping.stats().metastore_problem
    facts = rows_of(inspected(shopping, ReadStats))
    assert facts["metastore_problem"] == shopping.stats().metastore_problem


SHOP, NOTHING = Policy(("shop",)), Policy(("nothing",))
WELCOMED_AS = 1  # the number of the first policy at a hub


def restrict(shopping: Shopping, policy: Policy) -> None:
    shopping.cluster.restrict(shopping.reader, policy)
    shopping.pass_time(5)


def test_subscriber_begins_anew_under_another_policy_and_keeps_nothing_of_the_old_policy() -> None:
    """P-POLICY-7. What was pulled and replicated may not be seen any more."""
    shopping = Shopping(policy=SHOP)
    assert shopping.columns("shop.orders") == ("id",)
    restrict(shopping, NOTHING)
    assert shopping.call(lambda catalog: catalog.databases()) == ()
    with pytest.raises(NoSuchObject):
        shopping.table("shop.orders")
    restrict(shopping, Policy(("sho*",)))
    assert shopping.columns("shop.orders") == ("id",), "and what could not be seen is received"
    with pytest.raises(NoSuchObject) as caught:
        shopping.table("elsewhere.plain")
    assert not isinstance(caught.value, NotVisible), "the key file has another policy"
    restrict(shopping, SHOP)
    with pytest.raises(NotVisible):
        shopping.table("elsewhere.plain")
    assert shopping.stats().engine_restarts == 3


@pytest.mark.parametrize(
    ("policy", "near"),
    [
        (None, {"shop.orders", "shopy.orders"}),
        (Policy(("shop", "shopx")), {"shop.orders"}),
    ],
)
def test_near_names_are_of_databases_that_the_key_sees(
    policy: Policy | None, near: set[str]
) -> None:
    shop = Shop()
    shop.create_database(Database("shopy", "", "file:/w/shopy", {}))
    shop.create("shopy.orders")
    shopping = Shopping(shop, policy=policy)
    with pytest.raises(NoSuchObject) as caught:
        shopping.table("shopx.orders")
    assert set(caught.value.near) == near


def test_delta_for_another_policy_is_a_gap() -> None:
    """P-POLICY-8. Given a delta that another policy has left empty."""
    shopping = Shopping(policy=SHOP)
    followed = shopping.reader.member.view.topics
    topic = table_topic("shop", "orders", shopping.num_topics)
    epoch, version = followed[topic].reached
    start = shopping.messages(Heartbeat, sender="hub-0")[-1].start
    sent = delta(version, version + 1, topic=topic, epoch=epoch, entries=())
    cut = replace(sent, start=start)
    shopping.reader.handle(effects.Received(Connection.DATA, cut, 1 + WELCOMED_AS))
    assert followed[topic].reached == (epoch, version)
    shopping.reader.handle(effects.Received(Connection.DATA, cut, WELCOMED_AS))
    assert followed[topic].reached == (epoch, version + 1)
