"""Mutants: is each MUST of docs/protocol.md held by a test that fails when its code is changed?

    rules.toml: rule ──▶ functions ──▶ mutants ──▶ the unit tests that cite its rules
                  none fails ──▶ those of the folder that run the line
                                    └──none fails──▶ those of the folders above
                                                        └──none fails──▶ survivor

If no test runs a line but while modules are imported, tests import it anew.
A mutant that no test notices is printed as a diff, and the run ends with 1; of one that only tests
without the rule's id notice, the first of them is printed.
``rules.toml`` excuses mutants that change nothing that can be seen, each with its reason; a whole
run ends with 1, too, if an excuse is for no mutant any more.
Run: make mutants; ARGS="P-SUB-3 P-CREDIT-5" tries these rules only.
"""

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pytest
from anew import first_failure
from making import ROOT, Mutant, mutants
from swapping import OPTIONS, Measured, Swapper, function_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULES: Final = Path(__file__).with_name("rules.toml")
RULE: Final = re.compile(r"\bP-[A-Z]+-\d+\b")
# Of a processor, whatever else the machine does: else tests that wait for it would count as failed.
CPU_S_MIN: Final = 10.0  # however fast tests are, for those of a mutant
SLOWER: Final = 3.0  # than when their lines are noted, and tests count as failed

TRIES: Final[list["Tries"]] = []  # of this process of the pool


@dataclass(frozen=True, slots=True)
class Tried:
    """What trying the mutants of one function came to."""

    mutants: int
    survivors: int
    excused: frozenset[str]  # keys of rules.toml by which a mutant was left out
    lines: tuple[str, ...]


def main() -> int:
    """Try the rules that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rules", nargs="*", help="ids such as P-SUB-3; none: all of rules.toml")
    named = set(parser.parse_args().rules)
    table = tomllib.loads(RULES.read_text(encoding="utf-8"))
    if unknown := named - set(table["rules"]):
        parser.error(f"not in {RULES.name}: {', '.join(sorted(unknown))}")
    rules_of: dict[str, list[str]] = defaultdict(list)
    for rule, places in table["rules"].items():
        for place in places:
            rules_of[place].append(rule)
    if named:
        rules_of = {place: rules for place, rules in rules_of.items() if named & set(rules)}
    found: list[Tried] = []

    def work(swapper: Swapper) -> None:
        tries = Tries(swapper, rules_of, table["excused"])
        with ProcessPoolExecutor(
            mp_context=get_context("fork"), initializer=TRIES.append, initargs=(tries,)
        ) as pool:
            for tried in pool.map(_try, rules_of):
                print(*tried.lines, sep="\n", flush=True)
                found.append(tried)

    sys.dont_write_bytecode = True
    files = {place.partition(":")[0] for place in rules_of}
    pytest.main([*OPTIONS, str(ROOT / "tests")], plugins=[Swapper(files, work)])
    assert len(found) == len(rules_of), "tests cannot be run: run them alone"
    survivors = sum(one.survivors for one in found)
    print(f"{sum(one.mutants for one in found)} mutants, {survivors} survivors")
    unused = set() if named else set(table["excused"]).difference(*(one.excused for one in found))
    print(*(f"excuses no mutant any more: {one}" for one in sorted(unused)), sep="\n")
    return 1 if survivors or unused else 0


def _try(place: str) -> Tried:
    return TRIES[0].tried(place)


class Tries:
    """The mutants of the functions of rules, and what tests make of them."""

    def __init__(
        self, swapper: Swapper, rules_of: Mapping[str, list[str]], excused: Mapping[str, str]
    ) -> None:
        self._swapper = swapper
        self._rules_of = rules_of
        self._excused = excused
        self._rules_by_test = _rules_by_test()
        self._folders: dict[str, list[Measured]] = {}  # their tests

    def tried(self, place: str) -> Tried:
        """Try all mutants of one function."""
        rules = set(self._rules_of[place])
        citing = self._swapper.measured([
            one
            for one in self._swapper.items
            if rules & self._rules_by_test[function_of(one.nodeid)]
        ])  # fmt: skip
        tried, survivors, notes, excused = 0, 0, [], set[str]()
        for mutant in mutants(place):
            if keys := self._excuses(mutant, place):
                excused |= keys
                continue
            tried += 1
            if self._first(
                mutant, citing, sorted({function_of(one.item.nodeid) for one in citing})
            ):
                continue
            nearest, highest = _folders_of(mutant.path)
            other = self._first(mutant, self._of_folder(nearest), ["--unit", nearest])
            if not other and highest != nearest:
                other = self._first(mutant, self._of_folder(highest))
            survivors += not other
            notes += [f"only {other} notices:" if other else "SURVIVOR", mutant.diff]
        line = {"place": place, "rules": sorted(rules), "mutants": tried, "survivors": survivors}
        return Tried(tried, survivors, frozenset(excused), (json.dumps(line), *notes))

    def _first(self, mutant: Mutant, tests: Sequence[Measured], anew: Sequence[str] = ()) -> str:
        """Return the first of ``tests`` that fails with ``mutant``; empty: all pass.

        ``anew``: the arguments of pytest for them. If none runs the line, they import it anew.
        """
        cpu_s = CPU_S_MIN + SLOWER * sum(one.cpu_s for one in tests)
        some = [one.item for one in tests if mutant.place in one.lines]
        found = self._swapper.failing(mutant, some, cpu_s=cpu_s, first=True) if some else None
        if found is None and anew:
            return first_failure(mutant, anew, cpu_s=int(cpu_s))
        return found[0] if found else ""

    def _of_folder(self, folder: str) -> list[Measured]:
        if folder not in self._folders:
            here = [one for one in self._swapper.items if one.nodeid.startswith(f"{folder}/")]
            self._folders[folder] = self._swapper.measured(here)
        return self._folders[folder]

    def _excuses(self, mutant: Mutant, place: str) -> set[str]:
        """Return why nothing can be seen of a line that a mutant adds, there or anywhere.

        A key of ``excused`` is the line, or where it stands and the line: "Topic.since: continue".
        """
        function = place.partition(":")[2]
        keys = {key for line in mutant.added for key in (line, f"{function}: {line}")}
        return keys & self._excused.keys()


def _folders_of(path: str) -> tuple[str, str]:
    """Return the folder of tests that mirrors the folder of ``path`` best, and its highest."""
    above = [f"tests/{folder}" for folder in Path(path).parents if folder.name]
    found = [folder for folder in above if (ROOT / folder).is_dir()]
    return found[0], found[-1]


def _rules_by_test() -> Mapping[str, set[str]]:
    """Return the rules that the text of each test function names, by its id."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name == "test_docs.py" or not RULE.search(text):
            continue
        for one in ast.walk(ast.parse(text)):
            if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
                cited = RULE.findall(ast.get_source_segment(text, one) or "")
                found[f"{path.relative_to(ROOT)}::{one.name}"] |= set(cited)
    return found


if __name__ == "__main__":
    sys.exit(main())
