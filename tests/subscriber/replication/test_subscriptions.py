"""Which topics are followed, within the budget, and how gaps and lost hubs are repaired."""

from dataclasses import replace
from functools import partial
from hashlib import sha256

import pytest

from topicast.subscriber.protocol import effects
from topicast.subscriber.protocol.effects import Connection
from topicast.tests.cluster.shop import NAMES
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.subscriber.crowd import sizes
from topicast.topics.errors import NotReady, OverBudget, UsageError
from topicast.topics.topic import FULL, MINIMAL, NAMESPACE
from topicast.topics.turn import Tick
from topicast.topics.wire.header import prefix
from topicast.topics.wire.messages.connection import Hello, KeepAlive, Refused, Welcome
from topicast.topics.wire.messages.data import Barrier, Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.readers import (
    Cancel,
    CatchUp,
    Drop,
    Join,
    JoinAnswer,
    Joined,
    ReaderStatus,
)

HUB, READER = "hub-0", "reader-0"
LARGE = {f"ds=x{i:03}": {"n": sha256(b"%d" % i).hexdigest()} for i in range(90)}
late = partial(Shopping, late=True)


def largest() -> int:
    return max((topic for topic in sizes() if topic != NAMESPACE), key=sizes().__getitem__)


def levels(shopping: Shopping) -> dict[int, str]:
    return {topic: info.level for topic, info in shopping.topics().items()}


def behind(shopping: Shopping) -> Shopping:
    """Let the reader miss a change of shop.orders, and the parts of the catch-up wait."""
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.hold(HUB, READER, Chunk)
    shopping.reshape("shop.orders", "id", "lost")
    return shopping


def is_ready(shopping: Shopping) -> bool:
    return shopping.stats().ready


def test_everything_that_fits_is_held_in_full_and_answered_from_memory() -> None:
    shopping = late()
    assert [shopping.columns(f"shop.{name}") for name in NAMES] == [("id",)] * len(NAMES)
    stats = shopping.stats()
    assert (stats.ready, stats.pulls, stats.misses, stats.hits) == (True, 0, 0, 6)
    assert (stats.held_bytes, stats.catch_ups) == (sum(sizes().values()), 1)
    shopping.reshape("shop.orders", "id", "more")
    for topic, info in shopping.topics().items():
        assert (info.level, info.lag_s <= 0.4) == ("full", True)
        assert info.version == shopping.cluster.catalogd.published.topics[topic].version


def test_start_follows_the_smallest_topics_that_fit_and_pulls_the_rest() -> None:
    shopping = late(budget_bytes=sum(sizes().values()) - 1)
    assert [topic for topic, level in levels(shopping).items() if level == "none"] == [largest()]
    assert [drop.topics for drop in shopping.messages(Drop)] == [(largest(),)]
    assert shopping.columns("shop.sales") == ("id",)
    assert len(shopping.pulls("shop.sales")) == 1
    with pytest.raises(OverBudget) as caught:
        shopping.join("shop.sales")
    assert caught.value.needed_bytes == sizes()[largest()]
    assert len(shopping.messages(CatchUp)) == 1, "none is requested in vain"


@pytest.mark.parametrize("after_s", [0, 1], ids=["it waits for the hub", "the hub has answered"])
def test_namespace_that_does_not_fit_fails_the_start(after_s: float) -> None:
    shopping = late(budget_bytes=sizes()[NAMESPACE] - 1, start=False)
    shopping.pass_time(after_s)
    with pytest.raises(OverBudget) as caught:
        shopping.call(lambda catalog: catalog.databases())
    assert caught.value.needed_bytes == sizes()[NAMESPACE]


def test_largest_topic_is_lowered_for_a_topic_that_outgrows_the_budget() -> None:
    shopping = late(budget_bytes=sum(sizes().values()) + 100)
    shopping.shop.create("shop.zzz")
    shopping.settle()
    assert shopping.stats().evictions >= 1
    assert levels(shopping)[largest()] == "minimal"
    assert shopping.columns("shop.zzz") == ("id",)


