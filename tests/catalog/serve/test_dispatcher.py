"""The desk: pulls, syncs and claims are answered once, in time, and after the commit."""

from dataclasses import replace

from hmsclient.genthrift.hive_metastore.ttypes import (
    FireEventRequest,
    FireEventRequestData,
    InsertEventRequestData,
)

from topicast.catalog.facts import Minted
from topicast.catalog.ingest.event_window import POLL_EVENTS_MAX
from topicast.catalog.ingest.poller import Poll
from topicast.catalog.ingest.reads import Read, ReadFailed, ReadNames
from topicast.catalog.model.lineage import StartRecord
from topicast.catalog.serve.port import Reply
from topicast.tests.catalog.core import PEER, Core, loaded
from topicast.topics.bulk import STREAMS_PER_PEER_MAX
from topicast.topics.errors import SourceError
from topicast.topics.sharding import NAMESPACE, table_topic
from topicast.topics.wire.messages import (
    SELECT_BLOCKS,
    SELECT_TABLE,
    Bye,
    Cancel,
    Compare,
    Compared,
    Inspect,
    Inspected,
    Join,
    Pull,
    Pulled,
    Refused,
    Sync,
    Synced,
)


def test_pull_of_what_is_held_is_answered_at_once() -> None:
    core = loaded()
    core.ask(Pull(request=4, db="d", table="t", selector=SELECT_BLOCKS, credit=1 << 20))
    core.turn()
    (answer,) = core.replies()
    assert isinstance(answer, Pulled)
    assert answer.found
    assert answer.last
    assert answer.topic_version == core.topics[answer.topic].version
    assert len(answer.entries) == 2


def test_pull_brings_only_what_is_stale_of_what_is_held() -> None:
    core = loaded()
    core.ask(Pull(request=4, db="d", table="t", selector=SELECT_BLOCKS, credit=1 << 20))
    core.turn()
    (first,) = core.replies()
    assert isinstance(first, Pulled)
    held = tuple((entry.key, entry.version) for entry in first.entries)
    gone = (first.entries[0].key + b"\1gone", 1)
    core.ask(
        Pull(
            request=5, db="d", table="t", selector=SELECT_BLOCKS, credit=1 << 20, held=(*held, gone)
        )
    )
    core.turn()
    (second,) = core.replies()
    assert isinstance(second, Pulled)
    assert second.entries == ()
    assert second.gone == (gone[0],)


def test_pull_of_no_table_says_so_as_of_a_namespace_version() -> None:
    core = loaded()
    core.ask(Pull(request=4, db="d", table="none", selector=SELECT_TABLE, credit=1 << 20))
    core.turn()
    (answer,) = core.replies()
    assert isinstance(answer, Pulled)
    assert not answer.found
    assert answer.namespace_version == core.topics[NAMESPACE].version


def test_pull_before_the_names_are_read_is_refused_for_a_while() -> None:
    core = Core()
    core.hold = lambda effect: isinstance(effect, ReadNames)
    core.turn(2)
    core.ask(Pull(request=4, db="d", table="t", selector=SELECT_TABLE, credit=1))
    core.turn()
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert (answer.code, answer.request) == ("STARTING", 4)
    assert answer.retry_ms > 0


def test_pull_of_a_table_that_never_comes_is_refused_in_time() -> None:
    core = Core(load_in_background=False)
    core.create_database("d")
    core.create("d", "t")
    core.turn(4)
    core.hold = lambda effect: isinstance(effect, Read)
    core.ask(Pull(request=4, db="d", table="t", selector=SELECT_TABLE, credit=1 << 20))
    core.now += 31.0
    core.turn(1)
    core.now += 31.0
    core.turn(1)
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert answer.code == "LOADING"


