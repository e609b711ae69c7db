"""The outbox of a simulated process: each write is noted, and a thread waits in virtual time."""

from collections.abc import Callable

from topicast.subscriber.engine.write_outbox import EVERY, WriteOutbox
from topicast.topics.wire.messages.reports import Write

Note = Callable[[bytes, Write], None]  # of a driver
Wait = Callable[[Callable[[], bool], float], None]  # until it is so, or so many seconds


def _no_thread(_is_over: Callable[[], bool], _timeout_s: float) -> None:
    raise AssertionError("no thread of this process waits")


class SimulatedOutbox(WriteOutbox):
    """Calls ``noted`` with each write that begins or ends."""

    def __init__(self, *, driver: bytes, noted: Note, wait: Wait = _no_thread) -> None:
        super().__init__(driver=driver, metastore="")
        self._noted = noted
        self._wait = wait

    def add(self, wanted: str, partitions: tuple[str, ...] = (), *, state: int) -> int:
        number = super().add(wanted, partitions, state=state)
        write = Write(number=number, state=state, object=wanted, partitions=partitions)
        self._noted(self.driver, write)
        return number

    def end(self, write: Write) -> None:
        self._noted(self.driver, write)
        super().end(write)

    def wait(self, number: int = EVERY, *, timeout_s: float) -> bool:
        self._wait(lambda: bool(self.has_finished(number) or self.refusal), timeout_s)
        return super().wait(number, timeout_s=0.0)
