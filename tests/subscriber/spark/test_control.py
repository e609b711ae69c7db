import pytest

from topicast.subscriber.spark.control import least
from topicast.topics.objects.rules import DRY_RUN, OFF, ON


@pytest.mark.parametrize(
    ("said", "wanted", "found"),
    [
        (ON, ON, ON),
        (ON, DRY_RUN, DRY_RUN),
        (ON, OFF, OFF),
        (DRY_RUN, ON, DRY_RUN),
        (DRY_RUN, OFF, OFF),
        (OFF, ON, OFF),
        (OFF, DRY_RUN, OFF),
    ],
)
def test_either_side_can_switch_it_off(said: str, wanted: str, found: str) -> None:
    assert least(said, wanted) == found