def test_namespace_that_outgrows_the_budget_lowers_all_else_and_then_fails() -> None:
    shopping = late(budget_bytes=sum(sizes().values()) + 100)
    for number in range(180):
        shopping.shop.create(f"shop.n{sha256(b'%d' % number).hexdigest() * 2}"[:120])
    shopping.settle()
    assert set(levels(shopping).values()) == {"none"}
    with pytest.raises(OverBudget):
        shopping.call(lambda catalog: catalog.databases())
    assert shopping.columns("shop.orders") == ("id",), "it is pulled all the same"


@pytest.mark.parametrize("name", ["shop.sales", "shop.orders"], ids=["largest", "smallest"])
def test_topic_that_grows_while_it_is_joined_is_lowered_itself(name: str) -> None:
    shopping = late(budget_bytes=sum(sizes().values()) + 400)
    shopping.leave(name)
    shopping.hold(HUB, READER, Joined)
    error: list[OverBudget] = []

    def join(catalog: object) -> None:
        with pytest.raises(OverBudget) as caught:
            catalog.join(shopping.topic(name))  # type: ignore[attr-defined]  # a Subscriber
        error.append(caught.value)

    shopping.begin(join)
    shopping.pass_time(0.2)
    if name == "shop.sales":
        shopping.shop.add(name, LARGE)
    else:
        shopping.shop.reshape(name, tuple(sha256(b"%d" % i).hexdigest() for i in range(20)))
    shopping.pass_time(0.5)
    shopping.release()  # the hub answered before the topic grew
    shopping.settle()
    assert error[0].needed_bytes > sizes()[shopping.topic(name)]
    assert [t for t, level in levels(shopping).items() if level == "minimal"] == [
        shopping.topic(name)
    ]


def test_first_credit_is_no_more_than_what_is_reserved() -> None:
    """P-CREDIT-5."""
    (request,) = late().messages(CatchUp)
    assert request.credit == sum(sizes().values())


def test_drop_in_the_middle_of_a_catch_up_cancels_what_is_not_needed() -> None:
    """P-JOIN-2."""
    shopping = behind(late())
    topic = shopping.topic("shop.orders")
    shopping.leave("shop.orders")
    shopping.pass_time(0.1)
    assert len(shopping.messages(Cancel)) == 1
    shopping.release()  # a part that was on its way
    assert len(shopping.messages(Cancel)) == 2
    assert levels(shopping)[topic] == "none"
    assert prefix(topic, FULL) not in shopping.reader.subscribed
    assert [drop.topics for drop in shopping.messages(Drop)] == [(topic,)]


def test_late_delta_of_a_dropped_topic_changes_nothing() -> None:
    shopping = late()
    shopping.hold(HUB, READER, Delta)
    shopping.reshape("shop.orders", "late")
    shopping.leave("shop.orders")
    shopping.release()
    assert shopping.topics()[shopping.topic("shop.orders")].bytes == 0
    assert shopping.memory("shop.orders") is None


def test_topic_that_is_denied_is_not_followed() -> None:
    shopping = late()
    shopping.leave("shop.orders")
    shopping.alter(
        Joined, lambda m: replace(m, topics=(replace(m.topics[0], answer=JoinAnswer.DENIED),))
    )
    with pytest.raises(UsageError, match="not offered"):
        shopping.join("shop.orders")
    assert levels(shopping)[shopping.topic("shop.orders")] == "none"


def test_reservation_of_a_catch_up_ends_with_it() -> None:
    shopping = late(budget_bytes=sum(sizes().values()) + 2000)
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.shop.remark("shop.sales", {"of": "all"})
    shopping.settle()
    shopping.shop.create("shop.aaa")
    shopping.settle()
    assert shopping.stats().catch_ups == 2
    assert shopping.stats().evictions == 0


