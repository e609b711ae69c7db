from dataclasses import replace
from itertools import count

import pytest

from topicast.subscriber.fetch import fetcher as pulls
from topicast.subscriber.fetch.fence import InvalidationFence
from topicast.subscriber.fetch.fetcher import PULLS_MAX, WAITING_MAX, Fetcher
from topicast.subscriber.protocol import facts
from topicast.subscriber.store.table_snapshot import (
    NO_SELECTIONS,
    TableSnapshot,
    snapshot_of,
)
from topicast.tests.subscriber.desk import pulled
from topicast.tests.subscriber.source import Catalog, shop
from topicast.topics.errors import NotReady, OverBudget
from topicast.topics.objects.listing import decode_listing
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import ALL, TABLE_ONLY, by_names
from topicast.topics.requests import RETRY_S
from topicast.topics.wire.messages import Cancel, Pull, Refused


def _pulls() -> Fetcher:
    return Fetcher(
        count(1).__next__, base=lambda _db, _table: (0, 0, None, ()), fence=InvalidationFence()
    )


def _ask(number: int, table: str = "orders", give_up_at: float = 10.0) -> facts.AskTable:
    return facts.AskTable(
        id=number, db="shop", table=table, selector=TABLE_ONLY, give_up_at=give_up_at
    )


def _sent(effects: tuple[facts.Effect, ...], kind: type = Pull) -> list[Pull]:
    found = [one.message for one in effects if isinstance(one, facts.Send)]
    return [message for message in found if isinstance(message, kind)]  # type: ignore[misc]  # by kind


def _reply(machine: Fetcher, pull: Pull) -> tuple[facts.Effect, ...]:
    whole, effects = machine.part(pulled(shop(), pull), now=0.0)
    assert whole is not None
    return effects + machine.answer(pull.request, whole.result, now=0.0)


def test_no_more_pulls_run_than_catalogd_gives_streams_and_the_rest_follow() -> None:
    machine = _pulls()
    first = []
    for number in range(PULLS_MAX + 2):
        first += _sent(machine.ask(_ask(number, f"t{number}"), now=0.0))
        machine.check()
    assert len(first) == PULLS_MAX
    effects = _reply(machine, first[0])
    assert [one.id for one in effects if isinstance(one, facts.Answer)] == [0]
    assert [pull.table for pull in _sent(effects)] == [f"t{PULLS_MAX}"]
    machine.check()


def test_asks_that_wait_are_bounded_and_the_next_is_told_so() -> None:
    machine = _pulls()
    for number in range(PULLS_MAX + WAITING_MAX):
        machine.ask(_ask(number, f"t{number}"), now=0.0)
    (failed,) = machine.ask(_ask(9999, "one more"), now=0.0)
    assert isinstance(failed, facts.Fail)
    assert isinstance(failed.error, NotReady)
    machine.check()


def test_who_gives_up_leaves_the_pull_to_those_who_wait_on() -> None:
    machine = _pulls()
    (pull,) = _sent(machine.ask(_ask(1, give_up_at=2.0), now=0.0))
    assert machine.ask(_ask(2, give_up_at=9.0), now=0.0) == ()
    assert machine.deadline is not None
    assert machine.deadline <= 2.0
    effects = machine.tick(missing="", now=2.0)
    assert [one.id for one in effects if isinstance(one, facts.Fail)] == [1]
    assert _sent(effects, Cancel) == []
    effects = _reply(machine, pull)
    assert [one.id for one in effects if isinstance(one, facts.Answer)] == [2]
    assert machine.deadline is None


def test_queued_ask_gives_up_too() -> None:
    machine = _pulls()
    for number in range(PULLS_MAX):
        machine.ask(_ask(number, f"t{number}", give_up_at=9.0), now=0.0)
    machine.ask(_ask(99, "late", give_up_at=1.0), now=0.0)
    effects = machine.tick(missing="", now=1.0)
    assert [one.id for one in effects if isinstance(one, facts.Fail)] == [99]
    machine.check()


def test_reply_nobody_waits_for_is_cancelled_unless_it_has_ended() -> None:
    machine = _pulls()
    reply = pulled(shop(), Pull(request=7, db="shop", table="orders", selector=0, credit=1))
    assert machine.part(reply, now=0.0) == (None, ())
    none, effects = machine.part(replace(reply, last=False), now=0.0)
    assert none is None
    assert len(_sent(effects, Cancel)) == 1


