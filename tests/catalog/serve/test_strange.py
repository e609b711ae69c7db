"""Whatever a client sends that is valid, catalogd answers it or drops it, and goes on."""

from random import Random

import pytest

from topicast.tests.cluster.alone import cold, loaded
from topicast.tests.keys import client_for
from topicast.tests.strange import strange
from topicast.topics.keys.clients import Client, ClientRole
from topicast.topics.policy import parse_policy
from topicast.topics.wire.messages.catalog import (
    Compare,
    Grant,
    Lease,
    Pull,
    Scan,
    Sync,
    Used,
    Validate,
)
from topicast.topics.wire.messages.questions import (
    CATALOG_ANSWERS,
    Order,
    ReadCuts,
    ReadFunctions,
    ReadHistory,
    ReadStatistics,
)
from topicast.topics.wire.messages.readers import Cancel, Credit
from topicast.topics.wire.messages.reports import Report, Sweep

KINDS = (
    *(Pull, Pull, Sync, Validate, Scan, Compare, Lease, Grant, Used, Credit, Cancel),
    *(Report, Sweep, Order, ReadCuts, ReadFunctions, ReadHistory, ReadStatistics),
    *CATALOG_ANSWERS,
)
LIMITED = Client(
    name="limited",
    role=ClientRole.DRIVER,
    public="p" * 40,
    policy=parse_policy("d*", setting="databases"),
)


@pytest.mark.parametrize("seed", range(20))
def test_requests_of_any_content_are_borne(seed: int) -> None:
    rng = Random(seed)
    core = loaded() if rng.random() < 0.7 else cold("t")
    for _ in range(100):
        message = strange(rng.choice(KINDS), rng)
        client = LIMITED if rng.random() < 0.2 else client_for(message)
        core.ask(message, rng.choice((b"x", b"y")), client=client)
        if rng.random() < 0.2:
            core.turn()
    core.turn(2)
    assert core.replies(b"x")
