"""Peers take turns, a table is loaded once, and a pull in vain is refused at once."""

from collections import Counter
from dataclasses import replace

import pytest

from topicast.catalog.ingest import chunked_load as pieces
from topicast.catalog.ingest import read_threads as reading
from topicast.catalog.ingest.poller import Poll
from topicast.catalog.metastore.port import Read
from topicast.catalog.model import tables as tables_module
from topicast.catalog.serve import answers, pull_server
from topicast.catalog.serve.pull_server import STALLED_S, WAIT_S_MAX
from topicast.tests.cluster.alone import Alone, cold, loaded
from topicast.topics.bulk import STREAMS_PER_PEER_MAX
from topicast.topics.errors import SourceError
from topicast.topics.wire.messages import (
    SELECT_BLOCKS,
    SELECT_TABLE,
    Credit,
    Message,
    Pull,
    Pulled,
    Refused,
)


def pull(request: int = 4, table: str = "t", selector: int = SELECT_BLOCKS, **fields: int) -> Pull:
    fields = {"credit": 1 << 20, **fields}
    return Pull(request=request, db="d", table=table, selector=selector, **fields)


def answered(core: Alone) -> list[tuple[bytes, Message]]:
    """Take what left for whom so far."""
    found = core.replied
    core.effects.clear()
    return found


def refused(core: Alone, peer: bytes = b"peer") -> Refused:
    """Take the one refusal of ``peer``."""
    (answer,) = core.replies(peer)
    assert isinstance(answer, Refused)
    return answer


# -- peers take turns


def test_one_who_asks_for_a_thousand_delays_another_by_one_of_them() -> None:
    """P-PULL-13."""
    core = loaded()
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


def test_one_who_asks_for_a_hundred_cold_tables_delays_the_load_of_another_by_few() -> None:
    """P-PULL-13."""
    core = cold(*(f"t{number:03d}" for number in range(100)), "wanted")
    core.catalogd.hold(Read)
    for number in range(100):
        core.ask(pull(number, f"t{number:03d}"), peer=b"greedy")
    core.turn()
    core.ask(pull(1, "wanted"), peer=b"modest")
    while not core.replies(b"modest"):
        core.catalogd.release()
        core.turn()
    assert core.metastore.calls.count("partitions") <= 50


def test_part_of_one_peer_goes_before_a_second_part_of_another() -> None:
    """P-PULL-13, P-CREDIT-3."""
    core = loaded()
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
    monkeypatch.setattr(answers, "CHUNK_BYTES_MAX", 1)
    core = loaded()
    for request in (1, 2, 3):
        core.ask(pull(request))
    core.turn()
    parts = [one.request for one in core.replies() if isinstance(one, Pulled)]
    assert parts == [1, 2, 3, 1, 2, 3]


# -- one load


def test_hundred_peers_that_ask_for_a_cold_table_cost_one_load_and_are_all_answered() -> None:
    """P-PULL-14."""
    core = cold("t")
    peers = [f"p{number}".encode() for number in range(100)]
    for peer in peers:
        core.ask(pull(), peer=peer)
    core.turn(1)
    for peer in peers:
        core.ask(pull(5, selector=SELECT_TABLE), peer=peer)
    core.turn(40)
    calls = Counter(core.metastore.calls)
    assert (calls["tables"], calls["partition_names"], calls["partitions"]) == (1, 1, 1)
    found = [(peer, type(message), message.request) for peer, message in answered(core)]
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
    monkeypatch.setattr(pull_server, "WAITING_PER_PEER_MAX", 2)
    core = cold("t")
    for request in range(3):
        core.ask(pull(request))
    core.turn(1)
    answer = refused(core)
    assert (answer.request, answer.code) == (2, "BUSY")
    assert answer.retry_ms > 0


def test_stream_whose_asker_is_silent_makes_room_in_time() -> None:
    core = loaded()
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


# -- what will not come


def test_table_that_no_value_can_hold_is_refused_at_once_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-PULL-16."""
    monkeypatch.setattr(tables_module, "VALUE_BYTES_MAX", 300)
    core = cold("t")
    core.ask(pull())
    core.turn(12)
    answer = refused(core)
    assert (answer.code, answer.retry_ms) == ("UNREADABLE", 0)
    assert "300 allowed" in answer.message
    core.metastore.calls.clear()
    core.ask(pull())
    core.turn(1)
    assert refused(core).code == "UNREADABLE"
    assert "tables" not in core.metastore.calls
    monkeypatch.setattr(tables_module, "VALUE_BYTES_MAX", 1 << 20)
    core.add(core.metastore.get_table("d", "t"), "3")
    core.catalog.loader.load(("d", "t"), urgent=True)
    core.turn(12)
    core.ask(pull())
    core.turn(1)
    assert [type(one) for one in core.replies()] == [Pulled]


def test_table_that_cannot_be_read_is_refused_at_once_with_the_reason() -> None:
    """P-PULL-16."""
    core = cold("t")
    core.metastore.unreadable["t"] = "corrupt"
    core.ask(pull())
    core.turn(100)
    for _ in range(2):
        answer = refused(core)
        assert (answer.code, answer.retry_ms) == ("UNREADABLE", 0)
        assert "corrupt" in answer.message
        core.ask(pull())
        core.turn()
    core.replies()
    core.metastore.unreadable.clear()
    core.wait(60.0)  # it is tried now and then
    core.ask(pull())
    core.turn()
    assert [type(one) for one in core.replies()] == [Pulled]


def test_pull_while_the_metastore_is_away_is_refused_at_once_and_loaded_when_it_is_back() -> None:
    """P-PULL-16."""
    core = cold("t")
    core.metastore.failures += [SourceError("down")] * 4
    while not core.catalog.poller.error:
        core.turn()
    core.ask(pull())
    core.turn(1)
    answer = refused(core)
    assert answer.code == "SOURCE"
    assert "down" in answer.message
    assert answer.retry_ms > 0
    core.turn(80)
    core.ask(pull())
    core.turn(1)
    assert [type(one) for one in core.replies()] == [Pulled]


def test_who_waits_long_hears_how_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-PULL-16: also who asks again and again under the same id."""
    monkeypatch.setattr(reading, "WHOLE_PARTITIONS_MAX", 1)
    monkeypatch.setattr(pieces, "PARTITIONS_PER_READ_MAX", 1)
    core = cold("t")
    core.add(core.metastore.get_table("d", "t"), *"3456")
    core.turn(12)
    core.ask(pull())
    core.turn(3)
    core.catalogd.hold(Read, Poll)
    for _ in range(4):
        core.ask(pull())
        core.wait(WAIT_S_MAX / 4)
        core.turn(1)
    core.turn(2)
    answer = refused(core)
    assert answer.code == "LOADING"
    assert answer.retry_ms > 0
    assert "of its partitions are still to be read" in answer.message
    core.catalogd.resume()
    core.ask(replace(pull(), request=5))
    core.turn(20)
    assert [type(one) for one in core.replies()] == [Pulled]
