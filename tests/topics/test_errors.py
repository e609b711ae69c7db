"""The tree of errors: the side that broke the rule, whether to try again, facts as attributes."""

import pytest

from topicast.topics import errors
from topicast.topics.errors import (
    AuthRefused,
    ConfigError,
    LinkError,
    NoSuchObject,
    NotReady,
    ObjectGone,
    OverBudget,
    SourceError,
    SourceRefused,
    StaleMetadata,
    StoreError,
    TopicastError,
    UsageError,
    VersionMismatch,
    WireError,
)

RETRIABLE = {LinkError, NotReady, SourceError, SourceRefused, ObjectGone, StaleMetadata}


def _classes() -> list[type[TopicastError]]:
    found = [c for c in vars(errors).values() if isinstance(c, type)]
    return [cls for cls in found if issubclass(cls, TopicastError)]


@pytest.mark.parametrize("cls", _classes())
def test_each_error_is_in_the_tree_of_the_docstring(cls: type[TopicastError]) -> None:
    assert cls.__name__ in (errors.__doc__ or "")
    assert cls.retriable is (cls in RETRIABLE)


@pytest.mark.parametrize(
    ("error", "facts", "text"),
    [
        (NoSuchObject("sales.orders"), {"name": "sales.orders"}, "no such object: sales.orders"),
        (
            OverBudget("t", needed_bytes=500, free_bytes=20),
            {"what": "t", "needed_bytes": 500, "free_bytes": 20},
            "t needs 500 bytes and the budget leaves 20: raise the budget or drop a topic",
        ),
        (
            ConfigError("num_topics", 3, "a power of two"),
            {"setting": "num_topics", "value": 3, "allowed": "a power of two"},
            "num_topics=3 is not valid: a power of two",
        ),
        (
            VersionMismatch("1", "9"),
            {"ours": "1", "theirs": "9"},
            "protocol version 9 offered, 1 spoken here: upgrade one side",
        ),
        (
            StoreError("/var/lib/t", "locked by another catalogd", "stop it first"),
            {"path": "/var/lib/t", "problem": "locked by another catalogd"},
            "/var/lib/t: locked by another catalogd; stop it first",
        ),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_error_holds_its_facts_and_says_them(
    error: TopicastError, facts: dict[str, object], text: str
) -> None:
    assert {name: getattr(error, name) for name in facts} == facts
    assert str(error) == text


def test_errors_are_caught_by_the_side_that_broke_the_rule() -> None:
    assert issubclass(NoSuchObject, KeyError)
    assert issubclass(NoSuchObject, UsageError)
    assert issubclass(VersionMismatch, WireError)
    assert issubclass(AuthRefused, LinkError)