def test_room_for_growth_of_unknown_size_is_no_reason_to_drop_or_refuse() -> None:
    shopping = late(budget_bytes=sum(sizes().values()) + 3000)
    shopping.leave("shop.orders")
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.hold(HUB, READER, Chunk)
    shopping.shop.remark("shop.sales", {"of": "all"})
    shopping.settle()  # the catch-up takes all that is free
    shopping.shop.create("shop.aaa")
    shopping.settle()
    assert shopping.stats().evictions == 0
    worker = shopping.begin(lambda catalog: catalog.join(shopping.topic("shop.orders")))
    shopping.pass_time(0.5)
    shopping.release()
    shopping.settle()
    assert not worker.alive
    assert set(levels(shopping).values()) == {"full"}


def test_lost_delta_is_noticed_from_the_next_delta_and_repaired() -> None:
    shopping = late()
    versions = shopping.messages(Heartbeat, sender=HUB)[-1].versions
    shopping.alter(Heartbeat, lambda heartbeat: replace(heartbeat, versions=versions))
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.hold(HUB, READER, Chunk)
    shopping.reshape("shop.orders", "id", "lost")
    assert shopping.memory("shop.orders") == ("id",), "nothing has arrived"
    shopping.reshape("shop.orders", "id", "lost", "next")
    assert shopping.memory("shop.orders") is None
    shopping.release()
    assert shopping.memory("shop.orders") == ("id", "lost", "next")
    assert shopping.stats().catch_ups == 2


def test_last_delta_that_is_lost_is_noticed_from_the_heartbeat() -> None:
    shopping = late()
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.reshape("shop.orders", "id", "lost")
    assert shopping.memory("shop.orders") == ("id", "lost")


def test_transaction_too_large_for_a_frame_is_caught_up() -> None:
    shopping = late()
    shopping.alter(Delta, lambda delta: replace(delta, stubbed=True, entries=()))
    shopping.reshape("shop.orders", "id", "big")
    assert shopping.memory("shop.orders") == ("id", "big")
    assert shopping.stats().catch_ups == 2


def test_delta_of_a_level_that_is_not_followed_changes_nothing() -> None:
    shopping = late()
    shopping.hold(HUB, READER, Heartbeat)
    shopping.alter(Delta, lambda delta: replace(delta, level=MINIMAL))
    shopping.shop.reshape("shop.orders", ("id", "big"))
    shopping.pass_time(0.5)
    assert shopping.memory("shop.orders") == ("id",)


def test_silent_hub_is_left_for_the_next_and_nothing_is_sent_again() -> None:
    """P-LIVE-2."""
    shopping = late(hubs=2)
    shopping.cluster.hubs[0].crash()
    shopping.pass_time(1.3)
    assert shopping.stats().hub == "hub-1"
    shopping.reshape("shop.orders", "id", "more")
    assert shopping.memory("shop.orders") == ("id", "more")
    assert shopping.stats().catch_ups == 1


def test_hub_that_has_nothing_from_a_catalogd_is_left_for_another_hub() -> None:
    shopping = late(hubs=2)
    shopping.cluster.cut |= {("catalogd", HUB), (HUB, "catalogd")}
    shopping.cluster.hubs[0].crash()
    shopping.cluster.hubs[0].revive()
    shopping.pass_time(4)
    assert shopping.stats().hub == "hub-1"


def test_only_hub_that_was_away_is_greeted_again_and_kept() -> None:
    shopping = late()
    hellos, joins = len(shopping.messages(Hello)), len(shopping.messages(Join))
    shopping.cluster.hubs[0].crash()
    shopping.pass_time(6)
    assert 4 <= len(shopping.messages(Hello)) - hellos <= 20
    assert len(shopping.messages(Join)) == joins
    assert shopping.memory("shop.orders") == ("id",), "memory answers meanwhile"
    shopping.shop.reshape("shop.orders", ("id", "missed"))
    shopping.cluster.hubs[0].revive()
    shopping.pass_time(4)
    assert shopping.memory("shop.orders") == ("id", "missed")
    assert shopping.stats().staleness_s <= 0.5
    assert len(shopping.messages(Join)) == joins + 1
    again = shopping.messages(Welcome, sender=HUB)[-1]  # to a Hello that was sent twice
    shopping.reader.handle(effects.Received(Connection.CONTROL, again))
    assert len(shopping.messages(Join)) == joins + 1


