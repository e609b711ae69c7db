"""The status of a hub: its problem and its warning."""

from topicast.statestore.status import table, warning
from topicast.tests.statestore.hub_driver import HubDriver, seeded
from topicast.topics.liveness import SUSPECT_S


def test_hub_without_a_publisher_has_a_problem_and_no_warning() -> None:
    status = HubDriver().hub.status(now=2000.0)
    assert status.problem
    assert warning(status) == ""


def test_catalogd_that_fell_silent_is_named_with_what_to_look_at() -> None:
    driver, _ = seeded()
    assert warning(driver.status) == ""
    status = driver.hub.status(now=driver.now + SUSPECT_S + 5)
    text = warning(status)
    assert text.startswith(f"{status.publisher} at {status.catalog_address} has been silent for")
    assert "--statestores" in text
    assert status.problem == "", "what is held is served on"
    _, rows = table(status, "status") or ((), ())
    assert dict(rows)["warning"] == text
