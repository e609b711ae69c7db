"""What tests of Spark share: two drivers on one metastore, with the daemons between them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import command
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.spark.applications import BY_BUILDER, BY_SITE, Application, applications


@dataclass
class Drivers:
    """Two applications; each module attaches them as it needs, and uses databases of its own."""

    writer: Application
    reader: Application
    daemons: Daemons


@pytest.fixture(scope="session")
def drivers(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    """Start them once: a JVM takes seconds."""
    folder = tmp_path_factory.mktemp("drivers")
    writer = {"spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict"}
    with (
        both_daemons(folder, hive.uri) as daemons,
        applications(folder, hive.uri, writer=writer, reader={}) as both,
    ):
        for one in both.values():
            one.do("from topicast.subscriber.spark import attach")
        yield Drivers(both["writer"], both["reader"], daemons)


@pytest.fixture(scope="session")
def more(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Application]]:
    """Run two more, of the same daemons, attached by nothing but how they are started.

    They name the metastore in other ways.
    """
    run = command("main", "run", f"--statestores={drivers.daemons.hub_address}", "--")
    folder = tmp_path_factory.mktemp("more")
    by = {"writer": BY_BUILDER, "reader": BY_SITE}
    with applications(folder, hive.uri, by=by, under=run, writer={}, reader={}) as both:
        yield both
