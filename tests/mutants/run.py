"""Mutants: is each MUST of docs/protocol.md held by a test that fails when its code is changed?

    rules.toml: rule ──▶ functions ──Cosmic Ray──▶ mutants ──▶ the tests that cite their rules
                                                                  └──none fails──▶ survivor

Cosmic Ray's operators change one condition, comparison, constant or loop of a function at a time,
in a copy of the tree. A mutant that no citing test notices is printed as a diff, and the run ends
with 1. ``rules.toml`` excuses mutants that change nothing that can be seen, each with its reason.
Run: make mutants; ARGS="P-SUB-3 P-CREDIT-5" tries these rules only.
"""

import argparse
import ast
import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from multiprocessing import get_context
from pathlib import Path
from signal import SIGKILL
from typing import Final

import hypothesis
import msgpack
import pytest
import tomllib
import zmq
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT: Final = Path(__file__).resolve().parents[2]
RULES: Final = Path(__file__).with_name("rules.toml")
PRELOADED: Final = (hypothesis, msgpack, zmq)  # by the parent, once for all its forks
TIMEOUT_S: Final = 300.0  # of the tests of one mutant
# Of all operators, those whose mutants stand for a rule that is left out or turned round.
OPERATORS: Final = re.compile(
    r"core/(AddNot|Replace(True|False|And|Or)With\w+|ZeroIterationForLoop|Replace(Break|Continue)\w+"
    r"|ReplaceComparisonOperator_(Lt_GtE|LtE_Gt|Gt_LtE|GtE_Lt|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Eq_NotEq"
    r"|NotEq_Eq|Is_IsNot|IsNot_Is|In_NotIn|NotIn_In)|ReplaceUnaryOperator_Delete_Not|NumberReplacer)"
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file."""

    path: Path
    code: str
    diff: str


def main() -> int:
    """Try the rules that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rules", nargs="*", help="ids such as P-SUB-3; none: all of rules.toml")
    named = parser.parse_args().rules
    table = tomllib.loads(RULES.read_text(encoding="utf-8"))
    listed, excused = table["rules"], table["excused"]
    if unknown := set(named) - set(listed):
        parser.error(f"not in {RULES.name}: {', '.join(sorted(unknown))}")
    rules_of: dict[str, list[str]] = {}
    for rule, places in listed.items():
        for place in places:
            rules_of.setdefault(place, []).append(rule)
    survivors = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "topicast"
        _copy_tree(tree)
        for place, rules in rules_of.items():
            if named and not set(named) & set(rules):
                continue
            tests = sorted({test for rule in rules for test in _tests_that_cite(rule)})
            assert _pass(tree, tests), f"{tests} fail without a mutant"
            mutants = [one for one in _mutants(place) if not _is_excused(one, excused)]
            lived = [one for one in mutants if _survives(tree, one, tests)]
            tried, survivors = tried + len(mutants), survivors + len(lived)
            line = {"place": place, "rules": rules, "mutants": len(mutants)}
            print(json.dumps(line | {"survivors": len(lived)}), flush=True)
            for mutant in lived:
                print(mutant.diff, flush=True)
    print(f"{tried} mutants, {survivors} survivors")
    return 1 if survivors else 0


def _is_excused(mutant: Mutant, excused: dict[str, str]) -> bool:
    """Tell whether the line that a mutant adds is one that changes nothing that can be seen."""
    added = [line[1:].strip() for line in mutant.diff.splitlines() if line.startswith("+ ")]
    return any(line in excused for line in added)


def _copy_tree(tree: Path) -> None:
    """Copy the files of the checkout, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    compileall.compile_dir(tree, quiet=2)  # once, not for each mutant


def _tests_that_cite(rule: str) -> Iterator[str]:
    """Yield the ids of the test functions whose text names ``rule``."""
    pattern = re.compile(rf"\b{rule}\b")
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if not pattern.search(text) or path.name == "test_docs.py":
            continue
        functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
        for one in functions:
            cites = pattern.search(ast.get_source_segment(text, one) or "")
            if one.name.startswith("test_") and cites:
                yield f"{path.relative_to(ROOT)}::{one.name}"


def _lines(path: Path, qualified: str) -> range:
    """Return the lines of a function, a method ("Class.method"), or a class."""
    nodes: Iterable[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in qualified.split("."):
        found = next((n for n in nodes if getattr(n, "name", None) == name), None)
        assert found is not None, f"{path.relative_to(ROOT)} has no {qualified}"
        nodes = getattr(found, "body", ())
    return range(found.lineno, (found.end_lineno or found.lineno) + 1)


def _mutants(place: str) -> Iterator[Mutant]:
    """Yield every mutant of the function that ``place`` names, as "path:Class.method"."""
    name, _, qualified = place.partition(":")
    path = ROOT / name
    wanted, code = _lines(path, qualified), path.read_text(encoding="utf-8")
    nodes = list(ast_nodes(get_ast(code)))
    for operator_name in sorted(filter(OPERATORS.fullmatch, operator_names())):
        operator = get_operator(operator_name)()
        positions = [at for node in nodes for at in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(positions):
            if start[0] not in wanted:
                continue
            changed = mutate_code(code, operator, occurrence)
            if changed is not None and changed != code:
                yield Mutant(Path(name), changed, _diff(name, code, changed))


def _diff(name: str, before: str, after: str) -> str:
    lines = unified_diff(before.splitlines(), after.splitlines(), name, name, n=2, lineterm="")
    return "\n".join(lines)


def _survives(tree: Path, mutant: Mutant, tests: list[str]) -> bool:
    """Tell whether all of ``tests`` pass with the mutant."""
    file = tree / mutant.path
    before = file.read_text(encoding="utf-8")
    file.write_text(mutant.code, encoding="utf-8")
    passes = _pass(tree, tests)
    file.write_text(before, encoding="utf-8")
    return passes


def _pass(tree: Path, tests: list[str]) -> bool:
    process = get_context("fork").Process(target=_test, args=(tree, tests))
    process.start()
    process.join(TIMEOUT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
    ends = (0, 1, 2, 4, -SIGKILL)  # 4: a module of tests could not be imported
    assert process.exitcode in ends, f"pytest ends with {process.exitcode}"
    return process.exitcode == 0


def _test(tree: Path, tests: list[str]) -> None:
    """Run ``tests`` in a fork of this process, which has imported all but the tree."""
    os.chdir(tree)
    sys.path.insert(0, str(tree.parent))
    sys.dont_write_bytecode = True
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    preloaded = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *preloaded, *tests]))


if __name__ == "__main__":
    sys.exit(main())
