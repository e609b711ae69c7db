"""Mutants: is each MUST of docs/protocol.md held by a test that fails when its code is changed?

    rules.toml: rule ──▶ functions ──Cosmic Ray──▶ mutants ──▶ the unit tests that cite its rules
                                                  none fails ──▶ all unit tests of the folder
                                                                    └──none fails──▶ survivor

Cosmic Ray's operators change one condition, comparison, constant or loop of a function at a time,
in a copy of the tree for each core, so that the tree may change meanwhile. A mutant that no
test notices is printed as a diff, and the run ends with 1; of one that only tests without the
rule's id notice, the first of them is printed.
``rules.toml`` excuses mutants that change nothing that can be seen, each with its reason. Two kinds
are made for none: what is due at an instant and not just after it (two readings of a clock differ),
and a number of three digits and more that is one higher or lower.
Run: make mutants; ARGS="P-SUB-3 P-CREDIT-5" tries these rules only.
"""

import argparse
import ast
import compileall
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from difflib import unified_diff
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Final

import hypothesis
import msgpack
import pytest
import zmq
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

ROOT: Final = Path(__file__).resolve().parents[2]
RULES: Final = Path(__file__).with_name("rules.toml")
# Only the name of a test that fails is shown, and pytest itself is preloaded.
QUICK: Final = ("--tb=native", "--assert=plain", "-Wignore::pytest.PytestAssertRewriteWarning")
PRELOADED: Final = (hypothesis, msgpack, zmq)  # by the parent, once for all its forks
# Of a processor, whatever else the machine does: else tests that wait for it would count as failed.
CPU_S_MAX: Final = 300  # for all unit tests of a folder with a mutant; they take 100 s at most
CPU_S_MIN: Final = 10  # however fast tests are: a loop without an end is noticed soon
SLOWER: Final = 6.0  # than without a mutant, and tests count as failed
# Of all operators, those whose mutants stand for a rule that is left out or turned round.
OPERATORS: Final = re.compile(
    r"core/(AddNot|Replace(True|False|And|Or)With\w+|ZeroIterationForLoop|Replace(Break|Continue)\w+"
    r"|ReplaceComparisonOperator_(Lt_GtE|LtE_Gt|Gt_LtE|GtE_Lt|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Eq_NotEq"
    r"|NotEq_Eq|Is_IsNot|IsNot_Is|In_NotIn|NotIn_In)|ReplaceUnaryOperator_Delete_Not|NumberReplacer)"
)


NOT_STRICT: Final = re.compile(r"([<>])=")
INSTANT: Final = re.compile(r"\bnow\b|\b_now\b|\blate_s\b")
CLAUSE: Final = re.compile(r"\b(?:and|or|if)\b")
NUMBER: Final = re.compile(r"\b\d[\d_]*\b")

OWN_TREE: Final[list[Path]] = []  # of this process of the pool


@dataclass(frozen=True, slots=True)
class Tried:
    """What trying the mutants of one function came to."""

    mutants: int
    survivors: int
    lines: tuple[str, ...]


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
    listed = table["rules"]
    if unknown := set(named) - set(listed):
        parser.error(f"not in {RULES.name}: {', '.join(sorted(unknown))}")
    rules_of: dict[str, list[str]] = {}
    for rule, places in listed.items():
        for place in places:
            rules_of.setdefault(place, []).append(rule)
    chosen = [(place, rules) for place, rules in rules_of.items()
              if not named or set(named) & set(rules)]  # fmt: skip
    tried = survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        cores = os.cpu_count() or 1
        trees: Queue[Path] = get_context("fork").Queue()
        for number in range(cores):
            tree = Path(folder) / str(number) / "topicast"
            _copy_tree(tree)
            trees.put(tree)
        units = _unit_tests()
        jobs = [(place, rules, table["excused"], units) for place, rules in chosen]
        with ProcessPoolExecutor(
            cores, mp_context=get_context("fork"), initializer=_take_tree, initargs=(trees,)
        ) as pool:
            for found in pool.map(_try_place, jobs):
                print(*found.lines, sep="\n", flush=True)
                tried, survivors = tried + found.mutants, survivors + found.survivors
    print(f"{tried} mutants, {survivors} survivors")
    return 1 if survivors else 0


def _take_tree(trees: "Queue[Path]") -> None:
    """Give this process of the pool a tree of its own."""
    OWN_TREE.append(trees.get())


def _unit_tests() -> frozenset[str]:
    """Return the ids of the tests that need no metastore, no Spark and no process."""
    collect = [sys.executable, "-m", "pytest", "--unit", "--collect-only", "-q"]
    listed = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return frozenset(line.partition("[")[0] for line in listed.splitlines() if "::" in line)


