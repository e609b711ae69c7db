"""What a test process starts does not outlive it, whichever session it is in."""

import signal
import subprocess
import sys

import pytest

from topicast.tests.cli.processes import is_gone
from topicast.tests.waiting import until

OWNER = """
import subprocess, sys
from topicast.tests.orphans import end_with_this_process
end = end_with_this_process()
none = subprocess.DEVNULL
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=none, stderr=none)
print(child.pid, flush=True)
sys.stdin.read()
end()
child.wait()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.parametrize("code", [-signal.SIGKILL, 0], ids=["killed", "ended"])
def test_what_a_test_process_has_started_ends_with_it(code: int) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", OWNER], text=True, **pipes) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert not is_gone(pid)
        if code:
            owner.kill()
        owner.communicate(timeout=60)
    assert owner.returncode == code
    until(lambda: is_gone(pid), what="the end of the orphan")
