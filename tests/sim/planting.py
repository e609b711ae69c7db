"""Planting: faults put into the production cores, one line or two each, and taken out again."""

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """``line`` of a method, or of a function of a module, becomes ``fault``."""

    owner: object
    method: str
    line: str
    fault: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Run with the fault."""
        before = inspect.getattr_static(self.owner, self.method)
        source = textwrap.dedent(inspect.getsource(before))
        assert source.count(self.line) == 1, f"{self.method} has no such line any more"
        names: dict[str, object] = {}
        exec(source.replace(self.line, self.fault), before.__globals__, names)
        setattr(self.owner, self.method, names[self.method])
        try:
            yield
        finally:
            setattr(self.owner, self.method, before)


@dataclass(frozen=True, slots=True)
class Plant:
    """A rule, and the lines without which it does not hold.

    Found by the scenario of that name, or else by one of SEEDS. There are more lines than one where
    each alone is made up for by another, or noticed at once by an assertion.
    """

    rule: str
    scenario: str
    lines: tuple[Line, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Run with the fault."""
        with ExitStack() as stack:
            for line in self.lines:
                stack.enter_context(line.planted())
            yield
