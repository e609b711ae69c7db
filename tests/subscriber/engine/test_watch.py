import threading
from dataclasses import replace

import pytest

from topicast.subscriber.engine import watch as watch_module
from topicast.subscriber.engine.watch import Watch, Watches
from topicast.subscriber.protocol.status import Change
from topicast.tests.waiting import until
from topicast.topics.errors import StaleMetadata


def _change(name: str, kind: str, version: int = 1) -> Change:
    return Change(object=name, kind=kind, version=version, origin="events")


def test_only_what_matches_the_pattern_is_yielded_oldest_first() -> None:
    watch = Watch("sales.*")
    watch.offer((_change("sales.b", "data"), _change("other.a", "data")))
    watch.offer((_change("sales", "created"), _change("sales.a", "created")))
    watch.close()
    assert [change.object for change in watch] == ["sales.b", "sales.a"]


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
        watch.offer((_change("a.b", kind, version),))
    assert watch.next_within(0) == _change("a.b", left, len(kinds) - 1)
    assert watch.next_within(0) is None


def test_consumer_that_is_too_slow_is_told_to_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "WAITING_MAX", 3)
    watch = Watch("*")
    watch.offer(tuple(_change(f"a.{n}", "data") for n in range(4)))
    with pytest.raises(StaleMetadata):
        next(watch)
    watch.offer((_change("a.5", "data"),))
    assert next(watch).object == "a.5"


def test_closing_ends_who_waits_in_another_thread() -> None:
    watch = Watch("*")
    thread = threading.Thread(target=lambda: list(watch))
    thread.start()
    watch.close()
    thread.join(5)
    assert not thread.is_alive()
    assert watch.closed


def test_watch_that_is_closed_or_forgotten_is_offered_nothing() -> None:
    watches = Watches()
    kept, closed = watches.add("*"), watches.add("*")
    watches.add("*")  # nobody holds it
    closed.close()
    assert watches.offer((_change("a.b", "data"),))
    assert closed.next_within(0) is None
    assert kept.next_within(0) == _change("a.b", "data")
    watches.close()
    assert kept.closed
    assert not watches.offer((_change("a.b", "data"),))


def test_change_of_files_outlasts_partitions_that_come_and_go() -> None:
    watch = Watch("*")
    files = _change("d.t", "data")
    partitions = replace(files, files=False)
    for first, second in ((files, partitions), (partitions, files), (partitions, partitions)):
        watch.offer((first,))
        watch.offer((second,))
        seen = watch.next_within(0)
        assert seen is not None
        assert seen.files is (first.files or second.files)


def test_overwrite_outlasts_what_comes_behind_it() -> None:
    """A driver that hears both at once must still let go of the files that are gone."""
    watch = Watch("*")
    overwrite = replace(_change("d.t", "data"), overwritten=True)
    watch.offer((overwrite,))
    watch.offer((replace(overwrite, overwritten=False),))
    seen = watch.next_within(0)
    assert seen is not None
    assert seen.overwritten


def test_everything_that_waits_is_taken_at_once() -> None:
    watch = Watch("*")
    assert watch.all_within(0) == ()
    changes = (_change("a.b", "data"), _change("a.c", "data"))
    watch.offer(changes)
    assert watch.all_within(0) == changes
    assert watch.all_within(0) == ()


def test_loss_is_told_to_who_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "WAITING_MAX", 1)
    watch = Watch("*")
    watch.offer((_change("a.b", "data"), _change("a.c", "data")))
    with pytest.raises(StaleMetadata):
        watch.all_within(0)


def test_who_rests_is_not_roused_by_what_may_wait_and_finds_it_afterwards() -> None:
    watch = Watch("*")
    asked: list[str] = []

    def is_urgent(name: str) -> bool:
        asked.append(name)
        return name == "a.hot"

    thread = threading.Thread(target=lambda: watch.rest(60, unless=is_urgent))
    thread.start()
    until(lambda: watch._rouses is not None, what="a thread that rests")
    watch.offer((_change("a.b", "data"),))
    assert thread.is_alive()
    assert asked[-1] == "a.b"
    watch.offer((_change("a.hot", "data"),))
    thread.join(20)
    assert not thread.is_alive()
    assert [one.object for one in watch.all_within(0)] == ["a.b", "a.hot"]


def test_nobody_rests_while_something_urgent_waits_or_at_the_end() -> None:
    watch = Watch("*")
    watch.offer((_change("a.hot", "data"),))
    watch.rest(60, unless=lambda name: name == "a.hot")
    watch.all_within(0)
    watch.close()
    watch.rest(60, unless=lambda name: False)
