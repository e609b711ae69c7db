"""A fault put into production code at a public seam, for as long as a scenario or a seed runs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

BY_SEED: Final = ""  # instead of a scenario: a seed of SEEDS finds it
SEEDS: Final = range(400)  # each fault that has no scenario is found by one of them

Seam = type | tuple[Callable[..., Any], Callable[..., Any]]  # or a function, and what replaces it


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule, and the seams at which it does not hold any more.

    A seam is a subclass that takes the place of its base class wherever that is used by name, or a
    function and its replacement. There are two where each alone is made up for by the other, or
    would be noticed at once by an assertion of the core itself.
    """

    rule: str
    scenario: str
    seams: tuple[Seam, ...]
    thorough: bool = False  # it takes many seeds
    likely_seed: int = 0  # has found it: it is tried first, and all of SEEDS after it
    watched: bool = False  # the seeds are of runs with watchers

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Run with the fault."""
        with ExitStack() as stack:
            for seam in self.seams:
                original, fault = (seam.__bases__[0], seam) if isinstance(seam, type) else seam
                if isinstance(seam, type):
                    _put_below_subclasses(seam, stack)
                for module, name in _uses(original):
                    stack.enter_context(patch.object(module, name, fault))
            yield


def _put_below_subclasses(fault: type, stack: ExitStack) -> None:
    """Let the simulator's own subclasses of a production class inherit its fault."""
    (original,) = fault.__bases__
    overridden = [name for name in vars(fault) if not name.startswith("_")]
    assert all(hasattr(original, name) for name in overridden), f"{fault}: it has no such method"
    for subclass in original.__subclasses__():
        if not _is_fault(subclass.__module__):
            stack.callback(setattr, subclass, "__bases__", subclass.__bases__)
            subclass.__bases__ = (fault,)


def _uses(original: object) -> list[tuple[object, str]]:
    """Return the modules that have ``original``, with its name there, but for those of faults."""
    return [
        (module, name)
        for path, module in list(sys.modules.items())
        if path.startswith("topicast.") and not _is_fault(path)
        for name, value in list(vars(module).items())
        if value is original
    ]


def _is_fault(module: str) -> bool:
    return module.startswith("topicast.tests.sim.faults_")
