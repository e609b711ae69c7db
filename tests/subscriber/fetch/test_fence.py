"""The fence remembers invalidations of what is being pulled, and of nothing else."""

from topicast.subscriber.fetch.fence import InvalidationFence


def test_only_what_is_being_pulled_is_remembered() -> None:
    fence = InvalidationFence()
    fence.invalidate(b"a", 5)
    fence.begin(1, b"a")
    assert fence.minimum(b"a") == 0
    fence.invalidate(b"a", 7)
    fence.invalidate(b"a", 6)
    assert (fence.minimum(b"a"), fence.minimum(b"b")) == (7, 0)
    fence.begin(1, b"a")
    fence.end(b"a")
    assert fence.minimum(b"a") == 7  # somebody pulls it still
    fence.end(b"a")
    assert (fence.minimum(b"a"), len(fence)) == (0, 0)


def test_horizon_counts_for_every_table_of_its_topic() -> None:
    fence = InvalidationFence()
    fence.begin(1, b"a")
    fence.begin(2, b"b")
    fence.invalidate_all(1, 9)
    assert (fence.minimum(b"a"), fence.minimum(b"b")) == (9, 0)
    fence.new_epoch(1)
    fence.invalidate(b"b", 4)
    fence.new_epoch(1)
    assert (fence.minimum(b"a"), fence.minimum(b"b")) == (0, 4)
