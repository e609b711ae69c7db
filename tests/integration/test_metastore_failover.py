"""A metastore that hangs costs at most 5 s: the next address serves, or itself when it is back."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, Self

import pytest

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.catalog.metastore.hms import Hms
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.stage import Stage, staged
from topicast.tests.waiting import until

FAILOVER_S_MAX: Final = 5.0

pytestmark = pytest.mark.alone


class Door:
    """A process of its own that leads to a metastore, and hangs as a stopped one does."""

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


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """One for this module: what other tests have left would still be loaded for a while."""
    with EmbeddedMetastore(tmp_path_factory.mktemp("hive"), durable=False) as metastore:
        yield metastore


@pytest.fixture
def door(hive: EmbeddedMetastore) -> Iterator[Door]:
    with Door(hive.uri) as found:
        yield found


def assert_seen_in_time(stage: Stage, rev: str, since: float) -> None:
    stage.sees(rev)
    assert time.monotonic() - since <= FAILOVER_S_MAX


def test_next_address_serves_when_the_first_hangs_while_running_and_at_a_restart(
    hive: EmbeddedMetastore, door: Door, tmp_path: Path
) -> None:
    with staged(hive, f"{door.uri},{hive.uri}", tmp_path) as stage:
        stage.sees(stage.revise())
        door.hang()
        assert_seen_in_time(stage, stage.revise(), time.monotonic())
        until(stage.is_well, timeout_s=5, what="health")
        stage.daemons.kill("catalogd")
        rev = stage.revise()
        stage.daemons.start("catalogd")
        assert_seen_in_time(stage, rev, time.monotonic())


def test_first_start_takes_the_next_address_when_the_first_hangs(
    hive: EmbeddedMetastore, door: Door, tmp_path: Path
) -> None:
    door.hang()
    daemons = Daemons(tmp_path, f"{door.uri},{hive.uri}")
    with closing(daemons):
        daemons.start("statestored")
        daemons.start("catalogd")
        began = time.monotonic()
        catalogd = daemons.of("catalogd")
        until(lambda: catalogd.health() == (200, "ok\n"), timeout_s=40, what="health")
        assert time.monotonic() - began <= FAILOVER_S_MAX


def test_only_metastore_is_followed_again_when_it_no_longer_hangs(
    hive: EmbeddedMetastore, door: Door, tmp_path: Path
) -> None:
    with staged(hive, door.uri, tmp_path) as stage:
        stage.sees(stage.revise())
        door.hang()
        rev = stage.revise()
        until(lambda: "no metastore reached" in stage.health()[1], timeout_s=40, what="warning")
        door.go_on()
        assert_seen_in_time(stage, rev, time.monotonic())
        until(stage.is_well, timeout_s=5, what="health")


def test_read_goes_to_the_next_address_without_any_poll(
    hive: EmbeddedMetastore, door: Door
) -> None:
    hms = Hms(f"{door.uri},{hive.uri}", timeout_s=60)
    names = hms.databases()
    door.hang()
    began = time.monotonic()
    assert hms.databases() == names
    assert time.monotonic() - began <= FAILOVER_S_MAX
    hms.close()
