"""The background thread: what happens to it, its sockets and those who wait for it."""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from topicast.subscriber.engine.core import Core
from topicast.subscriber.engine.loop import (
    FEW,
    FLOOD_POLLS,
    FLOOD_S,
    POLLS_A_LOOK,
    TOGETHER,
    TURN_S,
    EngineLoop,
)
from topicast.subscriber.protocol.channels import Channel
from topicast.subscriber.protocol.effects import ConnectCatalog, Notify, PinsNotHeld, Subscribe
from topicast.subscriber.protocol.facts import Undecodable
from topicast.subscriber.protocol.pending import Command
from topicast.subscriber.protocol.status import Change, Stats
from topicast.tests.waiting import until
from topicast.topics.errors import NotReady, UsageError
from topicast.topics.link import Link, Received


@pytest.fixture
def loop() -> Iterator[EngineLoop]:
    """A loop whose hub is not there."""
    hubs = ("tcp://127.0.0.1:1",)
    core = Core(hubs, budget_bytes=1000, name="test", new_id=lambda: bytes(16))
    made = EngineLoop(core, Link(), hubs=hubs, clock=time.monotonic)
    yield made
    made.stop()


def _stats(loop: EngineLoop, timeout_s: float = 5) -> Stats:
    return loop.call(loop.core.stats, timeout_s=timeout_s)


def wire_errors(loop: EngineLoop) -> int:
    return loop.core.stats(0.0)[0].result.wire_errors


def test_commands_are_run_by_the_thread() -> None:
    hubs = ("tcp://127.0.0.1:1",)
    core = Core(hubs, budget_bytes=1000, name="test", new_id=lambda: bytes(16))
    loop = EngineLoop(core, Link(), hubs=hubs, clock=time.monotonic)
    loop.start()
    assert _stats(loop).budget_bytes == 1000
    loop.stop()
    with pytest.raises(UsageError):
        _stats(loop)


def test_loop_that_never_started_refuses_and_closes(loop: EngineLoop) -> None:
    with pytest.raises(UsageError, match="never opened"):
        _stats(loop)
    loop.stop()
    assert not loop.running


class Frames(Link):
    """A link on which batches arrive that a test has made; it notes the rests."""

    def __init__(self, *batches: list[Received]) -> None:
        super().__init__()
        self.batches = list(batches)
        self.rests = 0

    def poll(self, timeout_s: float) -> list[Received]:
        return self.batches.pop(0) if self.batches else []

    def rest(self, timeout_s: float) -> None:
        self.rests += 1


GARBAGE = Received(Channel.DATA, b"", b"garbage of a stranger")


def looped(*batches: list[Received], clock: Callable[[], float]) -> EngineLoop:
    hubs = ("tcp://127.0.0.1:1",)
    core = Core(hubs, budget_bytes=1000, name="test", new_id=lambda: bytes(16))
    return EngineLoop(core, Frames(*batches), hubs=hubs, clock=clock)


def test_frames_that_are_no_message_are_counted_all_of_them() -> None:
    loop = looped([GARBAGE] * (2 * TOGETHER + 1), clock=time.monotonic)
    loop.run_once()
    assert wire_errors(loop) == 2 * TOGETHER + 1
    loop.stop()


