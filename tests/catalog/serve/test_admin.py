"""Orders: refused before anything is changed, or obeyed, and answered when it is done."""

import pytest

from topicast.catalog.ingest.loader import READS_KEPT
from topicast.catalog.ingest.reads import Read, ReadNames
from topicast.catalog.publish.modes import Mode, parse_mode
from topicast.catalog.serve.admin import JOBS_MAX, STALLED_S_MAX
from topicast.tests.catalog.core import PEER, Core, loaded
from topicast.tests.catalog.serve.ordering import REQUEST, given, is_loaded, quiet, refused, say
from topicast.topics.entries import TOMBSTONE
from topicast.topics.errors import SourceError
from topicast.topics.wire.messages import (
    SELECT_BLOCKS,
    SOURCE_ORDERS,
    Bye,
    Order,
    Pull,
    Pulled,
    Refused,
)

# mode


def test_mode_is_shown() -> None:
    core = loaded()
    assert say(core, "mode") == {
        "mode": "mixed",
        "overrides": "",
        "offers": "none, minimal, full",
        "topics_to_backfill": 0,
    }
    assert given(core) == []


def test_mode_is_turned_and_stored_with_who_did_it() -> None:
    core = loaded()
    answer = say(core, "mode", "minimal", "a.*=full", turns=1)
    assert isinstance(answer, dict)
    assert (answer["mode"], answer["overrides"]) == ("minimal", "a.*=full")
    assert core.policies[-1].mode == parse_mode("minimal", "a.*=full")
    (row,) = given(core)
    assert (row.who, row.order, row.object) == ("ann@host", "mode", "minimal a.*=full")
    say(core, "mode", "full")
    assert core.catalog.backfill.mode == parse_mode("full", "a.*=full"), "they stay if not named"
    say(core, "mode", "full", "")
    assert core.catalog.backfill.mode == Mode("full")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("most",), "catalog_topic_mode='most' is not valid: full, mixed or minimal"),
        (("full", "a=full"), "'a=full'"),
        (("full", "", ""), "a mode and its overrides"),
    ],
)
def test_mode_that_is_none_is_refused_and_nothing_changes(
    arguments: tuple[str, ...], said: str
) -> None:
    """P-ORDER-1."""
    core = loaded()
    code, message = refused(core, "mode", *arguments)
    assert code == "ORDER"
    assert said in message
    assert core.policies == []
    assert given(core) == []


def test_unknown_order_is_refused_and_names_those_there_are() -> None:
    assert refused(loaded(), "explode") == (
        "ORDER",
        "no order 'explode': drivers, mode, invalidate, refresh",
    )


def test_mode_minimal_loads_only_what_is_asked_for() -> None:
    core = loaded()
    say(core, "mode", "minimal")
    say(core, "invalidate", "d.t")
    core.turn(20)
    assert not is_loaded(core)
    core.ask(Pull(request=4, db="d", table="t", selector=SELECT_BLOCKS, credit=1 << 20))
    core.turn(10)
    (answer,) = core.replies()
    assert isinstance(answer, Pulled)
    assert len(answer.entries) == 2
    assert is_loaded(core)


def test_mode_that_withholds_no_more_loads_what_was_left_out() -> None:
    core = loaded()
    say(core, "mode", "mixed", "d.*=minimal")
    say(core, "invalidate", "d.t")
    say(core, "mode", "mixed", "")
    core.turn(20)
    assert is_loaded(core)


def test_mode_minimal_stops_what_is_being_loaded_in_the_background() -> None:
    core = Core(reads_max=READS_KEPT + 1)
    core.hold = lambda effect: isinstance(effect, Read)
    core.create_database("d")
    core.create("d", "t")
    core.turn(10)
    core.catalog.loader.load(("d", "later"))
    core.turn(10)
    assert core.catalog.loader.tables_left == 1, "one read at a time, which is under way"
    say(core, "mode", "minimal", turns=1)
    assert core.catalog.loader.tables_left == 0


# drivers


def test_rules_for_drivers_are_kept_in_the_namespace_with_who_ordered_them() -> None:
    """P-RULES-1."""
    core = loaded()
    version = core.catalog.namespace.version
    assert say(core, "drivers") == {}
    assert say(core, "drivers", "off", "etl-*", turns=1) == {"etl-*": "off"}
    assert list(say(core, "drivers", "dry-run", "web")) == ["etl-*", "web"], "the newest last"
    assert say(core, "drivers") == {"etl-*": "off", "web": "dry-run"}
    assert core.catalog.namespace.version == version + 2
    assert core.published()[-1].source == SOURCE_ORDERS
    assert [(row.who, row.order, row.object) for row in given(core)] == [
        ("ann@host", "drivers", "off etl-*"),
        ("ann@host", "drivers", "dry-run web"),
    ]
    assert say(core, "drivers", "on") == {}
    assert core.published()[-1].entries[0].kind == TOMBSTONE


def test_rule_that_holds_already_is_no_transaction() -> None:
    core = loaded()
    say(core, "drivers", "off")
    versions = core.catalog.version_log.versions()
    assert say(core, "drivers", "off") == {"*": "off"}
    assert core.catalog.version_log.versions() == versions


