"""Killers: which unit tests notice mutants of modules, and which of them notice none alone.

    collect ──fork──▶ which test runs which line of the modules
       └──a fork for each mutant──▶ its function's code is swapped ──▶ all tests that run its line

At the end come the mutants that no test noticed, and each test that is the only one to notice no
mutant and to run no line. That is a reason to read the test, and no more: its rule may be that of
another module, and the mutants are a sample. The test can go if another test says the same.
Run: make killers ARGS="statestore/hub.py tests/statestore"
     make killers ARGS="statestore/hub.py statestore/content tests/statestore"  # as of all of them
     make killers ARGS="statestore/hub.py:Hub.put tests/statestore"  # every mutant of a function
"""

import argparse
import ast
import gc
import importlib
import json
import os
import random
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Final

import pytest
from run import QUICK, ROOT, Mutant, is_least, mutants

A_FUNCTION_MAX: Final = 3  # mutants, drawn by SEED, of each function of a module
SEED: Final = 7
MUTANT_S: Final = 4.0  # of a processor, for the tests of a mutant, of which the quickest are first
HANGS_S: Final = 15  # of a mutant, and the tests count as failed
MEASURE_S: Final = 600  # of the tests without a mutant
OPTIONS: Final = ("-n0", "-qs", "--unit", "-pno:cacheprovider", "--hypothesis-seed=1")

Place = tuple[str, int, str]
"""Of a function: its file, its first line, and its name."""
Line = tuple[str, int]
"""Of a file: its path, and the number."""


