"""One hub and one catalogd as processes, which a test may kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.hosts import Hosts


@pytest.fixture
def daemons(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[Daemons]:
    """Both at work on the session's metastore."""
    with both_daemons(tmp_path, hive.uri) as found:
        yield found


@pytest.fixture(scope="session")
def own_hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A metastore with few tables, which a test may stop: each module leaves nothing in it.

    ``GROUPS`` has their files, so that one process runs them.
    """
    with EmbeddedMetastore(tmp_path_factory.mktemp("hive"), durable=False) as metastore:
        yield metastore


@pytest.fixture
def hosts(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[Hosts]:
    found = Hosts(tmp_path, hive.uri)
    yield found
    found.close()
