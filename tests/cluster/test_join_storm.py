"""Many readers join one slow hub at once: the load must not grow with the delay."""

from collections import Counter

import pytest

from topicast.tests.cluster.cluster import Cluster
from topicast.tests.cluster.reader import Setup


@pytest.mark.parametrize(
    ("readers", "frame_s", "settled_s"),
    [(60, 0.005, 3), (60, 0.01, 6), (60, 0.015, 12), (250, 0.005, 15)],
)
def test_readers_that_join_a_slow_hub_at_once_all_join(
    readers: int, frame_s: float, settled_s: float
) -> None:
    """P-LIVE-8, P-CATCH-12: its answers are late by up to 10 s, and none is sent for nothing."""
    cluster = Cluster(setups=(), hubs=1, check_every=1000)
    cluster.run(cluster.now + 5)
    sent, hub = cluster.record(), cluster.hubs[0]
    hub.frame_s = frame_s
    for _ in range(readers):
        cluster.add_reader(Setup())
    cluster.run(cluster.now + settled_s)
    counts = Counter(type(message).__name__ for way, message in sent if way[1] == hub.name)
    assert all(reader.member.subscriptions.ready() for reader in cluster.readers), counts
    assert counts["Join"] <= 3 * readers
    assert counts["CatchUp"] <= 1.1 * readers
    assert not counts["Cancel"]
