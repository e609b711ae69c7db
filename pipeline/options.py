"""RunOptions: the options of a pipeline, declared once for its function and for its command."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial, wraps
from inspect import Signature, cleandoc, signature
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from ..topics.flags import check_flags, declared_flags, flag, option, own_first
from ..topics.settings import STATESTORES_DEFAULT
from .progress import OnProgress, ignore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = ParamSpec("P")
O = TypeVar("O", bound="RunOptions")  # noqa: E741 - of options
R = TypeVar("R")

argument: Final = partial(flag, in_command=False)
"""As ``flag``, for an argument of the function that its command does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of every pipeline; each pipeline adds its own.

    Raises:
        ConfigError: a value is not allowed; names it, and what is allowed.
    """

    statestores: str | None = flag(
        "Addresses of statestoreds, separated by commas; the first that answers is used.",
        default=None,
        metavar="ADDRESSES",
    )
    dry_run: bool = option("Change nothing; show what would be done.", default=False)
    key_file: str | None = argument(
        "A driver's key file; found as every driver finds it.", default=None
    )
    on_progress: OnProgress = argument(
        "Is called after each step; an error that it raises ends the run.", default=ignore
    )

    def __post_init__(self) -> None:
        """Check values and their bounds."""
        check_flags(self)

    @property
    def hubs(self) -> str:
        """Addresses of hubs: those given, else those of the environment, else this machine's."""
        return self.statestores or os.environ.get("TOPICAST_STATESTORES") or STATESTORES_DEFAULT

    def arguments(self, **more: Any) -> dict[str, Any]:
        """Return all options as arguments of the function, with ``more`` in place of their own."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | more


def called_with(
    options: Callable[P, O],
) -> Callable[[Callable[[SparkSession, O], R]], Callable[Concatenate[SparkSession, P], R]]:
    """Let a function of a session and of ``options`` be called with the fields as its arguments.

    ``help()`` shows each argument with its default and its meaning.
    """

    def decorate(
        run: Callable[[SparkSession, O], R],
    ) -> Callable[Concatenate[SparkSession, P], R]:
        @wraps(run)
        def call(spark: SparkSession, /, *args: P.args, **given: P.kwargs) -> R:
            return run(spark, options(*args, **given))

        call.__signature__ = _signature(run, options)  # type: ignore[attr-defined]
        call.__doc__ = _explained(run, options)
        return call

    return decorate


def _signature(run: Callable[..., object], options: Any) -> Signature:
    found, taken = signature(run), signature(options).parameters
    spark, *_ = found.parameters.values()
    ordered = sorted((taken[one.name] for one in own_first(options)), key=lambda one: one.kind)
    return found.replace(parameters=[spark, *ordered])


def _explained(run: Callable[..., object], options: Any) -> str:
    """Return the docstring of ``run``, with a section about its arguments added."""
    declared = declared_flags(options)
    lines = (f"{one.name}: {declared[one.name].described}" for one in own_first(options))
    wrap = partial(textwrap.fill, width=100, initial_indent=" " * 4, subsequent_indent=" " * 8)
    before, raises, after = cleandoc(run.__doc__ or "").partition("\n\nRaises:")
    return "\n".join([before, "", "Args:", *map(wrap, lines)]) + raises + after
