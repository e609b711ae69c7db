"""Attaching where that is not possible ends in plain Spark; tests/spark has the rest."""

import os
from collections.abc import Iterator

import pytest

from topicast.subscriber.spark import Handle, attach
from topicast.subscriber.spark.refresh.catalyst import Catalyst
from topicast.subscriber.spark.sessions import Unsupported
from topicast.topics.errors import ConfigError, NotReady, UsageError


class ConnectSession:
    """A Spark Connect session: it has no JVM."""


@pytest.fixture
def handle() -> Iterator[Handle]:
    found = attach(ConnectSession())  # type: ignore[arg-type]  # which is the point
    yield found
    found.detach()


def test_connect_session_cannot_be_attached_and_the_status_says_why(handle: Handle) -> None:
    status = handle.status()
    assert (status.state, status.errors) == ("unsupported", 1)
    assert "no JVM here" in status.reason
    assert repr(handle).startswith("Handle(state='unsupported', reason='")
    with pytest.raises(Unsupported):
        Catalyst.probe(ConnectSession())  # type: ignore[arg-type]  # as above


def test_second_attach_is_the_same_handle(handle: Handle) -> None:
    assert attach(ConnectSession()) is handle  # type: ignore[arg-type]  # as above
    handle.detach()
    with attach(ConnectSession()) as other:  # type: ignore[arg-type]  # as above
        assert other is not handle


def test_whatever_is_given_nothing_is_raised() -> None:
    with attach(None) as handle:  # type: ignore[arg-type]  # as above
        assert handle.status().state == "unsupported"
        assert handle.status().errors > 0


class BrokenSession:
    """A session that fails in a way that nobody foresaw."""

    @property
    def _jsparkSession(self) -> object:  # noqa: N802 - as PySpark has it
        raise RuntimeError("no such thing")


def test_failure_that_nobody_foresaw_is_the_reason_of_the_status() -> None:
    with attach(BrokenSession()) as handle:  # type: ignore[arg-type]  # as above
        status = handle.status()
        assert (status.state, status.errors) == ("unsupported", 1)
        assert status.reason == "RuntimeError: no such thing"


def test_sync_of_what_is_not_attached_says_why(handle: Handle) -> None:
    with pytest.raises(NotReady, match="unsupported: a Spark Connect session"):
        handle.sync(timeout_s=0)


@pytest.mark.parametrize("timeout_s", [None, "x", True, -1, float("nan"), 10**400, [1.0]])
def test_time_that_is_none_is_wrong_use_before_anything_else(
    handle: Handle, timeout_s: object
) -> None:
    with pytest.raises(UsageError, match=r"timeout_s.*number of seconds"):
        handle.sync(timeout_s)  # type: ignore[arg-type]  # which is the point


@pytest.mark.parametrize("control", ["away", "", None, ["off"], {}])
def test_control_is_checked(handle: Handle, control: object) -> None:
    handle.control("off")
    with pytest.raises(ConfigError, match="dry-run"):
        handle.control(control)  # type: ignore[arg-type]  # which is the point


def test_handle_is_of_no_use_after_a_fork(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        handle.detach()
        assert handle.status().state == "detached"
        assert "forked" in handle.status().reason
    assert attach(ConnectSession()) is handle  # type: ignore[arg-type]  # as above
