from itertools import count

from topicast.topics.requests import RETRY_S, RETRY_S_MAX, Requests


def _requests() -> Requests[str]:
    ids = count(1)
    return Requests(lambda: next(ids))


def test_request_is_due_at_once_and_then_after_growing_pauses() -> None:
    requests = _requests()
    assert requests.deadline is None
    one = requests.open("table", now=5.0)
    assert requests.deadline == 5.0
    times = []
    now = 5.0
    for _ in range(7):
        assert requests.due(now) == ((one, "table"),)
        assert requests.due(now) == ()
        assert requests.deadline is not None
        times.append(requests.deadline - now)
        now = requests.deadline
    assert times[:3] == [RETRY_S, 2 * RETRY_S, 4 * RETRY_S]
    assert times[-1] == RETRY_S_MAX


def test_request_to_a_slow_peer_is_due_again_later() -> None:
    requests = _requests()
    one = requests.open("table", now=0.0, pause_s=20.0)
    for now in (0.0, 20.0, 40.0):
        assert requests.deadline == now
        assert requests.due(now) == ((one, "table"),)


def test_closed_request_is_never_due_again_and_closes_once() -> None:
    requests = _requests()
    one, other = requests.open("a", now=0.0), requests.open("b", now=0.0)
    assert (requests.get(one), len(requests)) == ("a", 2)
    assert requests.find(lambda subject: subject == "b") == (other,)
    assert requests.close(one) == "a"
    assert requests.close(one) is None
    assert requests.get(one) is None
    assert requests.due(99.0) == ((other, "b"),)
    requests.clear()
    assert (len(requests), requests.deadline) == (0, None)


def test_peer_that_is_back_is_sent_every_request_at_once() -> None:
    requests = _requests()
    one = requests.open("a", now=0.0)
    requests.due(0.0)
    requests.due(RETRY_S)
    requests.retry_now(now=2.0)
    assert requests.due(2.0) == ((one, "a"),)
    assert requests.deadline == 2.0 + RETRY_S


def test_request_that_backs_off_is_sent_again_at_its_time() -> None:
    requests = _requests()
    one = requests.open("a", now=0.0)
    requests.back_off(one, until=3.0)
    requests.back_off(one + 1, until=1.0)
    assert requests.due(2.9) == ()
    assert requests.due(3.0) == ((one, "a"),)


def test_deadline_is_that_of_the_first_request_after_every_change() -> None:
    requests = _requests()
    one = requests.open("a", now=0.0)
    requests.due(0.0)
    assert requests.deadline == RETRY_S
    other = requests.open("b", now=0.5)
    assert requests.deadline == 0.5
    requests.back_off(other, until=0.7)
    assert requests.deadline == 0.7
    requests.send_by(one, 0.6)
    assert requests.deadline == 0.6
    requests.close(one)
    assert requests.deadline == 0.7
    requests.retry_now(now=0.65)
    assert requests.deadline == 0.65
    requests.clear()
    assert requests.deadline is None
