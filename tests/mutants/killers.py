"""Killers: which unit tests notice mutants of modules, and which of them notice none alone.

    collect ──fork──▶ which test runs which line of the modules
       └──a fork for each mutant──▶ its function's code is swapped ──▶ all tests that run its line

At the end come the mutants that no test noticed, and each test that is the only one to notice no
mutant and to run no line. That is a reason to read the test, and no more: its rule may be that of
another module, and the mutants are a sample. The test can go if another test says the same.
Run: make killers ARGS="statestore/hub.py tests/statestore"
     make killers ARGS="statestore/hub.py statestore/content tests/statestore"  # as of all of them
     make killers ARGS="statestore/hub.py:Hub.take_delta tests/statestore"  # of a function
"""

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from making import ROOT, Mutant, mutants
from swapping import OPTIONS, Measured, Place, Swapper, function_of

A_FUNCTION_MAX: Final = 3  # mutants, drawn by SEED, of each function of a module
SEED: Final = 7
MUTANT_S: Final = 4.0  # of a processor, for the tests of a mutant, of which the quickest are first


def main() -> int:
    """Try some mutants of the modules, or all of the functions, that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("code", nargs="+", help="such as statestore/hub.py")
    parser.add_argument("tests", nargs="+", help="such as tests/statestore")
    asked = parser.parse_args()
    named = [*asked.code, *asked.tests]
    tests = [one for one in named if one.startswith("tests/")]
    places = [one for place in named if place not in tests for one in _modules(place)]
    sys.dont_write_bytecode = True
    swapper = Swapper({one.partition(":")[0] for one in places}, lambda one: _try(one, places))
    return pytest.main([*OPTIONS, *tests], plugins=[swapper])


def _try(swapper: Swapper, places: Sequence[str]) -> None:
    """Print the mutants that no test notices, and the tests that notice none alone."""
    tests = swapper.measured(swapper.items)
    killers: list[list[str]] = []
    for mutant in _sample(swapper, places):
        some = [one.item for one in tests if mutant.place in one.lines]
        killers.append(swapper.failing(mutant, some, cpu_s=MUTANT_S) or [] if some else [])
        if not killers[-1]:
            said = f"NOT NOTICED by {len(some)} tests, or by the quickest of them"
            print(said, mutant.diff, sep="\n", flush=True)
    print(f"{len(killers)} mutants, {sum(not one for one in killers)} not noticed")
    if not any(":" in place for place in places):
        _print_needless(tests, killers)


def _sample(swapper: Swapper, places: Sequence[str]) -> Iterator[Mutant]:
    """Yield some mutants of each function of a module, or all of one named."""
    for place in places:
        of_function: dict[frozenset[Place], list[Mutant]] = defaultdict(list)
        for mutant in mutants(place):
            where = frozenset(swapper.swaps(mutant))
            if where and not any(name == "check" for _, _, name in where):
                of_function[where].append(mutant)  # what a check asserts is so with it as well
        for where, some in of_function.items():
            random.Random(f"{SEED}{sorted(one[1:] for one in where)}").shuffle(some)
            yield from some if ":" in place else some[:A_FUNCTION_MAX]


def _print_needless(tests: Sequence[Measured], killers: Sequence[Sequence[str]]) -> None:
    """Print the tests that are never the only one: to run a line, to notice a mutant."""
    of_line = defaultdict(set)
    for one in tests:
        for line in one.lines:
            of_line[line].add(function_of(one.item.nodeid))
    alone = {one for found in (*of_line.values(), *killers) if len(found) == 1 for one in found}
    needless = sorted(set().union(*of_line.values()) - alone)
    print(*(f"notices nothing alone: {one}" for one in needless), sep="\n")
    every = {function_of(one.item.nodeid) for one in tests}
    print(f"{len(needless)} tests of {len(every)} notice nothing alone")


def _modules(place: str) -> list[str]:
    """Return ``place``, or the modules in it, if it is a folder."""
    if not (ROOT / place).is_dir():
        return [place]
    return sorted(one.relative_to(ROOT).as_posix() for one in (ROOT / place).rglob("[!_]*.py"))


if __name__ == "__main__":
    sys.exit(main())
