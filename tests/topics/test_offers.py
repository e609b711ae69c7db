import pytest

from topicast.topics.topic import (
    ALL_OFFERED,
    FULL,
    MINIMAL,
    NAMESPACE,
    NONE,
    offered,
    offered_names,
)


@pytest.mark.parametrize(
    ("offers", "topic", "levels"),
    [
        (ALL_OFFERED, 7, [MINIMAL, FULL]),
        (MINIMAL, 7, [MINIMAL]),
        (FULL, 7, [FULL]),
        (MINIMAL, NAMESPACE, [MINIMAL, FULL]),
        (FULL, NAMESPACE, [FULL]),
    ],
)
def test_levels_that_may_be_joined(offers: int, topic: int, levels: list[int]) -> None:
    assert [one for one in (NONE, MINIMAL, FULL) if offered(offers, topic, one)] == levels


def test_offers_have_names() -> None:
    assert offered_names(ALL_OFFERED) == "none, minimal, full"
    assert offered_names(MINIMAL) == "none, minimal"
