"""Syncs: answered after everything that was committed when they were asked, and once."""

import pytest

from topicast.catalog.ingest.loader import NEVER
from topicast.catalog.serve import sync as service
from topicast.catalog.serve.sync import WAIT_S_MAX, Syncs

NOW = 100.0
A, B = (b"a", 1), (b"b", 1)


def ask(syncs: Syncs, who: tuple[bytes, int] = A, *, polls_begun: int = 4) -> bool:
    return syncs.ask(*who, polls_begun=polls_begun, now=NOW)


def test_poll_that_began_before_the_question_answers_nobody() -> None:
    """P-SYNC-1."""
    syncs = Syncs()
    ask(syncs, polls_begun=4)
    assert syncs.wants_poll(4)
    syncs.polled(4, seq=1)
    assert syncs.answer(NEVER) == ()
    syncs.polled(5, seq=1)
    assert syncs.answer(NEVER) == (A,)


def test_callers_share_the_next_poll() -> None:
    """P-SYNC-1."""
    syncs = Syncs()
    ask(syncs, A)
    ask(syncs, B)
    assert not syncs.wants_poll(5), "it has begun"
    ask(syncs, (b"c", 1), polls_begun=5)
    assert syncs.wants_poll(5)
    syncs.polled(5, seq=1)
    assert syncs.answer(NEVER) == (A, B)
    assert len(syncs) == 1


def test_answer_waits_until_all_of_its_events_are_published() -> None:
    """P-SYNC-1."""
    syncs = Syncs()
    ask(syncs)
    syncs.polled(5, seq=7)
    assert not syncs.wants_poll(4), "what it waits for is known"
    assert syncs.answer(6) == ()
    assert syncs.answer(7) == ()
    assert syncs.answer(8) == (A,)
    assert syncs.answer(NEVER) == ()


def test_later_polls_make_nobody_wait_for_more() -> None:
    syncs = Syncs()
    ask(syncs)
    syncs.polled(5, seq=7)
    syncs.polled(6, seq=8)
    assert syncs.answer(8) == (A,)


def test_poll_that_failed_is_made_good_by_the_next() -> None:
    syncs = Syncs()
    ask(syncs)
    syncs.polled(6, seq=2)
    assert syncs.answer(NEVER) == (A,)


def test_question_that_is_repeated_is_answered_once() -> None:
    syncs = Syncs()
    ask(syncs, polls_begun=4)
    assert ask(syncs, polls_begun=5)
    syncs.polled(5, seq=1)
    assert syncs.answer(NEVER) == (A,)
    assert len(syncs) == 0


def test_who_leaves_is_not_answered() -> None:
    syncs = Syncs()
    ask(syncs, A)
    ask(syncs, (b"a", 2))
    ask(syncs, B)
    syncs.forget(b"a")
    syncs.polled(5, seq=1)
    assert syncs.answer(NEVER) == (B,)


@pytest.mark.parametrize("polled", [True, False])
def test_who_waited_too_long_is_told(polled: bool) -> None:
    syncs = Syncs()
    ask(syncs)
    if polled:
        syncs.polled(5, seq=7)
    assert syncs.expire(NOW + WAIT_S_MAX - 0.1) == ()
    assert syncs.expire(NOW + WAIT_S_MAX) == (A,)
    assert not syncs.wants_poll(4)


def test_those_who_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WAITING_MAX", 1)
    syncs = Syncs()
    assert ask(syncs, A)
    assert not ask(syncs, B)
    assert ask(syncs, A), "who repeats takes no more room"
