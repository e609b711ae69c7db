"""The command that attaches every driver of a Python, by a line that Python reads at its start."""

import sys
from typing import TypedDict

import click

from ..exit_codes import DONE, FAILED
from ..flags import command, prints
from ..launch.hooks import INSTALLED, hook_state, install, remove
from ..output import Output


class Hook(TypedDict):
    """What ``status`` prints. ``files``: those that Python reads at its start."""

    python: str
    state: str
    files: list[str]


@command()
@click.argument("what", type=click.Choice(["install", "remove", "status"]), default="status")
@click.option("--user", is_flag=True, help="Install it for yourself, among your own packages.")
@prints(lambda: {"": Hook})
def hook(*, what: str, user: bool, output: str) -> int:
    """Attach every Spark driver of this Python, wherever TOPICAST_STATESTORES is set.

    install writes a line for Python's start, topicast.pth in site-packages, and tests it; remove
    deletes it. status ends with 1 if drivers are not attached. Python workers of executors, and
    Pythons without the variable, are not affected.
    """
    if what == "install":
        install(user=user)
    if what == "remove":
        remove()
    state, files = hook_state()
    facts = Hook(python=sys.executable, state=state, files=files)
    Output(output).document(facts, text=" ".join([f"{state}:", *(files or [sys.executable])]))
    return DONE if state == INSTALLED or what == "remove" else FAILED
