"""What an application returns of its driver becomes facts that fit a message, whatever it is."""

from typing import Any

from topicast.topics.objects.drivers import ANNOUNCED, COUNTS, driver_facts


def test_driver_that_says_nothing_is_live_and_has_every_fact() -> None:
    found = driver_facts({})
    assert tuple(found) == (*ANNOUNCED, *COUNTS)
    assert found["state"] == "live"
    numbers = {"pid", "hubs", *COUNTS}
    assert all(found[name] == 0 for name in numbers)
    assert all(found[name] == "" for name in found.keys() - numbers - {"state"})


def test_facts_are_bounded_and_have_their_types() -> None:
    said: dict[str, Any] = {"application": "x" * 4000, "pid": "seven", "state": "odd", "user": None}
    found = driver_facts({**said, "strange": "thing", "host": 5, "hubs": True})
    assert (len(str(found["application"])), found["pid"], found["state"]) == (500, 0, "live")
    assert (found["user"], found["host"], found["hubs"]) == ("", "5", 0)
    assert "strange" not in found
    odd: tuple[Any, ...] = (-1, "many", 1 << 63, None, 1.5)
    assert {driver_facts({"memory_reads": one})["memory_reads"] for one in odd} == {0}
    assert driver_facts({"memory_reads": 7, "state": "plain"})["memory_reads"] == 7
