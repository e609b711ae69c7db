"""Methods that are wrapped do as before; what PySpark's write is tested in tests/spark."""

from topicast.subscriber.spark.writes.wrappers import Call, wrap


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
    assert (calls[1].it, calls[1].argument("mode", at=1)) == (writer, None)
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
