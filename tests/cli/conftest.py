"""Fixtures of the edge's tests: one statestored and one catalogd on the session's metastore."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import Running, catalogd, statestored
from topicast.tests.waiting import until


@dataclass(frozen=True, slots=True)
class Served:
    """A running pair of daemons."""

    statestored: Running
    catalogd: Running
    state_dir: Path

    @property
    def statestores(self) -> str:
        return self.statestored.ready["address"]


@pytest.fixture(scope="session")
def served(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Both daemons on the real metastore; tests share them, so none ends them."""
    folder = tmp_path_factory.mktemp("served")
    with (
        statestored(folder) as hub,
        catalogd(folder, "--num_topics=16", hive=hive.uri, statestores=hub.ready["address"]) as own,
    ):
        until(lambda: hub.health()[0] == 200, timeout_s=30, what="the hub to be seeded")
        until(lambda: own.health() == (200, "serving\n"), timeout_s=60, what="catalogd's health")
        yield Served(hub, own, folder / "state")