def test_repeated_reply_begins_anew() -> None:
    machine = _pulls()
    (pull,) = _sent(machine.ask(_ask(1), now=0.0))
    reply = pulled(shop(), pull)
    machine.part(replace(reply, last=False), now=0.0)
    whole, _ = machine.part(reply, now=0.0)
    assert whole is not None
    assert isinstance(whole.result, TableSnapshot)
    assert len(whole.result) == len(reply.entries)
    assert pulls.STALE_AGAIN_S < 1


def test_reply_of_another_epoch_than_what_is_held_is_pulled_again_with_nothing_held() -> None:
    source = shop()
    key = table_key("shop", "orders")
    rows = source.topics[source.topic("shop", "orders")].rows(key)
    held = snapshot_of(rows, selections=NO_SELECTIONS)
    bases = [(0, source.epoch - 1, held, ()), (0, source.epoch, None, ())]
    machine = Fetcher(
        count(1).__next__, base=lambda _db, _table: bases.pop(0), fence=InvalidationFence()
    )
    (pull,) = _sent(machine.ask(_ask(1), now=0.0))
    assert key in dict(pull.held)
    assert machine.part(pulled(source, pull), now=0.0) == (None, ())  # equal versions, other tables
    (pull,) = _sent(machine.tick(missing="", now=1.0))
    assert pull.held == ()
    whole, _ = machine.part(pulled(source, pull), now=1.0)
    assert whole is not None
    assert whole.result.entry(key) is not None


SALES = facts.AskTable(id=1, db="shop", table="sales", selector=ALL, give_up_at=60.0)


def _begin(machine: Fetcher, **selected: object) -> Pull:
    ask = replace(SALES, **selected)
    (pull,) = _sent(machine.ask(ask, now=0.0))
    return pull


def _page(machine: Fetcher, source: Catalog, pull: Pull) -> Pull:
    """Answer ``pull`` in pages of a block or two; return the pull of the next page."""
    whole, effects = machine.part(pulled(source, replace(pull, bytes_max=1)), now=0.0)
    machine.check()
    assert whole is None
    (more,) = _sent(effects)
    return more


def test_answer_that_ends_with_a_cursor_is_continued_on_condition() -> None:
    """P-PULL-11."""
    machine, source = _pulls(), shop()
    first = _begin(machine)
    second = _page(machine, source, first)
    topic = source.topics[source.topic("shop", "sales")]
    assert second.request != first.request
    assert second.after > first.after == b""
    assert (second.epoch, second.version) == (source.epoch, topic.version)
    whole, _ = machine.part(pulled(source, second), now=0.0)
    assert whole is not None
    assert isinstance(whole.result, TableSnapshot)
    assert len(whole.result) == len(topic.rows(table_key("shop", "sales")))
    late = pulled(source, replace(first, bytes_max=1))
    assert machine.part(late, now=0.0) == (None, ()), "a page that comes twice"


def test_pages_of_a_table_that_moved_are_pulled_anew() -> None:
    """P-PULL-11: nothing of a page before is combined with what came later."""
    machine, source = _pulls(), shop()
    second = _page(machine, source, _begin(machine))
    source.put_partitions("shop", "sales", {"ds=000": {"n": "new"}})
    assert machine.part(pulled(source, second), now=0.0) == (None, ())
    (again,) = _sent(machine.tick(missing="", now=1.0))
    assert (again.after, again.version) == (b"", 0)
    whole, _ = machine.part(pulled(source, again), now=1.0)
    assert whole is not None
    assert machine.stale_rejected == 1


def test_page_that_is_answered_twice_counts_once() -> None:
    machine, source = _pulls(), shop()
    second = _page(machine, source, _begin(machine, names_only=True))
    reply = pulled(source, second)
    machine.part(replace(reply, last=False), now=0.0)
    whole, _ = machine.part(reply, now=0.0)
    assert whole is not None
    listings = whole.result
    assert not isinstance(listings, TableSnapshot)
    names = [name for listing in listings for name in decode_listing(listing)]
    assert names == [f"ds={number:03d}" for number in range(100)]


def test_names_alone_are_asked_for_without_what_is_held() -> None:
    source = shop()
    rows = source.topics[source.topic("shop", "sales")].rows(table_key("shop", "sales"))
    held = snapshot_of(rows[:2], selections=NO_SELECTIONS)
    machine = Fetcher(
        count(1).__next__,
        base=lambda _db, _table: (0, source.epoch, held, ()),
        fence=InvalidationFence(),
    )
    assert _begin(machine, names_only=True).held == ()
    assert _begin(machine).held


