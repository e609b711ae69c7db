"""Peers take turns, a table is loaded once, and a pull in vain is refused at once."""

from collections import Counter
from dataclasses import replace

import pytest

from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.ingest.loads import chunked_load as pieces
from topicast.catalog.ingest.loads import read_threads as reading
from topicast.catalog.metastore.port import Read
from topicast.catalog.serve import pending, pull_server
from topicast.catalog.serve.pending import TABLE_WAIT_S_MAX
from topicast.catalog.serve.pull_server import OPENED_MAX, STALLED_S, STREAMS_MAX
from topicast.tests.cluster.alone import TURN_S, Alone, cold, loaded, part
from topicast.topics.errors import SourceError
from topicast.topics.objects.encoding import values
from topicast.topics.objects.encoding.values import LOADING, decode_block, decode_table_value
from topicast.topics.objects.selector import (
    ALL,
    TABLE_ONLY,
    Selector,
    by_filter,
    by_names,
    by_values,
)
from topicast.topics.streams import sender
from topicast.topics.streams.sender import STREAMS_PER_PEER_MAX
from topicast.topics.topic import value_of
from topicast.topics.wire.messages.catalog import (
    Pull,
    Pulled,
)
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.readers import Credit


def pull(request: int = 4, table: str = "t", selector: Selector = ALL, **fields: int) -> Pull:
    fields = {"credit": 1 << 20, **fields}
    return Pull(request=request, db="d", table=table, selector=selector, **fields)


def answered(core: Alone) -> list[tuple[bytes, Message]]:
    """Take what left for whom so far."""
    found = core.replied
    core.effects.clear()
    return found


@pytest.fixture
def unread() -> Alone:
    return cold("t")


def refused(core: Alone, peer: bytes = b"peer") -> Refused:
    """Take the one refusal of ``peer``."""
    return core.reply(Refused, peer)


# -- peers take turns


