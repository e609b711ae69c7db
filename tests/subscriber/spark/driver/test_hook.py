import os

import pytest

from topicast.subscriber.spark.driver.hook import on_construction, once, release


class Session:
    def __init__(self, name: str = "") -> None:
        self.name = name


class Derived(Session):
    pass


class Thing:
    """A handle that can be detached."""

    def detach(self) -> None:
        release(self)


def test_every_session_is_found_until_that_is_undone() -> None:
    found: list[object] = []
    original = Session.__init__
    undo = on_construction(Derived, found.append)  # which has no constructor of its own
    made = [Session("a"), Derived(name="b")]
    assert found == made
    assert [session.name for session in made] == ["a", "b"]
    undo()
    Session()
    assert found == made
    assert Session.__init__ is original


def test_undoing_leaves_a_hook_that_came_later() -> None:
    ours: list[object] = []
    theirs: list[object] = []
    undo_ours = on_construction(Session, ours.append)
    undo_theirs = on_construction(Session, theirs.append)
    undo_ours()
    session = Session()
    undo_theirs()
    assert (ours, theirs) == ([], [session])


def test_process_has_one_handle_until_it_is_let_go() -> None:
    first = once(Thing)
    assert once(Thing) is first
    first.detach()
    second = once(Thing)
    assert second is not first
    second.detach()


def test_forked_child_makes_its_own_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    first = once(Thing)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    second = once(Thing)
    assert second is not first
    second.detach()
    first.detach()