def test_rules_are_no_database() -> None:
    """P-RULES-1."""
    core = loaded()
    before = core.catalog.namespace.databases()
    say(core, "drivers", "off")
    assert core.catalog.namespace.databases() == before
    assert core.catalog.status().databases == len(before)
    say(core, "refresh")
    say(core, "invalidate")
    core.turn(20)
    assert say(core, "drivers") == {"*": "off"}, "names that are read again leave them"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("maybe",), "drivers cannot be 'maybe': off, dry-run, on"),
        (("off", ""), "1 to 200 characters"),
        (("off", "a", "b"), "a state and a pattern"),
    ],
)
def test_rule_that_is_none_is_refused(arguments: tuple[str, ...], said: str) -> None:
    """P-ORDER-1."""
    core = loaded()
    code, message = refused(core, "drivers", *arguments)
    assert code == "ORDER"
    assert said in message
    assert given(core) == []


# of what


@pytest.mark.parametrize(
    ("order", "named", "code"),
    [
        ("invalidate", "d.none", "NO_OBJECT"),
        ("invalidate", "none", "NO_OBJECT"),
        ("invalidate", "d.none/ds=1", "NO_OBJECT"),
        ("invalidate", "sys.t", "ORDER"),
        ("invalidate", "a.b.c", "ORDER"),
        ("refresh", "d.none/ds=1", "NO_OBJECT"),
        ("refresh", "none", "NO_OBJECT"),
        ("refresh", "d.none", "NO_OBJECT"),
        ("refresh", "none.t", "NO_OBJECT"),
        ("refresh", "d.t/ds", "ORDER"),
        ("refresh", "d/ds=1", "ORDER"),
        ("refresh", "information_schema", "ORDER"),
    ],
)
def test_order_for_what_there_is_not_is_refused(order: str, named: str, code: str) -> None:
    """P-ORDER-1."""
    found, message = refused(loaded(), order, named)
    assert found == code
    assert named.split("/", maxsplit=1)[0].split(".", maxsplit=1)[0] in message


@pytest.mark.parametrize(
    "words",
    [
        ("refresh", "d.t", "d.u"),
        ("refresh", "d.t", "data", "data"),
        ("refresh", "", "data"),
        ("invalidate", "d.t", "data"),
    ],
)
def test_order_takes_one_object(words: tuple[str, ...]) -> None:
    assert refused(loaded(), *words)[0] == "ORDER"


@pytest.mark.parametrize("named", ["none", "d.none", "none.t", "d.t/ds=9", "d.none/ds=1"])
def test_data_of_what_there_is_not_is_refused(named: str) -> None:
    """P-ORDER-1."""
    code, message = refused(loaded(), "refresh", named, "data")
    assert (code, message in f"no such object: {named}") == ("NO_OBJECT", True)


# what goes wrong


def test_metastore_that_is_away_is_told_in_time() -> None:
    core = quiet()
    core.hold = lambda effect: isinstance(effect, Read)
    core.ask(Order(request=REQUEST, who="ann", order="refresh", arguments=("d.t",)))
    core.turn(2)
    core.now += STALLED_S_MAX
    core.turn(2)
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert answer.code == "SOURCE"
    assert answer.retry_ms > 0
    assert core.catalog.dispatcher.waiting == 0


def test_listing_that_fails_refuses_the_order() -> None:
    core = quiet()
    core.metastore.failures.append(SourceError("down"))
    code, message = refused(core, "invalidate")
    assert code == "SOURCE"
    assert "down" in message


def test_order_asked_twice_is_obeyed_once() -> None:
    core = quiet()
    core.hold = lambda effect: isinstance(effect, Read)
    for _ in range(2):
        core.ask(Order(request=REQUEST, who="ann", order="refresh", arguments=("d.t",)))
    core.turn(2)
    assert core.catalog.dispatcher.waiting == 1
    assert len(given(core)) == 1


def test_who_left_is_not_answered_and_the_order_is_obeyed() -> None:
    core = quiet()
    core.add(core.metastore.get_table("d", "t"), "3")
    core.ask(Order(request=REQUEST, who="ann", order="refresh", arguments=("d.t",)))
    core.ask(Bye(reason="done"))
    core.turn(10)
    assert core.replies() == []
    assert core.partitions("d", "t") == ["ds=1", "ds=2", "ds=3"]


def test_too_many_orders_are_refused_for_a_while() -> None:
    core = quiet()
    core.hold = lambda effect: isinstance(effect, Read)
    for number in range(JOBS_MAX + 1):
        order = Order(request=number, who="ann", order="refresh", arguments=("d.t",))
        core.ask(order, peer=PEER if number == JOBS_MAX else b"other")
    core.turn(2)
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert (answer.code, answer.retry_ms > 0) == ("BUSY", True)


def test_order_before_the_names_are_read_is_refused_but_the_mode_is_shown() -> None:
    core = Core()
    core.hold = lambda effect: isinstance(effect, ReadNames)
    assert refused(core, "refresh")[0] == "STARTING"
    assert isinstance(say(core, "mode"), dict)
