"""Pulls of one subscriber: limits, pages, refusals, measurements, the invalidation fence."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from math import inf

import pytest

from topicast.subscriber.fetch import fetcher as pulls
from topicast.subscriber.fetch.fetcher import (
    PULLS_MAX,
    WAITING_MAX,
    Fetch,
    Fetcher,
    InvalidationFence,
    PartitionRequest,
    Reply,
    Result,
    selected_names,
)
from topicast.subscriber.protocol.effects import Connection, Effect, Effects, Send
from topicast.subscriber.store.latency import LatencyEstimate
from topicast.subscriber.store.table_snapshot import NO_SELECTIONS, TableSnapshot, snapshot_of
from topicast.tests.cluster.published import Published
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import LinkError, NotReady, NotVisible, OverBudget, StaleMetadata
from topicast.topics.objects.encoding.values import decode_block, decode_listing, encode_listing
from topicast.topics.objects.filters.terms import ITEMS_MAX, TERMS_MAX
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import (
    ALL,
    SELECTOR_BYTES_MAX,
    TABLE_ONLY,
    Selector,
    by_filter,
    by_names,
    by_values,
)
from topicast.topics.objects.tables import Column
from topicast.topics.requests import RETRY_S
from topicast.topics.turn import Turn
from topicast.topics.wire.header import VALUE_BYTES_MAX
from topicast.topics.wire.messages.catalog import Claimed, Pull, Pulled
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.readers import Cancel
from topicast.topics.wire.refusal import Refusal, refuse
from topicast.topics.wire.shapes import TEXT_MAX

LONG = "x" * (TEXT_MAX + 1)
PIECE, FIVE = VALUE_BYTES_MAX // 2, 5


Base = Callable[[str, str], tuple[int, TableSnapshot | None, tuple[Claimed, ...]]]


def nothing_held(_db: str, _table: str) -> tuple[int, None, tuple[()]]:
    return 0, None, ()


class Tables:
    """Tables of which ``base`` is held; every whole reply may be returned."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.taken: list[Reply] = []

    def take(self, reply: Reply) -> Result:
        self.taken.append(reply)
        return reply.result


class Machine:
    """A fetcher in turns of its own: each fact has its time, and returns what is sent."""

    def __init__(self, base: Base, name: str) -> None:
        self._tables = Tables(base)
        self._turn = Turn[Effect]()
        self.latency = LatencyEstimate()
        self.fetcher = Fetcher(
            count(1).__next__,
            clock=self._turn,
            send=lambda message: self._turn.add(Send(Connection.PULLS, message)),
            tables=self._tables,
            fence=InvalidationFence(lambda _: 0),
            wake=lambda _: None,
            latency=self.latency,
            name=name,
        )
        self.check, self.refusal = self.fetcher.check, self.fetcher.refusal

    @property
    def deadline(self) -> float | None:
        return self.fetcher.deadline

    def begin(self, one: Fetch, *, now: float) -> Effects:
        self._turn.now = now
        self.fetcher.begin(one)
        return self._turn.end()

    def detach(self, one: Fetch, *, now: float) -> Effects:
        self._turn.now = now
        self.fetcher.detach(one)
        return self._turn.end()

    def part(self, part: Pulled, *, now: float) -> tuple[Reply | None, Effects]:
        self._turn.now = now
        self._tables.taken.clear()
        self.fetcher.on_pulled(part)
        return next(iter(self._tables.taken), None), self._turn.end()

    def on_refused(self, refused: Refused, *, now: float) -> Effects:
        self._turn.now = now
        self.fetcher.on_refused(refused)
        return self._turn.end()

    def due(self, now: float) -> Effects:
        self._turn.now = now
        self.fetcher.send_due()
        return self._turn.end()


def fetcher(base: Base = nothing_held, *, name: str = "") -> Machine:
    return Machine(base, name)


def fetch(table: str = "orders", *, bytes_max: float = inf) -> Fetch:
    return Fetch(PartitionRequest("shop", table, TABLE_ONLY), bytes_max=bytes_max)


def sales(selector: Selector = ALL, *, names_only: bool = False) -> Fetch:
    return Fetch(PartitionRequest("shop", "sales", selector, names_only=names_only))


