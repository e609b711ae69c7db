"""Fixtures of catalogd's tests: the same behaviours on the fake and on the real metastore."""

import itertools
from collections.abc import Iterator

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.hms import Hms
from topicast.tests.cluster.alone import Alone, loaded
from topicast.tests.cluster.fake_metastore import FakeMetastore, Place
from topicast.tests.hive.calls import Client
from topicast.tests.hive.releases import RealMetastore

NUMBERS = itertools.count(1)


@pytest.fixture
def core() -> Alone:
    """A catalogd by itself that has read ``d.t`` with partitions 1 and 2."""
    return loaded()


@pytest.fixture(params=["fake", "real"])
def place(request: pytest.FixtureRequest) -> Place:
    """A database on the fake metastore, then a database on the real."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture
def fake_place() -> Place:
    """A database on a fake metastore of the test's own."""
    fake, db = FakeMetastore(), f"port_{next(NUMBERS)}"
    fake.create_database(Database(db, "", f"file:/warehouse/{db}", {}))
    return Place(fake, fake, db, f"file:/warehouse/{db}")


@pytest.fixture
def real_place(hive: RealMetastore) -> Iterator[Place]:
    """A database on the session's real metastore, dropped after the test."""
    db = f"port_{next(NUMBERS)}"
    location = f"{hive.warehouse}/{db}"
    host, _, port = hive.uri.removeprefix("thrift://").partition(":")
    reads = Hms(hive.uri, timeout_s=30)
    with Client(host=host, port=int(port)) as writes:
        writes.create_database(Database(db, "", location, {}))
        yield Place(reads, writes, db, location)
        writes.drop_database(db, True, True)
    reads.close()
