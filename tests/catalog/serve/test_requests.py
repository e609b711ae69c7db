"""Requests of the catalog service are answered once, in time, and after the commit."""

from dataclasses import replace

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    FireEventRequest,
    FireEventRequestData,
    InsertEventRequestData,
)

from topicast.catalog.ingest.events.poller import CHECK_S, POLL_EVENTS_MAX, Poll
from topicast.catalog.metastore.port import (
    PARTITIONS_PER_CALL_MAX,
    ListNames,
    Read,
    ReadNames,
)
from topicast.catalog.serve import dispatcher, pending
from topicast.tests.cluster.alone import Alone, cold, loaded, part
from topicast.tests.cluster.catalogd import EPOCH_0
from topicast.tests.keys import client
from topicast.topics.errors import SourceError
from topicast.topics.keys.clients import ClientRole
from topicast.topics.objects.selector import ALL, TABLE_ONLY, by_filter
from topicast.topics.streams.sender import STREAMS_PER_PEER_MAX
from topicast.topics.topic import table_topic
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.catalog import (
    Claimed,
    Compare,
    Compared,
    Grant,
    Lease,
    Pull,
    Pulled,
    Sync,
    Synced,
    Validate,
    Validated,
)
from topicast.topics.wire.messages.connection import Bye, Refused
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import (
    Order,
    ReadHeldTopics,
    ReadStatus,
    ReadSubscribers,
)
from topicast.topics.wire.messages.readers import Cancel, Join
from topicast.topics.wire.messages.reports import WRITTEN, Report, Write

REFRESH = Order(request=4, sender="ann", order="refresh")
PULL = Pull(request=4, db="d", table="t", selector=TABLE_ONLY, credit=1 << 20)
REPORT = Report(request=4, driver=bytes(16), metastore="", finished=0, writes=())
LEASE = Lease(request=4, db="d", table="t", holder=bytes(16), owner="me", lease_s=9)


@pytest.mark.parametrize(
    "early",
    [
        PULL,
        Order(request=4, sender="ann", order="refresh", arguments=()),
        Report(request=4, driver=bytes(16), metastore="", finished=0, writes=()),
        Validate(request=4, epoch=EPOCH_0, claims=()),
    ],
    ids=lambda early: type(early).__name__,
)
def test_request_before_the_names_are_read_is_refused_for_a_while(early: Message) -> None:
    core = Alone()
    core.catalogd.hold(ReadNames)
    core.turn(2)
    answer = core.answer_to(early, Refused)
    assert (answer.code, answer.request, answer.retry_ms > 0) == ("STARTING", 4, True)


def test_sync_waits_for_a_poll_that_begins_after_it(core: Alone) -> None:
    """P-SYNC-1. Given a poll under way, when sync is asked, that poll's answer is not enough."""
    core.catalogd.hold(Poll)
    core.turn(6)
    assert [type(order) for order in core.catalogd.held] == [Poll]
    core.catalogd.release()  # has read the events
    core.create("d", "u")
    core.ask(Sync(request=9))
    core.turn(2)
    assert core.replies() == []
    core.catalogd.resume()
    core.turn(6)
    answer = core.reply(Synced)
    assert answer.event_id == core.metastore.current_event_id()
    assert "u" in core.tables()
    assert answer.versions == core.catalog.version_log.versions()


def test_sync_is_answered_only_when_its_events_are_published(core: Alone) -> None:
    """P-SYNC-1."""
    core.catalogd.hold(Read)
    core.create("d", "u")
    core.ask(Sync(request=9))
    core.turn(12)
    assert core.replies() == []
    core.catalogd.resume()
    core.turn(12)
    assert [type(one) for one in core.replies()] == [Synced]


