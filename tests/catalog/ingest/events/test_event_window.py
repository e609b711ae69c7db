"""The window neither loses an event nor returns one twice."""

import json
import struct
import threading
import time
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from hypothesis import given, settings
from hypothesis import strategies as st

from topicast.catalog.ingest.events.event_window import (
    PENDING_MAX,
    REREAD_BYTES_MAX,
    REREAD_EVENTS_MAX,
    SETTLE_EVERY_S,
    START_OVERLAP,
    WINDOW_S,
    EventWindow,
)
from topicast.catalog.ingest.events.poller import POLL_EVENTS_MAX
from topicast.catalog.metastore.hms import Hms
from topicast.catalog.metastore.port import RawEvent
from topicast.catalog.model.window_state import KNOWN_MAX, WindowState, pack_state, unpack_state
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cluster.fake_metastore import Place, make_table, raw_event
from topicast.tests.waiting import until
from topicast.topics.errors import WireError

POLL_S = 0.2
WRITES = 8  # of each writer
OLD_S = WINDOW_S + SETTLE_EVERY_S


def settled_at(id_: int) -> EventWindow:
    return EventWindow(WindowState(last_id=id_, stable_id=id_), now=0)


def poll(window: EventWindow, log: list[RawEvent], now: float) -> list[RawEvent]:
    after = window.next_poll(now)
    answer = sorted((e for e in log if e.id > after), key=lambda e: e.id)[:POLL_EVENTS_MAX]
    new, gap = window.take(answer, now)
    assert not gap
    window.check()
    return list(new)


@pytest.mark.parametrize(
    ("log", "later"),
    [
        ([raw_event(1), raw_event(2)], [raw_event(3)]),
        ([raw_event(1), raw_event(2)], [raw_event(1, "late"), raw_event(2, "late")]),
    ],
    ids=["a new id", "events that double an id"],
)
def test_events_are_new_once_whenever_they_come(log: list[RawEvent], later: list[RawEvent]) -> None:
    window = settled_at(0)
    assert poll(window, log, 1.0) == log
    assert poll(window, log, 1.2) == []
    assert poll(window, log + later, 1.0 + WINDOW_S) == later


def test_events_above_the_newest_id_are_left_until_it_reaches_them() -> None:
    """Given a counter that went back to 2, then the id 3 is given once more."""
    window, log = settled_at(2), [raw_event(3, "old"), raw_event(4, "old")]
    assert window.take(log, 1.0, current_id=2) == ((), None)
    assert (window.last_id, window.is_quiet(2)) == (2, True)
    window.next_poll(1.2)
    log.insert(1, raw_event(3, "new"))
    assert window.take(log, 1.2, current_id=3) == ((*log[:2],), None)
    assert window.last_id == 3


def test_silence_ends_with_one_last_look_and_then_is_quiet() -> None:
    window, log = settled_at(0), [raw_event(1)]
    poll(window, log, 1.0)
    assert not window.is_quiet(1)
    log.append(raw_event(1, "late"))
    assert poll(window, log, 1.0 + OLD_S) == log[1:]
    assert window.is_quiet(1)
    assert not window.is_quiet(2)
    assert window.next_poll(1.2 + OLD_S) == 1


def test_id_is_not_settled_by_a_poll_that_began_too_early() -> None:
    window, log = settled_at(0), [raw_event(1)]
    poll(window, log, 1.0)
    after = window.next_poll(1.1)
    window.take([e for e in log if e.id > after], 100.0)
    assert not window.is_quiet(1)


def test_id_is_not_settled_by_a_poll_that_failed() -> None:
    window, log = settled_at(0), [raw_event(1)]
    poll(window, log, 1.0)
    assert window.next_poll(1.0 + OLD_S) == 0
    log.append(raw_event(1, "late"))
    assert window.next_poll(1.2 + OLD_S) == 0
    assert poll(window, log, 1.4 + OLD_S) == log[1:]