def test_named_partitions_are_remembered_as_held() -> None:
    machine, source = _pulls(), shop()
    pull = _begin(machine, selector=by_names(("ds=001", "ds=000")))
    whole, _ = machine.part(pulled(source, pull), now=0.0)
    assert whole is not None
    assert isinstance(whole.result, TableSnapshot)
    assert set(whole.result.selections or ()) == {by_names(("ds=000", "ds=001"))}
    long = tuple(f"ds={number:05d}" for number in range(pulls.SELECTION_LENGTH_MAX // 8))
    whole, _ = machine.part(pulled(source, _begin(machine, selector=by_names(long))), now=0.0)
    assert whole is not None
    assert isinstance(whole.result, TableSnapshot)
    assert set(whole.result.selections or ()) == set(), "too long to remember"


def test_pull_whose_parts_still_come_is_not_asked_for_again() -> None:
    machine, source = _pulls(), shop()
    pull = _begin(machine)
    reply = pulled(source, pull)
    for tenth in range(30):
        part = replace(reply, last=False, sequence=tenth)
        _, effects = machine.part(part, now=tenth / 10)
        assert _sent(effects + machine.tick(missing="", now=tenth / 10)) == []
    assert len(_sent(machine.tick(missing="", now=2.9 + RETRY_S))) == 1, "the rest is lost"


def test_refused_pull_comes_again_when_it_was_told_to_and_not_with_all_others() -> None:
    """P-PULL-12."""
    times = set()
    for name in ("a", "b", "c", "d"):
        machine = Fetcher(
            count(1).__next__,
            base=lambda _db, _table: (0, 0, None, ()),
            fence=InvalidationFence(),
            name=name,
        )
        pull = _begin(machine)
        busy = Refused(request=pull.request, code="BUSY", message="later", retry_ms=4000)
        assert machine.on_refused(busy, now=0.0) == ()
        assert machine.deadline is not None
        assert 4.0 <= machine.deadline <= 4.0 * (1 + pulls.SPREAD)
        times.add(machine.deadline)
        assert _sent(machine.tick(missing="", now=3.99)) == []
        assert len(_sent(machine.tick(missing="", now=6.0))) == 1
    assert len(times) == 4


def test_who_gives_up_hears_what_catalogd_said_last() -> None:
    machine = _pulls()
    pull = _begin(machine)
    source = Refused(request=pull.request, code="SOURCE", message="it is down", retry_ms=1000)
    machine.on_refused(source, now=0.0)
    (failed,) = [e for e in machine.tick(missing="", now=60.0) if isinstance(e, facts.Fail)]
    assert "SOURCE: it is down" in str(failed.error)


def test_reply_larger_than_anybody_wants_is_taken_no_further() -> None:
    machine = _pulls()
    (pull,) = _sent(machine.ask(replace(_ask(1), bytes_max=100), now=0.0))
    part = replace(pulled(shop(), pull), last=False)
    whole, effects = machine.part(part, now=0.0)
    assert whole is None
    (failed,) = [one for one in effects if isinstance(one, facts.Fail)]
    assert isinstance(failed.error, OverBudget)
    assert failed.error.free_bytes == 100 < failed.error.needed_bytes
    assert _sent(effects, Cancel) == [Cancel(stream=pull.request)]
    machine.check()
    (pull,) = _sent(machine.ask(replace(_ask(2), bytes_max=100), now=0.0))
    machine.ask(_ask(3), now=0.0)  # who wants all of it gets it, and the other one with it
    effects = _reply(machine, pull)
    assert [one.id for one in effects if isinstance(one, facts.Answer)] == [2, 3]


def test_reply_of_which_a_part_was_doubled_is_measured_from_where_it_was_sent_last() -> None:
    machine = _pulls()
    (pull,) = _sent(machine.ask(_ask(1), now=0.0))
    machine.part(replace(pulled(shop(), pull), last=False), now=0.1)
    (again,) = _sent(machine.due(now=5.0))
    before = machine.latency.round_trip_s
    machine.part(pulled(shop(), again), now=5.0 + 2 * before)
    assert machine.latency.round_trip_s == pytest.approx(1.1 * before)
