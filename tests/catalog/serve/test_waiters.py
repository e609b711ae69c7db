"""Waiting: one load however many ask, peers in turn, and nobody waits for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.catalog.serve import waiters as waiting
from topicast.catalog.serve.waiters import LOADS_MAX, WAIT_S_MAX, Waiting
from topicast.topics.wire.messages import SELECT_BLOCKS, SELECT_TABLE, Pull

NOW = 100.0


def pull(request: int, table: str = "t", selector: int = SELECT_BLOCKS, **fields: object) -> Pull:
    return Pull(request=request, db="d", table=table, selector=selector, credit=1, **fields)


def loads(machine: Waiting) -> list[str]:
    """Return the tables that may be loaded now, in their order."""
    found = []
    while (table := machine.next_load()) is not None:
        found.append(table[1])
    machine.check()
    return found


def all_of(machine: Waiting, *tables: str) -> tuple[tuple[bytes, Pull], ...]:
    found = machine.arrived(lambda one: one.table in tables)
    machine.check()
    return found


def test_table_is_loaded_once_however_many_ask() -> None:
    """P-PULL-14."""
    machine = Waiting()
    for peer in (b"a", b"b", b"c"):
        assert machine.add(peer, pull(1), now=NOW)
        assert machine.add(peer, pull(2), now=NOW)
    assert loads(machine) == ["t"]
    machine.add(b"d", pull(1), now=NOW)
    assert loads(machine) == []
    assert len(all_of(machine, "t")) == 7
    assert all_of(machine, "t") == ()
    machine.add(b"a", pull(1), now=NOW)
    assert loads(machine) == ["t"], "it may have gone again"


def test_peers_take_turns_in_what_is_loaded() -> None:
    """P-PULL-13."""
    machine = Waiting()
    for number in range(100):
        machine.add(b"a", pull(number, f"a{number}"), now=NOW)
    machine.add(b"b", pull(1, "b"), now=NOW)
    machine.add(b"c", pull(1, "a99"), now=NOW)
    first = loads(machine)
    assert first[:4] == ["a0", "b", "a99", "a1"]
    assert len(first) == LOADS_MAX
    all_of(machine, "a0", "a1")
    assert loads(machine) == [f"a{LOADS_MAX - 2}", f"a{LOADS_MAX - 1}"]


def test_what_nobody_waits_for_any_more_is_not_loaded() -> None:
    machine = Waiting()
    machine.add(b"a", pull(1, "one"), now=NOW)
    machine.add(b"a", pull(2, "two"), now=NOW)
    machine.add(b"b", pull(2, "three"), now=NOW)
    machine.cancel(b"a", 1)
    machine.forget(b"b")
    assert loads(machine) == ["two"]


def test_who_waits_for_the_table_alone_is_answered_before_the_others() -> None:
    machine = Waiting()
    alone = pull(2, selector=SELECT_TABLE)
    machine.add(b"a", pull(1), now=NOW)
    machine.add(b"a", alone, now=NOW)
    assert machine.arrived(lambda one: one.selector == SELECT_TABLE) == ((b"a", alone),)
    assert len(machine) == 1


def test_who_asks_again_waits_once_as_long_with_what_was_asked_last() -> None:
    """P-PULL-4: asked again under the same id, a pull begins anew."""
    machine = Waiting()
    again = pull(1, held=((b"d\0t\0", 3),))
    machine.add(b"a", pull(1), now=NOW)
    machine.add(b"b", pull(1), now=NOW)
    machine.add(b"a", again, now=NOW + WAIT_S_MAX / 2)
    assert machine.expire(NOW + WAIT_S_MAX - 0.1) == ()
    assert machine.expire(NOW + WAIT_S_MAX) == ((b"a", again), (b"b", pull(1)))
    machine.add(b"a", pull(1), now=NOW)
    machine.add(b"a", pull(1, "u"), now=NOW)
    assert len(machine) == 1
    assert loads(machine) == ["u"]


def test_who_waits_for_what_cannot_be_read_is_told() -> None:
    machine = Waiting()
    machine.add(b"a", pull(1), now=NOW)
    assert machine.give_up(("d", "u")) == ()
    assert machine.give_up(("d", "t")) == ((b"a", pull(1)),)
    assert machine.give_up(("d", "t")) == ()


def test_those_who_wait_are_bounded_for_each_peer_and_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-PULL-15."""
    monkeypatch.setattr(waiting, "WAITING_PER_PEER_MAX", 2)
    monkeypatch.setattr(waiting, "WAITING_MAX", 3)
    machine = Waiting()
    assert [machine.add(b"a", pull(n), now=NOW) for n in (1, 2, 3)] == [True, True, False]
    assert [machine.add(b"b", pull(n), now=NOW) for n in (1, 2)] == [True, False]
    assert machine.add(b"a", pull(2), now=NOW), "who repeats takes no more room"
    machine.cancel(b"a", 1)
    assert machine.add(b"c", pull(1), now=NOW)


STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(1, 4), st.sampled_from("tuv")),
    st.tuples(st.just("cancel"), st.sampled_from("abc"), st.integers(1, 4), st.just("")),
    st.tuples(st.just("forget"), st.sampled_from("abc"), st.just(0), st.just("")),
    st.tuples(st.just("arrived"), st.just(""), st.just(0), st.sampled_from("tuv")),
    st.tuples(st.just("give_up"), st.just(""), st.just(0), st.sampled_from("tuv")),
    st.tuples(st.just("expire"), st.just(""), st.integers(0, 3), st.just("")),
)


@given(st.lists(STEPS, max_size=40))
def test_whatever_happens_nobody_is_lost_and_nobody_is_told_twice(
    steps: list[tuple[str, str, int, str]],
) -> None:
    machine, open_, now = Waiting(), set[tuple[bytes, int]](), NOW
    for what, peer, number, table in steps:
        now += 1.0
        who, found = peer.encode(), tuple[tuple[bytes, Pull], ...]()
        match what:
            case "add":
                machine.add(who, pull(number, table), now=now)
                open_.add((who, number))
            case "cancel":
                machine.cancel(who, number)
                open_.discard((who, number))
            case "forget":
                machine.forget(who)
                open_ = {one for one in open_ if one[0] != who}
            case "arrived":
                found = all_of(machine, table)
            case "give_up":
                found = machine.give_up(("d", table))
            case _:
                found = machine.expire(now - number)
        told = {(by, one.request) for by, one in found}
        assert told <= open_
        open_ -= told
        assert len(machine) == len(open_)
        machine.next_load()
        machine.check()
