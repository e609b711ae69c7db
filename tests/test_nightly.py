"""What make nightly records of a step: its last run, and where and when it last passed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from topicast.tests.nightly import ROOT, STEPS, Steps, nightly, table

GOOD, BAD = ("echo 3 passed", {}), ("false", {})


def at(commit: str, day: int) -> dict[str, str]:
    return {"machine": "2 x any", "python": "3.12", "commit": commit, "at": f"2024-01-0{day}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "build"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "nightly.json"


def test_each_step_is_recorded_with_its_own_commit_and_counts(folder: Path, record: Path) -> None:
    steps: Steps = {"cells": GOOD, "soak": ("echo 7 seeds", {})}
    assert nightly(["soak"], steps, origin=lambda: at("a", 1), folder=folder, record=record) == 0
    assert nightly(["cells"], steps, origin=lambda: at("b", 2), folder=folder, record=record) == 0
    found = json.loads(record.read_text())
    assert list(found) == ["cells", "soak"], "in the order of the steps"
    assert (found["soak"]["commit"], found["soak"]["at"], found["soak"]["seeds"]) == (
        "a",
        "2024-01-01",
        7,
    )
    assert (found["cells"]["commit"], found["cells"]["at"], found["cells"]["passed"]) == (
        "b",
        "2024-01-02",
        3,
    )


def test_step_that_fails_is_recorded_and_keeps_where_it_last_passed(
    folder: Path, record: Path
) -> None:
    nightly([], {"cells": GOOD}, origin=lambda: at("a", 1), folder=folder, record=record)
    for commit in ("b", "c"):
        ended = nightly(
            [], {"cells": BAD}, origin=lambda c=commit: at(c, 2), folder=folder, record=record
        )
        assert ended == 1
    step = json.loads(record.read_text())["cells"]
    assert (step["exit"], step["commit"]) == (1, "c")
    assert step["last_passed"] == {"commit": "a", "at": "2024-01-01"}


@pytest.mark.parametrize(
    ("origins", "ran"),
    [([at("a+", 1)], False), ([at("a", 1), at("a+", 1)], True), ([at("a", 1), at("b", 1)], True)],
    ids=["changed before", "changed meanwhile", "committed meanwhile"],
)
def test_tree_that_is_no_commit_is_not_recorded(
    origins: list[dict[str, str]], ran: bool, folder: Path, record: Path
) -> None:
    given: Iterator[dict[str, str]] = iter(origins)
    ended = nightly([], {"cells": GOOD}, origin=lambda: next(given), folder=folder, record=record)
    assert ended == 1
    assert not record.exists()
    assert (folder / "nightly-cells.log").exists() == ran


def test_table_says_of_each_step_when_it_last_passed() -> None:
    steps: Steps = {"cells": GOOD, "soak": GOOD, "sim": GOOD}
    passed = {"commit": "a", "at": "2024-01-01"}
    recorded = {
        "cells": {**at("a", 1), "exit": 0, "seconds": 5, "passed": 3, "last_passed": passed},
        "soak": {**at("b", 2), "exit": 1, "seconds": 6, "last_passed": passed},
    }
    lines = table(recorded, steps)
    assert [" ".join(line.split()) for line in lines] == [
        "step last passed at commit last run",
        "cells 2024-01-01 a exit 0, 5 s, 3 passed",
        "soak 2024-01-01 a exit 1, 6 s, at b on 2024-01-02",
        "sim never not recorded",
    ]


def test_steps_name_what_make_has() -> None:
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    made = [command.split()[1] for command, _ in STEPS.values() if command.startswith("make ")]
    assert made
    assert [name for name in made if f"\n{name}:" not in targets] == []


def test_make_of_a_step_gets_no_arguments_of_the_make_around_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``make nightly ARGS=s3`` is no ``make compat-s3 ARGS=s3``."""
    for name, value in {"MAKEFLAGS": " -- ARGS=s3", "ARGS": "s3", "KEEP": "1"}.items():
        monkeypatch.setenv(name, value)
    nightly(["one"], {"one": ("env", {"SET": "1"})}, origin=lambda: at("a", 1), folder=folder)
    printed = (folder / "nightly-one.log").read_text().splitlines()
    assert "SET=1" in printed
    assert not [one for one in printed if one.startswith(("MAKEFLAGS=", "ARGS=", "KEEP="))]
