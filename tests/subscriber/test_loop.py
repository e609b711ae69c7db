"""The background thread: what happens to it, its sockets and those who wait for it."""

import threading
import time
from collections.abc import Iterator

import pytest

from topicast.subscriber.facts import AskStats, ConnectCatalog, PinsOver, Stats, Subscribe
from topicast.subscriber.loop import Loop
from topicast.subscriber.member import Member
from topicast.tests.waiting import until
from topicast.topics.errors import NotReady, UsageError
from topicast.topics.link import Link


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A loop whose hub is not there."""
    hubs = ("tcp://127.0.0.1:1",)
    member = Member(hubs, budget_bytes=1000, name="test", new_id=lambda: bytes(16))
    made = Loop(member, Link(), hubs=hubs, clock=time.monotonic)
    yield made
    made.stop()


def _stats(loop: Loop, timeout_s: float = 5) -> Stats:
    stats = loop.ask(lambda number, _: AskStats(id=number), timeout_s=timeout_s)
    assert isinstance(stats, Stats)
    return stats


def test_asks_are_answered_by_the_thread() -> None:
    hubs = ("tcp://127.0.0.1:1",)
    member = Member(hubs, budget_bytes=1000, name="test", new_id=lambda: bytes(16))
    loop = Loop(member, Link(), hubs=hubs, clock=time.monotonic)
    loop.start()
    assert _stats(loop).budget_bytes == 1000
    loop.stop()
    with pytest.raises(UsageError):
        _stats(loop)


def test_loop_that_never_started_refuses_and_closes(loop: Loop) -> None:
    with pytest.raises(UsageError, match="never opened"):
        _stats(loop)
    loop.stop()
    assert not loop.running


def test_frame_that_is_no_message_is_counted(loop: Loop) -> None:
    loop._perform(loop._hear("data", b"garbage of a stranger"))
    assert loop.member.wire_errors == 1


def test_pins_that_do_not_fit_are_warned_of(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop._perform([PinsOver(tables=3, needed_bytes=900, room_bytes=100)])
    assert "tables=3 needed_bytes=900 room_bytes=100" in caplog.text


def test_address_that_is_none_is_not_connected_to(loop: Loop) -> None:
    loop._perform([ConnectCatalog("nonsense"), Subscribe(b"1234")])
    assert loop._connected == set()


def test_thread_that_is_held_up_does_not_hold_up_who_asks(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicast.subscriber.loop.GRACE_S", 0.0)
    held = threading.Event()
    loop.start()
    handle = loop.member.handle
    monkeypatch.setattr(
        loop.member, "handle", lambda fact, now: held.wait(10) and handle(fact, now=now)
    )
    with pytest.raises(NotReady, match="held up"):
        _stats(loop, timeout_s=0.05)
    monkeypatch.undo()
    held.set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_that_fails_tells_who_waits(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(loop.member, "handle", fail)
    loop.start()
    until(lambda: not loop.running, what="the thread's end")
    with pytest.raises(UsageError):
        _stats(loop)
