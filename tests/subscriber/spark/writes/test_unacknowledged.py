"""What was written is told by whichever subscriber there is, at least once."""

from collections.abc import Iterable

import pytest

from topicast.subscriber.client.write_reports import WriteIntent
from topicast.subscriber.spark.writes import unacknowledged as untold_module
from topicast.subscriber.spark.writes.unacknowledged import Untold, Wrote
from topicast.topics.errors import UsageError

T = Wrote(object="d.t", partitions=(), failed=False)
U = Wrote(object="d.u", partitions=("ds=1",), failed=True)


class Teller:
    """A subscriber that notes what it is told to tell."""

    def __init__(self) -> None:
        self.open = True
        self.begun: list[str] = []
        self.told: list[Wrote] = []
        self.has_told = False

    def report_write(
        self,
        wanted: str,
        partitions: Iterable[str] = (),
        *,
        failed: bool = False,
        overwritten: bool = False,
    ) -> bool:
        if not self.open:
            raise UsageError("the subscriber is not open")
        write = Wrote(
            object=wanted,
            partitions=tuple(partitions),
            failed=failed,
            overwritten=overwritten,
        )
        self.told.append(write)
        return False

    def write_intent(self, wanted: str, partitions: Iterable[str] = ()) -> "Begun":
        if not self.open:
            raise UsageError("the subscriber is not open")
        self.begun.append(wanted)
        return Begun(self, wanted, tuple(partitions))

    def flush(self, timeout_s: float) -> bool:
        assert timeout_s == 0.0, "nobody waits for it"
        return self.has_told


class Begun(WriteIntent):
    """A write of which ``teller`` has told that it began."""

    def __init__(self, teller: Teller, wanted: str, partitions: tuple[str, ...]) -> None:
        self._teller = teller
        self._wanted = wanted
        self.partitions = partitions
        self.waited_s = 0.0

    def end(self, *, failed: bool = False, overwritten: bool = False) -> None:
        self._teller.report_write(
            self._wanted, self.partitions, failed=failed, overwritten=overwritten
        )

    def wait(self, timeout_s: float) -> bool:
        self.waited_s = timeout_s
        return True


class Now:
    """The subscriber of now."""

    def __init__(self, teller: Teller | None = None) -> None:
        self.teller = teller
        self.untold = Untold(lambda: self.teller)


def test_write_is_told_when_it_begins_and_when_it_ends() -> None:
    teller = Teller()
    untold = Now(teller).untold
    begun = untold.begin(U.object, U.partitions)
    assert (teller.begun, teller.told) == (["d.u"], [])
    untold.end(begun, failed=True)
    untold.wait(begun, 0.5)
    assert (teller.told, untold.count) == ([U], 1)
    assert isinstance(begun.writing, Begun)
    assert begun.writing.waited_s == 0.5


def test_overwrite_is_told_as_one_by_whoever_tells_it() -> None:
    gone = Wrote(object="d.t", partitions=(), failed=False, overwritten=True)
    now = Now(Teller())
    begun = now.untold.begin(T.object, T.partitions, overwrites=True)
    assert begun.overwrites
    now.untold.end(begun, failed=False, overwritten=True)
    assert now.teller is not None
    assert now.teller.told == [gone]
    now.teller = Teller()
    now.untold.settle()
    assert now.teller.told == [gone]


def test_what_is_told_is_forgotten_and_told_once() -> None:
    teller = Teller()
    untold = Now(teller).untold
    untold.settle()
    untold.wrote(T, U)
    untold.settle()
    assert len(untold) == 2
    teller.has_told = True
    untold.settle()
    assert (teller.told, len(untold)) == ([T, U], 0)


def test_without_a_subscriber_it_is_kept_for_the_next_one() -> None:
    now = Now()
    begun = now.untold.begin(T.object, T.partitions)
    now.untold.end(begun, failed=False)
    now.untold.wait(begun, 0.5)
    now.untold.wrote(U)
    now.untold.settle()
    now.teller = Teller()
    now.untold.settle()
    assert now.teller.told == [T, U]


def test_what_the_subscriber_before_did_not_tell_the_next_one_tells() -> None:
    first, second = Teller(), Teller()
    now = Now(first)
    begun = now.untold.begin(T.object, T.partitions)
    now.untold.wrote(U)
    now.teller = second
    now.untold.end(begun, failed=False)
    assert second.told == []
    now.untold.settle()
    assert (first.told, second.told) == ([U], [U, T])


@pytest.mark.parametrize("has_begun", [False, True])
def test_subscriber_that_has_just_ended_loses_nothing(has_begun: bool) -> None:
    first, second = Teller(), Teller()
    now = Now(first)
    first.open = has_begun
    begun = now.untold.begin(T.object, T.partitions)
    first.open = False
    now.untold.end(begun, failed=False)
    now.untold.wrote(U)
    now.untold.settle()
    assert len(now.untold) == 2
    now.teller = second
    now.untold.settle()
    assert second.told == [T, U]


def test_subscriber_that_opens_late_is_told_then() -> None:
    now = Now(Teller())
    assert now.teller is not None
    now.teller.open = False
    now.teller.has_told = True  # nothing, as it has nothing to tell
    now.untold.wrote(T)
    now.untold.settle()
    now.teller.open = True
    now.untold.settle()
    assert now.teller.told == [T]


def test_no_more_is_kept_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untold_module, "KEPT_MAX", 2)
    now = Now()
    now.untold.wrote(T, T, U)
    assert (len(now.untold), now.untold.lost) == (2, 1)
    now.teller = Teller()
    now.untold.settle()
    assert now.teller.told == [T, U]
