"""RunProgress and RunReport: the output of every pipeline while it runs, and at its end."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The progress of a run: the name of the present step, and counts of objects."""

    step: str
    done: int
    left: int
    failing: int = 0
    detail: str = ""  # rates and lags, for people

    def __str__(self) -> str:
        detail = f", {self.detail}" if self.detail else ""
        return f"{self.step}: {self.done} done, {self.left} left, {self.failing} failing{detail}"


OnProgress: TypeAlias = Callable[[RunProgress], None]
"""The function that a pipeline calls after each step, on the thread that runs the pipeline."""


@dataclass(slots=True)
class RunReport(ABC):
    """The results of a run, or with ``dry_run`` what it would do."""

    @property
    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """A line for each object that has failed; the run went on with the others."""

    @abstractmethod
    def summary(self) -> str:
        """Return the result for people, in a few lines."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as what JSON can hold."""
        return asdict(self)


def ignore(_progress: RunProgress) -> None:
    """Show nothing."""
