import threading
import time
from dataclasses import replace

import pytest

from topicast.subscriber.engine import watch as watch_module
from topicast.subscriber.engine.watch import Watch, Watches
from topicast.subscriber.protocol.effects import Change
from topicast.tests.waiting import until
from topicast.topics.errors import StaleMetadata


def change(name: str, kind: str, version: int = 1) -> Change:
    return Change(object=name, kind=kind, version=version, origin="events")


def test_only_what_matches_the_pattern_is_yielded_oldest_first() -> None:
    watch = Watch("sales.*")
    watch.offer((change("sales.b", "data"), change("other.a", "data")))
    watch.offer((change("sales", "created"), change("sales.a", "created")))
    watch.close()
    assert [change.object for change in watch] == ["sales.b", "sales.a"]


def test_pattern_of_a_database_matches_its_tables_too() -> None:
    names = ("shop", "shop.a", "shops", "shops.a", "other.shop")
    for pattern, matching in (("shop", names[:2]), ("shop?", names[2:4]), ("shop.*", names[1:2])):
        watch = Watch(pattern)
        watch.offer(tuple(change(name, "data") for name in names))
        watch.close()
        assert tuple(change.object for change in watch) == matching


@pytest.mark.parametrize(
    ("kinds", "left"),
    [
        (["data", "schema"], "schema"),
        (["schema", "data"], "schema"),
        (["created", "data"], "created"),
        (["created", "schema"], "created"),
        (["created", "dropped"], "dropped"),
        (["dropped", "created", "data"], "created"),
    ],
)
def test_of_one_object_the_latest_state_waits(kinds: list[str], left: str) -> None:
    watch = Watch("*")
    for version, kind in enumerate(kinds):
        watch.offer((change("a.b", kind, version),))
    assert watch.next_within(0) == change("a.b", left, len(kinds) - 1)
    assert watch.next_within(0) is None


def test_consumer_that_is_too_slow_has_to_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "WAITING_MAX", 3)
    watch = Watch("*")
    watch.offer(tuple(change(f"a.{n}", "data") for n in range(4)))
    with pytest.raises(StaleMetadata):
        next(watch)
    watch.offer((change("a.5", "data"),))
    assert next(watch).object == "a.5"


def test_closing_ends_the_wait_of_another_thread() -> None:
    watch = Watch("*")
    thread = threading.Thread(target=lambda: list(watch))
    thread.start()
    watch.close()
    thread.join(5)
    assert not thread.is_alive()
    assert watch.closed


def test_watch_that_is_closed_or_not_referenced_is_offered_nothing() -> None:
    watches = Watches()
    kept, closed = watches.add("*"), watches.add("*")
    watches.add("*")  # nobody holds it
    closed.close()
    assert watches.offer((change("a.b", "data"),))
    assert closed.next_within(0) is None
    assert kept.next_within(0) == change("a.b", "data")
    watches.close()
    assert kept.closed
    assert not watches.offer((change("a.b", "data"),))


@pytest.mark.parametrize("flag", ["files", "overwritten"])
@pytest.mark.parametrize("flags", [(True, False), (False, True), (False, False)])
def test_what_happened_to_files_outlasts_other_changes_of_the_table(
    flag: str, flags: tuple[bool, bool]
) -> None:
    """A driver that receives both at once must still drop the files that are gone."""
    watch = Watch("*")
    for on in flags:
        watch.offer((replace(change("d.t", "data"), **{flag: on}),))  # type: ignore[arg-type]  # a field
    seen = watch.next_within(0)
    assert seen is not None
    assert getattr(seen, flag) is any(flags)


def test_all_waiting_changes_are_taken_at_once_unless_some_were_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch("*")
    assert watch.all_within(0) == ()
    changes = (change("a.b", "data"), change("a.c", "data"))
    watch.offer(changes)
    assert watch.all_within(0) == changes
    assert watch.all_within(0) == ()
    monkeypatch.setattr(watch_module, "WAITING_MAX", 1)
    watch.offer(changes)
    with pytest.raises(StaleMetadata):
        watch.all_within(0)


def test_thread_that_rests_is_not_woken_by_changes_that_may_wait() -> None:
    watch = Watch("*")
    urgent: list[str] = []

    def is_urgent(change: Change) -> bool:
        urgent.append(change.object)
        return change.object == "a.hot"

    watch.offer((change("a.a", "data"),))
    thread = threading.Thread(target=lambda: watch.rest(60, unless=is_urgent))
    thread.start()
    until(lambda: urgent, what="a thread that rests")
    watch.offer((change("a.b", "data"),))
    assert thread.is_alive()
    assert urgent[-1] == "a.b"
    watch.offer((change("a.hot", "data"),))
    thread.join(20)
    assert not thread.is_alive()
    assert [one.object for one in watch.all_within(0)] == ["a.a", "a.b", "a.hot"]


def test_rest_returns_at_once_while_an_urgent_change_waits_and_at_the_end() -> None:
    watch = Watch("*")
    watch.offer((change("a.hot", "data"),))
    watch.rest(60, unless=lambda change: change.object == "a.hot")
    watch.all_within(0)
    watch.close()
    watch.rest(60, unless=lambda change: False)


def test_watch_that_was_woken_waits_for_nothing_once() -> None:
    watch, began = Watch("*"), time.monotonic()
    watch.wake()
    watch.rest(60, unless=lambda change: False)
    assert watch.all_within(60) == ()
    assert time.monotonic() < began + 30
    assert watch.next_within(0.0) is None
    waiting = threading.Thread(target=lambda: watch.all_within(60))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive(), "it was woken once"
    watch.wake()
    waiting.join(20)
    assert not waiting.is_alive()