def test_overlap_is_bounded_in_events_and_in_bytes() -> None:
    window = settled_at(0)
    log = [raw_event(id_) for id_ in range(1, 1001)]
    assert poll(window, log, 1.0) == log
    assert window.next_poll(1.2) == 1000 - REREAD_EVENTS_MAX
    window = settled_at(0)
    half = json.dumps({"x": "x" * (REREAD_BYTES_MAX // 2)})
    large = (raw_event(2, message=half), raw_event(3, message=half))
    poll(window, [raw_event(1), *large, raw_event(4)], 1.0)
    assert window.next_poll(1.2) == 2


def test_message_larger_than_the_overlap_is_read_once_more_at_the_end() -> None:
    window = settled_at(0)
    log = [raw_event(1, message=json.dumps({"x": "x" * REREAD_BYTES_MAX}))]
    poll(window, log, 1.0)
    assert window.next_poll(1.2) == 1
    log.append(raw_event(1, "late"))
    assert poll(window, log, 1.4) == []
    assert poll(window, log, 1.0 + OLD_S) == log[1:]


def test_settling_never_holds_up_what_is_new() -> None:
    window, log, came = settled_at(0), [], 0
    for step in range(60):
        log += [raw_event(len(log) + 1 + n) for n in range(250)]  # 1,250 a second
        after, now = window.next_poll(step * POLL_S), step * POLL_S
        came += len(window.take(log[after : after + POLL_EVENTS_MAX], now)[0])
    assert came > 0.9 * len(log)


def test_settling_takes_turns_with_reading_new_ids() -> None:
    window, log = settled_at(0), [raw_event(id_) for id_ in range(1, 1001)]
    poll(window, log, 1.0)
    assert window.next_poll(1.0 + OLD_S) == 0
    assert window.next_poll(1.2 + OLD_S) == 1000 - REREAD_EVENTS_MAX
    assert window.next_poll(1.4 + OLD_S) == 0


def test_ids_that_were_given_long_before_a_poll_are_stable_once_it_has_read_them() -> None:
    log = [raw_event(id_) for id_ in range(1, 21)]
    window = settled_at(0)
    window.next_poll(1.0)
    window.take(log[:10], 1.0, current_id=20, cut=True)
    window.next_poll(1.0 + WINDOW_S)
    window.take(log[:10], 1.0 + WINDOW_S, current_id=20, cut=True)
    window.next_poll(1.1 + WINDOW_S)
    window.take(log[10:], 1.1 + WINDOW_S, current_id=20)
    window.check()
    assert window.is_quiet(20)


def test_ids_that_a_counter_gives_once_more_are_read_once_more() -> None:
    window, log = settled_at(5), [raw_event(id_) for id_ in range(6, 11)]
    for now, current_id in ((1.0, 10), (1.1, 5), (1.1 + WINDOW_S, 5)):
        window.next_poll(now)
        window.take((), now, current_id=min(current_id, window.last_id))
    window.next_poll(1.2 + WINDOW_S)
    window.take(log, 1.2 + WINDOW_S, current_id=10)
    assert not window.is_quiet(10)


def test_ids_far_below_the_newest_are_stable_at_once() -> None:
    window = settled_at(0)
    window.next_poll(1.0)
    window.take(
        [raw_event(id_) for id_ in range(1, 21)], 1.0, current_id=10 + PENDING_MAX, cut=True
    )
    window.check()
    assert window.state.stable_id == 10


def test_poll_that_is_to_settle_reads_all_that_it_can() -> None:
    message = json.dumps({"x": "x" * 90})
    window, log = settled_at(0), [raw_event(id_, message=message) for id_ in range(1, 1001)]
    poll(window, log, 1.0)
    assert window.settling_max(1 << 20) == 0
    window.next_poll(1.0 + OLD_S)
    assert window.settling_max(1 << 20) == 1000
    assert window.settling_max(10 * len(message)) == 10


def test_ids_beyond_the_end_of_an_answer_are_not_settled() -> None:
    window, log = settled_at(0), [raw_event(id_) for id_ in range(1, 3001)]
    while window.last_id < 3000:
        poll(window, log, 1.0)
    poll(window, log, 1.0 + OLD_S)
    assert window.stable_id == POLL_EVENTS_MAX


def test_window_remembers_a_bounded_number_of_ids() -> None:
    window = settled_at(0)
    log = [raw_event(id_) for id_ in range(1, PENDING_MAX + 500)]
    assert window.next_poll(1.0) == 0
    assert len(window.take(log, 1.0)[0]) == len(log)
    window.check()
    assert window.stable_id == 499


def test_events_of_the_last_ids_are_new_to_a_window_that_starts() -> None:
    window, log = EventWindow.starting_at(100, now=0.0), [raw_event(id_) for id_ in range(1, 101)]
    window.check()
    assert poll(window, log, 0.1) == log[-START_OVERLAP:]
    assert EventWindow.starting_at(0, now=0.0).is_quiet(0)


def test_window_that_was_stored_at_its_start_still_looks_back() -> None:
    window = EventWindow(EventWindow.starting_at(100, now=0.0).state, now=5.0)
    window.check()
    assert not window.is_quiet(100)
    assert poll(window, [raw_event(95)], 5.2) == [raw_event(95)]
    assert poll(window, [], 5.0 + OLD_S) == []
    assert window.is_quiet(100)


def test_restored_window_knows_what_the_stored_window_knew() -> None:
    window, log = settled_at(0), [raw_event(1), raw_event(2)]
    poll(window, log, 1.0)
    restored = EventWindow(window.state, now=50.0)
    restored.check()
    assert restored.state == window.state
    log.append(raw_event(2, "late"))
    assert poll(restored, log, 50.2) == log[2:]
    assert not restored.is_quiet(2)


@pytest.mark.parametrize("to", [3, 2])
def test_window_that_is_moved_back_or_nowhere_still_looks_for_late_events(to: int) -> None:
    window, log = settled_at(0), [raw_event(id_) for id_ in range(1, 4)]
    poll(window, log, 1.0)
    moved = window.moved(to, overlap=0, now=2.0)
    moved.check()
    late = raw_event(2, "late")
    assert poll(moved, [*log, late], 2.2) == [late, *log[to:]], "those behind it once more"
    ahead = window.moved(7, overlap=0, now=2.0)
    ahead.check()
    assert ahead.is_quiet(7), "what is left out is read again as it is now"


def test_newest_events_stay_known_when_they_are_settled_and_are_not_read_again() -> None:
    window, log = settled_at(0), [raw_event(id_) for id_ in range(1, 41)]
    poll(window, log, 1.0)
    assert poll(window, log, 1.0 + OLD_S) == []
    assert window.is_quiet(40)
    newest = tuple((one.id, one.digest) for one in log[-KNOWN_MAX:])
    assert (window.newest, window.state.known) == (newest, newest)
    restored = EventWindow(window.state, now=50.0)
    restored.check()
    assert restored.is_quiet(40)
    assert restored.newest == newest
    assert poll(restored, [*log, raw_event(41)], 51.0) == [raw_event(41)]
    assert restored.newest[-1] == (41, raw_event(41).digest)


def test_events_after_a_stored_state_stay_known_and_are_new_after_a_restart() -> None:
    window, log = settled_at(0), [raw_event(id_) for id_ in range(1, 4)]
    poll(window, log[:1], 1.0)
    state = window.state
    assert window.with_ahead(state) == state
    poll(window, log, 1.0)
    stored = window.with_ahead(state)
    assert stored == replace(state, ahead=tuple((one.id, one.digest) for one in log[1:]))
    restored = EventWindow(stored, now=50.0)
    assert (restored.newest, restored.newest_id, restored.last_id) == (window.newest, 3, 1)
    assert restored.with_ahead(state) == stored
    assert poll(restored, log, 51.0) == log[1:]
    assert restored.newest == window.newest


def test_state_that_an_older_catalogd_stored_is_read() -> None:
    digest = bytes(range(16))
    stored = struct.pack(">qqq16s", 7, 5, 6, digest)
    assert unpack_state(stored) == WindowState(last_id=7, stable_id=5, known=((6, digest),))


@given(
    st.none()
    | st.builds(
        WindowState,
        last_id=st.integers(0, 2**62),
        stable_id=st.integers(0, 2**62),
        known=st.lists(st.tuples(st.integers(0, 2**62), st.binary(min_size=16, max_size=16))).map(
            tuple
        ),
        uuid=st.text(max_size=60),
        ahead=st.lists(
            st.tuples(st.integers(0, 2**62), st.binary(min_size=16, max_size=16)),
            max_size=KNOWN_MAX,
        ).map(tuple),
    )
)
def test_packed_state_is_read_back(state: WindowState | None) -> None:
    assert unpack_state(pack_state(state)) == state


@pytest.mark.parametrize("size", [1, 15, 17, 41])
def test_damaged_state_is_refused(size: int) -> None:
    with pytest.raises(WireError, match="damaged"):
        unpack_state(b"\0" * size)


def test_ids_that_were_requested_and_are_gone_are_a_gap() -> None:
    window = settled_at(10)
    window.next_poll(1.0)
    assert window.take([raw_event(15)], 1.0) == ((raw_event(15),), (11, 14))
    assert poll(window, [raw_event(15), raw_event(16)], 1.2) == [raw_event(16)]
    window = settled_at(10)
    window.next_poll(1.0)
    assert window.take([], 1.0, current_id=10) == ((), None)
    assert window.take([], 1.0, current_id=12) == ((), (11, 12))
    assert window.last_id == 12


def test_ids_that_are_missing_between_others_are_a_gap_and_may_come_late() -> None:
    window, log = settled_at(0), [raw_event(1), raw_event(3), raw_event(4), raw_event(6)]
    window.next_poll(1.0)
    assert window.take(log, 1.0) == ((*log,), (2, 5))
    assert poll(window, log, 1.2) == []
    assert poll(window, [*log, raw_event(2)], 1.4) == [raw_event(2)]


def test_newest_ids_that_are_missing_are_a_gap_once_they_alone_were_asked_for() -> None:
    """The metastore may have sent fewer than there are."""
    window, log = settled_at(0), [raw_event(1)]
    window.next_poll(1.0)
    assert window.take(log, 1.0, current_id=3) == ((*log,), None)
    assert window.next_poll(1.2) == 1
    assert window.take([], 1.2, current_id=3) == ((), (2, 3))
    assert window.next_poll(1.4) == 0, "what may come late is read again"
    window.take(log, 1.4, current_id=9, cut=True)
    assert window.next_poll(1.6) == 0, "more are to come"


def test_log_cleaned_up_to_what_is_known_is_no_gap() -> None:
    window, log = settled_at(0), [raw_event(1), raw_event(2)]
    poll(window, log, 1.0)
    assert poll(window, [raw_event(3)], 1.2) == [raw_event(3)]


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_concurrent_writers_lose_nothing(seed: int, per_poll: int) -> None:
    """Writers take the last id or the next, and commit up to 2 s after others with higher ids.

    They take the last id only beside its first writer: once that is done they read the next.
    """
    rng = Random(seed)
    window, log, seen, now, id_, taken_at = settled_at(0), [], [], 0.0, 0, 0.0
    delayed: list[tuple[float, RawEvent]] = []
    for step in range(40):
        now += POLL_S
        for number in range(rng.randint(0, per_poll)):
            if not log or rng.random() < 0.7 or now > taken_at + 2.0:
                id_, taken_at = id_ + 1, now
            delayed.append((now + rng.choice((0, 0, 0, 2.0)), raw_event(id_, f"{step}.{number}")))
        log += [held for due, held in delayed if due <= now]
        delayed = [(due, held) for due, held in delayed if due > now]
        after = window.next_poll(now)
        answer = sorted((e for e in log if e.id > after), key=lambda e: e.id)
        seen += window.take(answer[:POLL_EVENTS_MAX], now)[0]
        window.check()
    log += [held for _, held in delayed]
    for _ in range(60):
        now += POLL_S
        seen += poll(window, log, now)
    assert sorted(e.table for e in seen) == sorted(e.table for e in log)
    assert window.is_quiet(window.last_id)


def test_nothing_is_lost_while_real_writers_share_ids(
    hive: EmbeddedMetastore, real_place: Place
) -> None:
    """Eight writers at once: the real 2.3 gives many of their events the same ids."""
    host, _, port = hive.uri.removeprefix("thrift://").partition(":")
    reads = Hms(hive.uri, timeout_s=30)
    last_id = reads.current_event_id()
    window = EventWindow(WindowState(last_id=last_id, stable_id=last_id), now=time.monotonic())

    def write(number: int) -> None:
        with HMSClient(host=host, port=int(port)) as writes:
            for step in range(WRITES):
                name = f"w{number}_{step}"
                table = make_table(real_place.db, name, location=f"{real_place.location}/{name}")
                with suppress(MetaException):  # as where it has waited too long for a lock
                    writes.create_table(table)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    seen: list[str] = []

    def is_over() -> bool:
        now = time.monotonic()
        events = reads.events_after(window.next_poll(now), events_max=POLL_EVENTS_MAX)
        new, gap = window.take(events, now)
        assert gap is None, "an id is given together with its event"
        seen.extend(e.table for e in new if e.db == real_place.db)
        writing = any(writer.is_alive() for writer in writers)
        return not writing and window.is_quiet(window.last_id)

    until(is_over, timeout_s=60, what="a quiet window")
    reads.close()
    made = real_place.writes.get_all_tables(real_place.db)
    assert len(made) > 8 * WRITES // 2
    assert sorted(seen) == sorted(made)
