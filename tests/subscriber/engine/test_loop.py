"""The background thread: what happens to it, its sockets and the callers that wait for it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from queue import Queue

import pytest

from topicast.subscriber.config import Settings
from topicast.subscriber.engine.core import Core
from topicast.subscriber.engine.loop import (
    FEW,
    FLOOD_POLLS,
    FLOOD_S,
    POLLS_A_LOOK,
    RESTARTS_MAX,
    RESTARTS_S,
    TOGETHER,
    TURN_S,
    EngineLoop,
)
from topicast.subscriber.protocol.commands import DONE, Command, Started
from topicast.subscriber.protocol.effects import (
    Change,
    ConnectCatalog,
    Connection,
    EngineRestarted,
    Notify,
    PinsNotHeld,
    Registration,
    Send,
    Subscribe,
)
from topicast.subscriber.protocol.effects import Received as ReceivedFact
from topicast.subscriber.protocol.status import Stats
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.keys import CREDENTIAL, PAIR, own_link
from topicast.tests.waiting import in_thread, until
from topicast.topics.errors import LinkError, NotReady, SourceError, StaleMetadata, UsageError
from topicast.topics.link import Link, ReceivedFrame, new_pair
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.wire import encode
from topicast.topics.wire.messages.catalog import Sync
from topicast.topics.wire.messages.connection import ServerKeys, Welcome
from topicast.topics.wire.messages.data import Delta, Heartbeat

HUBS = ("tcp://127.0.0.1:1",)  # where no hub is
GARBAGE = ReceivedFrame(Connection.DATA, b"", b"garbage of a stranger")
WAIT_S = 60.0
WELCOME = Welcome(
    protocol=1,
    hub=7,
    epoch=1,
    start=1,
    num_topics=4,
    data_address="tcp://127.0.0.1:2",
    catalog_address="",
    catalog_name="",
    heartbeat_ms=250,
    lost_ms=8000,
)


class Turns(Link):
    """A link that receives only what ``turn`` gives it, and counts wakes and rests."""

    def __init__(self) -> None:
        super().__init__(PAIR)
        self.wakes = 0
        self.rests = 0
        self._batches: Queue[list[ReceivedFrame] | None] = Queue()
        self._polls: Queue[None] = Queue()

    def wake(self) -> None:
        self.wakes += 1
        super().wake()

    def rest(self, timeout_s: float) -> None:
        self.rests += 1

    def poll(self, timeout_s: float) -> list[ReceivedFrame]:
        self._polls.put(None)
        return self._batches.get(timeout=WAIT_S) or []

    def turn(self, *frames: ReceivedFrame) -> None:
        """Give the loop a batch of ``frames``, and return once it has dealt with it."""
        self._polls.get(timeout=WAIT_S)  # it waits for a batch
        self._batches.put(list(frames))
        self._polls.get(timeout=WAIT_S)  # it waits for the next one
        self._polls.put(None)

    def end(self) -> None:
        """Let every poll return at once from now on."""
        for _ in range(4):
            self._batches.put(None)


def made(
    link: Link, clock: Callable[[], float] = time.monotonic, core: Core | None = None
) -> EngineLoop:
    if core is None:
        core = Core(
            Settings(statestores=HUBS, budget_bytes=1000, name="test", automatic=False),
            new_id=lambda: bytes(16),
        )
    return EngineLoop(core, link, credential=CREDENTIAL, clock=clock)


@contextmanager
def running(
    clock: Callable[[], float] = time.monotonic, core: Core | None = None
) -> Iterator[tuple[EngineLoop, Turns]]:
    """Run a loop whose turns the test gives."""
    link = Turns()
    loop = made(link, clock, core)
    loop.start()
    try:
        yield loop, link
    finally:
        link.end()
        loop.stop()


@pytest.fixture
def loop() -> Iterator[EngineLoop]:
    """A loop on real sockets, not started; its hub is not there."""
    found = made(own_link())
    yield found
    found.stop()


def stats(loop: EngineLoop, timeout_s: float = WAIT_S) -> Stats:
    return loop.call(loop.core.stats, timeout_s=timeout_s)


def wire_errors(loop: EngineLoop) -> int:
    return loop.core.stats().result.wire_errors


def refuse() -> Started[None]:
    raise SourceError("no such thing")


def test_calls_are_run_by_the_thread_until_it_is_stopped(loop: EngineLoop) -> None:
    with pytest.raises(UsageError, match="never opened"):
        stats(loop)
    loop.start()
    assert stats(loop).budget_bytes == 1000
    with pytest.raises(SourceError, match="no such thing"):
        loop.call(refuse, timeout_s=WAIT_S)
    loop.stop()
    assert not loop.running
    with pytest.raises(UsageError):
        stats(loop)


def test_every_frame_that_is_no_message_is_counted() -> None:
    with running() as (loop, link):
        link.turn(*[GARBAGE] * (2 * TOGETHER + 1))
        assert wire_errors(loop) == 2 * TOGETHER + 1


def test_rest_of_a_batch_is_dropped_once_the_core_has_begun_anew() -> None:
    """Given a Welcome of another policy: what follows it came over connections that are closed."""

    def welcome(digest: int) -> ReceivedFrame:
        frame = encode(replace(WELCOME, policy_digest=digest))
        return ReceivedFrame(Connection.CONTROL, b"", frame)

    with running() as (loop, link):
        link.turn()  # it connects
        link.turn(welcome(0))
        link.turn(welcome(1), *[GARBAGE] * (3 * TOGETHER))
        assert loop.core.restarts == 1
        assert wire_errors(loop) == TOGETHER - 1


@pytest.mark.parametrize("connection", [Connection.BULK, Connection.PULLS])
def test_one_large_frame_is_handled_in_each_turn(connection: Connection) -> None:
    with running() as (loop, link):
        link.turn()  # it connects
        link.turn(*[ReceivedFrame(connection, b"", b"garbage")] * 3, GARBAGE)
        counts = [wire_errors(loop)]
        for _ in range(3):
            link.turn()
            counts.append(wire_errors(loop))
        assert counts == [2, 3, 4, 4], "what is small waits for one"


def test_calls_get_a_share_of_each_turn() -> None:
    ticks = count()
    ran: list[None] = []

    def operation() -> Started[None]:
        ran.append(None)
        return DONE

    with running(clock=lambda: next(ticks) * TURN_S / 2) as (loop, link):
        before = link.wakes
        threads = [in_thread(lambda: loop.call(operation, timeout_s=60))[0] for _ in range(8)]
        until(lambda: link.wakes == before + 16, what="eight calls in the inbox")
        counts = []
        for _ in range(5):
            link.turn(GARBAGE)
            counts.append(len(ran))
        for thread in threads:
            thread.join(WAIT_S)
        assert counts == [2, 4, 6, 8, 8]
        assert wire_errors(loop) == 5, "sockets were polled in between"


def test_watch_receives_a_change_of_the_turn_in_which_it_was_made() -> None:
    """Given a busy machine, the change may be in the batch in front of the new watch."""
    shopping = Shopping()
    shopping.lose("hub-0", "reader-0", Delta, Heartbeat)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    shopping.settle()
    (delta,) = [
        one
        for one in shopping.messages(Delta, sender="hub-0")
        if one.entries and one.topic == shopping.topic("shop.orders")
    ][-1:]
    now = shopping.cluster.now
    with running(clock=lambda: now, core=shopping.reader.member) as (loop, link):
        watch = loop.watch("*", timeout_s=WAIT_S)
        link.turn(ReceivedFrame(Connection.DATA, b"", encode(delta)))
        change = watch.next_within(0)
        assert change is not None
        assert change.object == "shop.orders"
        watch.close()


def test_effects_of_the_last_watch_that_closes_are_performed() -> None:
    """A command whose time is over just then is completed: its caller does not wait on."""
    now = 0.0
    loop = made(own_link(), clock=lambda: now)
    command = Command(loop.core.ready, deadline=1.0)
    loop.perform(loop.core.handle(command, now=now))
    now = 2.0
    loop.perform([Notify((Change(object="a.b", kind="data", version=1, origin="events"),))])
    with pytest.raises(NotReady):
        command.result(0)
    loop.stop()


@pytest.mark.parametrize(
    ("apart_s", "at_once", "rests"),
    [
        (FLOOD_S / 2, 1, True),
        (FLOOD_S * 2, 1, False),  # seldom: each is handled at once
        (FLOOD_S / 2, FEW + 1, False),  # many at once: none wakes the thread for itself alone
    ],
)
def test_deltas_gather_where_each_comes_soon_after_the_last(
    apart_s: float, at_once: int, rests: bool
) -> None:
    now = 0.0
    with running(clock=lambda: now) as (_, link):
        for number in range(FLOOD_POLLS + 3):
            now = number * apart_s
            link.turn(*[GARBAGE] * at_once)
            if number < FLOOD_POLLS:
                assert not link.rests, "a write makes two or three deltas, and is no flood"
        assert bool(link.rests) is rests
        link.turn()
        before = link.rests
        link.turn()
        assert link.rests == before, "nothing came: it is over"


def test_deltas_do_not_gather_while_a_caller_waits() -> None:
    with running(clock=lambda: 0.0) as (loop, link):
        before = link.wakes
        thread, errors = in_thread(lambda: loop.call(loop.core.ready, timeout_s=60))
        until(lambda: link.wakes == before + 2, what="the call in the inbox")
        for _ in range(FLOOD_POLLS + 3):
            link.turn(GARBAGE)
        assert not link.rests
        link.end()
        loop.stop()
        thread.join(WAIT_S)
        assert isinstance(errors[0], UsageError), "the subscriber is closed"


def test_work_that_is_due_is_done_within_a_few_polls_of_a_flood() -> None:
    now = 0.0
    with running(clock=lambda: now) as (loop, link):
        dues, late = 0, 0
        for _ in range(400):
            due = loop.core.deadline <= now
            link.turn(GARBAGE)
            done = loop.core.deadline > now
            dues += due
            late = 0 if done else late + 1
            assert late < POLLS_A_LOOK
            now += FLOOD_S / 2
        assert link.rests
        assert dues > 2


def test_pins_that_do_not_fit_are_logged(
    loop: EngineLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.perform([PinsNotHeld(tables=3, needed_bytes=900, room_bytes=100)])
    assert "tables=3 needed_bytes=900 room_bytes=100" in caplog.text


def test_refusal_of_a_hub_is_logged_and_its_end_as_loudly(
    loop: EngineLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.perform([Registration(hub="tcp://hub:24000", why="no room: name another")])
    loop.perform([Registration(hub="tcp://hub:24000", why="")])
    levels = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert levels == [
        ("WARNING", "not registered: statestored=tcp://hub:24000 reason=no room: name another"),
        ("WARNING", "registered: statestored=tcp://hub:24000"),
    ]


def test_address_that_is_malformed_is_not_connected_to(
    loop: EngineLoop, caplog: pytest.LogCaptureFixture
) -> None:
    send = Send(Connection.SERVICE, Sync(request=1))
    loop.perform([ConnectCatalog("nonsense"), Subscribe(b"1234"), send])
    assert "address refused" in caplog.text


def test_call_times_out_while_another_call_holds_the_thread_up(
    loop: EngineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicast.subscriber.engine.loop.GRACE_S", 0.0)
    release = threading.Event()

    def hold() -> Started[None]:
        release.wait(WAIT_S)
        return DONE

    loop.start()
    thread, _ = in_thread(partial(loop.call, hold, timeout_s=WAIT_S))
    with pytest.raises(NotReady, match="held up"):
        loop.call(hold, timeout_s=0.05)
    release.set()
    thread.join(WAIT_S)


def fail() -> Started[None]:
    raise RuntimeError("a fault of ours")


def test_call_that_fails_gets_the_error_and_the_thread_goes_on(
    loop: EngineLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.start()
    with pytest.raises(NotReady, match="RuntimeError: a fault of ours"):
        loop.call(fail, timeout_s=WAIT_S)
    assert stats(loop).engine_restarts == 1
    (logged,) = [one for one in caplog.records if one.exc_info]
    assert "engine failed" in logged.getMessage()


def test_error_is_logged_with_what_came_and_went_before_it(
    loop: EngineLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.start()
    until(loop.core.story, what="a Hello")
    with pytest.raises(NotReady):
        loop.call(fail, timeout_s=WAIT_S)
    (logged,) = [one.getMessage() for one in caplog.records if "steps=" in one.getMessage()]
    assert "out ConnectHub; " in logged
    assert logged.endswith(" in Command"), "which has failed"
    assert stats(loop).engine_restarts == 1
    assert any(step.endswith(" in Command") for step in loop.core.story()), "it outlasts a restart"


class SlowToRestart(Core):
    """A core that restarts slowly: a caller can make its next call meanwhile."""

    def restart(self) -> None:
        threading.Event().wait(0.2)
        super().restart()


def test_caller_whose_call_failed_is_answered_when_the_engine_has_restarted() -> None:
    settings = Settings(statestores=HUBS, budget_bytes=1000, name="test", automatic=False)
    loop = made(own_link(), core=SlowToRestart(settings, new_id=lambda: bytes(16)))
    loop.start()
    try:
        with pytest.raises(NotReady, match="a fault of ours"):
            loop.call(fail, timeout_s=WAIT_S)
        assert stats(loop).engine_restarts == 1
    finally:
        loop.stop()


def test_calls_that_wait_and_watches_are_notified_of_a_restart(loop: EngineLoop) -> None:
    loop.start()
    watch = loop.watch("*", timeout_s=WAIT_S)
    waits = threading.Event()

    def ready() -> Started[None]:
        waits.set()
        return loop.core.ready()

    thread, errors = in_thread(lambda: loop.call(ready, timeout_s=WAIT_S))
    assert waits.wait(WAIT_S)
    with pytest.raises(NotReady):
        loop.call(fail, timeout_s=WAIT_S)
    thread.join(WAIT_S)
    assert isinstance(errors[0], EngineRestarted)
    with pytest.raises(StaleMetadata, match="read again"):
        watch.next_within(WAIT_S)
    until(lambda: loop.core.watched, what="the watch, again")
    assert watch.next_within(0) is None


def test_thread_that_fails_again_and_again_gives_up_and_says_why() -> None:
    now = 0.0
    loop = made(own_link(), clock=lambda: now)
    loop.start()

    def fails(times: int) -> None:
        for _ in range(times):
            with pytest.raises(NotReady):
                loop.call(fail, timeout_s=WAIT_S)

    try:
        fails(RESTARTS_MAX - 1)
        now = RESTARTS_S
        fails(RESTARTS_MAX - 1)
        assert stats(loop).engine_restarts == 2 * RESTARTS_MAX - 2, "seldom enough"
        fails(1)
        until(lambda: not loop.running, what="the thread's end")
        with pytest.raises(LinkError, match="10 times within 60 s.*RuntimeError: a fault of ours"):
            stats(loop)
    finally:
        loop.stop()


def test_rest_ends_where_the_application_cannot_say_what_is_urgent(loop: EngineLoop) -> None:
    def broken(change: Change) -> bool:
        raise LookupError(change.object)

    loop.start()
    watch = loop.watch("*", timeout_s=WAIT_S)
    thread, errors = in_thread(lambda: watch.rest(WAIT_S, unless=broken))
    change = Change(object="a.b", kind=ChangeKind.DATA, version=1, origin="events")

    def offered() -> bool:
        loop.perform([Notify((change,))])
        thread.join(0.01)
        return not thread.is_alive()

    until(offered, what="the end of the rest")
    assert isinstance(errors[0], LookupError)
    assert stats(loop).engine_restarts == 0


def test_connection_is_made_with_the_keys_that_the_hub_has_sent() -> None:
    """P-KEYS-2: to a catalogd whose key is another than in the key file; what is no key is not."""
    own = new_pair()
    hub = Link(own)
    hub.admit("router", {PAIR.public})
    address = hub.bind_router("router", "tcp://127.0.0.1:0")
    loop = made(Link(PAIR))
    keys = ServerKeys(hub="h" * 40, hub_next="", catalogd=own.public, catalogd_next="x")
    now = time.monotonic()
    try:
        assert loop.core.handle(ReceivedFact(Connection.CONTROL, keys), now=now) == ()
        received = ReceivedFact(Connection.CONTROL, replace(keys, catalogd_next=""))
        loop.perform(loop.core.handle(received, now=now))
        loop.perform([ConnectCatalog(address), Send(Connection.SERVICE, Sync(request=7))])
        until(lambda: [one.frame for one in hub.poll(0.01)] == [encode(Sync(request=7))])
    finally:
        loop.stop()
        hub.close()
