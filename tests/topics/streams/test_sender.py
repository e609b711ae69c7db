"""Bulk: credit, fairness, where a topic is cut, and a catch-up broken off at every chunk."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.strategies import control_messages
from topicast.tests.strategies import entries as any_entries
from topicast.topics.streams.sender import (
    CHUNK_COST,
    CHUNK_ENTRIES_MAX,
    CREDIT_MAX,
    REFUSAL_COST,
    RETRY_MS,
    RETRY_MS_MAX,
    STALLED_S,
    STREAMS_MAX,
    STREAMS_PER_PEER_MAX,
    STUBS_BYTES_MAX,
    Part,
    Sender,
    SendTo,
    chunk_cost,
    chunks,
    pulled_cost,
)
from topicast.topics.topic import (
    FULL,
    MINIMAL,
    STUB,
    Entry,
    Topic,
    prefix_tombstone,
    stub,
    tombstone,
)
from topicast.topics.turn import Turn
from topicast.topics.wire import encode
from topicast.topics.wire.codec import row_bytes
from topicast.topics.wire.header import CHUNK_BYTES_MAX, FRAME_BYTES_MAX, VALUE_BYTES_MAX
from topicast.topics.wire.messages.catalog import Pulled
from topicast.topics.wire.messages.connection import Bye, Refused
from topicast.topics.wire.messages.data import Chunk
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.readers import Cancel, Wanted

TABLE = b"d\0t\0"
RETRY = Refused(request=0, code="RETRY", message="seeding", retry_ms=5)


def value(version: int, rest: bytes = b"", size: int = 1) -> Entry:
    return Entry(TABLE + rest, version, version, version, size, bytes(size))


def topic_of(entries: list[Entry], *, version: int, floor: int = 0) -> Topic:
    topic = Topic()
    topic.reset(5)
    topic.file(entries)
    topic.version = version
    topic.raise_floor(floor)
    return topic


def want(version: int, level: int = FULL, *, epoch: int = 5, **resume: int | bytes) -> Wanted:
    return Wanted(topic=7, level=level, epoch=epoch, version=version, **resume)


def answer(topic: Topic | Refused, *wanted: Wanted) -> Iterator[Message]:
    found = chunks(9, wanted, find=lambda _: topic, stamp=lambda: (3, 4))
    return (message for _, message in found)


def answered(topic: Topic, wanted: Wanted) -> list[Chunk]:
    return [part for part in answer(topic, wanted) if isinstance(part, Chunk)]


def content(parts: list[Chunk]) -> list[Entry]:
    return [entry for part in parts for entry in part.entries]


def parts(*costs: int) -> Iterator[Part]:
    return iter([(cost, Bye(reason="")) for cost in costs])


def peers(sends: tuple[SendTo, ...]) -> bytes:
    return b"".join(send.peer for send in sends)


def test_parts_are_sent_while_there_is_credit() -> None:
    """P-CREDIT-1."""
    sender = Sender(Turn())
    assert not sender.ready
    assert sender.open(b"a", 1, credit=100, parts=parts(60, 60, 60, 60)) is None
    assert sender.ready
    assert len(sender.send_some(1000)) == 2
    assert not sender.ready
    sender.credit(b"a", 1, 20)
    assert sender.send_some(1000) == ()
    sender.credit(b"a", 1, 1)
    assert len(sender.send_some(1000)) == 1
    sender.credit(b"a", 1, 1000)
    assert len(sender.send_some(1000)) == 1
    assert len(sender) == 0


def test_stream_whose_last_part_took_its_credit_is_closed() -> None:
    """P-CREDIT-4: nobody grants credit to what has ended, so it would stay for ever."""
    sender = Sender(Turn(), streams_max=1)
    sender.open(b"a", 1, credit=50, parts=parts(60))
    assert len(sender.send_some(1000)) == 1
    assert len(sender) == 0
    sender.open(b"a", 2, credit=50, parts=parts())
    assert sender.send_some(1000) == ()
    assert len(sender) == 0


def test_peers_take_turns_and_so_do_the_streams_of_a_peer() -> None:
    """P-CREDIT-3: many streams are no faster, and a stream without credit holds up no other."""
    sender = Sender(Turn())
    for number in range(3):
        sender.open(b"a", number, credit=10 * number, parts=parts(*[10] * 3))
    sender.open(b"b", 1, credit=1000, parts=parts(*[10] * 4))
    assert peers(sender.send_some(60)) == b"ababab"
    assert (peers(sender.send_some(1000)), sender.ready) == (b"b", False)
    sender.credit(b"a", 0, 5)
    assert (len(sender.send_some(1000)), len(sender)) == (1, 3)


def test_stream_without_parts_takes_no_turn_of_another() -> None:
    """P-CREDIT-3."""
    sender = Sender(Turn())
    sender.open(b"a", 1, credit=50, parts=parts())
    sender.open(b"b", 1, credit=50, parts=parts(10))
    assert (peers(sender.send_some(1000)), len(sender)) == (b"b", 0)


def test_streams_of_one_peer_take_turns_part_by_part() -> None:
    """P-CREDIT-3."""
    sender = Sender(Turn())
    for stream in (1, 2):
        sender.open(b"a", stream, credit=1000, parts=[(10, Cancel(stream=stream))] * 3)
    assert [send.message for send in sender.send_some(40)] == [
        Cancel(stream=1),
        Cancel(stream=2),
    ] * 2


def test_turn_ends_after_as_many_bytes_as_asked() -> None:
    sender = Sender(Turn())
    sender.open(b"a", 1, credit=1000, parts=parts(*[10] * 9))
    assert len(sender.send_some(25)) == 3
    assert len(sender.send_some(10)) == 1


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 90)), max_size=30))
def test_no_stream_is_sent_more_than_its_credit_and_one_part(steps: list[tuple[str, int]]) -> None:
    """P-CREDIT-1."""
    sender = Sender(Turn())
    granted = dict.fromkeys("abcd", 50)
    sent = dict.fromkeys("abcd", 0)
    for peer in granted:
        sender.open(peer.encode(), 1, credit=50, parts=parts(*[40] * 50))
    for peer, amount in steps:
        sender.credit(peer.encode(), 1, amount)
        granted[peer] += amount
        for send in sender.send_some(amount):
            sent[send.peer.decode()] += 40
    for _ in range(50):
        for send in sender.send_some(1000):
            sent[send.peer.decode()] += 40
    assert all(granted[p] <= sent[p] < granted[p] + 40 for p in granted if sent[p] < 2000)


def test_credit_is_bounded() -> None:
    """P-LIM-8."""
    sender = Sender(Turn())
    sender.open(b"a", 1, credit=1 << 60, parts=parts(CREDIT_MAX, 1, 1))
    assert len(sender.send_some(1 << 40)) == 1
    sender.credit(b"a", 1, 1 << 60)
    sender.credit(b"a", 1, 1 << 60)
    assert len(sender.send_some(1 << 40)) == 2


def test_credit_and_cancel_of_what_is_not_open_mean_nothing() -> None:
    sender = Sender(Turn())
    sender.credit(b"a", 1, 10)
    sender.cancel(b"a", 1)
    sender.remove_peer(b"a")
    assert len(sender) == 0


def test_cancelled_stream_sends_no_more() -> None:
    sender = Sender(Turn())
    sender.open(b"a", 1, credit=100, parts=parts(10, 10))
    sender.open(b"a", 2, credit=100, parts=parts(10))
    sender.open(b"b", 1, credit=100, parts=parts(10))
    sender.cancel(b"a", 1)
    sender.remove_peer(b"b")
    assert len(sender.send_some(1000)) == 1


def busy(sender: Sender, peer: bytes) -> bool:
    """Tell whether one more stream of ``peer`` is refused."""
    return retry_ms(sender, peer) == RETRY_MS


def retry_ms(sender: Sender, peer: bytes) -> int:
    """Open one more stream of ``peer``; return when it may try again, 0 if it need not."""
    refused = sender.open(peer, 99, credit=1, parts=parts(1))
    if refused is None:
        return 0
    assert (refused.request, refused.code) == (99, "BUSY")
    return refused.retry_ms


def test_streams_of_one_peer_and_of_all_are_bounded() -> None:
    """P-LIM-9."""
    sender = Sender(Turn())
    for stream in range(STREAMS_PER_PEER_MAX):
        assert sender.open(b"a", stream, credit=1, parts=parts(1)) is None
    assert busy(sender, b"a")
    for number in range(STREAMS_MAX - STREAMS_PER_PEER_MAX):
        assert not busy(sender, b"%d" % number)
    assert busy(sender, b"last")
    assert len(sender) == STREAMS_MAX


def test_stream_without_credit_gives_its_place_to_another_peer_and_to_none_of_its_own() -> None:
    """P-LIM-9: peers that give no credit keep nobody else from being served."""
    turn = Turn[object]()
    sender = Sender(turn, streams_max=3)
    sender.open(b"a", 1, credit=10, parts=parts(60, 60))
    sender.open(b"b", 1, credit=10, parts=parts(60, 60))
    sender.open(b"c", 1, credit=1000, parts=parts(60, 60))
    assert peers(sender.send_some(1)) == b"a"
    turn.now += 1
    assert peers(sender.send_some(1)) == b"b"
    turn.now += STALLED_S - 1.1
    assert busy(sender, b"d"), "none has waited for so long"
    turn.now += 0.2
    sender.credit(b"b", 1, 10)
    assert busy(sender, b"a"), "its own is the only one that has"
    assert not busy(sender, b"d")
    assert busy(sender, b"e"), "one place was given"
    sender.credit(b"a", 1, 1000)
    assert peers(sender.send_some(1000)).count(b"a") == 0, "it has ended"
    assert len(sender) == 1, "the others were sent to their ends"
    turn.now += STALLED_S
    assert (b"b", 1) in sender.end_stalled(STALLED_S)
    assert sender.stalled_at > turn.now - STALLED_S


def test_peers_that_find_no_room_come_again_in_their_order() -> None:
    """P-LIM-9: 16 in 0.1 s, so that refusing them takes less than the streams."""
    sender = Sender(Turn(), streams_max=2)
    assert [busy(sender, peer) for peer in (b"a", b"b")] == [False, False]
    waiting = [b"%04d" % number for number in range(1000)]
    pauses_ms = [retry_ms(sender, peer) for peer in waiting]
    assert pauses_ms[::16] == [min(100 * n, RETRY_MS_MAX) for n in range(1, 64)]
    assert [retry_ms(sender, peer) for peer in waiting] == pauses_ms, "they keep their places"
    sender.remove_peer(b"a")
    assert [retry_ms(sender, peer) for peer in waiting[:2]] == [0, 100]
    assert retry_ms(sender, waiting[999]) == pauses_ms[998], "a stream that is opened moves one up"
    sender.remove_peer(waiting[1])
    assert retry_ms(sender, waiting[17]) == 100, "one that is gone is not waited for"
    sender.remove_peer(b"b")
    sender.remove_peer(waiting[0])
    assert not busy(sender, b"new")
    assert not busy(sender, b"newer")
    assert retry_ms(sender, waiting[999]) == 100, "there was room for all"


@pytest.mark.parametrize(("open_before", "then_ms"), [(1, 100), (2, 200)])
def test_peers_that_waited_are_forgotten_where_less_than_half_of_the_streams_were_open(
    open_before: int, then_ms: int
) -> None:
    """P-LIM-9: some of them may not come any more."""
    sender = Sender(Turn(), streams_max=3)
    for peer in (b"a", b"b", b"c"):
        assert not busy(sender, peer)
    waited = [retry_ms(sender, b"%04d" % number) for number in range(16)]
    assert waited == [100] * 16
    for peer in (b"a", b"b", b"c")[open_before:]:
        sender.remove_peer(peer)
    for peer in (b"d", b"e", b"f")[open_before:]:
        assert not busy(sender, peer)
    assert retry_ms(sender, b"last") == then_ms


def test_delta_is_what_changed_since_the_position() -> None:
    topic = topic_of([value(1), value(2, b"a"), tombstone(TABLE + b"b", 3)], version=3)
    [only] = answered(topic, want(1))
    assert only.entries == (value(2, b"a"), tombstone(TABLE + b"b", 3))
    assert (only.from_version, only.snapshot, only.sent_us) == (1, False, 4)


@pytest.mark.parametrize(
    "wanted", [want(0), want(9, epoch=4), want(1)], ids=["nothing", "old epoch", "below the floor"]
)
def test_snapshot_is_sent_to_a_reader_without_a_usable_position(wanted: Wanted) -> None:
    """P-FLOOR-1."""
    topic = topic_of([value(1), tombstone(TABLE + b"a", 2), value(4, b"b")], version=5, floor=2)
    [only] = answered(topic, wanted)
    assert (only.snapshot, only.from_version, only.floor) == (True, 0, 2)
    assert only.entries == (value(1), value(4, b"b"))
    assert answered(topic, want(2))[0].snapshot is False


def test_snapshot_holds_the_tombstones_above_the_floor() -> None:
    """P-FLOOR-3: a hub that was filled from it answers readers above the floor."""
    graves = [tombstone(TABLE + b"a", 3), prefix_tombstone(b"d\0u\0", 4)]
    topic = topic_of([value(1), *graves], version=5, floor=2)
    assert content(answered(topic, want(0))) == [value(1), *graves]
    hub = topic_of(content(answered(topic, want(0))), version=5, floor=2)
    assert content(answered(hub, want(2))) == graves


def test_reader_at_minimal_is_sent_stubs() -> None:
    topic = topic_of([value(1), value(2, b"a", 500), tombstone(TABLE + b"b", 3)], version=3)
    [only] = answered(topic, want(1, MINIMAL))
    assert [entry.kind for entry in only.entries] == [STUB, 2]
    assert (only.last, only.invalidate_all) == (True, False)


@pytest.mark.parametrize("wanted", [want(0, MINIMAL), want(1, MINIMAL), want(3, MINIMAL, epoch=4)])
def test_invalidate_all_marker_stands_for_a_snapshot_at_minimal(wanted: Wanted) -> None:
    """P-CATCH-14."""
    topic = topic_of([value(1), value(4, b"b")], version=5, floor=2)
    [only] = answered(topic, wanted)
    assert (only.snapshot, only.invalidate_all) == (True, True)
    assert (only.entries, only.to_version) == ((), 5)


def test_invalidate_all_marker_stands_for_more_stubs_than_a_frame_holds() -> None:
    """P-CATCH-14."""
    rows = STUBS_BYTES_MAX // 40
    topic = topic_of([value(1), *(value(2, b"%06d" % n) for n in range(rows))], version=2)
    [only] = answered(topic, want(1, MINIMAL))
    assert (only.snapshot, only.invalidate_all) == (False, True)
    assert (only.entries, only.from_version) == ((), 1)


def test_stubs_may_fill_a_frame_to_its_last_byte() -> None:
    """P-CATCH-14."""
    most, left = divmod(STUBS_BYTES_MAX, row_bytes(stub(value(2, b"%06d" % 0))))
    rows = [value(2, b"%06d" % n) for n in range(most - 1)]
    for more, too_many in ((left, False), (left + 1, True)):
        longer = value(2, b"%06d" % most + b"k" * more)
        [only] = answered(topic_of([value(1), *rows, longer], version=2), want(1, MINIMAL))
        assert only.invalidate_all is too_many


def test_chunks_are_numbered_and_say_where_to_resume() -> None:
    """P-CATCH-1."""
    topic = topic_of([value(n, b"%d" % n, CHUNK_BYTES_MAX // 2) for n in range(1, 6)], version=5)
    found = answered(topic, want(0))
    assert [part.sequence for part in found] == list(range(5))
    assert [part.first for part in found] == [True] + [False] * 4
    assert [part.last for part in found] == [False] * 4 + [True]
    assert [part.snapshot for part in found] == [True] + [False] * 4
    assert [part.resume_version for part in found] == [1, 2, 3, 4, 5]
    assert {part.to_version for part in found} == {5}
    assert all(part.resume_key == part.entries[-1].key for part in found)


def test_chunk_is_filled_to_its_limit() -> None:
    """P-LIM-3."""
    topic = topic_of([value(n, b"%04d" % n, 1000) for n in range(1, 601)], version=600)
    found = answered(topic, want(0))
    assert len(found) == 3
    assert all(CHUNK_BYTES_MAX - 1100 < len(encode(part)) <= CHUNK_BYTES_MAX for part in found[:2])


@pytest.mark.parametrize(("more", "entries"), [(0, [2, 2, 1]), (1, [1, 1, 1, 1, 1])], ids=str)
def test_two_halves_of_a_chunk_fill_it_and_a_byte_more_is_too_much(
    more: int, entries: list[int]
) -> None:
    """P-LIM-3."""
    half = CHUNK_BYTES_MAX // 2 - row_bytes(value(1, b"1", 0))
    sizes = [half, half + more] * 2 + [half]
    topic = topic_of([value(n, b"%d" % n, size) for n, size in enumerate(sizes, 1)], version=5)
    assert [len(part.entries) for part in answered(topic, want(0))] == entries


def test_prefix_and_what_follows_it_under_the_same_key_are_never_parted() -> None:
    """P-CATCH-1: a token names both, so a resume would skip what was not sent."""
    for size in range(CHUNK_BYTES_MAX - 200, CHUNK_BYTES_MAX, 13):
        rows = [value(1, b"\x01old", size), prefix_tombstone(b"e\0t\0", 2)]
        rows.append(Entry(b"e\0t\0", 2, 2, 2, 30, bytes(30)))
        found = answered(topic_of(rows, version=2), want(0))
        for one, other in pairwise(found):
            first = other.entries[0]
            assert (one.resume_version, one.resume_key) < (first.version, first.key)


@pytest.mark.parametrize("more", [0, 1])
def test_chunk_has_a_bounded_number_of_entries(more: int) -> None:
    """However small they are: a receiver files one within a turn."""
    count = 2 * CHUNK_ENTRIES_MAX + more
    rows = [value(number, b"%06d" % number) for number in range(1, count + 1)]
    found = answered(topic_of(rows, version=count), want(0))
    sizes = [CHUNK_ENTRIES_MAX] * 2 + [1] * more
    assert [len(part.entries) for part in found] == sizes
    assert [part.last for part in found] == [False] * (len(sizes) - 1) + [True]
    assert [entry for part in found for entry in part.entries] == rows


def test_largest_values_fit_a_frame() -> None:
    """P-LIM-1, P-LIM-4."""
    group = TABLE.ljust(1024, b"k")[:1022] + b"\0"
    rows = [value(1, b"\x01", CHUNK_BYTES_MAX - 100), prefix_tombstone(TABLE, 2)]
    rows += [value(2, b"", VALUE_BYTES_MAX), value(2, group[4:], VALUE_BYTES_MAX)]
    for part in answered(topic_of(rows, version=2), want(0)):
        assert len(encode(part)) <= FRAME_BYTES_MAX


@given(control_messages(Pulled))
def test_cost_of_a_pull_is_that_of_its_rows_keys_and_names(part: Pulled) -> None:
    """P-CREDIT-2."""
    rows = sum(35 + len(entry.key) + entry.size for entry in part.entries)
    assert pulled_cost(part) == CHUNK_COST + rows + sum(map(len, part.gone)) + len(part.names)


@given(any_entries())
def test_cost_of_a_chunk_covers_its_frame(entry: Entry) -> None:
    """P-CREDIT-2."""
    topic = Topic()
    topic.reset(5)
    topic.file([entry])
    topic.version = entry.version
    for cost, part in chunks(1, (want(0),), find=lambda _: topic, stamp=lambda: (3, 4)):
        assert isinstance(part, Chunk)
        assert cost == chunk_cost(part)
        assert len(encode(part)) - len(part.resume_key) <= cost


def test_refusal_names_the_stream_and_the_topic() -> None:
    """P-CATCH-11."""
    found = list(chunks(9, (want(0),), find=lambda _: RETRY, stamp=lambda: (3, 4)))
    assert found == [(REFUSAL_COST, replace(RETRY, request=9, topic=7))]


@pytest.mark.parametrize(
    "wanted",
    [
        want(1, resume_version=6, resume_key=TABLE, cut=9),
        want(0, resume_version=2, resume_key=TABLE, cut=6),
        want(0, epoch=6),
    ],
    ids=["beyond the token", "beyond the cut", "of a newer epoch"],
)
def test_sender_that_lags_behind_what_was_given_refuses(wanted: Wanted) -> None:
    """P-CATCH-15."""
    [reported] = answer(topic_of([value(1)], version=5), wanted)
    assert isinstance(reported, Refused)
    assert (reported.request, reported.code, reported.topic) == (9, "LAGGING", 7)
    assert reported.retry_ms == RETRY_MS


def test_reader_ahead_by_its_position_is_current() -> None:
    """P-CATCH-1, P-CATCH-10: like a reader at the topic's version it is sent one empty chunk."""
    for position in (5, 8):
        [only] = answered(topic_of([value(1)], version=5), want(position))
        assert (only.from_version, only.to_version, only.entries) == (5, 5, ())
        assert (only.first, only.last, only.snapshot, only.start) == (True, True, False, 3)
        assert (only.resume_version, only.resume_key) == (0, b""), "there is nothing to resume"


