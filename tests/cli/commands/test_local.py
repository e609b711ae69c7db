import os
import signal
from pathlib import Path

import pytest
from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import HOST
from topicast.tests.cli.processes import END_TIMEOUT_S, is_gone, running, topicast
from topicast.tests.waiting import until


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_metastore_starts_by_itself_and_ends_with_its_process(tmp_path: Path) -> None:
    """Given a metastore with data, when it is killed, then its JVM ends; a restart has the data."""
    flags = ("metastore", "start", f"--folder={tmp_path / 'ms'}", "--port=0")
    with running(tmp_path / "log", "main", *flags) as first:
        port = int(first.ready["uri"].rpartition(":")[2])
        with HMSClient(host=HOST, port=port) as client:
            assert client.get_all_databases() == ["default"]
        (jvm,) = children(first.process.pid)
        first.end(signal.SIGKILL)
        until(lambda: is_gone(jvm), what="the end of the JVM")
    with running(tmp_path / "log", "main", *flags) as second:
        (jvm,) = children(second.process.pid)
        assert second.end(signal.SIGTERM) == 0
        assert is_gone(jvm)


@pytest.mark.nightly
def test_metastore_that_dies_is_reported(tmp_path: Path) -> None:
    flags = ("metastore", "start", f"--folder={tmp_path / 'ms'}", "--port=0")
    with running(tmp_path / "log", "main", *flags) as metastore:
        (jvm,) = children(metastore.process.pid)
        os.kill(jvm, signal.SIGKILL)
        assert metastore.process.wait(END_TIMEOUT_S) == 1
    assert "the metastore ended by itself" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("words", [("quickstart", "--once"), ("metastore", "start")])
def test_folder_that_cannot_be_made_is_named(words: tuple[str, ...]) -> None:
    done = topicast(*words, "--folder=/proc/none")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "folder='/proc/none' is not valid: a writable folder (" in done.stderr
    assert "process" not in done.stdout


def test_metastore_needs_a_folder() -> None:
    done = topicast("metastore", "start")
    assert done.returncode == 2
    assert "folder" in done.stderr
