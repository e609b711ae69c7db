"""The hub is killed and starts again: what its readers send and receive at unchanged versions."""

from collections import Counter

from topicast.tests.cluster.cluster import Cluster, NetworkOrder
from topicast.tests.cluster.reader import Setup
from topicast.topics.wire.messages.readers import Join

READERS = 20
DOWN_S = 3.0
ALONE_S = 2.0  # for which the hub is back, and has no publisher
SETTLED_S = 6.0


def lag_max_s(cluster: Cluster) -> float:
    """Return the longest lag of any topic of any reader."""
    replicas = (reader.member.subscriptions.replicas for reader in cluster.readers)
    return max(one.agreement.lag_max_s() for one in replicas)


def test_reader_joins_a_restarted_hub_once_and_catches_up_with_nothing() -> None:
    """P-LIVE-4, P-LIVE-10, P-LIVE-11: first readers are current, then they join one by one."""
    cluster = Cluster(setups=(), hubs=1, check_every=1000)
    hub = cluster.hubs[0]
    for _ in range(READERS):
        cluster.add_reader(Setup())
    cluster.run(cluster.now + 10)
    assert all(reader.member.subscriptions.ready() for reader in cluster.readers)
    hub.crash()
    cluster.run(cluster.now + DOWN_S)
    messages = cluster.record()
    way = (cluster.catalogd.name, hub.name)
    cluster.orders.append(NetworkOrder(way, "Announce", None, hold=True, left=1 << 30))
    hub.revive()
    cluster.run(cluster.now + ALONE_S)
    cluster.mend(hold=True)
    began = cluster.now
    names = {reader.name for reader in cluster.readers}
    while lag_max_s(cluster) >= cluster.now - began:
        assert cluster.now < began + SETTLED_S
        cluster.run(cluster.now + 0.05)
    joined = sum(way[0] in names and isinstance(m, Join) for way, m in messages)
    assert joined < READERS / 2, "the hub has better things to do by now"
    cluster.run(began + SETTLED_S)
    sent = Counter(
        type(m).__name__ for way, m in messages if way[0] in names and way[1] == hub.name
    )
    came = Counter(
        type(m).__name__ for way, m in messages if way[1] in names and way[0] == hub.name
    )
    assert lag_max_s(cluster) < cluster.now - began
    assert sent["Join"] == came["Joined"] == READERS, (sent, came)
    assert not sent["CatchUp"], (sent, came)
    assert not came["Refused"], (sent, came)
    assert came["Welcome"] <= 2 * READERS, (sent, came)