def test_sync_waits_for_events_that_one_poll_could_not_bring(core: Alone) -> None:
    """P-SYNC-1. Given one event more than a poll asks for, it is not answered without that."""
    data = FireEventRequestData(InsertEventRequestData(filesAdded=[]))
    for _ in range(POLL_EVENTS_MAX - core.metastore.current_event_id()):
        core.metastore.fire_listener_event(FireEventRequest(True, data, "d", "t", ["1"]))
    core.create("d", "u")
    answer = core.answer_to(Sync(request=9), Synced, turns=20)
    assert answer.event_id == core.metastore.current_event_id()
    assert "u" in core.tables()


def test_sync_of_a_scope_waits_for_what_is_in_it_alone(core: Alone) -> None:
    """P-SYNC-5. Given a table that is still read, and another database."""
    core.create_database("e")
    core.turn(6)
    core.catalogd.hold(Read, where=lambda read: any(r.table == "u" for r in read.requests))
    core.create("d", "u")
    for number, scope in enumerate(("", "d", "d.u", "e", "d.t", "e.u", "d.none")):
        core.ask(Sync(request=number, scope=scope))
    core.turn(12)
    assert sorted(one.request for one in core.replies() if isinstance(one, Synced)) == [3, 4, 5, 6]
    core.catalogd.resume()
    core.turn(12)
    assert sorted(one.request for one in core.replies() if isinstance(one, Synced)) == [0, 1, 2]


def test_sync_of_a_table_waits_for_the_drop_of_its_database(core: Alone) -> None:
    """P-SYNC-5."""
    core.catalogd.hold(Read)
    core.metastore.drop_database("d", True, True)
    core.ask(Sync(request=9, scope="d.t"))
    core.turn(12)
    assert core.replies() == []
    core.catalogd.resume()
    core.turn(12)
    core.reply(Synced)
    assert core.catalog.namespace.databases() == ("default",)


def test_sync_of_a_scope_that_is_none_is_refused(core: Alone) -> None:
    answer = core.answer_to(Sync(request=9, scope="a.b.c"), Refused)
    assert (answer.code, answer.retry_ms) == ("CLAIM", 0)


def test_sync_that_is_sent_again_is_told_for_what_it_waits(core: Alone) -> None:
    """P-SYNC-6: for the metastore, then for its table, with the number of others."""
    core.catalogd.hold(Poll)
    core.turn(6)
    ask = Sync(request=9)
    core.ask(ask)
    core.turn(2)
    answer = core.answer_to(ask, Refused)
    assert answer.code == "LAGGING"
    assert answer.message == "the metastore has not sent its events up to now"
    core.catalogd.hold(Read)
    core.create("d", "u")
    core.create("d", "v")
    core.catalogd.release()
    core.turn(6)
    answer = core.answer_to(ask, Refused)
    assert answer.message == "catalogd still reads d.u and 1 other objects"
    core.catalogd.resume()
    core.turn(12)
    core.reply(Synced)


def test_sync_is_told_of_a_metastore_that_does_not_answer_and_of_the_one_table_that_is_left(
    core: Alone,
) -> None:
    """P-SYNC-6."""
    ask = Sync(request=9)
    core.metastore.failures += [SourceError("down")] * 1000
    core.ask(ask)
    core.turn(4)
    assert core.answer_to(ask, Refused).message == "the metastore does not answer: down"
    core.metastore.failures.clear()
    core.catalogd.hold(Read)
    core.create("d", "u")
    core.turn(40)
    assert core.answer_to(ask, Refused).message == "catalogd still reads d.u"
    core.metastore.failures += [SourceError("down")] * 1000
    core.turn(20)
    assert core.answer_to(ask, Refused).message == "catalogd still reads d.u: down"


