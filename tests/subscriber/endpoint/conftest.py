"""A shop whose catalog is in memory, and a service that answers out of it."""

import pytest

from topicast.subscriber.endpoint.service import Service
from topicast.tests.cluster.shop import Shop
from topicast.tests.cluster.shopping import Shopping

TOKEN = "of-these-tests-0123456789"


@pytest.fixture
def shop() -> Shop:
    """A service with tables that are never served, too."""
    made = Shop()
    made.create("shop.acid", keys=("ds",))
    made.remark("shop.acid", {"transactional": "TRUE"})
    made.create("shop.ice")
    made.remark("shop.ice", {"table_type": "ICEBERG"})
    made.create("shop.guarded", keys=("ds",))
    made.remark("shop.guarded", {"PARTITION_LEVEL_PRIVILEGE": "TRUE"})
    made.create("shop.pairs", keys=("a", "b"))
    made.add("shop.pairs", {f"a={a}/b={b}": {} for a in ("1", "2") for b in ("x", "y%2F", "z")})
    return made


@pytest.fixture
def shopping(shop: Shop) -> Shopping:
    found = Shopping(shop, late=True)
    found.call(lambda catalog: catalog.join(range(found.num_topics)))
    return found


@pytest.fixture
def service(shopping: Shopping) -> Service:
    """Answers from memory, in any thread and without time."""
    at_once, patient = shopping.call(lambda to: (to.contents(may_wait=False), to.contents()))
    return Service(at_once, patient, token=TOKEN)
