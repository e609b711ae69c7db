"""An object is ahead from the driver's own change until the agent has passed it, no longer."""

from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.protocol.effects import CREATED, DATA_CHANGED, Change, ChangeKind
from topicast.subscriber.spark.planning.ahead import PASSED_MAX, Ahead, key_of
from topicast.topics.topic import Version


def change(
    version: int, *, name: str = "a.b", epoch: int = 1, kind: ChangeKind = DATA_CHANGED
) -> Change:
    return Change(object=name, kind=kind, version=Version(version, epoch), origin="events")


def report(ahead: Ahead, of: Change) -> set[str]:
    assert isinstance(of.version, Version)
    return ahead.report(key_of(of), (of.version.epoch, int(of.version)))


def test_change_is_ahead_until_the_agent_reports_it_or_a_later_one() -> None:
    for newest in (5, 6):
        ahead = Ahead()
        assert ahead.know(change(5), now=1.0)
        assert report(ahead, change(4)) == set()
        assert ahead.names == ["a.b"]
        assert report(ahead, change(newest)) == {"a.b"}
        assert ahead.names == []


def test_change_that_the_agent_has_reported_before_is_not_ahead() -> None:
    ahead = Ahead()
    report(ahead, change(5))
    assert not ahead.know(change(5), now=1.0)
    assert ahead.know(change(6), now=1.0)


def test_version_of_another_epoch_is_not_passed_whatever_its_number() -> None:
    ahead = Ahead()
    report(ahead, change(100, epoch=7))
    assert ahead.know(change(2, epoch=5), now=1.0)
    assert report(ahead, change(101, epoch=7)) == set()
    assert report(ahead, change(2, epoch=5)) == {"a.b"}


def test_versions_of_the_namespace_and_of_a_topic_are_not_compared() -> None:
    ahead = Ahead()
    assert ahead.know(change(5), now=1.0)
    assert ahead.know(change(7, kind=CREATED), now=1.0)
    assert report(ahead, change(900, kind=CREATED)) == set()
    assert ahead.names == ["a.b"]
    assert report(ahead, change(5)) == {"a.b"}


def test_sync_passes_what_was_ahead_when_it_began() -> None:
    ahead = Ahead()
    ahead.know(change(5), now=1.0)
    ahead.know(change(5, name="a.c"), now=1.0)
    began = ahead.begin_sync()
    ahead.know(change(6, name="a.c"), now=2.0)
    assert ahead.end_sync(began, now=3.0) == {"a.b"}
    assert ahead.names == ["a.c"]


def test_what_is_ahead_for_long_is_late() -> None:
    ahead = Ahead()
    assert not ahead.is_late(now=9.0, after_s=1.0)
    ahead.know(change(5), now=10.0)
    ahead.know(change(6), now=10.9)
    assert not ahead.is_late(now=10.9, after_s=1.0)
    assert ahead.is_late(now=11.0, after_s=1.0)
    report(ahead, change(6))
    assert not ahead.is_late(now=20.0, after_s=1.0)


def test_what_is_known_of_the_agent_is_bounded_and_what_is_forgotten_counts_as_ahead() -> None:
    ahead = Ahead()
    report(ahead, change(5))
    for at in range(PASSED_MAX):
        report(ahead, change(5, name=f"b.t{at}"))
    assert ahead.know(change(5), now=1.0)
    assert not ahead.know(change(5, name="b.t1"), now=1.0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_object_is_ahead_as_long_as_the_driver_has_the_newer_change(
    heard: list[tuple[bool, int]],
) -> None:
    ahead, own, agents = Ahead(), -1, -1
    for is_own, version in heard:
        if is_own:
            own = max(own, version)
            ahead.know(change(own), now=1.0)
        else:
            agents = max(agents, version)
            report(ahead, change(agents))
        assert (ahead.names == ["a.b"]) == (own > agents)
