"""The tree of errors: the side that broke the rule, whether to try again, facts as attributes."""

from collections.abc import Callable
from copy import copy, deepcopy
from pickle import dumps, loads

import pytest

from topicast.topics import errors
from topicast.topics.errors import (
    AuthRefused,
    ConfigError,
    LinkError,
    NoSuchObject,
    NotReady,
    NotVisible,
    ObjectGone,
    OverBudget,
    SourceError,
    SourceRefused,
    StaleMetadata,
    StoreError,
    StoreFull,
    StoreMoved,
    TopicastError,
    UsageError,
    VersionMismatch,
    WireError,
)

RETRIABLE = {
    *(LinkError, NotReady, SourceError, SourceRefused, ObjectGone, StaleMetadata),
    *(StoreFull, StoreMoved),
}


def _classes() -> list[type[TopicastError]]:
    found = [c for c in vars(errors).values() if isinstance(c, type)]
    return [cls for cls in found if issubclass(cls, TopicastError)]


def _name(one: object) -> str:
    return type(one).__name__ if isinstance(one, Exception) else ""


@pytest.mark.parametrize("cls", _classes())
def test_each_error_is_in_the_tree_of_the_docstring(cls: type[TopicastError]) -> None:
    assert cls.__name__ in (errors.__doc__ or "")
    assert cls.retriable is (cls in RETRIABLE)


FACTS: tuple[tuple[TopicastError, dict[str, object], str], ...] = (
    (NoSuchObject("sales.orders"), {"name": "sales.orders"}, "no such object: sales.orders"),
    (
        NoSuchObject("sales.order", lambda: ["sales.orders"]),
        {"name": "sales.order", "near": ("sales.orders",)},
        "no such object: sales.order (near it: sales.orders)",
    ),
    (
        NotVisible("sales.orders", "sales.orders is not visible to this key"),
        {"name": "sales.orders", "near": ()},
        "sales.orders is not visible to this key",
    ),
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
    (
        StoreFull("/var/lib/t", "cannot grow", "free space on its disk"),
        {"path": "/var/lib/t", "problem": "cannot grow"},
        "/var/lib/t: cannot grow; free space on its disk",
    ),
    (
        StoreMoved("/var/lib/t", "was deleted", "put it back"),
        {"path": "/var/lib/t", "problem": "was deleted"},
        "/var/lib/t: was deleted; put it back",
    ),
)
WITH_FACTS = {type(error) for error, _facts, _text in FACTS}
OTHERS = [(cls("why"), {}, "why") for cls in _classes() if cls not in WITH_FACTS]


@pytest.mark.parametrize(("error", "facts", "text"), FACTS, ids=_name)
def test_error_holds_its_facts_and_says_them(
    error: TopicastError, facts: dict[str, object], text: str
) -> None:
    assert {name: getattr(error, name) for name in facts} == facts
    assert str(error) == text


@pytest.mark.parametrize(("error", "facts", "text"), [*FACTS, *OTHERS], ids=_name)
@pytest.mark.parametrize(
    "again",
    [copy, deepcopy, lambda error: loads(dumps(error))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_error_that_was_copied_or_pickled_is_as_it_was(
    error: TopicastError,
    facts: dict[str, object],
    text: str,
    again: Callable[[TopicastError], TopicastError],
) -> None:
    """Spark's executors and Airflow's workers send errors to another process."""
    first = again(error)
    assert first is not error
    first.__notes__ = ["on its way"]  # as add_note does, from Python 3.11 on
    second = again(first)
    assert type(second) is type(error)
    assert str(second) == text
    assert {name: getattr(second, name) for name in facts} == facts
    assert (second.args, second.__notes__) == (error.args, ["on its way"])


def test_errors_are_caught_by_the_side_that_broke_the_rule() -> None:
    assert issubclass(NoSuchObject, KeyError)
    assert issubclass(NoSuchObject, UsageError)
    assert issubclass(VersionMismatch, WireError)
    assert issubclass(AuthRefused, LinkError)
