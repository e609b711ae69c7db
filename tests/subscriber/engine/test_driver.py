"""What passes between operators and an application."""

from topicast.subscriber.engine.driver import Driver
from topicast.subscriber.store.view import View, prepare
from topicast.tests.subscriber.source import Catalog
from topicast.topics.objects.rules import DRY_RUN, OFF, ON, Rule
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import Delta


def put(view: View, delta: Delta) -> None:
    held = view.topics[NAMESPACE]
    view.install(held, *prepare(held, delta.entries))
    view.open(NAMESPACE)


def test_driver_is_what_the_newest_rule_for_one_of_its_names_says() -> None:
    catalog, view = Catalog(), View(4)
    driver = Driver(view)
    assert driver.wanted("etl", "app-7") == ON, "nothing was received yet"
    put(view, catalog.rule(Rule("*", OFF), Rule("app-7", DRY_RUN)))
    assert driver.wanted("etl", "app-7") == DRY_RUN
    assert driver.wanted("etl", "app-8") == OFF
    put(view, catalog.rule())
    assert driver.wanted("etl", "app-7") == ON


def test_facts_are_the_applications() -> None:
    assert Driver(View()).facts() is None
    assert Driver(View(), lambda: {"spark": "4.3.0"}).facts() == {"spark": "4.3.0"}
