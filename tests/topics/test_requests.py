from itertools import count

import pytest

from topicast.topics.requests import RETRY_S, RETRY_S_MAX, Requests
from topicast.topics.turn import Turn


@pytest.fixture
def turn() -> Turn[object]:
    return Turn()


@pytest.fixture
def requests(turn: Turn[object]) -> Requests[str]:
    return Requests(count(1).__next__, turn)


def due(requests: Requests[str], turn: Turn[object], *, now: float) -> tuple[tuple[int, str], ...]:
    """Return what is to be sent at ``now``."""
    turn.now = now
    return requests.due()


def test_request_is_due_at_once_and_then_after_growing_pauses(
    requests: Requests[str], turn: Turn[object]
) -> None:
    assert requests.deadline is None
    turn.now = 5.0
    one = requests.open("table")
    assert requests.deadline == 5.0
    times = []
    now = 5.0
    for _ in range(7):
        assert due(requests, turn, now=now) == ((one, "table"),)
        assert due(requests, turn, now=now) == ()
        assert requests.deadline is not None
        times.append(requests.deadline - now)
        now = requests.deadline
    assert times[:3] == [RETRY_S, 2 * RETRY_S, 4 * RETRY_S]
    assert times[-1] == RETRY_S_MAX


def test_request_to_a_slow_peer_is_due_again_later(
    requests: Requests[str], turn: Turn[object]
) -> None:
    one = requests.open("table", pause_s=20.0)
    for now in (0.0, 20.0, 40.0):
        assert requests.deadline == now
        assert due(requests, turn, now=now) == ((one, "table"),)


def test_closed_request_is_never_due_again_and_closes_once(
    requests: Requests[str], turn: Turn[object]
) -> None:
    one, other = requests.open("a"), requests.open("b")
    assert (requests.get(one), len(requests)) == ("a", 2)
    assert requests.find(lambda subject: subject == "b") == (other,)
    assert requests.close(one) == "a"
    assert requests.close(one) is None
    assert requests.get(one) is None
    assert due(requests, turn, now=99.0) == ((other, "b"),)
    requests.clear()
    assert (len(requests), requests.deadline) == (0, None)


def test_peer_that_is_back_is_sent_every_request_at_once(
    requests: Requests[str], turn: Turn[object]
) -> None:
    one = requests.open("a")
    due(requests, turn, now=0.0)
    due(requests, turn, now=RETRY_S)
    turn.now = 2.0
    requests.retry_now()
    assert due(requests, turn, now=2.0) == ((one, "a"),)
    assert requests.deadline == 2.0 + RETRY_S


def test_request_that_backs_off_is_sent_again_at_its_time(
    requests: Requests[str], turn: Turn[object]
) -> None:
    one = requests.open("a")
    requests.back_off(one, for_s=3.0)
    requests.back_off(one + 1, for_s=1.0)
    assert due(requests, turn, now=2.9) == ()
    assert due(requests, turn, now=3.0) == ((one, "a"),)


def test_deadline_is_that_of_the_first_request_after_every_change(
    requests: Requests[str], turn: Turn[object]
) -> None:
    one = requests.open("a")
    due(requests, turn, now=0.0)
    assert requests.deadline == RETRY_S
    turn.now = 0.5
    other = requests.open("b")
    assert requests.deadline == 0.5
    requests.back_off(other, for_s=0.25)
    assert requests.deadline == 0.75
    requests.send_by(one, 0.6)
    assert requests.deadline == 0.6
    requests.close(one)
    assert requests.deadline == 0.75
    turn.now = 0.65
    requests.retry_now()
    assert requests.deadline == 0.65
    requests.clear()
    assert requests.deadline is None
