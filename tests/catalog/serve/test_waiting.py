"""Requests wait once, in bounded number and time, and peers take turns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.catalog.ingest.loads.needs import NEVER
from topicast.catalog.serve import pending as waits_module
from topicast.catalog.serve.pending import (
    EVENT_WAIT_S_MAX,
    LOADS_MAX,
    TABLE_WAIT_S_MAX,
    EventWaits,
    FairQueue,
    Pending,
    PendingRequests,
    TableWaits,
)
from topicast.topics.objects.selector import ALL, TABLE_ONLY, Selector
from topicast.topics.turn import Turn
from topicast.topics.wire.messages.catalog import Pull

NOW = 100.0
WAIT_S = 5.0


@pytest.fixture
def turn() -> Turn[object]:
    return turn_at(NOW)


def turn_at(now: float) -> Turn[object]:
    turn = Turn[object]()
    turn.now = now
    return turn


def pending(turn: Turn[object]) -> PendingRequests[str, int]:
    return PendingRequests(turn, requests_max=100, wait_s=WAIT_S)


def ids(*found: tuple[Pending[Any, Any], ...]) -> list[tuple[bytes, int]]:
    return [(one.peer, one.request) for some in found for one in some]


def test_repeated_request_keeps_its_time_limit_and_gets_the_new_value(turn: Turn[object]) -> None:
    """P-PULL-4: sent again under the same id, a pull begins anew."""
    machine = pending(turn)
    machine.add(b"a", 1, key="t", value=1)
    machine.add(b"b", 1, key="t", value=2)
    turn.now = NOW + WAIT_S / 2
    machine.add(b"a", 1, key="t", value=3)
    turn.now = NOW + WAIT_S - 0.1
    assert machine.expire() == ()
    turn.now = NOW + WAIT_S
    expired = machine.expire()
    assert ids(expired) == [(b"a", 1), (b"b", 1)]
    assert expired[0].value == 3


STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(1, 4), st.sampled_from("tuv")),
    st.tuples(st.just("remove"), st.sampled_from("abc"), st.integers(1, 4), st.just("")),
    st.tuples(st.just("leave"), st.sampled_from("abc"), st.just(0), st.just("")),
    st.tuples(st.just("take"), st.just(""), st.just(0), st.sampled_from("tuv")),
    st.tuples(st.just("expire"), st.just(""), st.integers(0, 3), st.just("")),
)


@given(st.lists(STEPS, max_size=40))
def test_whatever_happens_no_request_is_lost_or_taken_twice(
    steps: list[tuple[str, str, int, str]],
) -> None:
    turn = turn_at(NOW)
    machine, tables = pending(turn), TableWaits(turn)
    waiting: set[tuple[bytes, int]] = set()
    for what, name, number, key in steps:
        turn.now += 1.0
        peer, found = name.encode(), list[tuple[bytes, int]]()
        match what:
            case "add":
                machine.add(peer, number, key=key, value=0)
                tables.add(peer, pull(number, key))
                waiting.add((peer, number))
            case "remove":
                machine.remove(peer, number)
                tables.remove(peer, number)
                waiting.discard((peer, number))
            case "leave":
                found = ids(machine.remove_peer(peer))
                tables.remove_peer(peer)
                assert {one for one in waiting if one[0] == peer} == set(found)
            case "take":
                found = ids(machine.take(key))
                assert sorted(ids(tables.take(("d", key)))) == sorted(found)
            case _:
                turn.now += number
                found = ids(machine.expire())
                for one in found:
                    tables.remove(*one)
        assert set(found) <= waiting
        assert len(set(found)) == len(found)
        waiting -= set(found)
        assert len(machine) == len(waiting) == len(tables)
        tables.next_load()
        machine.check()
        tables.check()


# -- pulls that wait for a table


def pull(request: int, table: str = "t", selector: Selector = ALL, **fields: object) -> Pull:
    return Pull(request=request, db="d", table=table, selector=selector, credit=1, **fields)


def loads(machine: TableWaits) -> list[str]:
    """Return the tables that may be loaded now, in their order."""
    found = []
    while (table := machine.next_load()) is not None:
        found.append(table[1])
    machine.check()
    return found


def test_table_is_loaded_once_however_many_pulls_wait_for_it(turn: Turn[object]) -> None:
    """P-PULL-14."""
    machine = TableWaits(turn)
    for peer in (b"a", b"b", b"c"):
        assert machine.add(peer, pull(1))
        assert machine.add(peer, pull(2))
    assert loads(machine) == ["t"]
    machine.add(b"d", pull(1))
    assert loads(machine) == []
    assert len(machine.take(("d", "t"))) == 7
    assert machine.take(("d", "t")) == ()
    machine.add(b"a", pull(1))
    assert loads(machine) == ["t"], "it may have been unloaded again"


def test_table_whose_load_has_ended_is_loaded_again_for_the_pulls_that_still_wait(
    turn: Turn[object],
) -> None:
    machine = TableWaits(turn)
    for table in ("read", "unloaded"):
        machine.add(b"a", pull(1 if table == "read" else 2, table))
        machine.add(b"b", pull(1 if table == "read" else 2, table))
    assert loads(machine) == ["read", "unloaded"]
    machine.load_again(lambda _table: True)
    assert loads(machine) == []
    machine.load_again(lambda table: table == ("d", "read"))
    machine.check()
    assert loads(machine) == ["unloaded"]
    machine.check()


def test_peers_take_turns_in_what_is_loaded(turn: Turn[object]) -> None:
    """P-PULL-13."""
    machine = TableWaits(turn)
    for number in range(100):
        machine.add(b"a", pull(number, f"a{number}"))
    machine.add(b"b", pull(1, "b"))
    machine.add(b"c", pull(1, "a99"))
    first = loads(machine)
    assert first[:4] == ["a0", "b", "a99", "a1"]
    assert len(first) == LOADS_MAX
    for table in ("a0", "a1"):
        machine.take(("d", table))
    assert loads(machine) == [f"a{LOADS_MAX - 2}", f"a{LOADS_MAX - 1}"]


def test_table_for_which_no_pull_waits_any_more_is_not_loaded(turn: Turn[object]) -> None:
    machine = TableWaits(turn)
    machine.add(b"a", pull(1, "one"))
    machine.add(b"a", pull(2, "two"))
    machine.add(b"a", pull(3, "three"))
    machine.add(b"b", pull(2, "four"))
    machine.remove(b"a", 1)
    machine.add(b"a", pull(3, "five"))
    machine.remove_peer(b"b")
    assert loads(machine) == ["two", "five"]


def test_pulls_that_can_be_answered_are_taken_before_others_of_the_table(
    turn: Turn[object],
) -> None:
    machine = TableWaits(turn)
    machine.add(b"a", pull(1))
    machine.add(b"a", pull(2, selector=TABLE_ONLY))
    itself = machine.take(("d", "t"), lambda one: one.selector == TABLE_ONLY)
    assert ids(itself) == [(b"a", 2)]
    assert len(machine) == 1
    turn.now = NOW + TABLE_WAIT_S_MAX
    assert ids(machine.expire()) == [(b"a", 1)]


def queue(**bounds: int) -> FairQueue[str]:
    return FairQueue(**{"items_max": 100, "per_peer_max": 50, **bounds})


def taken(machine: FairQueue[str]) -> list[tuple[bytes, str]]:
    """Take everything."""
    found = []
    while (one := machine.take()) is not None:
        found.append(one)
    return found


def test_peer_that_may_not_be_answered_now_delays_no_other() -> None:
    machine = queue()
    machine.put(b"a", 1, "1")
    machine.put(b"b", 2, "2")
    found = machine.take(lambda peer: peer == b"b")
    assert found == (b"b", "2")
    assert machine.take(lambda peer: peer == b"b") is None
    assert not machine.has_item(lambda peer: peer == b"b")
    assert machine.has_item(lambda peer: peer == b"a")
    assert taken(machine) == [(b"a", "1")]


def test_queue_has_the_last_item_of_each_request_that_was_not_removed() -> None:
    """P-PULL-4."""
    machine = queue()
    for peer in (b"a", b"b", b"c"):
        for request in (1, 2, 2):
            machine.put(peer, request, f"{request}")
    machine.put(b"a", 2, "new")
    assert len(machine) == 6
    for peer, request in ((b"a", 1), (b"a", 9), (b"c", 1), (b"c", 2)):
        machine.remove(peer, request)
    for peer in (b"b", b"z"):
        machine.remove_peer(peer)
    assert len(machine) == 1
    assert taken(machine) == [(b"a", "new")]


def test_queue_is_bounded_for_each_peer_and_for_all(turn: Turn[object]) -> None:
    """P-PULL-15."""
    machine = queue(items_max=3, per_peer_max=2)
    assert [machine.put(b"a", request, "1") for request in (1, 2, 3)] == [True, True, False]
    assert [machine.put(peer, 1, "1") for peer in (b"b", b"c")] == [True, False]
    assert machine.put(b"a", 2, "2"), "it takes the place of the other"


A, B = (b"a", 1), (b"b", 1)


@pytest.fixture
def waits(turn: Turn[object]) -> EventWaits[None]:
    return EventWaits[None](turn)


def await_event(
    waits: EventWaits[None], who: tuple[bytes, int] = A, *, polls_begun: int = 4
) -> bool:
    return waits.add_once(*who, None, polls_begun=polls_begun)


def published(
    waits: EventWaits[None], unresolved: int = NEVER, *, polled: tuple[int, int] = (5, 1)
) -> list[tuple[bytes, int]]:
    waits.check()
    taken = waits.take_published(lambda _scope: unresolved, polled=polled)
    return ids(taken)


def test_requests_share_the_next_poll(waits: EventWaits[None]) -> None:
    """P-SYNC-1."""
    await_event(waits, A)
    await_event(waits, B)
    assert not waits.wants_poll(5), "it has begun"
    await_event(waits, (b"c", 1), polls_begun=5)
    assert waits.wants_poll(5)
    assert published(waits) == [A, B]
    assert len(waits) == 1


def test_later_polls_make_no_request_wait_longer(waits: EventWaits[None]) -> None:
    await_event(waits)
    assert published(waits, 7, polled=(5, 7)) == []
    assert published(waits, 8, polled=(6, 8)) == [A]


def test_repeated_request_is_taken_once(waits: EventWaits[None]) -> None:
    await_event(waits, polls_begun=4)
    assert await_event(waits, polls_begun=5)
    assert published(waits) == [A]
    assert len(waits) == 0


@pytest.mark.parametrize("polled", [True, False])
def test_request_that_waited_too_long_expires(
    turn: Turn[object], waits: EventWaits[None], polled: bool
) -> None:
    await_event(waits)
    if polled:
        assert published(waits, 7, polled=(5, 7)) == []
    turn.now = NOW + EVENT_WAIT_S_MAX - 0.1
    assert waits.expire() == ()
    turn.now = NOW + EVENT_WAIT_S_MAX
    assert ids(waits.expire()) == [A]
    assert not waits.wants_poll(4)


def test_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits_module, "WAITING_MAX", 1)
    waits = EventWaits[None](turn_at(NOW))
    assert await_event(waits, A)
    assert not await_event(waits, B)
    assert await_event(waits, A), "a repeated request takes no more room"
