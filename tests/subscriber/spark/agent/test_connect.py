"""Clients' sessions as a server keeps them, in a map; tests/spark has the real one."""

from types import SimpleNamespace
from typing import Any

import pytest

from topicast.subscriber.spark.agent import connect as connect_module
from topicast.subscriber.spark.agent.connect import ConnectSessions
from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.sessions import Sessions


class Plans:
    def __init__(self) -> None:
        self.discarded = 0

    def invalidateAll(self) -> None:  # noqa: N802 - Guava's
        self.discarded += 1


class Store(dict[str, str]):
    """The server's map, from a client's key to the id of its session."""

    def hashCode(self) -> int:  # noqa: N802 - Java's
        return hash(frozenset(self.items()))

    def entrySet(self) -> Any:  # noqa: N802 - Java's
        self.reads = getattr(self, "reads", 0) + 1
        return SimpleNamespace(toArray=lambda: [_entry(name) for name in self.values()])


def _entry(name: str) -> Any:
    java = SimpleNamespace(sessionUUID=lambda: name)
    holder = SimpleNamespace(session=lambda: java, name=name)
    return SimpleNamespace(getValue=lambda: holder)


class Server:
    def __init__(self) -> None:
        self.store: Store | None = Store()
        self.kept: dict[str, Plans] = {}

    def sessions(self) -> Store | None:
        return self.store

    def plans(self, holder: Any) -> Plans:
        return self.kept.setdefault(holder.name, Plans())


class Classic:
    def __init__(self) -> None:
        self._sc = SimpleNamespace(_jsc=object())
        self._jvm = object()
        self._jsparkSession = object()


class Host:
    """A driver of one classic session, in which a server may be started."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.classic = Classic()
        self.sessions = Sessions()
        self.sessions.add(self.classic)
        self.guard = Guard()
        self.failing = ""
        self.known: list[str] = []
        self.connect = ConnectSessions(
            self.sessions,
            guard=self.guard,
            accept=self.accept,
            seek=lambda _base: self.server,
        )

    def serve(self, **clients: str) -> Store:
        self.server = Server()
        assert self.server.store is not None
        self.server.store.update(clients)
        return self.server.store

    def look(self, *, at_once: bool = True) -> list[str]:
        """Return the sessions that became known."""
        before = len(self.known)
        self.connect.poll(at_once=at_once)
        return self.known[before:]

    def found(self) -> list[str]:
        """Return the sessions whose plans are discarded when that is requested."""
        held = []
        for name, plans in sorted(self.server.kept.items()) if self.server is not None else ():
            before = plans.discarded
            self.connect.discard_plans(name)
            held += [name] * (plans.discarded - before)
        assert len(held) == len(self.connect)
        return held

    def accept(self, java: Any) -> None:
        name = java.sessionUUID()
        if name == self.failing:
            raise RuntimeError(name)
        self.known.append(name)


def test_without_a_server_nothing_is_found_and_a_server_that_starts_later_is() -> None:
    host = Host()
    assert not host.look()
    host.serve(ann="1")
    assert host.look()
    assert (host.found(), host.guard.errors) == (["1"], 0)


def test_new_session_is_known_once_and_the_map_is_read_only_when_it_changed() -> None:
    host = Host()
    store = host.serve(ann="1")
    assert host.look()
    assert not host.look()
    store["bob"] = "2"
    assert host.look()
    assert not host.look()
    assert (host.known, store.reads) == (["1", "2"], 2)


def test_session_that_the_server_released_is_released() -> None:
    host = Host()
    store = host.serve(ann="1", bob="2")
    host.look()
    del store["ann"]
    assert not host.look()
    assert host.found() == ["2"]


def test_other_session_under_the_same_key_is_a_new_session() -> None:
    host = Host()
    store = host.serve(ann="1")
    host.look()
    store["ann"] = "3"
    assert host.look()
    assert (host.found(), host.known) == (["3"], ["1", "3"])


def test_session_that_cannot_be_known_is_found_again_and_others_are_not_held_up() -> None:
    host = Host()
    host.serve(ann="1", bob="2")
    host.failing = "1"
    assert host.look()
    assert (host.found(), host.guard.errors) == (["2"], 1)
    assert host.guard.last_error == "look after a session of Spark Connect: RuntimeError: 1"
    assert not host.look(at_once=False), "not at once"
    host.failing = ""
    assert host.look()
    assert sorted(host.found()) == ["1", "2"]


def test_nothing_is_called_more_often_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(connect_module.time, "monotonic", lambda: now)
    host = Host()
    assert not host.look(at_once=False)
    store = host.serve(ann="1")
    now += connect_module.SEEK_S / 2
    assert not host.look(at_once=False)
    now += connect_module.SEEK_S / 2
    assert host.look(at_once=False)
    store["bob"] = "2"
    now += connect_module.POLL_S / 2
    assert not host.look(at_once=False)
    now += connect_module.POLL_S / 2
    assert host.look(at_once=False)


def test_what_fails_is_tried_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(connect_module.time, "monotonic", lambda: now)
    host = Host()
    store = host.serve(ann="1", bob="2")
    host.failing = "1"
    for pause_s in (2, 4, 8, 16, 32, 60, 60):
        host.connect.poll()
        errors = host.guard.errors
        now += pause_s - 1
        host.connect.poll()
        assert host.guard.errors == errors, pause_s
        now += 1
    host.failing = ""
    assert host.look(at_once=False)
    host.failing = store["carl"] = "3"
    now += connect_module.POLL_S
    host.connect.poll()
    host.failing = ""
    now += connect_module.RETRY_S
    assert host.look(at_once=False), "soon again after it went well"


def test_after_the_context_ended_nothing_is_held_and_in_a_new_context_sessions_are_found() -> None:
    host = Host()
    host.serve(ann="1")
    host.look()
    host.classic._sc._jsc = None
    assert not host.look()
    assert host.found() == []
    again = Classic()
    host.sessions.add(again)
    assert host.look()
    assert host.found() == ["1"]


def test_server_that_fails_is_counted_and_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    host.serve(ann="1")
    assert host.server is not None
    with monkeypatch.context() as patched:
        patched.setattr(host.server, "sessions", lambda: 1 / 0)
        assert not host.look()
    assert (host.guard.errors, host.found()) == (1, [])
    assert host.look()


def test_server_without_a_first_session_has_none() -> None:
    host = Host()
    host.serve()
    assert host.server is not None
    host.server.store = None
    assert not host.look()
    assert host.guard.errors == 0


def test_released_plans_are_found_again() -> None:
    host = Host()
    host.serve(ann="1")
    host.look()
    host.connect.release()
    assert host.found() == []
    assert host.look()