def test_restarted_hub_receives_again_what_is_followed() -> None:
    """P-LIVE-3."""
    shopping = late()
    joins = len(shopping.messages(Join))
    shopping.cluster.hubs[0].crash()
    shopping.cluster.hubs[0].revive()
    shopping.pass_time(3)
    again = shopping.messages(Join)[joins:]
    assert {one.topic for one in again[-1].positions} == set(sizes())
    shopping.reshape("shop.orders", "id", "more")
    assert shopping.memory("shop.orders") == ("id", "more")


@pytest.mark.parametrize(("silent_s", "named"), [(1.9, set[int]()), (6, set(sizes()))])
def test_hub_that_was_silent_and_is_the_same_is_joined_nothing_again(
    silent_s: float, named: set[int]
) -> None:
    """P-LIVE-8: after 4 s it is sent all positions, for it may have removed the reader."""
    shopping = late()
    shopping.pass_time(2)
    joins, catch_ups = len(shopping.messages(Join)), len(shopping.messages(CatchUp))
    statuses = len(shopping.messages(ReaderStatus))
    shopping.cluster.cut.add((HUB, READER))
    shopping.pass_time(silent_s)
    hellos = len(shopping.messages(Hello))
    shopping.cluster.cut.clear()
    shopping.pass_time(6)
    assert len(shopping.messages(Hello)) == hellos > 2, "heartbeats say that it knows the reader"
    shopping.reader.handle(
        effects.Received(Connection.CONTROL, shopping.messages(Welcome, sender=HUB)[0])
    )
    shopping.pass_time(2)
    assert len(shopping.messages(Join)) == joins
    assert len(shopping.messages(CatchUp)) == catch_ups
    found = shopping.messages(ReaderStatus)[statuses:]
    assert {one.topic for status in found for one in status.positions} == named


def test_catch_up_under_way_is_requested_anew_of_the_restarted_hub() -> None:
    """P-LIVE-3, P-LIVE-10, P-SUB-3: at once, for its subscriptions are confirmed, and it joins."""
    shopping = behind(late())
    requests, joins = len(shopping.messages(CatchUp)), len(shopping.messages(Join))
    shopping.cluster.hubs[0].crash()
    shopping.cluster.hubs[0].revive()
    shopping.pass_time(0.5)
    assert len(shopping.messages(CatchUp)) > requests
    shopping.pass_time(0.3)
    assert len(shopping.messages(Join)) > joins, "who needs nothing joins within two seconds"


def test_heartbeat_shows_how_current_a_topic_is() -> None:
    """P-FOLLOW-5: one with the version that is held makes it current, and only if it is LIVE."""
    shopping = late()
    orders = shopping.topic("shop.orders")
    dropped, *others = sorted(set(sizes()) - {orders})
    shopping.call(lambda catalog: catalog.drop(dropped))
    shopping.pass_time(2)
    assert all(info.lag_s <= 0.4 for info in shopping.topics().values() if info.id != dropped)
    behind(shopping)
    shopping.pass_time(1)
    lags = {topic: info.lag_s for topic, info in shopping.topics().items()}
    assert lags[orders] > 1
    assert all(lags[topic] <= 0.4 for topic in others)


def test_topics_are_looked_at_again_only_once_a_heartbeat_differs() -> None:
    """P-FOLLOW-5: not while one is like the last with which all of them agreed."""
    shopping = late()
    replicas = shopping.reader.member.subscriptions.replicas
    shopping.pass_time(1)
    agreement = replicas.agreement.positions
    assert agreement is not None
    shopping.pass_time(5)
    assert replicas.agreement.positions is agreement
    behind(shopping)
    shopping.pass_time(1)
    assert replicas.agreement.positions is None
    shopping.release()
    shopping.pass_time(1)
    assert replicas.agreement.positions not in (None, agreement)