class Killers:
    """A plugin of pytest that runs the tests once for each mutant, in place of running them."""

    def __init__(self, places: Sequence[str]) -> None:
        """``places``: modules, folders of modules, and functions as "module:Class.method"."""
        self._places = [one for place in places for one in _modules(place)]
        self._files = {str(ROOT / place.partition(":")[0]) for place in self._places}
        for file in self._files:
            name = Path(file).relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            found = importlib.import_module(f"topicast.{name}").__file__
            assert found == file, f"{found} would be mutated, and {file} is asked for"
        self._failed: set[str] = set()  # functions of tests, in this process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a failure."""
        if report.failed:
            self._failed.add(_function(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests in forks, and print what they came to."""
        items = session.items
        session.config.pluginmanager.unregister(name="terminalreporter")
        text = _in_a_fork(lambda: self._measure(items), cpu_s=MEASURE_S)
        assert text, "tests fail without a mutant, or take too long: run them alone"
        measured = json.loads(text)
        lines: list[set[Line]] = [set(map(tuple, run)) for _, run in measured]
        quickest = sorted(range(len(items)), key=lambda at: measured[at][0])
        functions = self._functions()
        gc.freeze()
        killers: list[list[str]] = []
        for mutant, line in self._sample(functions):
            some = [items[at] for at in quickest if line in lines[at]]
            text = _in_a_fork(lambda: self._try(mutant, some, functions))  # noqa: B023
            killers.append(json.loads(text) if text else ["a loop without an end"])
            if not killers[-1]:
                print(
                    f"NOT NOTICED by {len(some)} tests, or by the quickest of them",
                    mutant.diff,
                    sep="\n",
                    flush=True,
                )
        print(f"{len(killers)} mutants, {sum(not one for one in killers)} not noticed")
        if not any(":" in place for place in self._places):
            _print_needless([_function(item.nodeid) for item in items], lines, killers)
        return True

    def _measure(self, items: Sequence[pytest.Item]) -> str:
        """Return, for each test, how long it takes, and the lines of the modules that it runs."""
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

    def _functions(self) -> list[FunctionType]:
        gc.unfreeze()  # else gc does not list what tests/conftest.py has frozen
        return [
            one
            for one in gc.get_objects()
            if isinstance(one, FunctionType) and one.__code__.co_filename in self._files
        ]

    def _sample(self, functions: Sequence[FunctionType]) -> Iterator[tuple[Mutant, Line]]:
        """Yield some mutants of each function, or all of one named, with the line changed."""
        for place in self._places:
            module, _, function = place.partition(":")
            before = (ROOT / module).read_text(encoding="utf-8")
            names = [function] if function else [
                one.name for one in ast.parse(before).body
                if isinstance(one, ast.ClassDef | ast.FunctionDef)
            ]  # fmt: skip
            of_function: dict[frozenset[Place], list[tuple[Mutant, Line]]] = defaultdict(list)
            for mutant in chain.from_iterable(mutants(ROOT, f"{module}:{one}") for one in names):
                lines = list(zip(before.split("\n"), mutant.code.split("\n"), strict=False))
                changed = [at for at, (old, new) in enumerate(lines, 1) if old != new]
                where = frozenset(self._swaps(mutant, functions))
                if any(name == "check" for _, _, name in where):
                    continue  # what it asserts is so, with its mutants as well
                if where and len(changed) == 1 and not is_least(*lines[changed[0] - 1]):
                    of_function[where].append((mutant, (str(ROOT / module), changed[0])))
            for where, some in of_function.items():
                random.Random(f"{SEED}{sorted(one[1:] for one in where)}").shuffle(some)
                yield from some if function else some[:A_FUNCTION_MAX]

    def _swaps(self, mutant: Mutant, functions: Sequence[FunctionType]) -> Mapping[Place, CodeType]:
        """Return the code of each function that ``mutant`` changes."""
        file = str(ROOT / mutant.path)
        new = {_place(one): one for one in _codes(compile(mutant.code, file, "exec"))}
        places = {_place(one.__code__): one.__code__ for one in functions}
        return {
            place: new[place]
            for place, code in places.items()
            if place in new and _content(new[place]) != _content(code)
        }

    def _try(
        self, mutant: Mutant, items: Sequence[pytest.Item], functions: Sequence[FunctionType]
    ) -> str:
        """Return the tests that fail with ``mutant``."""
        swaps = self._swaps(mutant, functions)
        for one in functions:
            one.__code__ = swaps.get(_place(one.__code__), one.__code__)
        begun = time.process_time()
        for item, following in zip(items, (*items[1:], None), strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if time.process_time() - begun > MUTANT_S:
                break
        return json.dumps(sorted(self._failed))


def _in_a_fork(work: Callable[[], str], *, cpu_s: int = HANGS_S) -> str:
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
            os.write(writing, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:  # noqa: PTH123 - of a descriptor
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def _print_needless(
    tests: Sequence[str], lines: Sequence[set[Line]], killers: Sequence[Sequence[str]]
) -> None:
    """Print the tests that are never the only one: to run a line, to notice a mutant."""
    of_line = defaultdict(set)
    for test, run in zip(tests, lines, strict=True):
        for line in run:
            of_line[line].add(test)
    alone = {one for found in (*of_line.values(), *killers) if len(found) == 1 for one in found}
    needless = sorted(set().union(*of_line.values()) - alone)
    print(*(f"notices nothing alone: {one}" for one in needless), sep="\n")
    print(f"{len(needless)} tests of {len(set(tests))} notice nothing alone")


def _modules(place: str) -> list[str]:
    """Return ``place``, or the modules in it, if it is a folder."""
    if not (ROOT / place).is_dir():
        return [place]
    return sorted(one.relative_to(ROOT).as_posix() for one in (ROOT / place).rglob("[!_]*.py"))


def _function(test: str) -> str:
    return test.partition("[")[0]


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_firstlineno, code.co_name


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _content(code: CodeType) -> object:
    """Return what tells whether two codes do the same."""
    consts = [_content(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return code.co_code, code.co_names, consts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("code", nargs="+", help="such as statestore/hub.py")
    parser.add_argument("tests", nargs="+", help="such as tests/statestore")
    asked = parser.parse_args()
    named = [*asked.code, *asked.tests]
    tests = [one for one in named if one.startswith("tests/")]
    code = [one for one in named if one not in tests]
    sys.dont_write_bytecode = True
    sys.exit(pytest.main([*OPTIONS, *QUICK, *tests], plugins=[Killers(code)]))
