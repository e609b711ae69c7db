"""The status of a hub: what is told of it besides the numbers."""

from topicast.statestore.status import table, warning
from topicast.tests.statestore.scripted import Stage, seeded
from topicast.topics.liveness import SUSPECT_S


def test_hub_that_has_heard_nobody_yet_warns_of_nothing() -> None:
    """That is a problem, and told as such."""
    status = Stage().hub.status(now=2000.0)
    assert status.problem
    assert warning(status) == ""


def test_catalogd_that_fell_silent_is_named_with_what_to_look_at() -> None:
    stage, _ = seeded()
    assert warning(stage.hub.status(now=stage.now)) == ""
    status = stage.hub.status(now=stage.now + SUSPECT_S + 5)
    said = warning(status)
    assert said.startswith(f"{status.publisher} at {status.catalog_address} has been silent for")
    assert "--statestores" in said
    assert status.problem == "", "what is held is served on"
    _, rows = table(status, "status") or ((), ())
    assert dict(rows)["warning"] == said