@pytest.mark.parametrize("connection", [Connection.CONTROL, Connection.BULK])
def test_hub_that_does_not_know_the_connection_is_greeted_once(connection: Connection) -> None:
    """P-LIVE-3: refused with HELLO."""
    shopping = late()
    hellos = len(shopping.messages(Hello))
    unknown = Refused(request=0, code="HELLO", message="unknown", retry_ms=0)
    for _ in range(2):
        shopping.reader.handle(effects.Received(connection, unknown))
    assert len(shopping.messages(Hello)) == hellos + 2, "once for each connection"


def test_hub_that_refuses_everyone_is_named_with_its_reason() -> None:
    shopping = Shopping(start=False)
    shopping.cluster.hubs[0].crash()
    full = Refused(request=0, code="HUB_FULL", message="no room", retry_ms=0)
    shopping.pass_time(0.5)
    shopping.reader.handle(effects.Received(Connection.CONTROL, full))
    with pytest.raises(NotReady, match=r"hub-0.*no room"):
        shopping.call(lambda catalog: catalog.databases())


def test_refusals_of_hubs_are_logged_once_each_until_a_hub_registers_the_driver() -> None:
    shopping = Shopping(start=False, hubs=2)
    for hub in shopping.cluster.hubs:
        hub.crash()
    while len(shopping.reader.refusals) < 2:
        shopping.pass_time(0.5)
        text = f"{shopping.cluster.now} members are here"  # another one each time
        full = Refused(request=0, code="HUB_FULL", message=text, retry_ms=5000)
        shopping.reader.handle(effects.Received(Connection.CONTROL, full))
    for _ in range(8):
        shopping.pass_time(0.5)
        shopping.reader.handle(effects.Received(Connection.CONTROL, full))
    assert [one.hub for one in shopping.reader.refusals] == ["hub-0", "hub-1"]
    assert all("members are here" in one.why for one in shopping.reader.refusals)
    assert "does not register" in shopping.stats().connection_problem
    shopping.cluster.hubs[0].revive()
    shopping.start()
    assert shopping.stats().connection_problem == ""
    assert [one.why for one in shopping.reader.refusals[2:]] == [""], "it is over, said once"


def test_hub_without_a_catalogd_is_named_as_such() -> None:
    shopping = Shopping(start=False)
    shopping.cluster.catalogd.crash()
    with pytest.raises(NotReady, match="nothing from a catalogd"):
        shopping.call(lambda catalog: catalog.databases())
    shopping.cluster.catalogd.revive()
    shopping.start()


def test_topics_that_are_not_ready_are_named() -> None:
    shopping = late(start=False)
    shopping.hold(HUB, READER, Chunk)
    with pytest.raises(NotReady, match="5 topics are being caught up from hub-0: namespace"):
        shopping.call(lambda catalog: catalog.databases())


def test_lost_chunks_are_requested_again() -> None:
    shopping = late(start=False)
    shopping.lose(HUB, READER, Chunk)
    shopping.pass_time(1)
    shopping.mend()
    shopping.pass_time(3)
    assert is_ready(shopping)


def test_lost_join_and_lost_barrier_are_repeated() -> None:
    """P-SUB-3: no catch-up before the barrier."""
    shopping = late(start=False)
    shopping.lose(HUB, READER, Joined, Barrier)
    shopping.pass_time(1)
    shopping.mend()
    shopping.lose(HUB, READER, Barrier)
    shopping.pass_time(1.5)
    assert shopping.messages(CatchUp) == []
    shopping.mend()
    shopping.pass_time(2.5)
    assert is_ready(shopping)


@pytest.mark.parametrize("kind", [Chunk, Delta], ids=["under way", "new"])
def test_nothing_is_requested_of_another_hub_before_its_barrier(kind: type[Message]) -> None:
    """P-SUB-3: neither for its heartbeat, nor for what was under way at the hub before."""
    shopping = late(hubs=2)
    if kind is Chunk:
        shopping.lose(HUB, READER, Chunk, Delta)
        shopping.reshape("shop.orders", "id", "lost")
    requests = len(shopping.messages(CatchUp))
    shopping.hold("hub-1", READER, Barrier)
    shopping.cluster.hubs[0].crash()
    shopping.shop.reshape("shop.people", ("id", "lost"))
    shopping.pass_time(2)
    assert shopping.stats().hub == "hub-1"
    assert len(shopping.messages(CatchUp)) == requests
    shopping.release()
    shopping.settle()
    assert len(shopping.messages(CatchUp)) > requests
    assert shopping.memory("shop.people") == ("id", "lost")