def test_each_topic_is_read_when_its_turn_comes_and_is_of_one_moment() -> None:
    topic = topic_of([value(n, b"%d" % n, CHUNK_BYTES_MAX) for n in (1, 2)], version=2)
    found = answer(topic, want(1), want(0))
    assert next(found) == answered(topic, want(1))[0]
    topic.file([value(3)])
    topic.version = 3
    first = next(found)
    topic.reset(6)
    rest = [part for part in (first, *found) if isinstance(part, Chunk)]
    assert {(part.epoch, part.to_version) for part in rest} == {(5, 3)}
    assert [entry.version for entry in content(rest)] == [1, 2, 3]


def test_resume_continues_after_the_token() -> None:
    """P-CATCH-8."""
    rows = [value(3, b"a"), value(3, b"b"), value(3, b"c"), value(4, b"d")]
    topic = topic_of(rows, version=4)
    for wanted in (
        want(1, resume_version=3, resume_key=TABLE + b"b", cut=4),
        want(0, resume_version=3, resume_key=TABLE + b"b", cut=4),
    ):
        [only] = answered(topic, wanted)
        assert only.entries == (value(3, b"c"), value(4, b"d"))
        assert (only.first, only.snapshot, only.from_version) == (True, False, wanted.version)


def test_snapshot_of_one_large_version_is_resumed_too() -> None:
    """P-CATCH-8."""
    topic = topic_of([value(1, b"a"), value(1, b"b")], version=1)
    [only] = answered(topic, want(0, resume_version=1, resume_key=TABLE + b"a", cut=1))
    assert (only.snapshot, only.entries) == (False, (value(1, b"b"),))


@pytest.mark.parametrize(
    ("wanted", "compacted"),
    [
        (want(0, resume_version=2, resume_key=TABLE, cut=5), True),
        (want(0, resume_version=2, resume_key=TABLE, cut=6), False),
        (want(3, resume_version=6, resume_key=TABLE, cut=8), True),
        (want(3, resume_version=7, resume_key=TABLE, cut=8), False),
        (want(5), True),
        (want(6), False),
    ],
)
def test_resume_is_compacted_iff_tombstones_it_needs_are_gone(
    wanted: Wanted, compacted: bool
) -> None:
    """P-FLOOR-1, P-CATCH-8: a snapshot needs those above its cut, a delta those after its token."""
    topic = topic_of([value(9)], version=9, floor=6)
    assert answered(topic, wanted)[0].snapshot is compacted
