"""Shows that a long command is at work; make runs this file before anything is installed.

    pip … | python progress.py

It prints pip's lines that name a package; while there are none, it prints the time again and again.
It ends with its input. Standard library only.
"""

import os
import re
import select
import sys
import time

QUIET_S = 4.0  # after a longer silence people believe that a command hangs
SHOWN = re.compile(r" *(Collecting \S+|Building wheel[^:]*|Installing collected)")
INDENT = " " * 6


def main() -> None:
    """Print the lines of standard input that are shown, until it ends."""
    begun = said_at = time.monotonic()
    lines = sys.stdin.fileno()  # unbuffered, so that select notices every line
    rest = b""
    while True:
        ready, _, _ = select.select([lines], [], [], max(said_at + QUIET_S - time.monotonic(), 0))
        text = ""
        if ready:
            got = os.read(lines, 1 << 16)
            if not got:
                return
            *whole, rest = (rest + got).split(b"\n")
            found = [SHOWN.match(line.decode(errors="replace")) for line in whole]
            text = "\n".join(INDENT + one[1] for one in found if one)
        if not text and time.monotonic() - said_at >= QUIET_S:
            text = f"{INDENT}… {time.monotonic() - begun:.0f} s"
        if text:
            print(text, flush=True)
            said_at = time.monotonic()


if __name__ == "__main__":
    main()