def test_join_by_hand_waits_for_the_join_of_everything() -> None:
    shopping = late(start=False)
    shopping.lose(HUB, READER, Joined, count=1)
    while not shopping.messages(Join):
        shopping.pass_time(0.01)
    joining = shopping.begin(lambda catalog: catalog.join("shop.orders"))
    shopping.pass_time(3)
    assert not joining.alive
    assert set(levels(shopping).values()) == {"full"}, "its answer would have been the first"


def test_join_that_the_hub_cannot_answer_yet_is_sent_again_when_the_hub_says() -> None:
    """P-JOIN-6."""
    shopping = late(start=False)
    refused_at: list[float] = []

    def later(joined: Joined) -> Refused:
        refused_at.append(shopping.cluster.now)
        return Refused(request=joined.request, code="RETRY", message="later", retry_ms=500)

    shopping.alter(Joined, later, count=1)
    while not refused_at:
        shopping.pass_time(0.01)
    for seconds, joins in ((0.4, 1), (0.25, 2)):  # without a refusal it is repeated after 1 s
        shopping.pass_time(seconds)
        assert len(shopping.messages(Join)) == joins
    shopping.pass_time(0.5)
    assert is_ready(shopping)


def test_refused_catch_up_is_requested_again() -> None:
    shopping = late()
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.lose(READER, HUB, CatchUp, count=1)
    shopping.reshape("shop.orders", "id", "lost")
    stream = shopping.messages(CatchUp)[-1].stream
    busy = Refused(request=stream, code="BUSY", message="later", retry_ms=300)
    shopping.reader.handle(effects.Received(Connection.BULK, busy))
    assert shopping.memory("shop.orders") is None
    shopping.reader.handle(effects.Received(Connection.BULK, replace(busy, request=999)))
    shopping.pass_time(0.7)
    assert shopping.memory("shop.orders") == ("id", "lost")


def test_topic_that_is_refused_does_not_stop_the_others_of_its_stream() -> None:
    shopping = late(start=False)
    shopping.hold(HUB, READER, Chunk)
    shopping.pass_time(0.5)
    (request,) = shopping.messages(CatchUp)
    last = request.wanted[-1].topic
    refusal = Refused(
        request=request.stream, code="RETRY", message="wait", retry_ms=100, topic=last
    )
    shopping.reader.handle(effects.Received(Connection.BULK, refusal))
    shopping.release()
    shopping.settle()
    assert is_ready(shopping)
    again = shopping.messages(CatchUp)[1:]
    assert [[one.topic for one in request.wanted] for request in again] == [[last]]


def signs(shopping: Shopping, *, seconds: float) -> list[ReaderStatus | KeepAlive]:
    """Return the signs of life that the reader gives in so many seconds."""
    before = len(shopping.sent)
    shopping.pass_time(seconds)
    sent = [message for way, message in shopping.sent[before:] if way[0] == READER]
    return [message for message in sent if isinstance(message, ReaderStatus | KeepAlive)]


def idle(**setup: object) -> Shopping:
    """Return a shop whose reader has reported all that it follows."""
    shopping = late(**setup)
    shopping.pass_time(3)
    return shopping


def test_reader_gives_a_sign_of_life_once_a_second_while_there_is_a_hub() -> None:
    """P-LIVE-1."""
    shopping = idle()
    assert len(signs(shopping, seconds=5)) == 5
    shopping.lose(HUB, READER, Heartbeat, count=3)
    assert len(signs(shopping, seconds=5)) in (4, 5)
    shopping.cluster.hubs[0].crash()
    shopping.pass_time(1.5)
    assert signs(shopping, seconds=3) == []


