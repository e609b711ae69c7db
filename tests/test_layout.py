"""Where files stand: what a package file holds, which folder a test mirrors, who may sleep."""

import ast
import re
from configparser import ConfigParser
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("topics", "statestore", "catalog", "subscriber", "pipeline", "cli")
UNMIRRORED = {  # tests of no single module, by folder or file
    "tests/test_imports.py",
    "tests/test_layout.py",
    "tests/test_nightly.py",
    "tests/test_docs.py",
    "tests/test_walks.py",
    "tests/test_map.py",
    "tests/bench",
    "tests/cluster",
    "tests/dbt",
    "tests/deploy",
    "tests/foreign",
    "tests/integration",
    "tests/kerberos",
    "tests/lakes",
    "tests/mutants",
    "tests/net",
    "tests/s3",
    "tests/sim",
    "tests/spark",
}
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PRIVATE = re.compile(r"\b_\w+")
OWN_NAME = re.compile(r"\b(?:def |class |self\.)(_\w+)")
BY_NAME = {"setattr", "getattr", "delattr", "patch", "object"}  # the last two are of mock


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_package_file_holds_docstring_exports_and_a_sorted_all() -> None:
    files = [path for path in MODULES if path.name == "__init__.py"]
    wrong = [f"{_name(path)}: {what}" for path in files if (what := _wrong_in_package(path))]
    assert wrong == []


def _wrong_in_package(path: Path) -> str:
    """Return what a package file must not be or hold; empty if nothing."""
    docstring, *body = ast.parse(path.read_text(encoding="utf-8")).body
    if not isinstance(docstring, ast.Expr):
        return "opens with what the package is"
    exported: list[str] = []
    named: list[str] = []
    for node in body:
        if isinstance(node, ast.ImportFrom):
            exported += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            named = ast.literal_eval(node.value)
        else:
            return f"line {node.lineno} belongs in a module"
    return "" if named == sorted(named) == sorted(exported) else "__all__ is sorted, and whole"


def test_files_beside_modules_are_installed_with_them() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    data = config["options.package_data"]
    others = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix not in (".py", ".pyc")
    ]
    assert others
    missing = [
        _name(path)
        for path in others
        if not fnmatch(
            path.name, data.get(".".join(("topicast", *_name(path).split("/")[:-1])), "")
        )
    ]
    assert missing == []


def test_each_test_file_mirrors_a_folder() -> None:
    mirrors = [
        path.relative_to(ROOT / "tests").parent
        for path in TESTS
        if path.name.startswith("test_")
        and not any(f"{_name(path)}/".startswith(f"{place}/") for place in UNMIRRORED)
    ]
    assert mirrors
    assert [str(one) for one in mirrors if not (ROOT / one / "__init__.py").exists()] == []


def test_nothing_but_waiting_sleeps() -> None:
    wrong = []
    for path in TESTS:
        text = path.read_text(encoding="utf-8")
        if path == ROOT / "tests" / "waiting.py" or "sleep" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and _last_name(node.func) == "sleep":
                wrong.append(f"{_name(path)}: line {node.lineno}")
    assert wrong == [], "wait with until (tests/waiting.py)"


def _last_name(called: ast.expr) -> str:
    """Return the last of the dotted names of what is called; empty if that has none."""
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")


def _defined(path: Path) -> set[str]:
    """Return the private names of a file: of its functions and classes, and fields of ``self``."""
    found = OWN_NAME.findall(path.read_text(encoding="utf-8"))
    return set(filter(_private, found)) - {"_fields", "_replace"}  # of named tuples


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def _names_in_text(call: ast.Call) -> list[str]:
    """Return the names of attributes that ``setattr`` and the like are given as texts."""
    if _last_name(call.func) not in BY_NAME:
        return []
    texts = (one.value for one in call.args if isinstance(one, ast.Constant))
    return [name for text in texts if isinstance(text, str) for name in text.split(".")]


def test_tests_use_no_private_name_of_ours() -> None:
    ours, wrong = set().union(*map(_defined, MODULES)), []
    for path in TESTS:
        foreign = (ours - _defined(path)).intersection(PRIVATE.findall(path.read_text("utf-8")))
        if not foreign:  # else it takes a second to parse them all
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Attribute) and not _is_own(node.value):
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("topicast."):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.Call):
                names = _names_in_text(node)
            wrong += [f"{_name(path)}: line {node.lineno}: {n}" for n in names if n in foreign]
    assert wrong == [], "use a public seam"


def test_no_test_runs_curl() -> None:
    """What needs pip and nothing else has no such program."""
    here = Path(__file__).resolve()
    assert not [_name(path) for path in TESTS if path != here and "curl" in path.read_text()]
