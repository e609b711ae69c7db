"""The fence remembers invalidations of what is being pulled, and of nothing else."""

from topicast.subscriber.fetch.fence import Fence


def test_only_what_is_being_pulled_is_remembered() -> None:
    fence = Fence()
    fence.hit(b"a", 5)
    fence.begin(1, b"a")
    assert fence.of(b"a") == 0
    fence.hit(b"a", 7)
    fence.hit(b"a", 6)
    assert (fence.of(b"a"), fence.of(b"b")) == (7, 0)
    fence.begin(1, b"a")
    fence.end(b"a")
    assert fence.of(b"a") == 7  # somebody pulls it still
    fence.end(b"a")
    assert (fence.of(b"a"), len(fence)) == (0, 0)


def test_horizon_counts_for_every_table_of_its_topic() -> None:
    fence = Fence()
    fence.begin(1, b"a")
    fence.begin(2, b"b")
    fence.horizon(1, 9)
    assert (fence.of(b"a"), fence.of(b"b")) == (9, 0)
    fence.renew(1)
    fence.hit(b"b", 4)
    fence.renew(1)
    assert (fence.of(b"a"), fence.of(b"b")) == (0, 4)
