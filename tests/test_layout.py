"""The sizes and places of style: how long a module and a function may be, where a test stands."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("topics", "statestore", "catalog", "subscriber", "cli")
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
UNMIRRORED = {  # tests of no single module, by folder or file
    "tests/test_imports.py",
    "tests/test_layout.py",
    "tests/test_docs.py",
    "tests/test_frame.py",
    "tests/bench",
    "tests/integration",
    "tests/sim",
    "tests/spark",
}
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield node


def _counted_lines(function: Function) -> int:
    """Count the lines of ``function`` without its docstring and its dispatch by ``match``."""
    exempt = sum(_lines(node) for node in function.body if isinstance(node, ast.Match))
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        exempt += _lines(first)
    return _lines(function) - exempt


@pytest.mark.parametrize("path", MODULES + TESTS, ids=_name)
def test_module_is_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE_LINES_MAX


@pytest.mark.parametrize("path", MODULES + TESTS, ids=_name)
def test_function_is_at_most_50_lines(path: Path) -> None:
    long = {f.name: _counted_lines(f) for f in _functions(path)}
    assert {name: lines for name, lines in long.items() if lines > FUNCTION_LINES_MAX} == {}


@pytest.mark.parametrize("path", [p for p in MODULES if p.name == "__init__.py"], ids=_name)
def test_package_file_holds_docstring_exports_and_a_sorted_all(path: Path) -> None:
    docstring, *body = ast.parse(path.read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr), "opens with what the package is"
    exported: list[str] = []
    named: list[str] = []
    for node in body:
        if isinstance(node, ast.ImportFrom):
            exported += [alias.asname or alias.name for alias in node.names]
            continue
        assert isinstance(node, ast.Assign), f"line {node.lineno} belongs in a module"
        assert ast.unparse(node.targets[0]) == "__all__", f"line {node.lineno} belongs in a module"
        named = ast.literal_eval(node.value)
    assert named == sorted(named)
    assert sorted(exported) == named


@pytest.mark.parametrize("path", [p for p in TESTS if p.name.startswith("test_")], ids=_name)
def test_each_test_file_mirrors_a_module(path: Path) -> None:
    if any(_name(path) == place or _name(path).startswith(place + "/") for place in UNMIRRORED):
        return
    inside = path.relative_to(ROOT / "tests")
    module = ROOT / inside.parent / inside.name.removeprefix("test_")
    package = module.with_suffix("")
    assert module.exists() or (package / "__init__.py").exists(), f"no {_name(module)}"


@pytest.mark.parametrize("path", TESTS, ids=_name)
def test_nothing_but_waiting_sleeps(path: Path) -> None:
    if path == ROOT / "tests" / "waiting.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        assert called.split(".")[-1] != "sleep", "wait with until (tests/waiting.py)"
