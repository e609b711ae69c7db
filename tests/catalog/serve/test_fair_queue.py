"""FairQueue: each peer's pulls in the order asked, one peer after the other."""

import pytest

from topicast.catalog.serve import fair_queue as turns
from topicast.catalog.serve.fair_queue import FairQueue
from topicast.topics.wire.messages import SELECT_TABLE, Pull


def pull(request: int, table: str = "t") -> Pull:
    return Pull(request=request, db="d", table=table, selector=SELECT_TABLE, credit=1)


def taken(machine: FairQueue) -> list[tuple[bytes, int]]:
    """Take everything."""
    found = []
    while (one := machine.take(lambda _peer: True)) is not None:
        found.append((one[0], one[1].request))
    return found


def test_one_of_each_peer_goes_before_a_second_of_any() -> None:
    """P-PULL-13."""
    machine = FairQueue()
    for request in range(4):
        machine.put(b"a", pull(request))
    machine.put(b"b", pull(7))
    machine.put(b"c", pull(8))
    machine.put(b"c", pull(9))
    assert len(machine) == 7
    expected = [(b"a", 0), (b"b", 7), (b"c", 8), (b"a", 1), (b"c", 9), (b"a", 2), (b"a", 3)]
    assert taken(machine) == expected
    assert len(machine) == 0


def test_who_may_not_be_answered_now_holds_up_nobody() -> None:
    machine = FairQueue()
    machine.put(b"a", pull(1))
    machine.put(b"b", pull(2))
    found = machine.take(lambda peer: peer == b"b")
    assert found == (b"b", pull(2))
    assert machine.take(lambda peer: peer == b"b") is None
    assert not machine.waits(lambda peer: peer == b"b")
    assert machine.waits(lambda peer: peer == b"a")
    assert taken(machine) == [(b"a", 1)]


def test_what_is_asked_again_takes_the_place_of_what_was_asked() -> None:
    """P-PULL-4."""
    machine = FairQueue()
    machine.put(b"a", pull(1))
    machine.put(b"a", pull(1, "u"))
    assert len(machine) == 1
    assert machine.take(lambda _peer: True) == (b"a", pull(1, "u"))


def test_cancelled_and_forgotten_pulls_are_taken_no_more() -> None:
    machine = FairQueue()
    for peer in (b"a", b"b", b"c"):
        for request in (1, 2):
            machine.put(peer, pull(request))
    machine.cancel(b"a", 1)
    machine.cancel(b"a", 9)
    machine.cancel(b"c", 1)
    machine.cancel(b"c", 2)
    machine.forget(b"b")
    machine.forget(b"z")
    assert len(machine) == 1
    assert taken(machine) == [(b"a", 2)]


def test_queues_are_bounded_for_each_peer_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-PULL-15."""
    monkeypatch.setattr(turns, "QUEUED_PER_PEER_MAX", 2)
    monkeypatch.setattr(turns, "QUEUED_MAX", 3)
    machine = FairQueue()
    assert [machine.put(b"a", pull(request)) for request in (1, 2, 3)] == [True, True, False]
    assert [machine.put(b"b", pull(request)) for request in (1, 2)] == [True, False]
    assert machine.put(b"a", pull(2)), "who repeats takes no more room"
    machine.cancel(b"a", 1)
    assert machine.put(b"c", pull(1))