def test_sync_is_told_how_far_a_large_table_is_read(core: Alone) -> None:
    """P-SYNC-6. Given a partition that changes after it was read, while others are to be read."""
    big, many = core.create("d", "big", "ds"), 2 * PARTITIONS_PER_CALL_MAX
    core.catalogd.hold(Read, where=lambda read: any("ds=999" in one.names for one in read.requests))
    core.add(big, *map(str, range(many)))
    core.turn(40)
    core.metastore.alter_partitions("d", "big", [part(big, "0", rev="2")])
    ask = Sync(request=9, scope="d.big")
    core.ask(ask)
    core.turn(12)
    progress = core.catalog.loader.large.progress(("d", "big"))
    assert progress is not None
    assert 0 < progress[0] < progress[1] == many
    expected = f"catalogd still reads d.big ({progress[0]} of {many} partitions are read)"
    assert core.answer_to(ask, Refused).message == expected
    core.catalogd.resume()
    core.turn(60)
    core.reply(Synced)


def test_sync_without_events_is_refused_for_good() -> None:
    core = loaded(polling_interval_s=0.0)
    answer = core.answer_to(Sync(request=9), Refused)
    assert (answer.code, answer.retry_ms) == ("NO_EVENTS", 0)
    assert not [effect for effect in core.effects if isinstance(effect, Poll)]


def test_sync_while_the_metastore_is_away_is_refused_in_time(core: Alone) -> None:
    core.metastore.failures += [SourceError("down")] * 1000
    core.ask(Sync(request=9))
    core.wait(62.0)
    answer = core.reply(Refused)
    assert (answer.code, "down" in answer.message) == ("SOURCE", True)


def test_pull_that_is_asked_again_begins_anew(core: Alone) -> None:
    """P-PULL-4: under credit like a catch-up, and under the same id it begins at its first part."""
    ask = Pull(request=4, db="d", table="t", selector=ALL, credit=0)
    for request in range(5, 4 + STREAMS_PER_PEER_MAX):
        core.ask(replace(ask, request=request))
    core.ask(ask)
    core.turn(3)
    assert core.replies() == [], "there is no credit"
    core.add(core.metastore.get_table("d", "t"), "3")
    core.turn(12)
    answer = core.answer_to(replace(ask, credit=1 << 20), Pulled, turns=3)
    assert (answer.request, answer.sequence, answer.last) == (4, 0, True)
    assert answer.topic_version == core.topics[answer.topic].version


def test_pull_that_waits_is_answered_once_or_not_at_all_when_it_is_cancelled() -> None:
    core = cold()
    core.catalogd.hold(Read)
    for request in (4, 4, 5):
        core.ask(replace(PULL, request=request))
    core.ask(PULL, peer=b"gone")
    core.ask(Sync(request=6), peer=b"gone")
    core.ask(Cancel(stream=5))
    core.ask(Bye(reason="done"), peer=b"gone")
    core.turn()
    core.catalogd.resume()
    core.turn(6)
    assert [type(one) for one in core.replies()] == [Pulled]
    assert core.replies(b"gone") == []


def compared(core: Alone, version: int, *, epoch: int = EPOCH_0) -> object:
    """Return the answer to a claim of ``d.t``'s topic at ``version``."""
    claimed = ((table_topic("d", "t", 4), version),)
    claim = Compare(request=1, epoch=epoch, start=core.catalog.position[1], versions=claimed)
    return core.answer_to(claim, object)


def test_claim_of_our_lineage_is_accepted_and_another_costs_an_epoch(core: Alone) -> None:
    """P-START-2 and P-START-3."""
    start, version = core.catalog.position[1], core.topics[table_topic("d", "t", 4)].version
    good = compared(core, version)
    assert isinstance(good, Compared)
    assert good.accepted
    impossible = compared(core, version, epoch=1 << 62)
    assert isinstance(impossible, Refused)
    assert impossible.code == "CLAIM"
    assert core.catalog.position == (EPOCH_0, start)
    bad = compared(core, version + 1)
    assert isinstance(bad, Compared)
    assert not bad.accepted
    assert core.catalog.position == (EPOCH_0 + 1, start)
    assert {topic.epoch for topic in core.topics.values()} == {EPOCH_0 + 1}


