"""Signals: what a command does at them, from ``with`` to its end."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

Handler = Callable[..., object] | signal.Handlers


@contextmanager
def handled(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Handle these signals until the block ends, then as before."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
