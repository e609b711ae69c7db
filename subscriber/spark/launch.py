"""Launch: attach without code, from the start of Python; this file is read by its path.

    topicast run ──PYTHONPATH──▶ sitecustomize ──▶ begin ──▶ pyspark.sql.session is imported
                          and the user's own ◀──┘                 │ its class is wrapped
                                    attach ◀──the first session──┘

It is read by every Python that the command starts, so it imports nothing but the standard library;
of ours nothing is loaded before there is a session. In Python workers of executors it does nothing.
What went on is noted in the folder of the sitecustomize, for whoever started the command.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

SESSION: Final = "pyspark.sql.session"
SITE: Final = "sitecustomize"
WORKER: Final = "PYTHON_WORKER_FACTORY"  # how variables begin that Spark sets for a Python worker
SETTINGS: Final = "settings.json"  # arguments of attach
LOADED: Final = "loaded"  # notes
ATTACHED: Final = "attached"
FAILED: Final = "failed"

TEXT: Final = """\
import importlib.util
_spec = importlib.util.spec_from_file_location("_topicast_launch", {path!r})
_launch = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_launch)
_launch.begin({folder!r}, {package!r})
"""


def prepare(folder: Path, arguments: dict[str, Any]) -> None:
    """Write into ``folder`` what Python is to load from there."""
    package = __name__.rpartition(".")[0]
    text = TEXT.format(path=__file__, folder=str(folder), package=package)
    (folder / f"{SITE}.py").write_text(text, encoding="utf-8")
    (folder / SETTINGS).write_text(json.dumps(arguments), encoding="utf-8")


def notes(folder: Path) -> dict[str, str]:
    """Return what was noted in ``folder``: by its kind, what was said last."""
    found = {}
    for kind in (LOADED, ATTACHED, FAILED):
        for file in sorted(folder.glob(f"{kind}.*")):
            found[kind] = file.read_text("utf-8")
    return found


def begin(folder: str, package: str) -> None:
    """Wait for Spark to be imported; whatever fails, Python starts."""
    _chain(folder)
    if any(name.startswith(WORKER) for name in os.environ):
        return
    _note(folder, LOADED, "")
    sys.meta_path.insert(0, _Finder(folder, package))


class _Finder:
    """Finds one module, as it would be found, and has its class wrapped."""

    def __init__(self, folder: str, package: str) -> None:
        self._folder = folder
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != SESSION:
            return None
        with suppress(ValueError):
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            loader = _Loader(spec.loader, self._folder, self._package)
            spec.loader = loader  # type: ignore[assignment]  # it has what a loader needs
        return spec


class _Loader:
    """Loads one module by the loader that it has, which it is given back."""

    def __init__(self, inner: Any, folder: str, package: str) -> None:
        self._inner = inner
        self._folder = folder
        self._package = package

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._inner.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        with suppress(Exception):  # plain Spark, and no note that it is attached
            _hide(self._folder)
            _wrap(module.SparkSession, self._folder, self._package)


def _wrap(kind: type, folder: str, package: str) -> None:
    original = kind.__dict__["__init__"]
    first = [True]

    @wraps(original)
    def init(self: object, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        if first:
            first.clear()
            _attach(self, folder, package)

    setattr(kind, "__init__", init)  # noqa: B010 - mypy allows it this way only


def _attach(session: object, folder: str, package: str) -> None:
    try:
        arguments = json.loads(Path(folder, SETTINGS).read_text("utf-8"))
        status = import_module(package).attach(session, **arguments).status()
        failed = status.state == "unsupported"
        _note(folder, FAILED if failed else ATTACHED, status.reason)
    except Exception as exc:  # noqa: BLE001 - whatever it is, the application goes on
        _note(folder, FAILED, f"{type(exc).__name__}: {exc}")


def _chain(folder: str) -> None:
    """Run the sitecustomize that would have been run without us."""
    spec = PathFinder.find_spec(SITE, [one for one in sys.path if one != folder])
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules[SITE] = module
        spec.loader.exec_module(module)


def _hide(folder: str) -> None:
    """Take us out of what processes inherit that this one starts: the JVM, and its workers."""
    left = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one != folder]
    os.environ.pop("PYTHONPATH", None)
    if any(left):
        os.environ["PYTHONPATH"] = os.pathsep.join(left)


def _note(folder: str, kind: str, text: str) -> None:
    with suppress(OSError):
        Path(folder, f"{kind}.{os.getpid()}").write_text(text, "utf-8")