def test_sync_waits_for_a_poll_that_begins_after_it() -> None:
    """P-SYNC-1. Given a poll under way, when sync is asked, that poll's answer is not enough."""
    core = loaded()
    core.hold = lambda effect: isinstance(effect, Poll)
    core.turn(12)
    assert [type(order) for order in core.held] == [Poll]
    core.release()  # has read the events
    core.create("d", "u")
    core.ask(Sync(request=9))
    core.hold = lambda _effect: False
    core.turn(12)
    (answer,) = [one for one in core.replies() if isinstance(one, Synced)]
    assert answer.event_id == core.metastore.current_event_id()
    assert "u" in core.tables("d")
    assert answer.versions == core.catalog.version_log.versions()


def test_sync_is_answered_only_when_its_events_are_published() -> None:
    """P-SYNC-1."""
    core = loaded()
    core.hold = lambda effect: isinstance(effect, Read)
    core.create("d", "u")
    core.ask(Sync(request=9))
    core.turn(12)
    assert core.replies() == []
    core.hold = lambda _effect: False
    core.release()
    core.turn(12)
    assert [type(one) for one in core.replies()] == [Synced]


def first_answer(core: Core) -> object:
    """Let time pass until something is answered."""
    for _ in range(60):
        core.turn()
        found = core.replies()
        if found:
            return found[0]
    return None


def test_sync_waits_for_events_that_one_poll_could_not_bring() -> None:
    """P-SYNC-1. Given one event more than a poll asks for, it is not answered without that."""
    core = loaded()
    data = FireEventRequestData(InsertEventRequestData(filesAdded=[]))
    for _ in range(POLL_EVENTS_MAX - core.metastore.current_event_id()):
        core.metastore.fire_listener_event(FireEventRequest(True, data, "d", "t", ["1"]))
    core.create("d", "u")
    core.ask(Sync(request=9))
    answer = first_answer(core)
    assert isinstance(answer, Synced)
    assert answer.event_id == core.metastore.current_event_id()
    assert "u" in core.tables("d")


def test_sync_waits_until_missing_events_are_read_over() -> None:
    """P-SYNC-1. Given a log that was cleaned, nothing is settled before the names were read."""
    core = loaded()
    core.turn(200)  # the window settles
    core.create("d", "u")
    core.create("d", "v")
    core.metastore.clean_log(core.metastore.current_event_id() - 1)
    core.hold = lambda effect: isinstance(effect, ReadNames)
    core.ask(Sync(request=9))
    assert first_answer(core) is None
    assert core.held
    core.hold = lambda _effect: False
    core.release()
    assert isinstance(first_answer(core), Synced)
    assert core.tables("d") == ["t", "u", "v"]


def test_sync_without_events_is_refused_for_good() -> None:
    core = Core(polling_interval_s=0.0)
    core.turn(2)
    core.ask(Sync(request=9))
    core.turn()
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert (answer.code, answer.retry_ms) == ("NO_EVENTS", 0)


def test_sync_while_the_metastore_is_away_is_refused_in_time() -> None:
    core = loaded()
    core.metastore.failures += [SourceError("down")] * 1000
    core.ask(Sync(request=9))
    core.turn(6)
    core.now += 61.0
    core.turn(1)
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert answer.code == "SOURCE"
    assert "down" in answer.message


def test_pull_of_a_table_that_is_withdrawn_says_why() -> None:
    core = Core(load_in_background=False)
    core.create_database("d")
    core.create("d", "t")
    core.turn(4)
    core.metastore.failures.clear()
    core.hold = lambda effect: isinstance(effect, Read)
    core.ask(Pull(request=4, db="d", table="t", selector=SELECT_TABLE, credit=1 << 20))
    for _ in range(120):
        core.turn()
        for order in core.held:
            assert isinstance(order, Read)
            core.tell(ReadFailed(read=order.read, error="corrupt", away=False))
        core.held.clear()
    refusals = [one for one in core.replies() if isinstance(one, Refused)]
    assert [one.code for one in refusals] == ["UNREADABLE"]
    assert "corrupt" in refusals[0].message