def test_claims_that_do_not_hold_are_named_as_of_one_moment(core: Alone) -> None:
    """P-VALID-1."""
    version = core.topics[table_topic("d", "t", 4)].version
    claims = tuple(
        Claimed(db="d", table=table, version=version, whole=True) for table in ("t", "none")
    )
    answer = core.answer_to(Validate(request=3, epoch=EPOCH_0, claims=claims), Validated)
    assert (answer.epoch, answer.start) == core.catalog.position
    assert answer.stale == ((1, 0),)


def test_pull_whose_filter_does_not_fit_its_table_is_refused_with_the_reason(core: Alone) -> None:
    pull = replace(PULL, selector=by_filter("other = 1"))
    answer = core.answer_to(pull, Refused)
    assert (answer.code, answer.retry_ms) == ("FILTER", 0)
    assert answer.message.startswith("d.t: ")


def test_question_about_catalogd_is_answered_and_a_question_about_a_hub_is_refused(
    core: Alone,
) -> None:
    for question in (ReadStatus(request=3), ReadHeldTopics(request=3), ReadSubscribers(request=3)):
        core.ask(question)
    core.turn()
    status, topics, refused = core.replies()
    assert isinstance(status, Inspected)
    assert dict(status.rows)["databases"] == 2
    assert isinstance(topics, Inspected)
    assert len(topics.rows) == 5
    assert isinstance(refused, Refused)
    assert (refused.code, refused.request) == ("UNEXPECTED", 3), "a hub has members"


def test_message_that_is_none_of_ours_is_refused(core: Alone) -> None:
    core.ask(Join(request=3, positions=()))
    assert core.answer_to(Bye(reason="done"), Refused).code == "UNEXPECTED"


def test_answers_go_to_who_asked(core: Alone) -> None:
    core.ask(Sync(request=1), peer=b"a")
    core.ask(Sync(request=2), peer=b"b")
    core.turn(6)
    assert [peer for peer, _ in core.answers] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("role", "message", "problem"),
    [
        (ClientRole.DRIVER, REFRESH, "Order takes operator"),
        (ClientRole.OBSERVER, REPORT, "Report takes driver"),
        (ClientRole.OPERATOR, REPORT, "Report takes driver"),
        (
            ClientRole.OBSERVER,
            Grant(request=4, public="k" * 40, lease_s=9),
            "Grant takes driver or",
        ),
        (ClientRole.OBSERVER, LEASE, "Lease takes driver or"),
        (ClientRole.HUB, ReadStatus(request=4), "may not read"),
        (ClientRole.CATALOGD, PULL, "may not read"),
    ],
)
def test_what_the_role_of_a_key_does_not_allow_is_refused_and_not_carried_out(
    role: ClientRole, message: Message, problem: str
) -> None:
    core = Alone()
    core.ask(message, client=client(role))
    core.turn(1)
    refused = core.reply(Refused)
    assert (refused.request, refused.code, refused.retry_ms) == (4, "ROLE", 0)
    assert problem in refused.message
    counts = core.catalog.dispatcher.counts
    assert (counts["refused"], counts["orders"], counts["reports"], counts["pulls"]) == (1, 0, 0, 0)


@pytest.mark.parametrize("kind", ["sync", "early sync", "report"])
def test_requests_that_wait_for_events_are_bounded(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for module in (pending, dispatcher):
        monkeypatch.setattr(module, "WAITING_MAX", 2)
    core = loaded()
    if kind == "early sync":  # it waits for names, as nothing says that events come
        core.metastore.records = None
        core.metastore.connections += 1
        core.wait(CHECK_S + 2)
    core.catalogd.hold(Poll)
    core.catalogd.hold(ListNames)
    for number in range(1, 4):
        write = Write(number=number, state=WRITTEN, object="d.none", partitions=())
        core.ask(
            replace(REPORT, request=number, writes=(write,))
            if kind == "report"
            else Sync(request=number)
        )
    core.turn()
    found = core.replies()
    assert [(one.request, one.code) for one in found if isinstance(one, Refused)] == [(3, "BUSY")]
