"""Screen: a picture that is drawn again and again, until q or Ctrl-C."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import click

CLEAR: Final = "\x1b[H\x1b[2J"  # it clears a terminal
QUIT: Final = b"q"
KEYS_MAX: Final = 1024  # that are read at once


def clear() -> None:
    """Let the next picture begin at the top of the terminal."""
    click.echo(CLEAR, nl=False)


@contextmanager
def keys_at_once() -> Iterator[None]:
    """If standard input is a terminal, let each key arrive at once, without the end of a line."""
    if not _has_keys():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def draw_again(draw: Callable[[], None], *, every_s: float) -> None:
    """Call ``draw`` every ``every_s``, until somebody presses q or Ctrl-C."""
    with suppress(KeyboardInterrupt), keys_at_once():
        while True:
            draw()
            if _quits(every_s):
                return


def _quits(within_s: float) -> bool:
    """Return whether q is pressed within ``within_s`` seconds."""
    deadline = time.monotonic() + within_s
    while (left_s := deadline - time.monotonic()) > 0:
        if not _has_keys():
            time.sleep(left_s)
        elif select.select([sys.stdin], [], [], left_s)[0] and _asks_to_end():
            return True
    return False


def _asks_to_end() -> bool:
    """Return whether q is among the keys, or the terminal has gone."""
    pressed = os.read(sys.stdin.fileno(), KEYS_MAX)
    return QUIT in pressed or not pressed


def _has_keys() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
