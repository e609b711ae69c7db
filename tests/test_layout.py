"""Where files stand: what a package file holds, which folder a test mirrors, who may sleep."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("topics", "statestore", "catalog", "subscriber", "cli")
UNMIRRORED = {  # tests of no single module, by folder or file
    "tests/test_imports.py",
    "tests/test_layout.py",
    "tests/test_docs.py",
    "tests/test_frame.py",
    "tests/test_walks.py",
    "tests/bench",
    "tests/cluster",
    "tests/integration",
    "tests/lakes",
    "tests/mutants",
    "tests/sim",
    "tests/spark",
}
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


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
def test_each_test_file_mirrors_a_folder(path: Path) -> None:
    if any(_name(path) == place or _name(path).startswith(place + "/") for place in UNMIRRORED):
        return
    folder = ROOT / path.relative_to(ROOT / "tests").parent
    assert (folder / "__init__.py").exists(), f"no folder {_name(folder)}"


@pytest.mark.parametrize("path", TESTS, ids=_name)
def test_nothing_but_waiting_sleeps(path: Path) -> None:
    if path == ROOT / "tests" / "waiting.py":
        return
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "sleep" in text else ():
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        assert called.split(".")[-1] != "sleep", "wait with until (tests/waiting.py)"
