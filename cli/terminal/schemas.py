"""Schemas: JSON Schema (2020-12) of what commands print with ``-o json``, made from its types.

    dataclass | NamedTuple | TypedDict | Fields ──▶ object    list | tuple ──▶ array
    Mapping ──▶ object of any names    X | None ──▶ also null    StrEnum ──▶ enum
    (A, B) of types without a name ──▶ either    [A] ──▶ array of them

A command names these types where it takes ``-o`` (``flags.prints``).
"""

import json
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin
from typing import get_type_hints as hints_of

Schema: TypeAlias = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
WIDTH: Final = 96  # of a line of the text
SIMPLE: Final[Mapping[object, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    None: "null",
}
ISO: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"
Iso: TypeAlias = Annotated[str, ISO]  # a time in UTC
Cell: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Fields:
    """An object, by the type of each field. ``optional``: the fields that it may lack.

    ``others``: the type of fields with other names; None: it has no others.
    """

    types: Mapping[str, object]
    optional: frozenset[str] = frozenset()
    others: object = None

    def but(self, **replaced: object) -> "Fields":
        """Return the fields with the types of ``replaced``; new fields come last."""
        return Fields({**self.types, **replaced}, self.optional, self.others)

    def without(self, names: Collection[str]) -> "Fields":
        """Return the fields without those of ``names``."""
        left = {name: kind for name, kind in self.types.items() if name not in names}
        return Fields(left, self.optional, self.others)

    def or_null(self, but: Collection[str] = ()) -> "Fields":
        """Return the fields with null allowed, not in ``but``: what a key may not see is null."""
        found = {n: kind if n in but else (kind, None) for n, kind in self.types.items()}
        return Fields(found, self.optional, self.others)

    def and_others(self, kind: object) -> "Fields":
        """Return the fields with others, of the type ``kind``."""
        return Fields(self.types, self.optional, kind)


def fields_of(*kinds: type) -> Fields:
    """Return the fields of dataclasses, NamedTuples and TypedDicts, in the order of ``kinds``."""
    found: dict[str, object] = {}
    optional: set[str] = set()
    for kind in kinds:
        hints = hints_of(kind, include_extras=True)
        names = [one.name for one in fields(kind)] if is_dataclass(kind) else list(hints)
        found |= {name: hints[name] for name in names if not name.startswith("_")}
        optional |= getattr(kind, "__optional_keys__", frozenset())
    return Fields(found, frozenset(optional))


def schema(kind: object) -> Schema:
    """Return the schema of values of the type ``kind``."""
    if isinstance(kind, Fields):
        return _object(kind)
    if isinstance(kind, tuple):
        return _union([schema(one) for one in kind])
    if isinstance(kind, list):
        return {"type": "array", "items": schema(kind[0])}
    if kind in SIMPLE:
        return {"type": SIMPLE[kind]}
    if isinstance(kind, type) and not get_args(kind):
        if issubclass(kind, Enum):
            return {"enum": [one.value for one in kind]}
        return _object(fields_of(kind))
    return _generic(get_origin(kind), get_args(kind))


def text_of(schemas: Mapping[str, Schema], *, about: str) -> str:
    """Return one document of JSON with each of ``schemas`` below ``$defs``."""
    whole = {"$schema": DIALECT, "description": about, "$defs": dict(schemas)}
    return f"{_text(whole, 0)}\n"


def _generic(origin: object, given: Sequence[Any]) -> Schema:
    if origin is Annotated and given[1] != ISO:  # bounds of a message's field
        return schema(given[0])
    if origin is Annotated:
        return {**schema(given[0]), "format": "date-time", "pattern": given[1]}
    if origin in (Union, types.UnionType):
        return schema(tuple(given))
    if origin in (list, tuple):
        return schema([given[0]])
    assert origin in (dict, Mapping), f"no schema of {origin}"
    return {"type": "object", "additionalProperties": schema(given[1])}


def _object(found: Fields) -> Schema:
    return {
        "type": "object",
        "properties": {name: schema(kind) for name, kind in found.types.items()},
        "required": [name for name in found.types if name not in found.optional],
        "additionalProperties": False if found.others is None else schema(found.others),
    }


def _union(several: Sequence[Schema]) -> Schema:
    if any(one.keys() != {"type"} for one in several):
        return {"anyOf": list(several)}
    kinds = [[one["type"]] if isinstance(one["type"], str) else one["type"] for one in several]
    return {"type": list(dict.fromkeys(kind for some in kinds for kind in some))}


def _text(value: object, depth: int) -> str:
    """Return JSON in which a value that fits a line is on one line."""
    line = json.dumps(value, ensure_ascii=False)
    inner, end = " " * (depth + 1), " " * depth
    if len(line) + depth <= WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + _text(one, depth + 1) for one in value) + f"\n{end}]"
    parts = (f"{inner}{json.dumps(n)}: {_text(one, depth + 1)}" for n, one in value.items())
    return "{\n" + ",\n".join(parts) + f"\n{end}}}"