def test_first_report_to_a_hub_names_everything_and_the_next_only_what_moved() -> None:
    """P-LIVE-5."""
    shopping = idle()
    report = shopping.messages(ReaderStatus)[-1]
    assert {one.topic for one in report.positions} == set(sizes())
    stats = shopping.stats()
    assert (report.held_bytes, report.budget_bytes) == (stats.held_bytes, stats.budget_bytes)
    assert set(signs(shopping, seconds=3)) == {KeepAlive()}
    shopping.reshape("shop.orders", "id", "more")
    (moved,) = [one for one in signs(shopping, seconds=3) if one != KeepAlive()]
    assert [one.topic for one in moved.positions] == [shopping.topic("shop.orders")]
    assert moved.held_bytes == shopping.stats().held_bytes > report.held_bytes


def listed(shopping: Shopping) -> tuple[int, int]:
    """Return how many topics the hub takes the reader to follow, and how far behind they are."""
    members = shopping.cluster.hubs[0].hub.status(now=shopping.cluster.now).subscribers
    (one,) = [one for one in members if one.role == "reader"]
    return one.topics, one.lag_versions


def restart_hub(shopping: Shopping) -> None:
    """Kill the hub and start it again a second later."""
    hub = shopping.cluster.hubs[0]
    hub.crash()
    shopping.pass_time(1)
    hub.start()


def test_hub_that_is_restarted_is_named_each_position_once() -> None:
    """P-LIVE-5: by the Join of all topics."""
    shopping = idle()
    restart_hub(shopping)
    reports = [one for one in signs(shopping, seconds=6) if isinstance(one, ReaderStatus)]
    assert {one.topic for one in shopping.messages(Join)[-1].positions} == set(sizes())
    assert [one.positions for one in reports] == [()]
    assert reports[-1].budget_bytes == shopping.stats().budget_bytes
    assert listed(shopping) == (len(sizes()), 0)
    assert set(signs(shopping, seconds=3)) == {KeepAlive()}


def test_report_names_no_position_until_the_first_join_is_answered() -> None:
    """P-LIVE-5: then all, if the Join was sent twice."""
    shopping = idle()
    shopping.hold(HUB, READER, Joined)
    restart_hub(shopping)
    before = [one for one in signs(shopping, seconds=4) if isinstance(one, ReaderStatus)]
    assert before
    assert {one.positions for one in before} == {()}
    shopping.release()
    reports = [one for one in signs(shopping, seconds=3) if isinstance(one, ReaderStatus)]
    assert {one.topic for one in reports[0].positions} == set(sizes())
    assert listed(shopping) == (len(sizes()), 0)


def test_join_is_followed_by_a_report_of_what_has_moved_since() -> None:
    """P-LIVE-5."""
    shopping = idle()
    topic = shopping.topic("shop.orders")
    shopping.leave("shop.orders")
    shopping.join("shop.orders")
    reports = [one for one in signs(shopping, seconds=3) if isinstance(one, ReaderStatus)]
    assert {one.topic for report in reports for one in report.positions} == {topic}
    assert listed(shopping) == (len(sizes()), 0)


def test_second_answer_to_a_join_is_followed_by_a_report_of_everything() -> None:
    """P-LIVE-5: the hub has obeyed the same Join twice, the second time after newer positions."""
    shopping = idle()
    again = shopping.messages(Joined, sender=HUB)[-1]
    shopping.reader.handle(effects.Received(Connection.CONTROL, again))
    (report,) = [one for one in signs(shopping, seconds=3) if one != KeepAlive()]
    assert {one.topic for one in report.positions} == set(sizes())


def test_reader_that_lags_reports_its_lag_every_second_until_it_does_not() -> None:
    """P-LIVE-5."""
    shopping = idle()
    behind(shopping)
    shopping.pass_time(2)
    lagging = signs(shopping, seconds=3)
    lags_s = [one.lag_us / 1e6 for one in lagging if isinstance(one, ReaderStatus)]
    assert len(lags_s) == len(lagging) == 3
    assert lags_s == sorted(lags_s)
    assert lags_s[0] >= 1
    shopping.release()
    first, *others = signs(shopping, seconds=4)
    assert isinstance(first, ReaderStatus)
    assert first.lag_us < 1_000_000
    assert set(others) == {KeepAlive()}


