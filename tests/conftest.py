"""Fixtures of all tests: one real Hive metastore for the session."""

from collections.abc import Iterator

import pytest

from topicast.catalog.metastore.embedded import EmbeddedMetastore


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A real metastore on loopback: tests share it, so each uses databases of its own."""
    with EmbeddedMetastore(tmp_path_factory.mktemp("hive"), durable=False) as metastore:
        yield metastore
