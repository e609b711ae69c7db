"""The subscriber of a pipeline's run: which hubs it goes to, and what it leaves to applications."""

import pytest

from topicast.pipeline.catalog import catalog_at
from topicast.pipeline.options import RunOptions


def test_run_goes_to_the_hubs_that_are_given_else_the_environments_else_this_machines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TOPICAST_STATESTORES", raising=False)
    assert " of tcp://127.0.0.1:24000: not open" in repr(catalog_at(RunOptions()))
    monkeypatch.setenv("TOPICAST_STATESTORES", "tcp://b:2")
    assert " of tcp://b:2: not open" in repr(catalog_at(RunOptions()))
    assert " of tcp://a:1: not open" in repr(catalog_at(RunOptions(statestores="tcp://a:1")))


@pytest.mark.parametrize("variable", ["TOPICAST_ALWAYS", "TOPICAST_NEVER"])
def test_pins_of_applications_are_not_those_of_a_run(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patterns are not even read: they may be wrong."""
    monkeypatch.setenv(variable, "no pattern")
    assert "not open" in repr(catalog_at(RunOptions(), budget="64MB"))