def test_watch_sees_what_came_in_the_same_turn_as_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a busy machine, then a change that follows it may wait beside the news of it."""
    loop = looped([GARBAGE], clock=time.monotonic)
    watched: list[bool] = []
    decide = loop.core.handle_all

    def handle_all(facts: Any, *, now: float) -> Any:
        watched.extend(loop.core.watched for fact in facts if isinstance(fact, Undecodable))
        return decide(facts, now=now)

    monkeypatch.setattr(loop.core, "handle_all", handle_all)
    watch = loop._watches.add("*")
    loop.run_once()
    assert watched == [True]
    watch.close()
    loop.stop()


@pytest.mark.parametrize("channel", [Channel.BULK, Channel.PULLS])
def test_of_large_frames_one_is_dealt_with_a_turn(channel: str) -> None:
    frames = [Received(channel, b"", b"garbage")] * 3
    loop = looped([], [*frames, GARBAGE], clock=time.monotonic)
    loop.run_once()  # connects
    counts = []
    for _ in range(4):
        loop.run_once()
        counts.append(wire_errors(loop))
    assert counts == [2, 3, 4, 4], "what is small waits for one"
    loop.stop()


def test_commands_get_a_share_of_each_turn() -> None:
    ticks = count()
    loop = looped(*[[GARBAGE]] * 9, clock=lambda: next(ticks) * TURN_S / 2)
    commands = [Command(loop.core.stats, deadline=1e9) for _ in range(8)]
    for command in commands:
        loop._inbox.put(command, timeout_s=1)
    completed = []
    for _ in range(5):
        loop.run_once()
        completed.append(sum(command.outcome is not None for command in commands))
    assert completed == [2, 4, 6, 8, 8]
    assert wire_errors(loop) == 5, "sockets were looked at in between"
    loop.stop()


def test_effects_of_the_last_watch_that_closes_are_performed() -> None:
    """A command whose time is over just then is completed: its caller does not wait on."""
    now = 0.0
    loop = looped(clock=lambda: now)
    command = Command(loop.core.ready, deadline=1.0)
    loop.perform(loop.core.handle(command, now=now))
    loop._watches.add("*").close()
    now = 2.0
    change = Change(object="a.b", kind="data", version=1, origin="events")
    loop.perform([Notify((change,))])
    with pytest.raises(NotReady):
        command.result(0)
    loop.stop()


@pytest.mark.parametrize(
    ("apart_s", "at_once", "rests"),
    [
        (FLOOD_S / 2, 1, True),
        (FLOOD_S * 2, 1, False),  # seldom: each is heard at once
        (FLOOD_S / 2, FEW + 1, False),  # many at once: none wakes us for itself alone
    ],
)
def test_deltas_gather_where_one_comes_soon_after_the_other(
    apart_s: float, at_once: int, rests: bool
) -> None:
    now = count()
    batches = [[GARBAGE] * at_once for _ in range(FLOOD_POLLS + 3)]
    loop = looped(*batches, clock=lambda: loop_at[0])
    loop_at = [0.0]
    found = []
    for _ in batches:
        loop_at[0] = next(now) * apart_s
        loop.run_once()
        found.append(loop._may_rest())
    assert found[-1] is rests
    assert not any(found[:FLOOD_POLLS]), "a write makes two or three deltas, and is no flood"
    loop.run_once()
    assert not loop._may_rest(), "nothing came: it is over"
    loop.stop()


def test_nobody_who_asks_waits_for_deltas_to_gather() -> None:
    loop = looped(*[[GARBAGE]] * (FLOOD_POLLS + 3), clock=lambda: 0.0)
    for _ in range(FLOOD_POLLS + 3):
        loop.run_once()
    assert loop._may_rest()
    loop._commands.add(Command(loop.core.stats, deadline=1.0))
    assert not loop._may_rest()
    loop.stop()


def test_what_is_due_is_done_under_a_flood_too_and_within_a_few_polls() -> None:
    now = 0.0
    loop = looped(*[[GARBAGE]] * 200, clock=lambda: now)
    dues, late = 0, 0
    for _ in range(200):
        due = loop.core.deadline <= now
        loop.run_once()
        done = loop.core.deadline > now
        dues += due
        late = 0 if done else late + 1
        assert late < POLLS_A_LOOK
        now += FLOOD_S / 2
    assert loop._may_rest()
    assert dues > 2
    loop.stop()


def test_pins_that_do_not_fit_are_warned_of(
    loop: EngineLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.perform([PinsNotHeld(tables=3, needed_bytes=900, room_bytes=100)])
    assert "tables=3 needed_bytes=900 room_bytes=100" in caplog.text


def test_address_that_is_none_is_not_connected_to(loop: EngineLoop) -> None:
    loop.perform([ConnectCatalog("nonsense"), Subscribe(b"1234")])
    assert loop._connected == set()


def test_thread_that_is_held_up_does_not_hold_up_who_asks(
    loop: EngineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicast.subscriber.engine.loop.GRACE_S", 0.0)
    held = threading.Event()
    loop.start()
    handle = loop.core.handle
    monkeypatch.setattr(
        loop.core, "handle", lambda fact, now: held.wait(10) and handle(fact, now=now)
    )
    with pytest.raises(NotReady, match="held up"):
        _stats(loop, timeout_s=0.05)
    monkeypatch.undo()
    held.set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_that_fails_tells_who_waits(
    loop: EngineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(loop.core, "handle", fail)
    loop.start()
    until(lambda: not loop.running, what="the thread's end")
    with pytest.raises(UsageError):
        _stats(loop)
