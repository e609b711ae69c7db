"""What all tests share: one real Hive metastore for the session, properties without a clock."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from topicast.catalog.metastore.embedded import EmbeddedMetastore

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let what is recorded in files be written as it is now; the diff is read like code."""
    parser.addoption("--rewrite", action="store_true", help="write tests/sim/scenarios/*.txt anew")


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A real metastore on loopback: tests share it, so each uses databases of its own."""
    with EmbeddedMetastore(tmp_path_factory.mktemp("hive"), durable=False) as metastore:
        yield metastore