def begun(one: Fetch, base: Base = nothing_held) -> tuple[Machine, Pull]:
    """Return a fetcher, and the pull that a fetch made it send."""
    machine = fetcher(base)
    (pull,) = sent(machine.begin(one, now=0.0))
    return machine, pull


def cancels(effects: Effects) -> list[Cancel]:
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Cancel)]


def sent(effects: Effects) -> list[Pull]:
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Pull)]


def whole(taken: tuple[Reply | None, Effects]) -> Result:
    """Return the result of a reply that is complete."""
    assert taken[0] is not None
    return taken[0].result


def snapshot(taken: tuple[Reply | None, Effects]) -> TableSnapshot:
    found = whole(taken)
    assert isinstance(found, TableSnapshot)
    return found


@pytest.fixture(scope="module")
def service() -> Published:
    """A catalogd whose shop these tests leave as it is."""
    return Published()


def answer(machine: Machine, reply: Pulled) -> Effects:
    result, effects = machine.part(reply, now=0.0)
    assert result is not None
    return effects


def test_running_pulls_are_bounded_and_the_others_follow(service: Published) -> None:
    machine = fetcher()
    fetches = [fetch(f"t{number}") for number in range(PULLS_MAX + 2)]
    first = []
    for one in fetches:
        first += sent(machine.begin(one, now=0.0))
        machine.check()
    assert len(first) == PULLS_MAX
    effects = answer(machine, service.pulled(first[0]))
    assert [one.outcome is not None for one in fetches] == [True] + [False] * (PULLS_MAX + 1)
    assert [pull.table for pull in sent(effects)] == [f"t{PULLS_MAX}"]
    machine.check()


