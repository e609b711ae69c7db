"""A fleet of the older release, before anything of it is upgraded."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from topicast.tests.hive.releases import RealMetastore
from topicast.tests.upgrade.fleet import OLD, Fleet


@pytest.fixture
def fleet(hive: RealMetastore, tmp_path: Path) -> Iterator[Fleet]:
    """Keys, hubs and catalogd are of the older release."""
    with closing(Fleet(tmp_path, hive.uri)) as found:
        found.make_keys(OLD)
        for name in ("hub-1", "hub-2", "catalogd"):
            found.start(OLD, name)
        yield found
