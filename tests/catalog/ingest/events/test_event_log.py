"""EventLog: each event with what it has changed and what became of it, bounded."""

from topicast.catalog.ingest.events.event_log import EVENTS_MAX, NEWEST_SHOWN, SHOWN_MAX
from topicast.catalog.metastore.port import Read, ReadEvent
from topicast.tests.cluster.alone import Alone, loaded
from topicast.topics.wire.messages.answers import EventTexts, Inspected
from topicast.topics.wire.messages.connection import Bye, Refused
from topicast.topics.wire.messages.questions import Order, ReadEventLog


def log(core: Alone, after: int | None = None) -> list[dict[str, object]]:
    core.ask(ReadEventLog(request=5, after=after or 0, newest=after is None))
    core.turn()
    return core.reply(Inspected).records()


def test_each_event_is_told_once_it_is_published_or_left_out() -> None:
    core = loaded()
    first = log(core)[-1]["number"]
    assert isinstance(first, int)
    core.catalogd.hold(Read)
    core.create("d", "u")
    core.metastore.drop_elsewhere("d", "t")
    core.wait(1)
    assert log(core, first) == [], "the first one runs, and those behind it wait for their turn"
    assert [one["outcome"] for one in log(core)[-2:]] == ["runs", "left out"]
    core.catalogd.resume()
    core.wait(1)
    one, other = log(core, first)
    assert (one["type"], one["object"], one["changes"]) == ("CREATE_TABLE", "d.u", "d.u")
    assert one["outcome"] == "published"
    assert isinstance(one["took_s"], float)
    assert (other["outcome"], other["took_s"]) == ("left out", None)


def test_partitions_are_named_and_many_are_counted() -> None:
    core = loaded()
    core.add(core.metastore.get_table("d", "t"), "3", "4", "5", "6")
    core.wait(1)
    assert log(core)[-1]["changes"] == "d.t/ds=3, d.t/ds=4, 2 more partitions"


def test_the_log_and_an_answer_are_bounded() -> None:
    core = loaded()
    for number in range(EVENTS_MAX + 20):
        core.metastore.log_unknown("OPEN_TXN", "d", f"t{number}")
    core.wait(3)
    assert len(log(core)) == NEWEST_SHOWN
    found = log(core, 0)
    assert len(found) == SHOWN_MAX
    assert found[0]["object"] == "d.t20"


def test_an_event_is_read_from_the_metastore_and_a_deleted_event_is_refused() -> None:
    core = loaded()
    newest = core.metastore.current_event_id()
    core.order("events", "pause")
    show = Order(request=9, sender="ann@host", order="events", arguments=("show", str(newest)))
    (event,) = core.answer_to(show, Inspected, turns=6).records()
    assert (event["id"], event["type"], event["object"]) == (newest, "ADD_PARTITION", "d.t")
    assert event["changes"] == "d.t/ds=1, d.t/ds=2"
    assert '"ds": "2"' in event["message"]
    gone = core.order("events", "show", str(newest + 1))
    assert isinstance(gone, Refused)
    assert (gone.code, "not in the metastore" in gone.message) == ("GONE", True)


def test_an_order_to_show_an_event_that_is_sent_again_is_read_and_answered_once() -> None:
    core = loaded()
    show = Order(request=9, sender="ann@host", order="events", arguments=("show", "1"))
    core.catalogd.hold(ReadEvent)
    for _ in range(3):
        core.ask(show)
        core.turn()
    core.catalogd.resume()
    core.wait(1)
    assert len([one for one in core.effects if isinstance(one, ReadEvent)]) == 1
    assert len([one for _, one in core.answers if isinstance(one, EventTexts)]) == 1


def test_an_event_is_not_shown_to_a_client_that_has_left() -> None:
    core = loaded()
    core.catalogd.hold(ReadEvent)
    core.ask(Order(request=9, sender="ann@host", order="events", arguments=("show", "1")))
    core.turn()
    core.ask(Bye(reason="it ends"))
    core.turn()
    core.catalogd.resume()
    core.wait(1)
    assert not [one for _, one in core.answers if isinstance(one, EventTexts)]
