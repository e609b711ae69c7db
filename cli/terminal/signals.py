"""Signals: how a command handles them, from ``with`` to its end."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

Handler = Callable[..., object] | signal.Handlers

SIGNAL_DELAY_S: Final = 0.5


@contextmanager
def handled(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Handle these signals by ``handlers`` until the block ends, then as before."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def unwinding(numbers: Iterable[signal.Signals], *, code: int) -> Iterator[None]:
    """End the process with ``code`` at the first of these signals, after its ``with`` blocks ended.

    So a command tells its peers that it leaves. A signal that is ignored, as by nohup, stays so.
    """
    obeyed = [one for one in numbers if signal.getsignal(one) is signal.SIG_DFL]

    def end(*_: object) -> None:
        for number in obeyed:
            signal.signal(number, signal.SIG_IGN)
        raise SystemExit(code)

    with handled(dict.fromkeys(obeyed, end)):
        yield


def wait_until_ended(pid: int) -> None:
    """Wait until the child ``pid`` has ended, and leave its exit status to its parent object.

    A thread waits. Python handles a signal that arrives just before a blocking call only when that
    call returns, so the main thread makes no call that is longer than SIGNAL_DELAY_S.
    """

    def wait() -> None:
        with suppress(ChildProcessError):  # its parent object has read its exit status
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    while waiting.is_alive():
        waiting.join(SIGNAL_DELAY_S)
