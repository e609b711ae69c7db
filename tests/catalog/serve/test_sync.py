"""A request waits until everything that was committed before it is published, and is taken once."""

import pytest

from topicast.catalog.ingest.loader import NEVER
from topicast.catalog.serve import sync as service
from topicast.catalog.serve.sync import WAIT_S_MAX, EventWaits

NOW = 100.0
A, B = (b"a", 1), (b"b", 1)


def add(waits: EventWaits[None], who: tuple[bytes, int] = A, *, polls_begun: int = 4) -> bool:
    return waits.add(*who, None, polls_begun=polls_begun, now=NOW)


def published(waits: EventWaits[None], unresolved: int = NEVER) -> list[tuple[bytes, int]]:
    waits.check()
    return [(one.peer, one.request) for one in waits.take_published(unresolved)]


def test_poll_that_began_before_the_request_ends_no_wait() -> None:
    """P-SYNC-1."""
    waits = EventWaits[None]()
    add(waits, polls_begun=4)
    assert waits.wants_poll(4)
    waits.on_polled(4, seq=1)
    assert published(waits) == []
    waits.on_polled(5, seq=1)
    assert published(waits) == [A]


def test_requests_share_the_next_poll() -> None:
    """P-SYNC-1."""
    waits = EventWaits[None]()
    add(waits, A)
    add(waits, B)
    assert not waits.wants_poll(5), "it has begun"
    add(waits, (b"c", 1), polls_begun=5)
    assert waits.wants_poll(5)
    waits.on_polled(5, seq=1)
    assert published(waits) == [A, B]
    assert len(waits) == 1


def test_request_waits_until_all_of_its_events_are_published() -> None:
    """P-SYNC-1."""
    waits = EventWaits[None]()
    add(waits)
    waits.on_polled(5, seq=7)
    assert not waits.wants_poll(4), "what it waits for is known"
    assert published(waits, 6) == []
    assert published(waits, 7) == []
    assert published(waits, 8) == [A]
    assert published(waits) == []


def test_later_polls_make_no_request_wait_longer() -> None:
    waits = EventWaits[None]()
    add(waits)
    waits.on_polled(5, seq=7)
    waits.on_polled(6, seq=8)
    assert published(waits, 8) == [A]


def test_next_poll_stands_in_for_one_that_failed() -> None:
    waits = EventWaits[None]()
    add(waits)
    waits.on_polled(6, seq=2)
    assert published(waits) == [A]


def test_repeated_request_is_taken_once() -> None:
    waits = EventWaits[None]()
    add(waits, polls_begun=4)
    assert add(waits, polls_begun=5)
    waits.on_polled(5, seq=1)
    assert published(waits) == [A]
    assert len(waits) == 0


def test_requests_of_a_peer_that_left_are_not_taken() -> None:
    waits = EventWaits[None]()
    add(waits, A)
    add(waits, (b"a", 2))
    add(waits, B)
    waits.remove_peer(b"a")
    waits.on_polled(5, seq=1)
    assert published(waits) == [B]


@pytest.mark.parametrize("polled", [True, False])
def test_request_that_waited_too_long_expires(polled: bool) -> None:
    waits = EventWaits[None]()
    add(waits)
    if polled:
        waits.on_polled(5, seq=7)
    assert waits.expire(NOW + WAIT_S_MAX - 0.1) == ()
    assert [(one.peer, one.request) for one in waits.expire(NOW + WAIT_S_MAX)] == [A]
    assert not waits.wants_poll(4)


def test_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WAITING_MAX", 1)
    waits = EventWaits[None]()
    assert add(waits, A)
    assert not add(waits, B)
    assert add(waits, A), "a repeated request takes no more room"