@pytest.mark.parametrize(
    "selector",
    [
        by_filter(f"ds = '{LONG}'"),
        by_names(tuple(f"ds={number:05d}" for number in range(ITEMS_MAX + 1))),
        by_names(tuple(f"ds={number:0100d}" for number in range(SELECTOR_BYTES_MAX // 100))),
        by_filter(" or ".join(f"ds = '{number}'" for number in range(TERMS_MAX + 1))),
        by_filter(f"ds in ({', '.join(map(str, range(ITEMS_MAX + 1)))})"),
        by_names((f"ds={LONG}",)),
        by_values((LONG,)),
    ],
    ids=["literal", "names", "long names", "terms", "list", "name", "value"],
)
def test_what_is_too_long_for_a_message_brings_all_blocks_or_all_names(selector: Selector) -> None:
    """P-LIM-6."""
    (pull,) = sent(fetcher().begin(sales(selector), now=0.0))
    assert (pull.selector, pull.names_only) == (ALL, False)
    (pull,) = sent(fetcher().begin(sales(selector, names_only=True), now=0.0))
    assert (pull.selector, pull.names_only) == (ALL, True)


def test_what_is_pulled_afresh_is_pulled_so_however_long_its_selector_is(
    service: Published,
) -> None:
    held = snapshot_of(service.rows("shop.sales")[:2], selections=NO_SELECTIONS)
    request = PartitionRequest("shop", "sales", by_names((f"ds={LONG}",)), fresh=True)
    one = Fetch(request)
    machine, pull = begun(one, lambda _db, _table: (service.epoch, held, ()))
    assert pull.held == ()
    assert machine.part(service.pulled(pull), now=0.0)[0] is None, "it is not kept"
    assert one.last is not None


def test_names_of_a_table_that_was_created_again_meanwhile_are_not_guessed() -> None:
    request = PartitionRequest("shop", "sales", by_values((LONG,)), names_only=True)
    listing = encode_listing(["ds=1", "ds=2"])
    for columns in (("ds",), ("DS",)):
        of = [Column(name, "string") for name in columns]
        assert selected_names(request, (listing,), lambda of=of: of) == ()
    for columns in (("hour",), ("ds", "hour"), ()):
        of = [Column(name, "string") for name in columns]
        with pytest.raises(StaleMetadata, match="shop.sales was created again"):
            selected_names(request, (listing,), lambda of=of: of)


def test_fetches_that_wait_are_bounded_and_the_next_fetch_fails() -> None:
    machine = fetcher()
    for number in range(PULLS_MAX + WAITING_MAX):
        machine.begin(fetch(f"t{number}"), now=0.0)
    failed = fetch("one_more")
    assert machine.begin(failed, now=0.0) == ()
    assert isinstance(failed.outcome, NotReady)
    machine.check()


def test_caller_that_gives_up_leaves_the_pull_to_the_others(service: Published) -> None:
    machine = fetcher()
    first, second = fetch(), fetch()
    (pull,) = sent(machine.begin(first, now=0.0))
    assert machine.begin(second, now=0.0) == ()
    assert machine.detach(first, now=2.0) == ()
    answer(machine, service.pulled(pull))
    assert (first.outcome, second.outcome is None) == (None, False)
    assert machine.deadline is None
    assert machine.detach(second, now=2.0) == (), "it has ended"


def test_pull_without_a_caller_is_cancelled_and_the_next_begins() -> None:
    machine = fetcher()
    fetches = [fetch(f"t{number}") for number in range(PULLS_MAX + 2)]
    (pull,) = sent(machine.begin(fetches[0], now=0.0))
    for one in fetches[1:]:
        machine.begin(one, now=0.0)
    assert machine.detach(fetches[PULLS_MAX], now=0.5) == (), "it was queued"
    effects = machine.detach(fetches[0], now=0.5)
    assert cancels(effects) == [Cancel(stream=pull.request)]
    assert [one.table for one in sent(effects)] == [f"t{PULLS_MAX + 1}"]
    machine.check()


def test_reply_without_a_pull_is_cancelled_unless_it_has_ended(service: Published) -> None:
    machine = fetcher()
    reply = service.pulled(
        Pull(request=7, db="shop", table="orders", selector=TABLE_ONLY, credit=1 << 20)
    )
    assert machine.part(reply, now=0.0) == (None, ())
    none, effects = machine.part(replace(reply, last=False), now=0.0)
    assert none is None
    assert len(cancels(effects)) == 1


def test_reply_of_another_epoch_than_what_is_held_is_pulled_again_with_nothing_held(
    service: Published,
) -> None:
    key = table_key("shop", "orders")
    held = snapshot_of(service.rows("shop.orders"), selections=NO_SELECTIONS)
    bases = [(service.epoch - 1, held, ()), (service.epoch, None, ())]
    machine, pull = begun(fetch(), lambda _db, _table: bases.pop(0))
    assert key in dict(pull.held)
    assert machine.part(service.pulled(pull), now=0.0) == (None, ())  # equal versions, other tables
    (pull,) = sent(machine.due(1.0))
    assert pull.held == ()
    assert snapshot(machine.part(service.pulled(pull), now=1.0)).entry(key) is not None


def next_page(machine: Machine, service: Published, pull: Pull, *, sequence: int = 0) -> Pull:
    """Answer ``pull`` with a page of a block, its last part; return the pull of the next page."""
    last = replace(service.pulled(replace(pull, bytes_max=1)), sequence=sequence)
    result, effects = machine.part(last, now=0.0)
    machine.check()
    assert result is None
    (more,) = sent(effects)
    return more


def test_answer_that_ends_with_a_cursor_is_continued_on_condition(service: Published) -> None:
    """P-PULL-11."""
    machine, first = begun(sales())
    second = next_page(machine, service, first)
    assert second.request != first.request
    assert second.after > first.after == b""
    assert (second.epoch, second.version) == (
        service.epoch,
        service.topics[service.topic("shop.sales")].version,
    )
    found = snapshot(machine.part(service.pulled(second), now=0.0))
    assert len(found) == len(service.rows("shop.sales"))
    late = service.pulled(replace(first, bytes_max=1))
    assert machine.part(late, now=0.0) == (None, ()), "a page that comes twice"


@pytest.mark.parametrize("behind", [0, 1], ids=["same epoch", "older epoch"])
def test_claims_are_repeated_with_each_page_of_their_epoch(service: Published, behind: int) -> None:
    """P-PULL-11, P-PULL-17."""
    claims = (Claimed(db="shop", table="log", version=3, whole=False),)
    machine, first = begun(sales(), lambda _db, _table: (service.epoch - behind, None, claims))
    assert first.claims == claims
    assert next_page(machine, service, first).claims == (() if behind else claims)


def test_pull_of_the_table_alone_selects_no_partition() -> None:
    """P-PULL-11."""
    _, pull = begun(fetch())
    assert pull.selector == TABLE_ONLY


def test_page_that_is_not_the_first_may_come_in_parts(service: Published) -> None:
    """P-PULL-11."""
    machine, first = begun(sales())
    empty = replace(service.pulled(first), entries=(), last=False)
    for sequence in range(2):
        machine.part(replace(empty, sequence=sequence), now=0.0)
    page = service.pulled(next_page(machine, service, first, sequence=2))
    parts = (
        replace(page, entries=page.entries[:1], last=False),
        replace(page, entries=page.entries[1:], sequence=1),
    )
    assert machine.part(parts[0], now=0.0)[0] is None
    assert len(snapshot(machine.part(parts[1], now=0.0))) == len(service.rows("shop.sales"))


def test_pages_of_a_table_that_changed_are_pulled_anew() -> None:
    """P-PULL-11: nothing of a page before is combined with what came later."""
    machine, service = fetcher(), Published()
    second = next_page(machine, service, sent(machine.begin(sales(), now=0.0))[0])
    service.shop.change("shop.sales", {"ds=000": {"n": "new"}})
    service.deltas()
    assert machine.part(service.pulled(second), now=0.0) == (None, ())
    (again,) = sent(machine.due(1.0))
    assert (again.after, again.version) == (b"", 0)
    whole(machine.part(service.pulled(again), now=1.0))
    assert machine.fetcher.stale_replies == 1


def test_page_that_is_answered_twice_counts_once(service: Published) -> None:
    machine, first = begun(sales(names_only=True))
    _, block, following, *_ = sorted(service.rows("shop.sales"), key=lambda row: row.key)
    names = decode_block(block.value or b"", block.version).names
    page = replace(service.pulled(first), names=encode_listing(names), cursor=following.key)
    (second,) = sent(machine.part(page, now=0.0)[1])
    reply = service.pulled(second)
    machine.part(replace(reply, last=False), now=0.0)
    listings = whole(machine.part(reply, now=0.0))
    assert not isinstance(listings, TableSnapshot)
    found = [name for listing in listings for name in decode_listing(listing)]
    assert found == [f"ds={number:03d}" for number in range(100)]


def test_names_alone_are_requested_without_what_is_held(service: Published) -> None:
    held = snapshot_of(service.rows("shop.sales")[:2], selections=NO_SELECTIONS)
    machine = fetcher(lambda _db, _table: (service.epoch, held, ()))
    assert sent(machine.begin(sales(names_only=True), now=0.0))[0].held == ()
    assert sent(machine.begin(sales(), now=0.0))[0].held


def test_named_partitions_are_remembered_as_held(service: Published) -> None:
    machine = fetcher()

    def selections(names: tuple[str, ...]) -> set[Selector]:
        (pull,) = sent(machine.begin(sales(by_names(names)), now=0.0))
        return set(snapshot(machine.part(service.pulled(pull), now=0.0)).selections or ())

    assert selections(("ds=001", "ds=000")) == {by_names(("ds=000", "ds=001"))}
    long = tuple(f"ds={number:05d}" for number in range(pulls.SELECTION_BYTES_MAX // 8))
    assert selections(long) == set(), "too long to remember"


def test_pull_is_not_repeated_while_its_parts_still_come(service: Published) -> None:
    machine, pull = begun(sales())
    reply = service.pulled(pull)
    for tenth in range(30):
        part = replace(reply, last=False, sequence=tenth)
        _, effects = machine.part(part, now=tenth / 10)
        assert sent(effects + machine.due(tenth / 10)) == []
    assert len(sent(machine.due(2.9 + RETRY_S))) == 1, "the rest is lost"


def test_refused_pulls_are_repeated_after_the_given_time_and_not_all_at_once() -> None:
    """P-PULL-12."""
    times = set()
    for name in ("a", "b", "c", "d"):
        machine = fetcher(name=name)
        waiting = sales()
        (pull,) = sent(machine.begin(waiting, now=0.0))
        assert machine.refusal(waiting) == ""
        busy = Refused(request=pull.request, code="BUSY", message="later", retry_ms=4000)
        assert machine.on_refused(busy, now=0.0) == ()
        assert "BUSY: later" in machine.refusal(waiting)
        assert machine.deadline is not None
        assert 4.0 <= machine.deadline <= 4.0 * (1 + pulls.SPREAD)
        times.add(machine.deadline)
        assert sent(machine.due(3.99)) == []
        assert len(sent(machine.due(6.0))) == 1
    assert len(times) == 4


def test_refusal_of_what_the_key_does_not_see_is_an_error_of_its_own() -> None:
    """P-PULL-12."""
    one = sales()
    machine = fetcher()
    (pull,) = sent(machine.begin(one, now=0.0))
    why = "shop.sales is not visible to this key"
    refused = refuse(Refusal.NOT_VISIBLE, why, request=pull.request, about="shop.sales")
    assert sent(machine.on_refused(refused, now=0.0)) == []
    assert isinstance(one.outcome, NotVisible)
    assert (one.outcome.name, str(one.outcome)) == ("shop.sales", why)


def test_pull_names_no_more_of_what_is_held_than_a_message_takes(
    service: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-PULL-2."""
    held = snapshot_of(service.rows("shop.sales"), selections=NO_SELECTIONS)
    base = (service.epoch, held, ())
    _, pull = begun(sales(), lambda _db, _table: base)
    monkeypatch.setattr(pulls, "HELD_BYTES_MAX", 100)
    _, shorter = begun(sales(), lambda _db, _table: base)
    assert 0 < len(shorter.held) < len(pull.held)


def test_reply_larger_than_every_caller_wants_is_cancelled(service: Published) -> None:
    machine = fetcher()
    small = fetch(bytes_max=100)
    (pull,) = sent(machine.begin(small, now=0.0))
    none, effects = machine.part(replace(service.pulled(pull), last=False), now=0.0)
    assert none is None
    assert isinstance(small.outcome, OverBudget)
    assert small.outcome.free_bytes == 100 < small.outcome.needed_bytes
    assert cancels(effects) == [Cancel(stream=pull.request)]
    machine.check()
    small, large = fetch(bytes_max=100), fetch()
    (pull,) = sent(machine.begin(small, now=0.0))
    machine.begin(large, now=0.0)  # it wants all of it, and the other caller gets it, too
    answer(machine, service.pulled(pull))
    assert small.outcome is large.outcome is not None


def pieces(reply: Pulled, *values: bytes) -> list[Pulled]:
    """Return ``reply`` in parts with one piece each of its first entry."""
    entry = reply.entries[0]._replace(size=VALUE_BYTES_MAX + 5)
    last = len(values) - 1
    return [
        replace(reply, sequence=at, last=at == last, entries=(entry._replace(value=value),))
        for at, value in enumerate(values)
    ]


def test_large_value_is_put_together_from_its_pieces(service: Published) -> None:
    """P-PULL-18, P-PULL-19."""
    waiting = fetch()
    machine, pull = begun(waiting)
    first, second, third = pieces(service.pulled(pull), bytes(PIECE), bytes(PIECE), bytes(FIVE))
    assert machine.part(first, now=0.0)[0] is None
    machine.part(first, now=0.0)  # it begins anew
    for part in (second, third):
        taken = machine.part(part, now=0.0)
    (entry,) = snapshot(taken).entries()
    assert (entry.size, entry.value) == (VALUE_BYTES_MAX + 5, bytes(VALUE_BYTES_MAX + 5))


@pytest.mark.parametrize("fault", ["another version", "too few", "too many"])
def test_pieces_that_make_no_value_are_an_error(service: Published, fault: str) -> None:
    """P-PULL-19: nothing of them is returned or kept."""
    waiting = fetch()
    machine, pull = begun(waiting)
    reply = service.pulled(pull)
    first, second = pieces(reply, bytes(PIECE), bytes(PIECE + FIVE + (fault == "too many")))
    (entry,) = second.entries
    if fault == "another version":
        second = replace(second, entries=(entry._replace(version=entry.version + 1),))
    elif fault == "too few":
        second = replace(second, entries=(entry._replace(value=b"x"),))
    machine.part(first, now=0.0)
    assert machine.part(second, now=0.0)[0] is None
    assert isinstance(waiting.outcome, LinkError)
    assert "pieces" in str(waiting.outcome)
    machine.check()


def test_piece_of_another_value_between_two_is_an_error(service: Published) -> None:
    """P-PULL-19: it is not passed over."""
    waiting = fetch()
    machine, pull = begun(waiting)
    reply = service.pulled(pull)
    first, other, last = pieces(reply, bytes(PIECE), bytes(PIECE), bytes(PIECE + FIVE))
    (entry,) = other.entries
    machine.part(first, now=0.0)
    machine.part(replace(other, entries=(entry._replace(key=entry.key + b"x"),)), now=0.0)
    machine.part(last, now=0.0)
    assert isinstance(waiting.outcome, LinkError)
    machine.check()


def test_values_in_pieces_follow_each_other(service: Published) -> None:
    """P-PULL-19: each begins anew, and a reply in a single part may come after them."""
    machine, pull = begun(sales())
    reply = service.pulled(pull)
    one, other, small = reply.entries[:3]
    parts = [
        part
        for entry in (one, other)
        for part in pieces(replace(reply, entries=(entry,)), bytes(PIECE), bytes(PIECE + FIVE))
    ]
    parts.append(replace(reply, entries=(small,)))
    for at, part in enumerate(parts):
        taken = machine.part(replace(part, sequence=at, last=at == len(parts) - 1), now=0.0)
    large = VALUE_BYTES_MAX + FIVE
    assert [len(entry.value or b"") for entry in snapshot(taken).entries()] == [
        large,
        large,
        small.size,
    ]


def test_pieces_count_against_what_a_caller_wants(service: Published) -> None:
    small = fetch(bytes_max=1000)
    machine, pull = begun(small)
    reply = service.pulled(pull)
    machine.part(pieces(reply, bytes(PIECE), bytes(PIECE))[0], now=0.0)
    assert isinstance(small.outcome, OverBudget)


def test_pull_that_was_repeated_is_measured_from_its_last_request(service: Published) -> None:
    machine, pull = begun(fetch())
    machine.part(replace(service.pulled(pull), last=False), now=0.1)
    (again,) = sent(machine.due(5.0))
    before = machine.latency.round_trip_s
    machine.part(service.pulled(again), now=5.0 + 2 * before)
    assert machine.latency.round_trip_s == pytest.approx(1.1 * before)


def test_fence_remembers_invalidations_of_what_is_being_pulled_only() -> None:
    fence = InvalidationFence(lambda _: 1)
    fence.invalidate(b"a", 5)
    fence.begin(b"a")
    assert fence.minimum(b"a") == 0
    fence.invalidate(b"a", 7)
    fence.invalidate(b"a", 6)
    assert (fence.minimum(b"a"), fence.minimum(b"b")) == (7, 0)
    fence.begin(b"a")
    fence.end(b"a")
    assert fence.minimum(b"a") == 7  # another pull of it runs
    fence.end(b"a")
    assert (fence.minimum(b"a"), fence.pulls) == (0, 0)


def test_invalidation_of_a_topic_counts_for_each_of_its_tables() -> None:
    fence = InvalidationFence({b"a": 1, b"b": 2}.__getitem__)
    fence.begin(b"a")
    fence.begin(b"b")
    fence.invalidate_all(1, 9)
    assert (fence.minimum(b"a"), fence.minimum(b"b")) == (9, 0)
    fence.new_epoch(1)
    fence.invalidate(b"b", 4)
    fence.new_epoch(1)
    assert (fence.minimum(b"a"), fence.minimum(b"b")) == (0, 4)


def test_fence_finds_the_topic_of_a_pull_that_began_before_topics_were_known() -> None:
    topics = {b"a": 0}
    fence = InvalidationFence(topics.__getitem__)
    fence.begin(b"a")
    topics[b"a"] = 1
    fence.invalidate(b"a", 9)
    fence.new_epoch(0)
    fence.invalidate_all(0, 10)
    assert fence.minimum(b"a") == 9
    fence.invalidate_all(1, 12)
    assert fence.minimum(b"a") == 12


def test_pulls_are_measured_and_the_planner_calculates_with_them() -> None:
    shopping = Shopping(automatic=True, never=("shop.orders",))
    latency = shopping.reader.member.placement.planner.latency
    shopping.reader.slow = 0.05
    for _ in range(50):
        shopping.table("shop.orders")
    assert latency.round_trip_s == pytest.approx(0.07, rel=0.1)
