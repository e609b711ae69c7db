import logging

import pytest

from topicast.subscriber.spark.guard import Guard


def test_failure_ends_in_a_counter_and_one_line_of_log(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with guard("refresh d.t"):
                raise RuntimeError("java.lang.Exception: no\n\n: it is\n\tat org.apache.spark")
    assert guard.errors == 3
    assert guard.last_error == "refresh d.t: RuntimeError: java.lang.Exception: no : it is"
    assert len(caplog.records) == 1


def test_failure_that_was_expected_is_not_counted() -> None:
    guard = Guard()
    with guard("close", unless=lambda: True):
        raise RuntimeError
    assert guard.errors == 0


def test_interrupt_is_the_users() -> None:
    with pytest.raises(KeyboardInterrupt), Guard()("look"):
        raise KeyboardInterrupt
