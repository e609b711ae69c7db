"""The hook: a line that Python reads at its start, which attaches all drivers of that Python.

topicast.pth in site-packages ──the variable is set──▶ subscriber/spark/driver/launch.py: begin

Where the variable is not set, the line does nothing else. Topicast is searched for when the line is
read: it may have been installed again, elsewhere, or not at all.
"""

import os
import site
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...topics.errors import TopicastError, UsageError
from ..exit_codes import DONE
from ..output import note

VARIABLE: Final = "TOPICAST_STATESTORES"
NAME: Final = "topicast.pth"
INSTALLED: Final = "installed"
BROKEN: Final = "broken"
NOT_INSTALLED: Final = "not installed"
LOOK_S: Final = 60.0  # for a Python to start

_CODE: Final = """
try:
    from importlib import util
    found = util.find_spec("topicast").submodule_search_locations[0]
    path = found + "/subscriber/spark/driver/launch.py"
    spec = util.spec_from_file_location("_topicast_launch", path)
    launch = util.module_from_spec(spec)
    spec.loader.exec_module(launch)
    launch.begin("topicast.subscriber.spark")
except Exception:
    pass
"""
LINE: Final = f"import os; os.environ.get({VARIABLE!r}) and exec({_CODE!r}, {{}})\n"

_LOOK: Final = "import sys; sys.exit(not any(hasattr(one, 'is_topicast') for one in sys.meta_path))"
_INSTEAD: Final = "or start drivers by 'topicast run -- COMMAND'"


def hook_state() -> tuple[str, list[str]]:
    """Return whether this Python attaches drivers, and the files that have it do so."""
    found = [str(file) for file in _found()]
    if not found:
        return NOT_INSTALLED, []
    return INSTALLED if _is_read() else BROKEN, found


def install(*, user: bool) -> None:
    """Write the line for this Python, or for the packages of its ``user`` alone, and test it.

    Raises:
        UsageError: this Python does not read it, or the file is not ours.
        TopicastError: the file cannot be written.
    """
    from ...subscriber.spark.driver import launch

    file = _folder(user=user) / NAME
    if not Path(launch.__file__).is_file():
        raise UsageError(
            f"Topicast is run from an archive, {launch.__file__}, which Python does not read"
            f" at its start: install it with pip in the driver's Python, {_INSTEAD}"
        )
    if file.exists() and not _is_ours(file):
        raise UsageError(f"{file} was not written by Topicast: move it away, {_INSTEAD}")
    if sys.prefix == sys.base_prefix:
        note("no virtual environment: all programs of this Python read it")
    before = file.read_text("utf-8") if file.exists() else None
    _write(file, LINE)
    if not _is_read():
        _remove(file) if before is None else _write(file, before)
        raise UsageError(
            f"{sys.executable} does not read {file.parent} at its start, or finds no Topicast"
            f" there: run 'topicast hook install' of the driver's Python, {_INSTEAD}"
        )


def remove() -> None:
    """Delete the line, wherever this Python reads it; raises TopicastError if that fails."""
    for file in _found():
        _remove(file)


def _write(file: Path, text: str) -> None:
    """Replace ``file`` at once: a Python that starts reads all of it, or none."""
    temporary = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, "utf-8")
        temporary.replace(file)
    except OSError as exc:
        with suppress(OSError):
            temporary.unlink()
        raise _denied(file, exc) from exc


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as exc:
        raise _denied(file, exc) from exc


def _denied(file: Path, exc: OSError) -> TopicastError:
    return TopicastError(
        f"{file}: {exc.strerror}: run it as a user that may write there, or with --user for"
        f" yourself, or in a virtual environment, {_INSTEAD}"
    )


def _folder(*, user: bool) -> Path:
    return Path(site.getusersitepackages() if user else sysconfig.get_path("purelib"))


def _found() -> list[Path]:
    """Return the installed files, in every folder that this Python reads."""
    folders = dict.fromkeys([_folder(user=False), *map(Path, site.getsitepackages())])
    folders[_folder(user=True)] = None
    return [folder / NAME for folder in folders if _is_ours(folder / NAME)]


def _is_ours(file: Path) -> bool:
    try:
        return f"get({VARIABLE!r})" in file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _is_read() -> bool:
    """Start a Python as a driver would be, and return whether the line took effect."""
    environ = {**os.environ, VARIABLE: "tcp://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", _LOOK], env=environ, capture_output=True, timeout=LOOK_S, check=False
    )
    return done.returncode == DONE
