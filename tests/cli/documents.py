"""Documents: what a command has printed with ``-o json``, against the schema that is kept of it."""

import json
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

REFERENCE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schemas.json"
KEPT: Final[dict[str, Any]] = json.loads(REFERENCE.read_text(encoding="utf-8"))["$defs"]


def assert_of_schema(name: str, document: object) -> None:
    """Raise ValidationError unless ``document`` is of the schema ``name``."""
    Draft202012Validator(KEPT[name]).validate(document)
