"""Faults planted in one production line each: the simulator must find every one of them."""

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from topicast.catalog.sources.loader import Loader
from topicast.subscriber import content, reads
from topicast.subscriber.levels import Levels
from topicast.subscriber.shown import Shown
from topicast.subscriber.starts import Starts
from topicast.subscriber.view import View
from topicast.tests.sim.run import Run, Violation
from topicast.topics.follower import Follower

SEEDS_MAX = 400


@dataclass(frozen=True, slots=True)
class Plant:
    """``line`` of a method becomes ``fault``."""

    rule: str
    owner: object
    method: str
    line: str
    fault: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Run with the fault."""
        before = inspect.getattr_static(self.owner, self.method)
        source = textwrap.dedent(inspect.getsource(before))
        assert source.count(self.line) == 1, f"{self.method} has no such line any more"
        names: dict[str, object] = {}
        exec(source.replace(self.line, self.fault), before.__globals__, names)
        setattr(self.owner, self.method, names[self.method])
        try:
            yield
        finally:
            setattr(self.owner, self.method, before)


PLANTS = [
    Plant(
        "a load that an event overtook is read again",
        Loader,
        "_touch",
        "flight.touched[table] = None",
        "pass",
    ),
    Plant(
        "memory answers only at or above what was shown",
        Shown,
        "rise",
        "if position > self.of(topic):",
        "if False:",
    ),
    Plant(
        "a start is compared before anything of it is accepted",
        Starts,
        "heard",
        "if not holds and start[0] > self.accepted[0]:",
        "if True:",
    ),
]


def _first_seed_that_notices(plant: Plant) -> int | None:
    with plant.planted():
        for seed in range(SEEDS_MAX):
            try:
                Run(seed).go()
            except Violation:
                return seed
    return None


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.rule)
def test_planted_fault_is_found(plant: Plant) -> None:
    assert _first_seed_that_notices(plant) is not None


def test_partial_load_answered_as_whole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(entry: object) -> reads.Head:
        head = reads.read_head(entry)
        return reads.Head(head.table, head.incarnation, True, head.templates)

    monkeypatch.setattr(content, "read_head", whole)
    assert any(_violates(seed) for seed in range(SEEDS_MAX))


def test_gap_that_is_ignored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignore(self: Follower, *_: object) -> tuple[()]:
        return ()

    monkeypatch.setattr(Follower, "_fall_behind", ignore)
    assert any(_violates(seed) for seed in range(SEEDS_MAX))


def test_memory_that_answers_while_it_catches_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_open(self: Levels, topic: int) -> None:
        self.view.open(topic)

    monkeypatch.setattr(Levels, "gate", keep_open)
    monkeypatch.setattr(Levels, "check", lambda _self: None)
    monkeypatch.setattr(View, "shut", lambda _self, _topic: None)
    assert any(_violates(seed) for seed in range(SEEDS_MAX))


def _violates(seed: int) -> bool:
    try:
        Run(seed).go()
    except (Violation, Exception):  # noqa: BLE001 - what a broken core raises notices it as well
        return True
    return False
