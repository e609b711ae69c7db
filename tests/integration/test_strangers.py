"""Strangers at every port of both daemons for a while: a change still arrives, and nothing grows.

The ports are the two of the hub, that of catalogd, and the web pages of both; drivers have none.
STRANGERS_S says for how long at sockets, and at pages; make nightly takes 60 s.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import command
from topicast.tests.integration.daemons import can_open
from topicast.tests.integration.stage import Stage, staged
from topicast.tests.integration.strangers import PAGES
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.keys.clients import ClientRole
from topicast.topics.keys.folder import OPERATOR, default_folder
from topicast.topics.link import new_pair

STRANGERS_S: Final = float(os.environ.get("STRANGERS_S", "2"))
GROWTH_BYTES_MAX: Final = 64 << 20
LOG_LINES_MAX: Final = 8  # of a daemon, however long strangers come
LOG_BYTES_MAX: Final = 4096
ARRIVES_S: Final = 1.0  # half of the changes, on a machine that may stand still for seconds
FILES_LEFT_MAX: Final = 40  # catalogd opens some to its metastore; strangers had 400 at a time
NAMES: Final = ("statestored", "catalogd")


@pytest.fixture(scope="module")
def stage(own_hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(own_hive, own_hive.uri, tmp_path_factory.mktemp("strangers")) as found:
        yield found


def pages(stage: Stage) -> list[str]:
    """Return host and port of the pages of each daemon, as the strangers take them."""
    found = [stage.daemons.of(name).ready["web"] for name in NAMES]
    return [f"{url.removeprefix('http://')}={PAGES}" for url in found]


def sockets(stage: Stage) -> list[str]:
    """Return host, port and public key of each socket, as the strangers take them."""
    own = user_keys(OPERATOR).credential
    hub = own.hub_key(stage.daemons.hub_address)
    found = {
        stage.daemons.hub_address: hub,
        stage.facts("statestored")["data_address"]: hub,
        stage.daemons.of("catalogd").ready["address"]: own.catalogd,
    }
    return [f"{address.removeprefix('tcp://')}={key}" for address, key in found.items()]


def revoked(stage: Stage, folder: Path) -> Path:
    """Return the key file of a driver that has read, and that is revoked since."""
    keys, name = default_folder(os.environ), f"revoked-{folder.name}"
    file = keys.add(name, ClientRole.DRIVER, new_pair, to=folder / "revoked.key")
    until(lambda: can_open(stage.daemons.hub_address, file), what="the client")
    keys.revoke(name)
    until(lambda: not can_open(stage.daemons.hub_address, file), what="its end")
    return file


class Cost:
    """What a daemon has used since this was made."""

    def __init__(self, stage: Stage, name: str) -> None:
        daemon = stage.daemons.of(name)
        self._log, self._pid = daemon.log, daemon.process.pid
        self._memory, self._files, self._logged = self._resident(), self._open(), self._written()
        self.memory_bytes = 0

    def look(self) -> None:
        """Take what it holds now, if that is more than before."""
        self.memory_bytes = max(self.memory_bytes, self._resident() - self._memory)

    @property
    def files(self) -> int:
        return self._open() - self._files

    @property
    def logged(self) -> str:
        return self._log.read_text()[self._logged :]

    def _resident(self) -> int:
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) << 10

    def _open(self) -> int:
        return len(list(Path(f"/proc/{self._pid}/fd").iterdir()))

    def _written(self) -> int:
        return len(self._log.read_text())


@pytest.mark.nightly  # it measures: nothing else may run meanwhile
@pytest.mark.alone
@pytest.mark.parametrize("ports", [sockets, pages])
@pytest.mark.timeout(120 + 2 * STRANGERS_S)
def test_strangers_at_every_port_cost_little_and_delay_no_change(
    stage: Stage, tmp_path: Path, ports: Callable[[Stage], list[str]]
) -> None:
    """One kind of port after the other: strangers share the machine's cores with the daemons."""
    file = revoked(stage, tmp_path)
    stage.sees(stage.revise())
    costs = [Cost(stage, name) for name in NAMES]
    before = [stage.facts(name)["handshakes_failed"] for name in NAMES]
    strangers = subprocess.Popen(
        command("topicast.tests.integration.strangers", file, *ports(stage)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert strangers.stdout is not None
        assert strangers.stdout.readline() == "ready\n"
        slowest_s, arrived_s = 0.0, list[float]()
        until_at = time.monotonic() + STRANGERS_S
        while time.monotonic() < until_at:
            revision, begin = stage.revise(), time.monotonic()
            stage.sees(revision)
            arrived_s.append(time.monotonic() - begin)
            for name in NAMES:
                begin = time.monotonic()
                assert stage.daemons.of(name).health()[0] == 200
                slowest_s = max(slowest_s, time.monotonic() - begin)
            for cost in costs:
                cost.look()
        tries = json.loads(strangers.communicate(timeout=60)[0])
    finally:
        strangers.kill()
        strangers.communicate()
    assert min(tries.values()) > 0, tries
    assert median(arrived_s) <= ARRIVES_S, arrived_s
    assert max(cost.memory_bytes for cost in costs) <= GROWTH_BYTES_MAX
    for cost in costs:
        assert len(cost.logged) <= LOG_BYTES_MAX
        assert cost.logged.count("\n") <= LOG_LINES_MAX, cost.logged
    after = [stage.facts(name)["handshakes_failed"] for name in NAMES]
    if ports is sockets:
        assert all(now > then for now, then in zip(after, before, strict=True))
    until(lambda: max(cost.files for cost in costs) <= FILES_LEFT_MAX, what="their descriptors")
    print(tries, slowest_s, [(cost.memory_bytes, cost.logged, cost.files) for cost in costs])
