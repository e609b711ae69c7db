import socket
import subprocess
import sys

import pytest

from topicast.cli.quickstart.processes.ports import ANY, LOOPBACK, usual_or_any

CHOOSES = """
import sys
from topicast.cli.quickstart.processes.ports import usual_or_any
print(usual_or_any(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_free_port_is_taken_as_usual() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
    assert usual_or_any(port) == port


def test_port_in_use_is_left_to_its_owner() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        assert usual_or_any(server.getsockname()[1]) == ANY


def test_port_beside_a_port_in_use_is_not_taken_where_both_are_needed() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert usual_or_any(port - 1, following=1) == ANY


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is reserved")
def test_port_that_another_quickstart_has_chosen_is_left_to_it_until_it_ends() -> None:
    """Given a stack that has chosen and not yet bound, then another gets other ports."""
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", CHOOSES, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == port
        assert usual_or_any(port) == ANY
        assert usual_or_any(port - 1, following=1) == ANY
        other.kill()
    assert usual_or_any(port) == port
