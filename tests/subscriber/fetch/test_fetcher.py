from dataclasses import replace
from itertools import count
from math import inf

import pytest

from topicast.subscriber.fetch import fetcher as pulls
from topicast.subscriber.fetch.fence import InvalidationFence
from topicast.subscriber.fetch.fetcher import (
    PULLS_MAX,
    WAITING_MAX,
    Fetch,
    Fetcher,
    TableRequest,
)
from topicast.subscriber.protocol.effects import Effects, Send
from topicast.subscriber.store.table_snapshot import NO_SELECTIONS, TableSnapshot, snapshot_of
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


def _fetch(table: str = "orders", *, bytes_max: float = inf) -> Fetch:
    return Fetch(TableRequest("shop", table, TABLE_ONLY), bytes_max=bytes_max)


def _sent(effects: Effects, kind: type = Pull) -> list[Pull]:
    found = [one.message for one in effects if isinstance(one, Send)]
    return [message for message in found if isinstance(message, kind)]  # type: ignore[misc]  # by kind


def _reply(machine: Fetcher, pull: Pull) -> Effects:
    whole, effects = machine.part(pulled(shop(), pull), now=0.0)
    assert whole is not None
    return effects + machine.answer(pull.request, whole.result, now=0.0)


def test_no_more_pulls_run_than_catalogd_gives_streams_and_the_rest_follow() -> None:
    machine = _pulls()
    fetches = [_fetch(f"t{number}") for number in range(PULLS_MAX + 2)]
    first = []
    for fetch in fetches:
        first += _sent(machine.begin(fetch, now=0.0))
        machine.check()
    assert len(first) == PULLS_MAX
    effects = _reply(machine, first[0])
    assert [fetch.outcome is not None for fetch in fetches] == [True] + [False] * (PULLS_MAX + 1)
    assert [pull.table for pull in _sent(effects)] == [f"t{PULLS_MAX}"]
    machine.check()


def test_fetches_that_wait_are_bounded_and_the_next_one_fails() -> None:
    machine = _pulls()
    for number in range(PULLS_MAX + WAITING_MAX):
        machine.begin(_fetch(f"t{number}"), now=0.0)
    failed = _fetch("one more")
    assert machine.begin(failed, now=0.0) == ()
    assert isinstance(failed.outcome, NotReady)
    machine.check()


def test_caller_that_gives_up_leaves_the_pull_to_those_that_wait_on() -> None:
    machine = _pulls()
    first, second = _fetch(), _fetch()
    (pull,) = _sent(machine.begin(first, now=0.0))
    assert machine.begin(second, now=0.0) == ()
    assert machine.detach(first, now=2.0) == ()
    _reply(machine, pull)
    assert (first.outcome, second.outcome is None) == (None, False)
    assert machine.deadline is None
    assert machine.detach(second, now=2.0) == (), "it has ended"


def test_pull_without_a_caller_is_cancelled_and_the_next_begins() -> None:
    machine = _pulls()
    fetches = [_fetch(f"t{number}") for number in range(PULLS_MAX + 2)]
    (pull,) = _sent(machine.begin(fetches[0], now=0.0))
    for fetch in fetches[1:]:
        machine.begin(fetch, now=0.0)
    assert machine.detach(fetches[PULLS_MAX], now=0.5) == (), "it was queued"
    effects = machine.detach(fetches[0], now=0.5)
    assert _sent(effects, Cancel) == [Cancel(stream=pull.request)]
    assert [one.table for one in _sent(effects)] == [f"t{PULLS_MAX + 1}"]
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
    (pull,) = _sent(machine.begin(_fetch(), now=0.0))
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
    (pull,) = _sent(machine.begin(_fetch(), now=0.0))
    assert key in dict(pull.held)
    assert machine.part(pulled(source, pull), now=0.0) == (None, ())  # equal versions, other tables
    (pull,) = _sent(machine.due(1.0))
    assert pull.held == ()
    whole, _ = machine.part(pulled(source, pull), now=1.0)
    assert whole is not None
    assert whole.result.entry(key) is not None


SALES = TableRequest("shop", "sales", ALL)


def _begin(machine: Fetcher, **selected: object) -> Pull:
    fetch = Fetch(SALES._replace(**selected))
    (pull,) = _sent(machine.begin(fetch, now=0.0))
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
    (again,) = _sent(machine.due(1.0))
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
        assert _sent(effects + machine.due(tenth / 10)) == []
    assert len(_sent(machine.due(2.9 + RETRY_S))) == 1, "the rest is lost"


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
        assert _sent(machine.due(3.99)) == []
        assert len(_sent(machine.due(6.0))) == 1
    assert len(times) == 4


def test_caller_that_gives_up_is_told_what_catalogd_said_last() -> None:
    machine = _pulls()
    fetch = _fetch()
    (pull,) = _sent(machine.begin(fetch, now=0.0))
    assert machine.refusal(fetch) == ""
    source = Refused(request=pull.request, code="SOURCE", message="it is down", retry_ms=1000)
    machine.on_refused(source, now=0.0)
    assert "SOURCE: it is down" in machine.refusal(fetch)


def test_reply_larger_than_anybody_wants_is_taken_no_further() -> None:
    machine = _pulls()
    small = _fetch(bytes_max=100)
    (pull,) = _sent(machine.begin(small, now=0.0))
    part = replace(pulled(shop(), pull), last=False)
    whole, effects = machine.part(part, now=0.0)
    assert whole is None
    assert isinstance(small.outcome, OverBudget)
    assert small.outcome.free_bytes == 100 < small.outcome.needed_bytes
    assert _sent(effects, Cancel) == [Cancel(stream=pull.request)]
    machine.check()
    small, large = _fetch(bytes_max=100), _fetch()
    (pull,) = _sent(machine.begin(small, now=0.0))
    machine.begin(large, now=0.0)  # who wants all of it gets it, and the other one with it
    _reply(machine, pull)
    assert small.outcome is large.outcome is not None


def test_reply_of_which_a_part_was_doubled_is_measured_from_where_it_was_sent_last() -> None:
    machine = _pulls()
    (pull,) = _sent(machine.begin(_fetch(), now=0.0))
    machine.part(replace(pulled(shop(), pull), last=False), now=0.1)
    (again,) = _sent(machine.due(5.0))
    before = machine.latency.round_trip_s
    machine.part(pulled(shop(), again), now=5.0 + 2 * before)
    assert machine.latency.round_trip_s == pytest.approx(1.1 * before)
