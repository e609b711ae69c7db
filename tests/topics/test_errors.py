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


def test_missing_object_is_a_key_error_that_reads_well() -> None:
    missing = NoSuchObject("sales.orders")
    assert isinstance(missing, KeyError)
    assert isinstance(missing, UsageError)
    assert str(missing) == "no such object: sales.orders"
    assert missing.name == "sales.orders"


def test_over_budget_says_what_is_needed_and_what_is_left() -> None:
    full = OverBudget("table sales.orders", needed_bytes=500, free_bytes=20)
    assert (full.what, full.needed_bytes, full.free_bytes) == ("table sales.orders", 500, 20)
    assert str(full) == (
        "table sales.orders needs 500 bytes and the budget leaves 20: "
        "raise the budget or drop a topic"
    )


def test_config_error_names_setting_value_and_what_is_allowed() -> None:
    wrong = ConfigError("num_topics", 3, "a power of two")
    assert (wrong.setting, wrong.value, wrong.allowed) == ("num_topics", 3, "a power of two")
    assert str(wrong) == "num_topics=3 is not valid: a power of two"


def test_version_mismatch_is_the_peers_fault_and_names_both() -> None:
    other = VersionMismatch("1", "9")
    assert isinstance(other, WireError)
    assert (other.ours, other.theirs) == ("1", "9")
    assert str(other) == "protocol version 9 offered, 1 spoken here: upgrade one side"


def test_store_error_names_path_problem_and_remedy() -> None:
    locked = StoreError("/var/lib/t", "locked by another catalogd", "stop it first")
    assert (locked.path, locked.remedy) == ("/var/lib/t", "stop it first")
    assert locked.problem == "locked by another catalogd"
    assert str(locked) == "/var/lib/t: locked by another catalogd; stop it first"


def test_refusal_of_a_key_is_a_link_error_that_no_retry_cures() -> None:
    assert issubclass(AuthRefused, LinkError)
    assert not AuthRefused.retriable
