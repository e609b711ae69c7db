"""Signals: what arrives just before a call that blocks is handled all the same."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from topicast.cli.terminal.signals import SIGNAL_DELAY_S, handled, wait_until_ended
from topicast.tests.cli.processes import completed


class Signalled(Exception):
    """What the handler raises."""


def raise_it(*_: object) -> None:
    raise Signalled


def test_wait_ends_with_the_child_and_leaves_its_status() -> None:
    with subprocess.Popen(("false",)) as child:
        wait_until_ended(child.pid)
        assert child.poll() == 1
        wait_until_ended(child.pid)  # its status was collected


ENDS = """
import os, signal, sys
from topicast.cli.terminal.signals import unwinding
with unwinding((signal.SIGTERM, signal.SIGHUP), code=143):
    try:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        signal.pause() if sys.argv[2] == "ends" else print("goes on")
    finally:
        if sys.argv[2] == "ends":  # another signal does not disturb the clean-up
            os.kill(os.getpid(), signal.SIGTERM)
        print("cleaned up")
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_signal_ends_a_process_after_its_blocks(name: str) -> None:
    script = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n{ENDS}"  # not nohup's
    done = completed([sys.executable, "-c", script, name, "ends"])
    assert (done.returncode, done.stdout) == (143, "cleaned up\n"), done.stderr


def test_signal_that_is_ignored_stays_so() -> None:
    script = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{ENDS}"
    done = completed([sys.executable, "-c", script, "SIGHUP", "stays"])
    assert done.stdout == "goes on\ncleaned up\n"


def test_signal_that_interrupts_no_call_is_handled() -> None:
    """The signal goes to another thread: the call in which the main thread waits goes on."""

    def signal_itself() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    with handled({signal.SIGUSR1: raise_it}), subprocess.Popen(("sleep", "30")) as child:
        timer = threading.Timer(2 * SIGNAL_DELAY_S, signal_itself)
        timer.start()
        started = time.monotonic()
        with pytest.raises(Signalled):
            wait_until_ended(child.pid)
        assert time.monotonic() - started < 20
        timer.join()
        child.kill()
