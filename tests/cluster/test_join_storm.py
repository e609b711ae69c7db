"""Many readers join one slow hub at once: the load must not grow with the delay."""

from collections import Counter

import pytest

from topicast.tests.cluster.cluster import Cluster
from topicast.tests.cluster.reader import Setup

READERS = 60


@pytest.mark.parametrize(("frame_s", "settled_s"), [(0.005, 3), (0.01, 10), (0.015, 40)])
def test_readers_that_join_a_slow_hub_at_once_all_join(frame_s: float, settled_s: float) -> None:
    """P-LIVE-8, P-CATCH-12: its heartbeats are late by up to 3 s."""
    cluster = Cluster(setups=(), hubs=1, check_every=100)
    cluster.run(cluster.now + 5)
    sent, hub = cluster.record(), cluster.hubs[0]
    hub.frame_s = frame_s
    for _ in range(READERS):
        cluster.add_reader(Setup())
    cluster.run(cluster.now + settled_s)
    counts = Counter(type(message).__name__ for way, message in sent if way[1] == hub.name)
    assert all(reader.member.subscriptions.ready() for reader in cluster.readers), counts
    assert counts["Join"] <= 2 * READERS
    assert counts["CatchUp"] <= 3 * READERS
