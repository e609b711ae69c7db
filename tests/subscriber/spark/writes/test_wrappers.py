"""Methods that are wrapped do as before; what PySpark's write is tested in tests/spark."""

import pytest

from topicast.subscriber.spark.writes.wrappers import Call, install, wrap


class Writer:
    def save(self, path: str, *, mode: str = "append") -> str:
        """Save."""
        return f"{path} {mode}"


class Derived(Writer):
    pass


def test_wrapped_method_does_as_before_and_says_what_it_was_called_with() -> None:
    calls: list[Call] = []

    def around(call: Call) -> object:
        calls.append(call)
        return call.run()

    original = Writer.save
    undo = wrap(Derived, "save", around)
    writer = Writer()
    assert Derived().save(path="/w", mode="error") == "/w error"
    assert writer.save("/w") == "/w append"
    assert [call.argument("path") for call in calls] == ["/w", "/w"]
    assert calls[1].it is writer
    assert Writer.save.__doc__ == "Save."
    undo()
    assert (writer.save("/w"), len(calls)) == ("/w append", 2)
    assert Writer.save is original


def test_undoing_leaves_a_wrapper_that_came_later() -> None:
    undo_ours = wrap(Writer, "save", lambda call: f"ours {call.run()}")
    undo_theirs = wrap(Writer, "save", lambda call: f"theirs {call.run()}")
    assert Writer().save("/w") == "theirs ours /w append"
    undo_ours()
    assert Writer().save("/w") == "theirs /w append"
    undo_theirs()


def test_method_that_this_spark_does_not_have_is_left_out() -> None:
    wrap(Writer, "xml", lambda call: call.run())()
    assert not hasattr(Writer, "xml")


class Session:
    def sql(self, sqlQuery: str) -> str:  # noqa: N803 - as PySpark has it
        if "fails" in sqlQuery:
            raise ValueError(sqlQuery)
        return sqlQuery


class Waits:
    """Counts how often a call was held up."""

    def __init__(self) -> None:
        self.count = 0

    def settle(self) -> None:
        self.count += 1

    def refreshed(self, session: object, name: str, *, is_path: bool) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("statement", "waits"),
    [
        ("SELECT 1", 0),
        ("\n ( select 1)", 0),
        ("TABLE d.t", 0),
        ("SHOW TABLES", 0),
        ("SELECTED", 1),
        ("INSERT INTO d.t SELECT 1", 1),
        ("-- a note\nINSERT INTO d.t SELECT 1", 1),
        ("FROM d.s INSERT INTO d.t SELECT *", 1),
        ("WITH a AS (SELECT 1) INSERT INTO d.t TABLE a", 1),
        ("REFRESH TABLE d.t", 1),
    ],
)
def test_statement_that_may_write_waits_and_a_query_does_not(statement: str, waits: int) -> None:
    found = Waits()
    undo = install(found, Session)
    try:
        assert Session().sql(statement) == statement
        assert found.count == waits
        with pytest.raises(ValueError, match="fails"):
            Session().sql(f"{statement} fails")
        assert found.count == 2 * waits
    finally:
        undo()
    assert Session().sql("INSERT") == "INSERT"
    assert found.count == 2 * waits
