"""A driver that is killed stays in the list, with its name, as gone."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from topicast.cli.client.operator import Operator
from topicast.cli.commands.drivers import drivers_of
from topicast.statestore.members.drivers import SILENT
from topicast.tests.cluster.served import served
from topicast.tests.waiting import until
from topicast.topics.settings import parse_addresses

WAIT_S = 60
DRIVER = """
import os, sys
from topicast.subscriber import Subscriber
facts = {"driver": "app-1@node1:7", "application": "nightly", "application_id": "app-1"}
facts |= {"user": "ann", "host": "node1", "pid": os.getpid(), "state": "live", "control": "on"}
with Subscriber(sys.argv[1], name="app-1@node1:7", driver_facts=lambda: facts):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.nightly  # 60 s; test_verdicts kills a driver without Spark
def test_driver_that_is_killed_is_listed_as_gone_with_its_name(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        addresses = parse_addresses(running.address, setting="statestores")

        def listed() -> list[dict[str, Any]]:
            with Operator(addresses, timeout_s=WAIT_S) as visit:
                return drivers_of(visit)

        words = [sys.executable, "-c", DRIVER, running.address]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(words, **pipes, text=True) as process:  # type: ignore[call-overload]  # of two texts
            try:
                assert process.stdout.readline() == "ready\n"
                (row,) = listed()
                assert (row["state"], row["application"]) == ("live", "nightly")
            finally:
                os.kill(process.pid, signal.SIGKILL)
        until(lambda: [one["state"] for one in listed()] == ["gone"], timeout_s=WAIT_S)
        (row,) = listed()
        assert (row["reason"], row["user"], row["host"]) == (SILENT, "ann", "node1")
        assert (row["application"], row["application_id"]) == ("nightly", "app-1")
        assert row["pid"] == process.pid
        assert row["since_s"] < WAIT_S