def test_topics_of_an_idle_reader_are_current_while_heartbeats_come_and_lag_when_they_do_not() -> (
    None
):
    shopping = idle()
    shopping.pass_time(5)
    assert max(info.lag_s for info in shopping.topics().values()) <= 0.4
    shopping.lose(HUB, READER, Heartbeat)
    shopping.pass_time(3)
    assert min(info.lag_s for info in shopping.topics().values()) >= 2.5
    shopping.mend()
    shopping.pass_time(2)
    assert max(info.lag_s for info in shopping.topics().values()) <= 0.4


def test_heartbeat_that_is_older_than_a_catch_up_requests_nothing() -> None:
    shopping = late()
    heartbeat = shopping.messages(Heartbeat, sender=HUB)[-1]
    requests = len(behind(shopping).messages(CatchUp))
    shopping.reader.handle(effects.Received(Connection.DATA, heartbeat))
    assert len(shopping.messages(CatchUp)) == requests


def test_hub_that_is_left_in_the_middle_of_a_catch_up_is_replaced_by_the_next() -> None:
    shopping = behind(late(hubs=2))
    shopping.cluster.hubs[0].crash()
    shopping.pass_time(3)
    assert shopping.stats().hub == "hub-1"
    assert shopping.memory("shop.orders") == ("id", "lost")


def test_barrier_that_was_not_requested_fences_nothing() -> None:
    shopping = late(start=False)
    shopping.lose(HUB, READER, Barrier)
    shopping.pass_time(0.5)
    shopping.reader.handle(effects.Received(Connection.DATA, Barrier(nonce=b"x" * 16)))
    assert shopping.messages(CatchUp) == []


def test_joined_that_answers_no_request_decides_nothing() -> None:
    shopping = late(start=False)
    shopping.lose(HUB, READER, Joined)
    shopping.pass_time(0.5)
    shopping.reader.handle(
        effects.Received(Connection.CONTROL, Joined(request=999, epoch=10, start=1, topics=()))
    )
    assert not is_ready(shopping)
    shopping.mend()
    shopping.pass_time(2)
    assert shopping.memory("shop.orders") == ("id",)


def test_deadline_is_the_next_time_at_which_there_is_work() -> None:
    shopping = late(start=False)
    member = shopping.reader.member
    shopping.hold(HUB, READER, Chunk, count=3)
    idle = 0
    for _ in range(200):
        shopping.pass_time(0.01)
        if shopping.cluster.now < member.deadline:
            assert member.handle(Tick(), now=shopping.cluster.now) == ()
            idle += 1
    assert idle > 100
    shopping.lose(HUB, READER, Heartbeat)  # then only ticks give signs of life
    for _ in range(200):
        shopping.pass_time(0.01)
        if shopping.cluster.now < member.deadline:
            assert member.handle(Tick(), now=shopping.cluster.now) == ()


def test_catalogd_is_where_the_last_welcome_or_heartbeat_that_named_it_said() -> None:
    shopping = late(start=False)
    shopping.lose(HUB, READER, Heartbeat)
    shopping.pass_time(0.2)
    subscriptions = shopping.reader.member.subscriptions
    named = subscriptions.catalog_address
    assert named
    shopping.mend()
    shopping.settle()
    shopping.alter(Welcome, lambda m: replace(m, catalog_address=""))
    shopping.alter(Heartbeat, lambda m: replace(m, catalog_address=""))
    shopping.cluster.hubs[0].crash()
    shopping.cluster.hubs[0].revive()
    welcomes = len(shopping.messages(Welcome, sender=HUB))
    shopping.settle()
    assert len(shopping.messages(Welcome, sender=HUB)) > welcomes
    assert subscriptions.catalog_address == named
