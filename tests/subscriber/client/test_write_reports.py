"""Writing: what a driver wrote is heard by everybody else, from the core to the other's watch."""

import threading
from types import SimpleNamespace

import pytest

from topicast.subscriber.client.write_reports import Writes, checked, named
from topicast.topics.errors import UsageError
from topicast.topics.wire.messages import Write


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("Sales.Orders", "sales.orders"),
        ("s3a://Lake/Sales", "s3a://Lake/Sales"),
        ("/w/Sales", "/w/Sales"),
    ],
)
def test_tables_are_told_in_lower_case_and_paths_as_they_are(written: str, told: str) -> None:
    assert checked(written) == told


@pytest.mark.parametrize("wrong", ["", "orders", "a.b.c"])
def test_what_is_neither_table_nor_path_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="db.table"):
        checked(wrong)


def test_partitions_are_names_or_how_they_begin() -> None:
    assert named(["ds=1", "ds=1/", "ds=1/hour=2"]) == ("ds=1", "ds=1/", "ds=1/hour=2")
    assert named([]) == ()
    with pytest.raises(UsageError):
        named(["ds"])


class Calls:
    """A subscriber that notes what it is told; while it takes the first write, a thread comes."""

    timeout_s = 1.0

    def __init__(self) -> None:
        self.told: list[int] = []
        self.writes = Writes(self)  # type: ignore[arg-type]  # all of Calls that it needs
        self.other = threading.Thread(target=lambda: self.writes.done("d.other"))

    def running(self) -> SimpleNamespace:
        return SimpleNamespace(write=self._write)

    def _write(self, write: Write, *, timeout_s: float) -> None:
        if write.object == "d.first":
            self.other.start()
            self.other.join(0.2)  # it gets as far as it can
        self.told.append(write.number)


@pytest.mark.parametrize("begun", [True, False])
def test_threads_tell_of_their_writes_in_the_order_of_the_numbers(begun: bool) -> None:
    """P-REPORT-8: of what comes after a higher number nobody would hear."""
    calls = Calls()
    if begun:
        calls.writes.begin("d.first")
    else:
        calls.writes.done("d.first")
    calls.other.join()
    assert calls.told == [1, 2]


def test_what_is_refused_takes_no_number() -> None:
    calls = Calls()
    with pytest.raises(UsageError):
        calls.writes.done("nothing")
    with pytest.raises(UsageError):
        calls.writes.begin("d.t", ["ds"])
    assert calls.writes.done("d.t") == 1
