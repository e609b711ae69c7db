from collections.abc import Iterator

import pytest

from topicast.tests.cluster.served import Served, served
from topicast.tests.cluster.shopping import Shopping


@pytest.fixture
def shopping() -> Shopping:
    """An application whose subscriber holds a shop of six tables at full."""
    return Shopping()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a shop to all tests of a module; they leave its tables' names as they are."""
    with served(tmp_path_factory.mktemp("state")) as found:
        yield found
