"""Workers: code that waits, as an application's threads do, a step at a time on the virtual clock.

Only one thread runs at any moment: the world, or the one worker that it lets run until it waits.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from topicast.subscriber.client.reader import Reader
from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.engine.watch import Watch
from topicast.subscriber.protocol.commands import Command, Operation
from topicast.subscriber.protocol.effects import Watching

if TYPE_CHECKING:
    from topicast.tests.cluster.reader import ReaderProcess

T = TypeVar("T")


class _Over(BaseException):
    """The run has ended, and a worker still waits."""


class Worker:
    """One thread, and the engine of the Subscriber that its body is given.

    ``arrived`` is called when a command is completed and the thread has not gone on yet.
    """

    running = True
    failure = ""

    def __init__(
        self,
        process: "ReaderProcess",
        body: Callable[[Subscriber], None],
        *,
        reader: type[Reader] | None = None,
    ) -> None:
        self.process = process
        self.alive = True
        self.arrived: Callable[[], None] = lambda: None
        self._body = body
        self._reader = reader or Reader
        self._waits_for: Command[object] | None = None
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
        self._resume()

    def subscriber(self) -> Subscriber:
        """Return the public class, in front of the simulated reader."""
        reader = self._reader(self.process.member, self.process.settings)
        reader.engine = self
        return Subscriber.in_front_of(reader)

    # what the worker's own thread calls

    def clock(self) -> float:
        """Return the time of the simulated reader."""
        return self.process.now

    def call(self, operation: Operation[T], *, timeout_s: float) -> T:
        """Put a command to the core, and wait for its result."""
        command = self._waits_for = self.process.command(operation, timeout_s)
        self.process.handle(command)
        if command.outcome is None:
            self._wait()
        return command.result(0)

    def watch(self, pattern: str, *, timeout_s: float) -> Watch:
        """Return a new watch."""
        del timeout_s
        watch = self.process.watches.add(pattern)
        self.process.handle(Watching(on=True))
        return watch

    def pause(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.process.world.at(seconds, self._resume)
        self._wait()

    def halt(self) -> None:
        """Wait until the world calls ``go``."""
        self._wait()

    # what the world calls

    def go(self) -> None:
        """Let a thread that halts run on, until it waits again."""
        self._resume()

    def answered(self, command: Command[object]) -> bool:
        """Take a completed command, if it is ours: the thread goes on after this step."""
        if not self.alive or command is not self._waits_for:
            return False
        self._waits_for = None
        self.arrived()
        if not self.is_current:
            self.process.world.at(0.0, self._resume)
        return True

    def end(self) -> None:
        """End the thread, wherever it waits."""
        self._ended = True
        if self.alive:
            self._resume()

    def _resume(self) -> None:
        if not self.alive:
            return
        self._go.release()
        self._back.acquire()
        if self._error is not None:
            raise self._error

    def _wait(self) -> None:
        self._back.release()
        self._go.acquire()
        if self._ended:
            raise _Over

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
