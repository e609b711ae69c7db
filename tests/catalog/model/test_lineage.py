import pytest

from topicast.catalog.model.lineage import (
    EPOCH_MAX,
    Claim,
    StartRecord,
    Verdict,
    by_topic,
    judge,
)
from topicast.topics.errors import WireError
from topicast.topics.sharding import NAMESPACE

EPOCH = 1000
STARTS = (
    StartRecord(start=11, epoch=EPOCH, versions=(0, 0, 0)),
    StartRecord(start=22, epoch=EPOCH, versions=(5, 0, 3)),
    StartRecord(start=33, epoch=EPOCH, versions=(8, 1, 3)),
)
CURRENT = {0: 9, 1: 1, NAMESPACE: 4}


@pytest.mark.parametrize(
    ("epoch", "start", "versions", "verdict"),
    [
        (0, 0, {}, Verdict.OLD),
        (EPOCH - 1, 99, {0: 10**6}, Verdict.OLD),
        (EPOCH + 1, 33, {0: 1}, Verdict.AHEAD),
        (EPOCH, 99, {0: 1}, Verdict.AHEAD),
        (EPOCH, 0, {}, Verdict.AHEAD),
        (EPOCH, 33, {0: 9, 1: 1, NAMESPACE: 4}, Verdict.ACCEPTED),
        (EPOCH, 33, {}, Verdict.ACCEPTED),
        (EPOCH, 33, {0: 10}, Verdict.AHEAD),
        (EPOCH, 33, {0: 1, NAMESPACE: 5}, Verdict.AHEAD),
        (EPOCH, 22, {0: 8, 1: 1, NAMESPACE: 3}, Verdict.ACCEPTED),
        (EPOCH, 22, {0: 9}, Verdict.AHEAD),
        (EPOCH, 22, {NAMESPACE: 4}, Verdict.AHEAD),
        (EPOCH, 11, {0: 5, 1: 0, NAMESPACE: 3}, Verdict.ACCEPTED),
        (EPOCH, 11, {0: 6}, Verdict.AHEAD),
        (EPOCH, 11, {1: 1}, Verdict.AHEAD),
        (EPOCH, 33, {7: 1}, Verdict.AHEAD),
    ],
)
def test_peer_is_judged_by_epoch_then_start_then_where_the_next_start_began(
    epoch: int, start: int, versions: dict[int, int], verdict: Verdict
) -> None:
    """P-START-2."""
    claim = Claim(epoch=epoch, start=start, versions=versions)
    assert judge(STARTS, CURRENT, claim=claim) is verdict


def test_epoch_that_nobody_can_have_minted_is_refused() -> None:
    with pytest.raises(WireError):
        judge(STARTS, CURRENT, claim=Claim(epoch=EPOCH_MAX + 1, start=33, versions={}))


def test_vector_is_read_by_topic() -> None:
    assert by_topic((5, 6, 7)) == {0: 5, 1: 6, NAMESPACE: 7}
    assert by_topic(()) == {}
