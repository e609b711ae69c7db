"""A metastore that hangs costs at most 5 s: the next address serves, or itself when it is back."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from topicast.catalog.metastore.hms import Hms
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.integration.stage import Stage, staged
from topicast.tests.waiting import in_time, until
from topicast.topics.backports import Self

FAILOVER_S_MAX: Final = 5.0


class Door:
    """A process of its own that leads to a metastore, and hangs as a stopped metastore does."""

    def __init__(self, to: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "topicast.tests.integration.relay", to],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.uri = self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def hang(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)


@pytest.fixture
def door(own_hive: EmbeddedMetastore) -> Iterator[Door]:
    with Door(own_hive.uri) as found:
        yield found


def seconds_until_seen(stage: Stage, rev: str) -> float:
    """Return how long it takes from now until the subscriber sees the revision."""
    began = time.monotonic()
    stage.sees(rev)
    return time.monotonic() - began


def served_by(stage: Stage, first: str) -> str:
    """Return the address that catalogd uses; it began with ``first``."""
    return [first, *re.findall(r"address changed: from=\S+ to=(\S+)", stage.log())][-1]


@pytest.mark.nightly  # the next calls have each half
def test_next_address_serves_when_the_first_hangs_while_running_and_at_a_restart(
    own_hive: EmbeddedMetastore, door: Door, tmp_path: Path
) -> None:
    with staged(own_hive, f"{door.uri},{own_hive.uri}", tmp_path) as stage:
        stage.sees(stage.revise())
        door.hang()
        stage.sees(stage.revise())
        until(stage.is_well, timeout_s=40, what="health")

        def seconds_after_restart() -> float:
            stage.daemons.kill("catalogd")
            rev = stage.revise()
            stage.daemons.start("catalogd")
            return seconds_until_seen(stage, rev)

        in_time(seconds_after_restart, limit_s=FAILOVER_S_MAX)


def test_way_to_the_next_address_and_back_is_to_the_same_metastore(
    own_hive: EmbeddedMetastore, door: Door, tmp_path: Path
) -> None:
    with (
        Door(own_hive.uri) as other,
        staged(own_hive, f"{door.uri},{other.uri}", tmp_path) as stage,
    ):
        stage.sees(stage.revise())
        epoch = stage.facts()["epoch"]
        doors = {door.uri: door, other.uri: other}
        ways = []

        def seconds_of_the_way() -> float:
            """Let the address that serves hang; the other one serves then."""
            before = served_by(stage, door.uri)
            doors[before].hang()
            took = seconds_until_seen(stage, stage.revise())
            ways.append((before, served_by(stage, door.uri)))
            doors[before].go_on()
            return took

        for _ in doors:
            in_time(seconds_of_the_way, limit_s=FAILOVER_S_MAX)
        assert {*ways} >= {(door.uri, other.uri), (other.uri, door.uri)}
        assert stage.facts()["epoch"] == epoch
        assert "another metastore" not in stage.log()


def test_first_start_takes_the_next_address_when_the_first_hangs(
    own_hive: EmbeddedMetastore, door: Door, tmp_path: Path
) -> None:
    door.hang()
    number = count()

    def seconds_until_healthy() -> float:
        (folder := tmp_path / str(next(number))).mkdir()
        with both_daemons(folder, f"{door.uri},{own_hive.uri}") as daemons:
            began = time.monotonic()
            catalogd = daemons.of("catalogd")
            until(lambda: catalogd.health() == (200, "serving\n"), timeout_s=40, what="health")
            return time.monotonic() - began

    in_time(seconds_until_healthy, limit_s=FAILOVER_S_MAX)


@pytest.mark.nightly
def test_only_metastore_is_followed_again_when_it_no_longer_hangs(
    own_hive: EmbeddedMetastore, door: Door, tmp_path: Path
) -> None:
    with staged(own_hive, door.uri, tmp_path) as stage:
        stage.sees(stage.revise())

        def seconds_after_the_end() -> float:
            door.hang()
            rev = stage.revise()
            until(lambda: "no metastore reached" in stage.health()[1], timeout_s=40, what="warning")
            door.go_on()
            return seconds_until_seen(stage, rev)

        in_time(seconds_after_the_end, limit_s=FAILOVER_S_MAX)
        until(stage.is_well, timeout_s=40, what="health")


def test_read_goes_to_the_next_address_without_any_poll(
    own_hive: EmbeddedMetastore, door: Door
) -> None:
    def seconds_of_a_read() -> float:
        hms = Hms(f"{door.uri},{own_hive.uri}", timeout_s=60)
        names = hms.databases()
        door.hang()
        began = time.monotonic()
        assert hms.databases() == names
        took = time.monotonic() - began
        door.go_on()
        hms.close()
        return took

    in_time(seconds_of_a_read, limit_s=FAILOVER_S_MAX)
