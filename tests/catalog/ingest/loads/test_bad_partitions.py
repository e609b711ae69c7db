"""A partition that the metastore cannot read is tried again, ever more rarely."""

from topicast.catalog.ingest.loads.bad_partitions import (
    BAD_RETRY_S,
    BAD_RETRY_S_MAX,
    BadPartitions,
)
from topicast.topics.turn import Turn


def test_pause_before_a_bad_partition_is_read_again_doubles_up_to_a_minute() -> None:
    turn = Turn[None]()
    bad, pauses_s = BadPartitions(turn), []
    for _ in range(8):
        assert bad.on_refused(("ds=1",), "no such serde") == "ds=1"
        pauses_s.append(bad.retry_at - turn.now)
        assert bad.next(lambda _: False) == (), "it is not due"
        turn.now = bad.retry_at
        assert bad.next(lambda _: False) == ("ds=1",)
    assert pauses_s == [min(BAD_RETRY_S * 2**n, BAD_RETRY_S_MAX) for n in range(8)]