def test_pull_that_is_asked_again_begins_anew() -> None:
    """P-PULL-4: under credit like a catch-up, and under the same id it begins at its first part."""
    core = loaded()
    ask = Pull(request=4, db="d", table="t", selector=SELECT_BLOCKS, credit=0)
    for request in range(5, 4 + STREAMS_PER_PEER_MAX):
        core.ask(replace(ask, request=request))
    core.ask(ask)
    core.turn(3)
    assert core.replies() == [], "there is no credit"
    core.add(core.metastore.get_table("d", "t"), "3")
    core.turn(12)
    core.ask(replace(ask, credit=1 << 20))
    core.turn(3)
    (answer,) = core.replies()
    assert isinstance(answer, Pulled), "no second stream, of which there would be too many"
    assert (answer.request, answer.sequence, answer.last) == (4, 0, True)
    assert answer.topic_version == core.topics[answer.topic].version


def test_pull_that_waits_is_answered_once_or_not_at_all_when_it_is_cancelled() -> None:
    core = Core(load_in_background=False)
    core.create_database("d")
    core.create("d", "t")
    core.turn(4)
    core.hold = lambda effect: isinstance(effect, Read)
    pull = Pull(request=4, db="d", table="t", selector=SELECT_TABLE, credit=1 << 20)
    for request in (4, 4, 5):
        core.ask(replace(pull, request=request))
    core.ask(pull, peer=b"gone")
    core.ask(Sync(request=6), peer=b"gone")
    core.ask(Cancel(stream=5))
    core.ask(Bye(reason="done"), peer=b"gone")
    core.turn()
    core.hold = lambda _effect: False
    core.release()
    core.turn(12)
    assert [type(one) for one in core.replies()] == [Pulled]
    assert core.replies(b"gone") == []


def test_claim_of_our_lineage_is_accepted_and_another_costs_an_epoch() -> None:
    """P-START-2 and P-START-3."""
    core = loaded()
    number = table_topic("d", "t", 4)
    version = core.topics[number].version
    core.ask(Compare(request=1, epoch=1, start=7, versions=((number, version),)))
    core.ask(Compare(request=2, epoch=1, start=7, versions=((number, version + 1),)))
    core.turn()
    good, bad = core.replies()
    assert isinstance(good, Compared)
    assert isinstance(bad, Compared)
    assert (good.accepted, bad.accepted) == (True, False)
    assert core.minted() == [1]
    record = StartRecord(start=7, epoch=9, versions=core.catalog.version_log.versions())
    core.tell(Minted(epoch=9, starts=(record,)))
    assert core.catalog.position == (9, 7)
    assert {topic.epoch for topic in core.topics.values()} == {9}


def test_claim_that_cannot_be_true_is_refused() -> None:
    core = loaded()
    core.ask(Compare(request=1, epoch=1 << 62, start=7, versions=()))
    core.turn()
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert answer.code == "CLAIM"
    assert core.minted() == []


def test_inspection_tells_tables_of_facts_and_refuses_others() -> None:
    core = loaded()
    for what in ("status", "topics", "nonsense"):
        core.ask(Inspect(request=3, what=what))
    core.turn()
    status, topics, refused = core.replies()
    assert isinstance(status, Inspected)
    assert dict(status.rows)["databases"] == 2
    assert isinstance(topics, Inspected)
    assert len(topics.rows) == 5
    assert isinstance(refused, Refused)
    assert refused.code == "UNKNOWN"


def test_message_that_is_none_of_ours_is_refused() -> None:
    core = loaded()
    core.ask(Join(request=3, positions=()))
    core.ask(Bye(reason="done"))
    core.turn()
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert answer.code == "UNEXPECTED"


def test_answers_go_to_who_asked() -> None:
    core = loaded()
    core.ask(Sync(request=1), peer=b"a")
    core.ask(Sync(request=2), peer=b"b")
    core.turn(12)
    assert [e.peer for e in core.effects if isinstance(e, Reply)] == [b"a", b"b"]
    assert PEER not in {e.peer for e in core.effects if isinstance(e, Reply)}