def test_peer_that_sends_a_thousand_pulls_delays_another_by_one_pull(core: Alone) -> None:
    """P-PULL-13."""
    for request in range(1000):
        core.ask(pull(request), peer=b"greedy")
    core.ask(pull(1), peer=b"modest")
    core.step()
    first = [peer for peer, _ in answered(core)]
    assert first.index(b"modest") == 1
    assert len(first) <= pull_server.OPENED_MAX
    for _ in range(1000 // pull_server.OPENED_MAX + 1):
        core.step()
    assert len(answered(core)) + len(first) == 1001


def test_part_of_one_peer_goes_before_a_second_part_of_another(core: Alone) -> None:
    """P-PULL-13, P-CREDIT-3."""
    for request in range(STREAMS_PER_PEER_MAX + 4):
        core.ask(pull(request, credit=0), peer=b"greedy")
    core.turn(4)
    assert answered(core) == []
    core.ask(pull(1), peer=b"modest")
    core.turn()
    assert [peer for peer, _ in answered(core)] == [b"modest"]
    for request in range(STREAMS_PER_PEER_MAX + 4):
        core.ask(Credit(stream=request, amount=1 << 20), peer=b"greedy")
    core.turn(8)
    done = {message.request for _, message in answered(core) if isinstance(message, Pulled)}
    assert done >= set(range(STREAMS_PER_PEER_MAX)), "the rest begins without credit"


def test_pulls_of_one_peer_take_turns_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-CREDIT-3."""
    monkeypatch.setattr(pull_server, "CHUNK_BYTES_MAX", 1)
    core = loaded()
    for request in (1, 2, 3):
        core.ask(pull(request))
    core.turn()
    parts = [one.request for one in core.replies() if isinstance(one, Pulled)]
    assert parts == [1, 2, 3, 1, 2, 3]


# -- one load


def test_hundred_peers_that_ask_for_a_cold_table_cost_one_load_and_are_all_answered(
    unread: Alone,
) -> None:
    """P-PULL-14."""
    peers = [f"p{number}".encode() for number in range(100)]
    for peer in peers:
        unread.ask(pull(), peer=peer)
    unread.turn(1)
    for peer in peers:
        unread.ask(pull(5, selector=TABLE_ONLY), peer=peer)
    unread.turn(40)
    calls = Counter(unread.metastore.calls)
    assert (calls["tables"], calls["all_partitions"], calls["partitions"]) == (1, 1, 0)
    found = [(peer, type(message), message.request) for peer, message in answered(unread)]
    assert sorted(found, key=str) == sorted(
        ((peer, Pulled, request) for peer in peers for request in (4, 5)), key=str
    )


# -- bounds


def test_pulls_over_the_bound_are_refused_with_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-PULL-15."""
    monkeypatch.setattr(pull_server, "QUEUED_PER_PEER_MAX", 20)
    core = loaded()
    for request in range(22):
        core.ask(pull(request))
    core.ask(pull(1), peer=b"other")
    core.turn(1)
    busy = [one for one in core.replies() if isinstance(one, Refused)]
    assert [(one.request, one.code) for one in busy] == [(20, "BUSY"), (21, "BUSY")]
    assert all(one.retry_ms > pull_server.QUEUED_RETRY_MS for one in busy)
    assert [type(one) for one in core.replies(b"other")] == [Pulled]


def test_waiting_pulls_over_the_bound_are_refused_with_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-PULL-15."""
    monkeypatch.setattr(pending, "WAITING_PER_PEER_MAX", 2)
    unread = cold("t")
    for request in range(3):
        unread.ask(pull(request))
    unread.turn(1)
    answer = refused(unread)
    assert (answer.request, answer.code) == (2, "BUSY")
    assert answer.retry_ms > 0


def test_stream_whose_asker_is_silent_makes_room_in_time(core: Alone) -> None:
    core.ask(pull(credit=0), peer=b"gone")
    core.ask(pull(credit=0), peer=b"slow")
    core.wait(STALLED_S / 2)
    core.ask(Credit(stream=4, amount=0), peer=b"slow")
    core.wait(STALLED_S / 2 + 0.1)
    core.turn(1)
    for peer in (b"gone", b"slow"):
        core.ask(Credit(stream=4, amount=1 << 20), peer=peer)
    core.turn(1)
    assert [peer for peer, _ in answered(core)] == [b"slow"]


def test_pull_finds_a_place_where_all_streams_are_without_credit(core: Alone) -> None:
    for number in range(STREAMS_MAX):
        core.ask(pull(100 + number, credit=0), peer=b"%d" % (number % 32))
    for _ in range(STREAMS_MAX // OPENED_MAX):
        core.step()
    core.ask(pull(), peer=b"late")
    core.step()
    assert answered(core) == []
    due_s = core.catalog.dispatcher.deadline - core.catalog.turn.now
    assert 0 < due_s <= sender.STALLED_S, "catalogd looks again by itself"
    core.wait(sender.STALLED_S + 0.1)
    core.turn(1)
    assert [peer for peer, _ in answered(core)] == [b"late"]


def test_pull_is_refused_in_time_though_the_metastore_sends_nothing(unread: Alone) -> None:
    unread.catalogd.hold(Read, Poll)
    unread.ask(pull())
    unread.wait(TABLE_WAIT_S_MAX / 2)
    unread.ask(Credit(stream=9, amount=1))
    unread.wait(TABLE_WAIT_S_MAX / 2 + 2 * TURN_S)
    assert refused(unread).code == "NOT_LOADED"


def test_time_of_a_pull_is_from_its_arrival_to_its_last_part_and_a_refused_pull_has_none() -> None:
    core = cold("t")
    core.catalogd.hold(Read)
    core.ask(pull(2), peer=b"early")
    core.wait(TABLE_WAIT_S_MAX - 0.3)
    core.ask(pull(1))
    core.wait(0.5)
    assert refused(core, b"early").request == 2
    core.catalogd.resume()
    core.turn(6)
    assert [one.request for one in core.replies() if isinstance(one, Pulled) and one.last] == [1]
    times = core.catalog.status().pull_times
    assert times.count == 1
    assert 0.5 <= times.total < 1.0
    core.catalog.check()


# -- what will not come


def test_table_that_no_value_can_hold_is_refused_at_once_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-PULL-16."""
    monkeypatch.setattr(values, "DOCUMENT_BYTES_MAX", 300)
    core = cold("t")
    answer = core.answer_to(pull(), Refused, turns=12)
    assert (answer.code, answer.retry_ms) == ("UNREADABLE", 0)
    assert "300 allowed" in answer.message
    core.metastore.calls.clear()
    assert core.answer_to(pull(), Refused).code == "UNREADABLE"
    assert "tables" not in core.metastore.calls
    monkeypatch.setattr(values, "DOCUMENT_BYTES_MAX", 1 << 20)
    core.add(core.metastore.get_table("d", "t"), "3")
    core.catalog.loader.load(("d", "t"), urgent=True)
    core.turn(12)
    core.answer_to(pull(), Pulled)


def test_table_that_cannot_be_read_is_refused_at_once_with_the_reason(unread: Alone) -> None:
    """P-PULL-16."""
    unread.metastore.unreadable["t"] = "corrupt"
    unread.ask(pull())
    unread.turn(100)
    assert refused(unread).code == "NOT_LOADED", "it is tried more than once"
    unread.ask(pull())
    unread.turn()
    for _ in range(2):
        answer = refused(unread)
        assert (answer.code, answer.retry_ms) == ("UNREADABLE", 0)
        assert "corrupt" in answer.message
        unread.ask(pull())
        unread.turn()
    unread.replies()
    unread.metastore.unreadable.clear()
    unread.wait(60.0)  # it is tried now and then
    unread.answer_to(pull(), Pulled)


def test_pull_that_selects_a_partition_that_cannot_be_read_is_refused_and_others_are_answered(
    unread: Alone,
) -> None:
    """P-PULL-16."""
    unread.metastore.unreadable["ds=1"] = "corrupt"
    unread.ask(pull())
    unread.turn(60)
    answer = refused(unread)
    if answer.code == "NOT_LOADED":
        answer = unread.answer_to(pull(), Refused)
    assert (answer.code, answer.retry_ms) == ("UNREADABLE", 0)
    assert "d.t: the metastore cannot read it: ds=1: corrupt" in answer.message

    def selected(name: str) -> Pull:
        return pull(selector=by_names((name,)))

    assert unread.answer_to(selected("ds=1"), Refused).code == "UNREADABLE"
    unread.answer_to(pull(selector=TABLE_ONLY), Pulled)
    unread.answer_to(selected("ds=2"), Pulled, turns=6)
    unread.add(unread.metastore.get_table("d", "t"), "3")
    unread.turn(6)
    unread.answer_to(selected("ds=3"), Pulled, turns=6)
    unread.metastore.drop_partition("d", "t", ["1"], False)
    unread.wait(10)
    unread.answer_to(pull(), Pulled)
    assert unread.partitions() == ["ds=2", "ds=3"]


def test_pull_while_the_metastore_is_away_is_refused_at_once_and_loaded_when_it_is_back(
    unread: Alone,
) -> None:
    """P-PULL-16."""
    unread.metastore.failures += [SourceError("down")] * 4
    while not unread.catalog.poller.error:
        unread.turn()
    answer = unread.answer_to(pull(), Refused)
    assert answer.code == "SOURCE"
    assert "down" in answer.message
    assert answer.retry_ms > 0
    unread.turn(80)
    unread.answer_to(pull(), Pulled)


@pytest.fixture
def large(unread: Alone, monkeypatch: pytest.MonkeyPatch) -> Alone:
    """A catalogd whose ``d.t`` has six partitions and is not loaded; all but a few are too many."""
    monkeypatch.setattr(reading, "WHOLE_PARTITIONS_MAX", 1)
    monkeypatch.setattr(pieces, "PARTITIONS_PER_READ_MAX", 2)
    unread.add(unread.metastore.get_table("d", "t"), *"3456")
    unread.turn(12)
    unread.order("invalidate", "d.t")
    return unread


def selected(core: Alone, **fields: object) -> list[str]:
    """Pull and return the names in the blocks of the answer, while a chunk of others is read."""
    of_others = ("ds=3", "ds=4")
    core.catalogd.hold(
        Read, where=lambda read: any(one.names == of_others for one in read.requests)
    )
    core.turn(12)
    core.ask(replace(pull(), **fields))
    core.turn(12)
    answer = core.reply(Pulled)
    own, *blocks = answer.entries
    assert decode_table_value(value_of(own)).partitions == LOADING
    return [name for one in blocks for name in decode_block(value_of(one), one.version).names]


def test_partitions_by_names_are_answered_before_the_others_are_read(large: Alone) -> None:
    """P-PULL-14."""
    assert "ds=6" in selected(large, selector=by_names(("ds=6", "ds=none")))
    large.catalogd.resume()
    large.turn(12)
    large.answer_to(pull(9), Pulled)
    assert large.metastore.calls.count("partition_names") == 1, "of one load"


def test_partitions_by_filter_or_values_are_answered_before_the_others_are_read(
    large: Alone,
) -> None:
    """P-PULL-14."""
    assert "ds=6" in selected(large, selector=by_filter("ds > '5'"))
    assert selected(large, request=5, selector=by_values(("6",)))


def test_filter_that_is_none_for_a_cold_table_is_refused_as_for_any(large: Alone) -> None:
    large.ask(replace(pull(), selector=by_filter("hour > 5")))
    large.turn(12)
    assert refused(large).code == "FILTER"


def test_who_waits_long_hears_how_much_is_read(
    unread: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-PULL-16: also who asks again and again under the same id."""
    monkeypatch.setattr(reading, "WHOLE_PARTITIONS_MAX", 1)
    monkeypatch.setattr(pieces, "PARTITIONS_PER_READ_MAX", 1)
    unread.add(unread.metastore.get_table("d", "t"), *"3456")
    unread.turn(12)
    unread.ask(pull())
    unread.turn(3)
    unread.catalogd.hold(Read, Poll)
    for _ in range(4):
        unread.ask(pull())
        unread.wait(TABLE_WAIT_S_MAX / 4)
        unread.turn(1)
    unread.turn(2)
    answer = refused(unread)
    assert answer.code == "NOT_LOADED"
    assert answer.retry_ms > 0
    assert answer.message == "d.t is not loaded yet: 3 of 6 partitions read"
    unread.catalogd.resume()
    unread.turn(20)
    unread.replies()
    unread.answer_to(replace(pull(), request=5), Pulled)


# -- content that is not in memory


def cool(core: Alone) -> None:
    """Have no content in memory."""
    memory = core.catalog.memory
    assert memory is not None
    memory.warm.limit_bytes = 0
    assert not memory.warm.shrink()


@pytest.fixture
def limited() -> Alone:
    """A catalogd with a table of many partitions, none of whose content is in memory."""
    core = Alone(limited=True)
    core.create_database("d")
    core.add(core.create("d", "t", "ds"), *(str(number) for number in range(100, 300)))
    core.turn(20)
    cool(core)
    return core


def test_content_that_is_not_in_memory_is_read_and_sent(limited: Alone) -> None:
    limited.ask(pull())
    limited.turn()
    parts = [one for one in limited.replies() if isinstance(one, Pulled)]
    blocks = [entry for one in parts for entry in one.entries if not entry.key.endswith(b"\0")]
    names = [name for one in blocks for name in decode_block(value_of(one), one.version).names]
    assert len(names) == 200
    cool(limited)
    limited.ask(pull(5, selector=by_names(("ds=150", "ds=299"))))
    limited.turn()
    assert [len(one.entries) for one in limited.replies() if isinstance(one, Pulled)] == [3]


def test_answer_whose_content_changes_while_it_is_read_is_refused_and_comes_at_the_retry(
    limited: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-PULL-4: all parts of an answer are of one version."""
    monkeypatch.setattr(pull_server, "CHUNK_BYTES_MAX", 1)
    limited.ask(pull(credit=1))
    limited.turn()
    assert len(limited.replies()) == 1, "one part, for the credit"
    table = limited.metastore.get_table("d", "t")
    limited.metastore.alter_partitions("d", "t", [part(table, "250", k="new")])
    limited.turn(4)
    limited.ask(Credit(stream=4, amount=1 << 20))
    limited.turn()
    refusal = limited.replies()[-1]
    assert isinstance(refusal, Refused)
    assert (refusal.code, refusal.request, refusal.retry_ms > 0) == ("RETRY", 4, True)
    limited.ask(pull())
    limited.turn()
    last = limited.replies()[-1]
    assert isinstance(last, Pulled)
    assert last.last
