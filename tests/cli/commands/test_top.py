"""``topicast top`` at a real hub, on a terminal and without a terminal."""

import json
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator
from fcntl import ioctl

import pytest

from topicast.tests.cli.processes import command, statestored, topicast
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until

LINES, COLUMNS = 24, 80


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A hub without catalogd; ``test_schemas`` has both."""
    user_keys("operator")
    with statestored(tmp_path_factory.mktemp("top")) as started:
        yield started.ready["address"]


@pytest.mark.real
@pytest.mark.parametrize(
    "key",
    [
        pytest.param(b"xq", id="q, behind another key"),
        pytest.param(b"\x03", id="Ctrl-C", marks=pytest.mark.nightly),
    ],
)
def test_top_fits_a_terminal_and_ends_by_a_key(hub: str, key: bytes) -> None:
    ours, its = pty.openpty()
    ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    before = termios.tcgetattr(its)
    os.set_blocking(ours, False)
    words = command("main", "top", f"--statestores={hub}")
    shown = b""

    def draws() -> bool:
        nonlocal shown
        try:
            shown += os.read(ours, 65_536)
        except BlockingIOError:
            return False
        return shown.count(b"\x1b[2J") >= 2

    process = subprocess.Popen(words, stdin=its, stdout=its, stderr=its, start_new_session=True)
    try:
        until(draws, timeout_s=30, what="two pictures")
        if key == b"\x03":
            process.send_signal(2)
        else:
            os.write(ours, key)
        assert process.wait(20) == 0
        assert termios.tcgetattr(its) == before, "the terminal is as it was"
    finally:
        process.kill()
        process.wait()
        os.close(its)
        os.close(ours)
    picture = shown.decode().split("\x1b[2J")[1].splitlines()
    assert len(picture) <= LINES
    assert max(map(len, picture)) <= COLUMNS
    assert any(line.startswith(hub.removeprefix("tcp://")) for line in picture)


@pytest.mark.real
def test_top_without_a_terminal_is_one_picture(hub: str) -> None:
    done = topicast("top", "--output=json", f"--statestores={hub}")
    found = json.loads(done.stdout)
    assert found["statestoreds"][0]["deltas_per_s"] == 0.0
    assert (found["catalogd"], found["tables"]) == (None, [])
    assert done.returncode == 3, "as status has it, catalogd being away"


def test_top_of_nobody_says_so_as_every_command() -> None:
    user_keys("operator")
    done = topicast("top", "--once", "--statestores=tcp://127.0.0.1:1")
    assert done.returncode == 3
    assert "not reachable: topicast status says why" in done.stdout
