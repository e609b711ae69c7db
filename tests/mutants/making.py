"""Mutants: a function, with one condition, comparison, constant or loop changed by Cosmic Ray."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT: Final = Path(__file__).resolve().parents[2]
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
NEGATED: Final = re.compile(r"\bnot (\w+ := .+):$", re.MULTILINE)
"""What Cosmic Ray makes of ``if why := …:``, which is no Python."""


Line = tuple[str, int]
"""Of a file: its whole path, and the number."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file: its code, and the first line that changes, counted from 1."""

    path: str
    code: str
    line: int
    diff: str

    @property
    def place(self) -> Line:
        """The line, in the checkout."""
        return str(ROOT / self.path), self.line

    @property
    def removed(self) -> list[str]:
        """The lines that are replaced."""
        return [line[1:].strip() for line in self.diff.splitlines() if line.startswith("- ")]

    @property
    def added(self) -> list[str]:
        """The lines that replace them."""
        return [line[1:].strip() for line in self.diff.splitlines() if line.startswith("+ ")]


def mutants(place: str) -> Iterator[Mutant]:
    """Yield the mutants of the function that ``place`` names, as "path:Class.method", or of a file.

    None is of what is due at an instant and not just after it (two readings of a clock differ), and
    none of a number of three digits and more that is one higher or lower.
    """
    path, _, qualified = place.partition(":")
    code = (ROOT / path).read_text(encoding="utf-8")
    wanted = _lines(code, qualified)
    nodes = list(ast_nodes(get_ast(code)))
    for operator_name in sorted(filter(OPERATORS.fullmatch, operator_names())):
        operator = get_operator(operator_name)()
        positions = [at for node in nodes for at in operator.mutation_positions(node)]
        for occurrence, ((line, _), _) in enumerate(positions):
            changed = mutate_code(code, operator, occurrence) if line in wanted else None
            changed = NEGATED.sub(r"not (\1):", changed or code)
            mutant = _mutant(path, code, changed)
            if mutant is not None and not _is_least(mutant.removed, mutant.added):
                yield mutant


def _mutant(path: str, before: str, after: str) -> Mutant | None:
    if before == after:
        return None
    old, new = before.splitlines(), after.splitlines()
    line = next(
        at for at, lines in enumerate(zip(old, new, strict=False), 1) if lines[0] != lines[1]
    )
    return Mutant(
        path, after, line, "\n".join(unified_diff(old, new, path, path, n=2, lineterm=""))
    )


def _lines(code: str, qualified: str) -> range:
    """Return the lines of a function, a method ("Class.method"), a class, or the whole ``code``."""
    if not qualified:
        return range(1, code.count("\n") + 1)
    nodes: Iterable[ast.stmt] = ast.parse(code).body
    for name in qualified.split("."):
        found = next((n for n in nodes if getattr(n, "name", None) == name), None)
        assert found is not None, f"no {qualified}"
        nodes = getattr(found, "body", ())
    return range(found.lineno, (found.end_lineno or found.lineno) + 1)


def _is_least(removed: list[str], added: list[str]) -> bool:
    """Tell whether a line is another by an instant, or by one in a number of hundreds."""
    if len(removed) != 1 or len(added) != 1:
        return False
    before, after = removed[0], added[0]
    if NOT_STRICT.sub(r"\1", before) == NOT_STRICT.sub(r"\1", after):
        clauses = zip(CLAUSE.split(before), CLAUSE.split(after), strict=True)
        return all(INSTANT.search(one) for one, other in clauses if one != other)
    pairs = zip(_numbers(before), _numbers(after), strict=False)
    apart = {(one, other) for one, other in pairs if one != other}
    return len(apart) == 1 and all(one >= 100 and abs(one - other) == 1 for one, other in apart)


def _numbers(line: str) -> list[int]:
    return [int(one.replace("_", "")) for one in NUMBER.findall(line)]
