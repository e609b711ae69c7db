"""Swapper: runs tests with mutants in forks of the process that has collected the tests.

    collect ──fork for each mutant──▶ its function's code is swapped ──▶ some tests

So nothing is imported again. Code that runs while modules are imported has run by then: see
``anew.py``.
"""

import gc
import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Final

import pytest
from making import ROOT, Line, Mutant

HANGS_S: Final = 15  # of a processor, for a loop without an end in the tests of a mutant
MEASURE_S: Final = 600  # of a processor, for the tests without a mutant
# Only the name of a test that fails is shown, and our assertions were not to be explained.
QUICK: Final = ("-pno:cacheprovider", "--tb=native", "--assert=plain",
                "-Wignore::pytest.PytestAssertRewriteWarning")  # fmt: skip
OPTIONS: Final = ("-n0", "-qs", "--unit", "--hypothesis-seed=1", *QUICK)
ENDLESS: Final = "a loop without an end"

Place = tuple[str, int, str]
"""Of a function: its file, its first line, and its name."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a test takes of a processor without a mutant, and the lines of modules that it runs."""

    item: pytest.Item
    cpu_s: float
    lines: Set[Line]


class Swapper:
    """A plugin of pytest that collects the tests, and calls ``work`` in place of running them."""

    def __init__(self, files: Iterable[str], work: Callable[["Swapper"], None]) -> None:
        self._files = {str(ROOT / file) for file in files}
        self._work = work
        for file in self._files:
            name = Path(file).relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            found = importlib.import_module(f"topicast.{name}").__file__
            assert found == file, f"{found} would be mutated, and {file} is asked for"
        self.items: Sequence[pytest.Item] = ()
        self._functions: Sequence[FunctionType] = ()
        self._failed: list[str] = []  # functions of tests, in this process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a failure."""
        if report.failed:
            self._failed.append(function_of(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work."""
        assert not session.testsfailed, "tests cannot be collected"
        self.items = session.items
        session.config.pluginmanager.unregister(name="terminalreporter")
        gc.unfreeze()  # else gc does not list what tests/conftest.py has frozen
        self._functions = [
            one
            for one in gc.get_objects()
            if isinstance(one, FunctionType) and one.__code__.co_filename in self._files
        ]
        gc.freeze()
        self._work(self)
        return True

    def measured(self, items: Sequence[pytest.Item]) -> list[Measured]:
        """Return what the tests need and run without a mutant, the quickest first."""
        if not items:
            return []
        text = _in_a_fork(lambda: self._measure(items), cpu_s=MEASURE_S)
        assert text, "tests fail without a mutant, or take too long: run them alone"
        found = zip(items, json.loads(text), strict=True)
        some = [Measured(item, cpu_s, set(map(tuple, run))) for item, (cpu_s, run) in found]
        return sorted(some, key=attrgetter("cpu_s"))

    def failing(
        self,
        mutant: Mutant,
        items: Sequence[pytest.Item],
        *,
        cpu_s: float,
        first: bool = False,
    ) -> list[str] | None:
        """Return the tests that fail with ``mutant``: all, or the first; None: it is not swapped.

        Tests end after ``cpu_s``; one that does not end counts as failed.
        """
        swaps = self.swaps(mutant)
        if not swaps:
            return None
        text = _in_a_fork(lambda: self._try(swaps, items, cpu_s, first), cpu_s=int(cpu_s) + HANGS_S)
        return json.loads(text) if text else [ENDLESS]

    def swaps(self, mutant: Mutant) -> Mapping[Place, CodeType]:
        """Return the code of each function that ``mutant`` changes."""
        file = str(ROOT / mutant.path)
        new = {_place(one): one for one in _codes(compile(mutant.code, file, "exec"))}
        codes = {one.__code__ for one in self._functions if one.__code__.co_filename == file}
        places = {_place(code): code for code in codes}
        found = {
            place: new[place]
            for place, code in places.items()
            if place in new and _content(new[place]) != _content(code)
        }
        fits = all(new.co_freevars == places[at].co_freevars for at, new in found.items())
        return found if fits else {}

    def _measure(self, items: Sequence[pytest.Item]) -> str:
        run: set[Line] = set()

        def local(frame: FrameType, _event: str, _: object) -> object:
            run.add((frame.f_code.co_filename, frame.f_lineno))
            return local

        def trace(frame: FrameType, _event: str, _: object) -> object:
            return local if frame.f_code.co_filename in self._files else None

        found = []
        for item, following in zip(items, (*items[1:], None), strict=True):
            run.clear()
            begun = time.process_time()
            sys.settrace(trace)  # type: ignore[arg-type]  # typeshed has a recursive protocol
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            found.append((time.process_time() - begun, sorted(run)))
        assert not self._failed, f"{self._failed} fail without a mutant"
        return json.dumps(found)

    def _try(
        self,
        swaps: Mapping[Place, CodeType],
        items: Sequence[pytest.Item],
        cpu_s: float,
        first: bool,
    ) -> str:
        for one in self._functions:
            one.__code__ = swaps.get(_place(one.__code__), one.__code__)
        begun = time.process_time()
        for item, following in zip(items, (*items[1:], None), strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if time.process_time() - begun > cpu_s or (first and self._failed):
                break
        return json.dumps(sorted(set(self._failed)))


def function_of(test: str) -> str:
    """Return the function of a test, without its parameters."""
    return test.partition("[")[0]


def _in_a_fork(work: Callable[[], str], *, cpu_s: int) -> str:
    """Return what ``work`` returns in a fork of this process; empty: it did not end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            used_s = int(time.process_time())
            resource.setrlimit(resource.RLIMIT_CPU, (used_s + cpu_s,) * 2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            with open(writing, "w", encoding="utf-8") as pipe:  # noqa: PTH123 - of a descriptor
                pipe.write(work())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:  # noqa: PTH123 - of a descriptor
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_firstlineno, code.co_name


def _codes(code: CodeType) -> Iterable[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _content(code: CodeType) -> object:
    """Return what tells whether two codes do the same."""
    consts = [_content(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return code.co_code, code.co_names, consts
