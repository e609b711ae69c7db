"""Workers: code that waits, as an application's threads do, a step at a time on the virtual clock.

Only one thread runs at any moment: the world, or the one worker that it lets run until it waits.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from topicast.subscriber.client.calls import Calls
from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.protocol.facts import Answer, Ask, Fail

if TYPE_CHECKING:
    from topicast.tests.cluster.reader import ReaderProcess


class _Over(BaseException):
    """The run has ended, and a worker still waits."""


class Worker:
    """One thread, and the loop of the Subscriber that its body is given.

    ``asking`` is called with each ask, ``told`` with it and its result, ``arrived`` when the answer
    is there and the thread has not gone on yet.
    """

    running = True

    def __init__(
        self,
        process: "ReaderProcess",
        body: Callable[[Subscriber], None],
        *,
        asking: Callable[[Ask], None],
        told: Callable[[Ask, object], None],
    ) -> None:
        self.process = process
        self.alive = True
        self.arrived: Callable[[], None] = lambda: None
        self._body = body
        self._asking = asking
        self._told = told
        self._waits_for = 0
        self._outcome: object = None
        self._error: BaseException | None = None
        self._ended = False
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def is_current(self) -> bool:
        """Whether this is the thread that runs."""
        return threading.current_thread() is self._thread

    def begin(self) -> None:
        """Start, and run until it waits."""
        self._thread.start()
        self._resume(None)

    def subscriber(self) -> Subscriber:
        """Return the public class, in front of the simulated reader."""
        setup, name = self.process.setup, self.process.name
        found = Subscriber(
            "tcp://hub:1",
            budget=setup.budget_bytes,
            name=name,
            timeout_s=3.0,
            outbox=self.process.member.outbox,
        )
        found._calls = Calls(self.process.member, found._settings)
        found._calls.loop = self  # type: ignore[assignment]  # as an EngineLoop
        return found

    # what the worker's own thread calls

    def ask(self, make: Callable[[int, float], Ask], *, timeout_s: float) -> object:
        """Put an ask to the member, and wait for its answer."""
        world = self.process.world
        made: list[Ask] = []

        def note(number: int) -> Ask:
            made.append(make(number, world.now + timeout_s))
            self._asking(made[0])
            return made[0]

        self._waits_for, self._outcome = self.process.next_id + 1, None
        self.process.ask(note)
        outcome = self._outcome if self._outcome is not None else self._wait()
        if isinstance(outcome, Fail):
            raise outcome.error
        assert isinstance(outcome, Answer)
        self._told(made[0], outcome.result)
        return outcome.result

    def pause(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.process.world.at(seconds, lambda: self._resume(None))
        self._wait()

    def halt(self) -> None:
        """Wait until the world says ``go``."""
        self._wait()

    # what the world calls

    def go(self) -> None:
        """Let a thread that halts run on, until it waits again."""
        self._resume(None)

    def answered(self, effect: Answer | Fail) -> bool:
        """Take an answer, if it is ours: the thread goes on after this step of the world."""
        if not self.alive or effect.id != self._waits_for:
            return False
        self._waits_for = 0
        self.arrived()
        if threading.current_thread() is self._thread:
            self._outcome = effect
        else:
            self.process.world.at(0.0, lambda: self._resume(effect))
        return True

    def end(self) -> None:
        """End the thread, wherever it waits."""
        self._ended = True
        if self.alive:
            self._resume(None)

    def _resume(self, outcome: object) -> None:
        if not self.alive:
            return
        self._outcome = outcome
        self._go.release()
        self._back.acquire()
        if self._error is not None:
            raise self._error

    def _wait(self) -> object:
        self._back.release()
        self._go.acquire()
        if self._ended:
            raise _Over
        return self._outcome

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._body(self.subscriber())
        except _Over:
            pass
        except BaseException as error:  # noqa: BLE001 - the world raises it
            self._error = error
        self.alive = False
        self._back.release()
