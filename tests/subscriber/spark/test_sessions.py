import gc
import os

import pytest

from topicast.subscriber.spark.sessions import Sessions, existing


class Session:
    pass


def test_sessions_are_held_weakly_and_once() -> None:
    sessions, one, other = Sessions(), Session(), Session()
    for session in (one, other, one):
        sessions.add(session)
    assert sessions.alive() == [one, other]
    del one, session
    gc.collect()
    assert sessions.alive() == [other]


def test_forked_child_tracks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, session = Sessions(), Session()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    sessions.add(session)
    assert sessions.alive() == []


def test_sessions_existing_are_found_and_proxies_are_left_alone() -> None:
    class Proxy:
        @property
        def __class__(self) -> type:
            raise AssertionError("it would load what it stands for")

    kept = [Session(), Proxy(), Session()]
    assert [one for one in kept if one in existing(Session)] == [kept[0], kept[2]]
