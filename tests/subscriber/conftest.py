import pytest

from topicast.tests.cluster.shopping import Shopping


@pytest.fixture
def shopping() -> Shopping:
    """An application whose subscriber holds a shop of six tables at full."""
    return Shopping()
