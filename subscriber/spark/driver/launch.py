"""Attaches a driver without code, from the start of Python; this file is read by its path.

    topicast run ──PYTHONPATH──▶ sitecustomize ─┐
    topicast hook install ─────▶ topicast.pth ──┴▶ begin ──▶ pyspark.sql.session is imported
                                                                │ its class is wrapped
                                   attach ◀──the first session──┘

Every Python reads it that the command starts, or that has the .pth and an address in its
environment, so it imports little at first, and nothing of ours before Spark starts its JVM, for
which Python waits for seconds. In Python workers of executors it only removes itself and our
settings from the environment.
It notes what happened in the folder of the sitecustomize, for the process that runs the command.
So does the agent of a driver without Python.

A command may start Pythons that are too old for us: this file loads on Python 3.6, so without newer
names of the library and with quoted annotations.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import update_wrapper
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

OLDEST = (3, 10)  # as setup.cfg has it
SESSION = "pyspark.sql.session"
CONTEXTS = ("pyspark.core.context", "pyspark.context")  # from Spark 4 on, and before
WORKERS = ("pyspark.daemon", "pyspark.worker")
WORKER = "PYTHON_WORKER_FACTORY"  # how variables of Spark's Python workers begin
OURS = "TOPICAST_"  # how variables of settings begin
NOTES = "TOPICAST_NOTES"  # the folder for notes of an agent
SITE = "sitecustomize"
SETTINGS = "settings.json"  # arguments of attach
LOADED = "loaded"  # notes
ATTACHED = "attached"
FAILED = "failed"

TEXT = """\
import importlib.util
_spec = importlib.util.spec_from_file_location("_topicast_launch", {path!r})
_launch = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_launch)
_launch.begin({package!r}, {folder!r})
"""


def prepare(folder: str, arguments: "dict[str, Any]") -> None:
    """Write the files into ``folder`` that Python is to load from there."""
    import json

    package = __name__.rsplit(".", 2)[0]  # topicast.subscriber.spark
    _write(folder, f"{SITE}.py", TEXT.format(path=__file__, folder=folder, package=package))
    _write(folder, SETTINGS, json.dumps(arguments))


def notes(folder: str) -> "dict[str, str]":
    """Return the notes in ``folder``: the last one of each kind."""
    from pathlib import Path

    found = {}
    for kind in (LOADED, ATTACHED, FAILED):
        for file in sorted(Path(folder).glob(f"{kind}.*")):
            found[kind] = file.read_text("utf-8")
    return found


def begin(package: str, folder: str = "") -> None:
    """Wait for Spark to be imported; whatever fails, Python starts.

    ``folder`` is that of the sitecustomize. It replaces the .pth, which came before it: a driver is
    attached once, with the settings of ``topicast run``.
    """
    try:
        if _is_worker():
            _hide(folder)
            sys.path[:] = [one for one in sys.path if not folder or one != folder]
            return
        note(folder, LOADED, "")
        sys.meta_path[:] = [one for one in sys.meta_path if not hasattr(one, "is_topicast")]
        sys.meta_path.insert(0, _Finder(package, folder))
    finally:
        if folder:
            _chain(folder)


class _Finder:
    """Finds one module, as it would be found, and has its class wrapped."""

    is_topicast = True

    def __init__(self, package: str, folder: str) -> None:
        self._package = package
        self._folder = folder

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name != SESSION:
            return None
        with suppress(ValueError):
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            loader = _Loader(spec.loader, self._package, self._folder)
            spec.loader = loader  # type: ignore[assignment]  # it has what a loader needs
        return spec


class _Loader:
    """Loads one module by its own loader, and gives that back to it."""

    def __init__(self, inner: Any, package: str, folder: str) -> None:
        self._inner = inner
        self._package = package
        self._folder = folder

    def create_module(self, spec: ModuleSpec) -> "ModuleType | None":
        found: ModuleType | None = self._inner.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        with suppress(Exception):  # plain Spark, and no note that it is attached
            _leave_path(self._folder)
            _wrap(module.SparkSession, self._package, self._folder)
            _shield(self._package)


def _wrap(kind: type, package: str, folder: str) -> None:
    original = kind.__dict__["__init__"]
    first = [True]

    def init(self: object, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        if first:
            first.clear()
            _attach(self, package, folder)

    _replace(kind, original, init)


def _shield(package: str) -> None:
    """Start the JVM without our settings: its Python workers inherit what it has."""
    modules = (sys.modules.get(name) for name in CONTEXTS)
    kind: type = next(one.SparkContext for one in modules if one and hasattr(one, "SparkContext"))
    original = kind.__dict__["_ensure_initialized"].__func__

    def start(cls: Any, *args: Any, **named: Any) -> Any:
        if cls._gateway is not None:
            return original(cls, *args, **named)
        hidden = _hide("")
        _load_beside(package)
        try:
            return original(cls, *args, **named)
        finally:
            os.environ.update(hidden)

    _replace(kind, original, classmethod(start))


def _load_beside(package: str) -> None:
    """Import ``package`` on a thread, so that the attach need not; if that fails, it says why."""
    from threading import Thread

    def load() -> None:
        with suppress(Exception):
            import_module(package)

    if sys.version_info >= OLDEST:
        Thread(target=load, name="topicast-load", daemon=True).start()


def _replace(kind: type, original: "Callable[..., Any]", ours: Any) -> None:
    """Replace a method with ``ours``, under its name."""
    update_wrapper(getattr(ours, "__func__", ours), original)
    setattr(kind, original.__name__, ours)


def _attach(session: object, package: str, folder: str) -> None:
    try:
        import json

        if sys.version_info < OLDEST:
            oldest, found = (".".join(map(str, one)) for one in (OLDEST, sys.version_info[:3]))
            raise ImportError(f"Topicast needs Python {oldest} or newer, this is {found}")
        arguments = json.loads(_read(folder, SETTINGS) if folder else "{}")
        status = import_module(package).attach(session, **arguments).status()
        failed = status.state == "unsupported"
        note(folder, FAILED if failed else ATTACHED, status.reason)
    except Exception as exc:  # noqa: BLE001 - whatever it is, the application goes on
        why = f"{type(exc).__name__}: {exc}"
        note(folder, FAILED, why)
        if not folder:
            import logging

            logging.getLogger("topicast").warning("driver is plain Spark: reason=%s", why)


def _chain(folder: str) -> None:
    """Run the sitecustomize that Python would have run without us."""
    spec = PathFinder.find_spec(SITE, [one for one in sys.path if one != folder])
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules[SITE] = module
        spec.loader.exec_module(module)


def _is_worker() -> bool:
    """Whether this is a Python worker: Spark sets a variable, and names its module."""
    words = getattr(sys, "orig_argv", [])  # from Python 3.10 on
    named = [words[at : at + 2] for at in range(len(words)) if words[at] == "-m"]
    return any(pair[-1] in WORKERS for pair in named) or any(
        name.startswith(WORKER) for name in os.environ
    )


def _hide(folder: str) -> "dict[str, str]":
    """Remove us from what this process's children inherit; return the settings that were there."""
    _leave_path(folder)
    names = [name for name in os.environ if name.startswith(OURS)]
    return {name: os.environ.pop(name) for name in names}


def _leave_path(folder: str) -> None:
    if not folder:
        return
    left = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one != folder]
    os.environ.pop("PYTHONPATH", None)
    if any(left):
        os.environ["PYTHONPATH"] = os.pathsep.join(left)


def note(folder: str, kind: str, text: str) -> None:
    """Write a note for the process that runs the command, if there is one."""
    if folder:
        with suppress(OSError):  # the process that reads it has ended
            _write(folder, f"{kind}.{os.getpid()}", text)


def _read(folder: str, name: str) -> str:
    from pathlib import Path

    return Path(folder, name).read_text("utf-8")


def _write(folder: str, name: str, text: str) -> None:
    from pathlib import Path

    Path(folder, name).write_text(text, "utf-8")