def _try_place(job: tuple[str, list[str], dict[str, str], frozenset[str]]) -> Tried:
    """Try all mutants of one function."""
    place, rules, excused, units = job
    (tree,) = OWN_TREE
    citing = sorted({test for rule in rules for test in _tests_that_cite(tree, rule)} & units)
    begun_s = _children_cpu_s()
    if citing:
        assert not _first_failure(tree, citing), f"{citing} fail without a mutant"
    limit_s = min(CPU_S_MIN + int(SLOWER * (_children_cpu_s() - begun_s)), CPU_S_MAX)
    made = [one for one in mutants(tree, place) if not _is_excused(one, place, excused)]
    survivors, notes = 0, []
    for mutant in made:
        if citing and _first_failure(tree, citing, mutant, cpu_s=limit_s):
            continue
        other = _first_failure(tree, ["--unit", _folder_of(mutant.path)], mutant)
        survivors += not other
        notes += [f"only {other} notices:" if other else "SURVIVOR", mutant.diff]
    line = {"place": place, "rules": rules, "mutants": len(made), "survivors": survivors}
    return Tried(len(made), survivors, (json.dumps(line), *notes))


def _folder_of(path: Path) -> str:
    """Return the folder of tests that mirrors the folder of ``path``, or one above it."""
    return next(f"tests/{folder}" for folder in path.parents if (ROOT / "tests" / folder).is_dir())


def _is_excused(mutant: Mutant, place: str, excused: dict[str, str]) -> bool:
    """Tell whether the line that a mutant adds changes nothing that can be seen, there or anywhere.

    A key of ``excused`` is the line, or where it stands and the line: "Topic.since: continue".
    """
    function = place.partition(":")[2]
    lines = mutant.diff.splitlines()
    removed = [line[1:].strip() for line in lines if line.startswith("- ")]
    added = [line[1:].strip() for line in lines if line.startswith("+ ")]
    if len(removed) == len(added) == 1 and is_least(removed[0], added[0]):
        return True
    return any(line in excused or f"{function}: {line}" in excused for line in added)


def is_least(before: str, after: str) -> bool:
    """Tell whether a line is another by an instant, or by one in a number of hundreds."""
    if NOT_STRICT.sub(r"\1", before) == NOT_STRICT.sub(r"\1", after):
        clauses = zip(CLAUSE.split(before), CLAUSE.split(after), strict=True)
        return all(INSTANT.search(one) for one, other in clauses if one != other)
    pairs = zip(_numbers(before), _numbers(after), strict=False)
    apart = {(one, other) for one, other in pairs if one != other}
    return len(apart) == 1 and all(one >= 100 and abs(one - other) == 1 for one, other in apart)


def _numbers(line: str) -> list[int]:
    return [int(one.replace("_", "")) for one in NUMBER.findall(line)]


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


def _tests_that_cite(tree: Path, rule: str) -> Iterator[str]:
    """Yield the ids of the test functions whose text names ``rule``."""
    pattern = re.compile(rf"\b{rule}\b")
    for path in (tree / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if not pattern.search(text) or path.name == "test_docs.py":
            continue
        functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
        for one in functions:
            cites = pattern.search(ast.get_source_segment(text, one) or "")
            if one.name.startswith("test_") and cites:
                yield f"{path.relative_to(tree)}::{one.name}"


def _lines(path: Path, qualified: str) -> range:
    """Return the lines of a function, a method ("Class.method"), or a class."""
    nodes: Iterable[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in qualified.split("."):
        found = next((n for n in nodes if getattr(n, "name", None) == name), None)
        assert found is not None, f"{path} has no {qualified}"
        nodes = getattr(found, "body", ())
    return range(found.lineno, (found.end_lineno or found.lineno) + 1)


def mutants(tree: Path, place: str) -> Iterator[Mutant]:
    """Yield every mutant of the function that ``place`` names, as "path:Class.method"."""
    name, _, qualified = place.partition(":")
    path = tree / name
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


def _first_failure(
    tree: Path, tests: list[str], mutant: Mutant | None = None, *, cpu_s: int = CPU_S_MAX
) -> str:
    """Return the first of ``tests`` that fails, or why there is none; empty: all pass."""
    if mutant is None:
        return _fails(tree, tests, cpu_s)
    file = tree / mutant.path
    before = file.read_text(encoding="utf-8")
    file.write_text(mutant.code, encoding="utf-8")
    failure = _fails(tree, tests, cpu_s)
    file.write_text(before, encoding="utf-8")
    return failure


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _fails(tree: Path, tests: list[str], cpu_s: int) -> str:
    receiving, sending = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=_test, args=(tree, tests, sending, cpu_s))
    process.start()
    sending.close()
    process.join()
    ends = (0, 1, 2, 4, -SIGKILL)  # 4: a module of tests could not be imported
    assert process.exitcode in ends, f"pytest ends with {process.exitcode}"
    if process.exitcode == 0:
        return ""
    try:
        return str(receiving.recv())
    except EOFError:
        return f"exit code {process.exitcode}"
    finally:
        receiving.close()


class _FirstFailure:
    """A plugin of pytest that sends the id of the first test that fails."""

    def __init__(self, sending: Connection) -> None:
        self._sending = sending

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._sending.send(report.nodeid)


def _test(tree: Path, tests: list[str], sending: Connection, cpu_s: int) -> None:
    """Run ``tests`` in a fork of this process, which has imported all but the tree."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    os.chdir(tree)
    sys.path.insert(0, str(tree.parent))
    sys.dont_write_bytecode = True
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    options = ["-x", "-q", "-p", "no:cacheprovider", *QUICK]
    os._exit(pytest.main([*options, *tests], plugins=[_FirstFailure(sending)]))


if __name__ == "__main__":
    sys.exit(main())
