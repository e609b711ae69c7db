"""Functions that are called with the fields of their options."""

from dataclasses import KW_ONLY, MISSING, dataclass
from inspect import get_annotations, getdoc, signature
from typing import Any, cast

import pytest

from topicast.pipeline.audit import AuditOptions, audit
from topicast.pipeline.conversion.converter import ConvertOptions
from topicast.pipeline.convert import convert
from topicast.pipeline.export import ExportOptions, export
from topicast.pipeline.files import FilesOptions, files
from topicast.pipeline.options import RunOptions, called_with
from topicast.topics.errors import ConfigError
from topicast.topics.flags import option

NO_SPARK = cast("Any", None)


@dataclass(frozen=True, slots=True)
class PaintOptions(RunOptions):
    wall: str = option("What is painted.", default=MISSING)
    _: KW_ONLY
    coats: int = option("How often.", default=2, bounds=(1, 9))


@called_with(PaintOptions)
def paint(spark: Any, options: PaintOptions) -> tuple[Any, PaintOptions]:
    """Paint a wall.

    Raises:
        LinkError: no paint.
    """
    return spark, options


def test_function_is_called_with_the_fields_and_gets_the_options() -> None:
    assert paint(NO_SPARK, "north", coats=3) == (None, PaintOptions("north", coats=3))
    assert paint(NO_SPARK, wall="south")[1].coats == 2


def test_argument_that_is_wrong_missing_or_unknown_is_refused() -> None:
    with pytest.raises(ConfigError, match="coats=10 is not valid: from 1 to 9"):
        paint(NO_SPARK, "north", coats=10)
    with pytest.raises(TypeError, match="wall"):
        paint(NO_SPARK)
    with pytest.raises(TypeError, match="colour"):
        paint(NO_SPARK, "north", colour="red")  # type: ignore[call-arg]  # it is not there


def test_help_shows_each_argument_with_default_and_meaning() -> None:
    shown = signature(paint)
    assert list(shown.parameters)[:4] == ["spark", "wall", "coats", "statestores"]
    assert shown.parameters["coats"].default == 2
    explained = str(getdoc(paint))
    assert explained.startswith("Paint a wall.\n\nArgs:\n    wall: What is painted.\n    coats: ")
    assert "    coats: How often. Allowed: from 1 to 9.\n" in explained
    assert explained.endswith("\n\nRaises:\n    LinkError: no paint.")


@pytest.mark.parametrize("pipeline", [audit, convert, export, files])
def test_each_argument_of_a_pipeline_is_explained(pipeline: Any) -> None:
    _, *names = signature(pipeline).parameters
    explained = str(getdoc(pipeline))
    assert [name for name in names if f"\n    {name}: " not in explained] == []
    assert "\n\nArgs:\n" in explained


@pytest.mark.parametrize("options", [AuditOptions, ConvertOptions, ExportOptions, FilesOptions])
def test_types_are_not_texts(options: type[RunOptions]) -> None:
    """Python 3.10 finds no type in the text ``KW_ONLY``: the modules do without postponed ones."""
    assert [one for one in get_annotations(options).values() if isinstance(one, str)] == []


def test_options_are_the_arguments_of_the_function() -> None:
    given = AuditOptions("sales.*", sides="subscriber, HUB", dry_run=True)
    assert AuditOptions(**given.arguments()) == given
    assert AuditOptions(**given.arguments(pattern="*")).pattern == "*"
    assert given.compared == ("hub", "subscriber")
