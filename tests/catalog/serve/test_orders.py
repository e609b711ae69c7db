"""Orders: refused before anything is changed, or carried out, and answered when it is done."""

from collections.abc import Callable

import pytest

from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.ingest.loads.loader import READS_KEPT
from topicast.catalog.metastore.port import Read, ReadNames
from topicast.catalog.model.modes import Mode, parse_mode
from topicast.catalog.serve import admin
from topicast.catalog.serve.admin import JOBS_MAX, STALLED_S_MAX
from topicast.tests.cluster.alone import PEER, Alone, loaded, part
from topicast.tests.keys import client
from topicast.topics.errors import SourceError
from topicast.topics.keys.clients import ClientRole
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import ALL
from topicast.topics.topic import STUB, TOMBSTONE, Entry
from topicast.topics.wire.messages.answers import NamedFacts
from topicast.topics.wire.messages.catalog import Pull, Pulled
from topicast.topics.wire.messages.connection import Bye, Refused
from topicast.topics.wire.messages.data import SOURCE_EVENTS, SOURCE_ORDERS
from topicast.topics.wire.messages.questions import Order

# mode


REQUEST = 9
REFRESH = Order(request=REQUEST, sender="ann", order="refresh", arguments=("d.t",))


def quiet(count: int = 1) -> Alone:
    """Return a catalogd without events that has read so many tables: ``d.t``, ``d.t1``, …"""
    return loaded(*(f"t{number or ''}" for number in range(count)), polling_interval_s=0.0)


@pytest.fixture
def still() -> Alone:
    return quiet()


def refused(core: Alone, order: str, *arguments: str) -> tuple[str, str]:
    versions = core.catalog.version_log.versions()
    answer = core.order(order, *arguments)
    assert isinstance(answer, Refused)
    assert core.catalog.version_log.versions() == versions, "nothing changed"
    return answer.code, answer.message


def tables_done(core: Alone, *words: str, turns: int = 6) -> int:
    """Order something, and return of how many tables it is said to be done."""
    answer = core.order(*words, turns=turns)
    assert isinstance(answer, dict)
    assert answer["failed"] == 0
    return answer["tables"]


def entry(core: Alone) -> Entry:
    found = core.catalog.tables.entry(("d", "t"))
    assert found is not None
    return found


def test_mode_is_shown(core: Alone) -> None:
    assert core.order("mode") == {
        "mode": "mixed",
        "overrides": "",
        "offers": "none, minimal, full",
        "topics_to_backfill": 0,
    }
    assert core.orders_given == []


def test_mode_is_turned_and_stored_with_who_did_it(core: Alone) -> None:
    answer = core.order("mode", "minimal", "a.*=full", turns=1)
    assert isinstance(answer, dict)
    assert (answer["mode"], answer["overrides"]) == ("minimal", "a.*=full")
    assert core.mode_states[-1].mode == parse_mode("minimal", "a.*=full")
    (row,) = core.orders_given
    assert (row.sender, row.order, row.object) == ("ann@host", "mode", "minimal a.*=full")
    core.order("mode", "full")
    assert core.catalog.backfill.mode == parse_mode("full", "a.*=full"), "they stay if not named"
    core.order("mode", "full", "")
    assert core.catalog.backfill.mode == Mode("full")


def test_mode_minimal_loads_only_what_is_asked_for(core: Alone) -> None:
    core.order("mode", "minimal")
    core.order("invalidate", "d.t")
    core.turn(20)
    assert not core.is_loaded()
    pull = Pull(request=4, db="d", table="t", selector=ALL, credit=1 << 20)
    answer = core.answer_to(pull, Pulled, turns=10)
    assert len(answer.entries) == 2
    assert core.is_loaded()


def test_mode_that_withholds_no_more_loads_what_was_left_out(core: Alone) -> None:
    core.order("mode", "mixed", "d.*=minimal")
    core.order("invalidate", "d.t")
    core.order("mode", "mixed", "")
    core.turn(20)
    assert core.is_loaded()


def test_mode_minimal_stops_what_is_being_loaded_in_the_background() -> None:
    core = Alone(reads_max=READS_KEPT + 1)
    core.catalogd.hold(Read)
    core.create_database("d")
    core.create("d", "t")
    core.turn(10)
    core.catalog.loader.load(("d", "later"))
    core.turn(10)
    assert core.catalog.loader.tables_left == 1, "one read at a time, which is under way"
    core.order("mode", "minimal", turns=1)
    assert core.catalog.loader.tables_left == 0


# drivers


def test_rules_for_drivers_are_kept_in_the_namespace_with_who_ordered_them(core: Alone) -> None:
    """P-RULES-1."""
    version = core.catalog.namespace.version
    assert core.order("drivers") == {}
    assert core.order("drivers", "off", "etl-*", turns=1) == {"etl-*": "off"}
    assert list(core.order("drivers", "dry-run", "web")) == ["etl-*", "web"], "the newest last"
    assert core.order("drivers") == {"etl-*": "off", "web": "dry-run"}
    assert core.catalog.namespace.version == version + 2
    assert core.published[-1].source == SOURCE_ORDERS
    assert [(row.sender, row.order, row.object) for row in core.orders_given] == [
        ("ann@host", "drivers", "off etl-*"),
        ("ann@host", "drivers", "dry-run web"),
    ]
    assert {row.key for row in core.orders_given} == {client(ClientRole.OPERATOR).name}
    assert core.order("drivers", "on") == {}
    assert core.published[-1].entries[0].kind == TOMBSTONE


def test_orders_of_one_turn_are_stored_once_each(core: Alone) -> None:
    for request, name in enumerate(("etl", "web")):
        order = Order(request=request, sender=name, order="drivers", arguments=("off", name))
        core.ask(order)
    core.turn()
    found = [(row.sender, row.object) for row in core.orders_given]
    assert found == [("etl", "off etl"), ("web", "off web")]


def test_rules_are_no_database(core: Alone) -> None:
    """P-RULES-1."""
    before = core.catalog.namespace.databases()
    core.order("drivers", "off")
    assert core.catalog.namespace.databases() == before
    assert core.catalog.status().databases == len(before)
    core.order("refresh")
    core.order("invalidate")
    core.turn(20)
    assert core.order("drivers") == {"*": "off"}, "names that are read again leave them"


# of what


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("catalog_topic_mode='most' is not valid: full, mixed or minimal", ("mode", "most")),
        ("'a=full'", ("mode", "full", "a=full")),
        ("a mode and its overrides", ("mode", "full", "", "")),
        ("drivers cannot be 'maybe': off, dry-run, on", ("drivers", "maybe")),
        ("1 to 200 characters", ("drivers", "off", "")),
        ("a state and a pattern", ("drivers", "off", "a", "b")),
        ("no order 'explode': drivers, events, mode, invalidate, refresh", ("explode",)),
        ("one object, or none", ("refresh", "d.t", "d.u")),
        ("one object, or none", ("refresh", "d.t", "data", "data")),
        ("name a database, a table or a partition", ("refresh", "", "data")),
        ("one object, or none", ("invalidate", "d.t", "data")),
        ("--blacklisted_dbs", ("invalidate", "sys.t")),
        ("a.b.c", ("invalidate", "a.b.c")),
        ("ds", ("refresh", "d.t/ds")),
        ("d", ("refresh", "d/ds=1")),
        ("--blacklisted_dbs", ("refresh", "information_schema")),
        ("1024 allowed", ("refresh", "d." + "x" * 1024)),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_order_that_is_none_is_refused_and_nothing_changes(
    core: Alone, said: str, words: tuple[str, ...]
) -> None:
    """P-ORDER-1."""
    code, message = refused(core, *words)
    assert (code, said in message) == ("ORDER", True)
    assert (core.mode_states, core.orders_given) == ([], [])


@pytest.mark.parametrize(
    "words",
    [
        *("invalidate d.none", "invalidate none", "invalidate d.none/ds=1"),
        *("refresh none", "refresh d.none", "refresh none.t", "refresh d.none/ds=1"),
        *("refresh none data", "refresh d.none data", "refresh none.t data"),
        *("refresh d.t/ds=9 data", "refresh d.none/ds=1 data"),
        *("refresh d.t/ds=0", "refresh d.t/ds=9", "refresh d.t/hour=1"),
        *("invalidate d.t/ds=0", "invalidate d.t/ds=9", "invalidate d.t/hour=1"),
    ],
)
@pytest.mark.parametrize("events", [True, False], ids=["events", "no events"])
def test_order_for_what_there_is_not_is_refused(words: str, events: bool) -> None:
    """P-ORDER-1."""
    code, message = refused(loaded() if events else quiet(), *words.split())
    assert code == "NO_OBJECT"
    named = words.split()[1]
    expected = (f"no such object: {one}" for one in (named, named.partition("/")[0]))
    assert message in expected


# what goes wrong


@pytest.mark.parametrize(("make", "reason"), [(quiet, "it is slow"), (loaded, "down")])
def test_metastore_that_is_away_is_reported_in_time(make: Callable[[], Alone], reason: str) -> None:
    """P-ORDER-2."""
    still = make()
    still.catalogd.hold(Read)
    still.ask(REFRESH)
    still.turn(2)
    still.metastore.failures += [SourceError("down")] * 1000  # of its polls
    still.wait(STALLED_S_MAX)
    still.turn(2)
    answer = still.reply(Refused)
    assert answer.code == "SOURCE"
    assert answer.message == f"the metastore does not answer: {reason}"
    assert answer.retry_ms > 0
    assert still.catalog.dispatcher.waiting == 0


def test_listing_that_fails_refuses_the_order(still: Alone) -> None:
    still.metastore.failures.append(SourceError("down"))
    code, message = refused(still, "invalidate")
    assert code == "SOURCE"
    assert "down" in message


def test_order_asked_twice_is_obeyed_once(still: Alone) -> None:
    still.catalogd.hold(Read)
    for _ in range(2):
        still.ask(REFRESH)
    still.turn(2)
    assert still.catalog.dispatcher.waiting == 1
    assert len(still.orders_given) == 1


def test_who_left_is_not_answered_and_the_order_is_obeyed(still: Alone) -> None:
    still.add(still.metastore.get_table("d", "t"), "3")
    still.ask(REFRESH)
    still.ask(Bye(reason="done"))
    still.turn(10)
    assert still.replies() == []
    assert still.partitions() == ["ds=1", "ds=2", "ds=3"]


def test_too_many_orders_are_refused_for_a_while(still: Alone) -> None:
    still.catalogd.hold(Read)
    for number in range(JOBS_MAX + 1):
        order = Order(request=number, sender="ann", order="refresh", arguments=("d.t",))
        still.ask(order, peer=PEER if number == JOBS_MAX else b"other")
    still.turn(2)
    answer = still.reply(Refused)
    assert (answer.code, answer.retry_ms > 0) == ("BUSY", True)


def test_mode_is_shown_before_the_names_are_read() -> None:
    core = Alone()
    core.catalogd.hold(ReadNames)
    assert isinstance(core.order("mode"), dict)


# invalidate


def test_invalidated_table_becomes_a_stub_and_is_loaded_again(core: Alone) -> None:
    before = len(core.committed)
    answer = core.order("invalidate", "D.T", turns=1)
    assert answer == {"order": "invalidate", "object": "d.t", "tables": 1, "failed": 0}
    one = core.committed[before]
    assert one.source == SOURCE_ORDERS
    assert [(e.key, e.kind) for e in one.entries if e.kind == STUB] == [(table_key("d", "t"), STUB)]
    assert [change.kind for change in one.changes] == ["unloaded"]
    core.turn(20)
    assert core.is_loaded()
    assert core.partitions() == ["ds=1", "ds=2"]
    assert [(row.order, row.object) for row in core.orders_given] == [("invalidate", "d.t")]


def test_read_that_began_before_an_invalidation_is_not_published_after_it(still: Alone) -> None:
    """The load fence."""
    still.catalogd.hold(Read)
    still.order("invalidate", "d.t", turns=2)
    still.catalogd.release()  # has seen two partitions
    still.add(still.metastore.get_table("d", "t"), "3")
    still.ask(Order(request=REQUEST, sender="ann", order="invalidate", arguments=("d.t",)))
    still.turn(2)
    still.catalogd.resume()
    still.turn(10)
    assert still.partitions() == ["ds=1", "ds=2", "ds=3"]


def test_table_that_is_loading_is_forgotten_too(still: Alone) -> None:
    still.catalog.loader.begin_chunked_load(("d", "t"), ("ds=1",))
    still.catalogd.hold(Read)
    still.order("invalidate", "d.t", turns=1)
    assert not still.catalog.loader.large.is_loading(("d", "t"))


def test_everything_is_invalidated_some_tables_a_turn_and_the_names_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admin, "TABLES_PER_STEP_MAX", 3)
    core = quiet(7)
    core.create_database("new")
    core.create("new", "x")
    core.metastore.drop_table("d", "t1", False)
    before = len(core.committed)
    answer = core.order("invalidate", turns=20)
    assert answer == {"order": "invalidate", "object": "", "tables": 7, "failed": 0}
    unloaded = [c for one in core.committed[before:] for c in one.changes if c.kind == "unloaded"]
    assert len(unloaded) == 7
    assert core.tables("new") == ["x"]
    assert "t1" not in core.tables()


def test_database_alone_is_invalidated(still: Alone) -> None:
    still.create_database("e")
    still.create("e", "t")
    still.order("refresh")
    before = len(still.committed)
    still.order("invalidate", "e")
    objects = {c.object for one in still.committed[before:] for c in one.changes}
    assert objects == {"e.t"}


def test_dropped_database_goes_with_its_tables(still: Alone) -> None:
    still.metastore.drop_database("d", False, True)
    assert still.order("invalidate")["failed"] == 0  # type: ignore[index]
    assert still.catalog.namespace.databases() == ("default",)
    assert still.catalog.tables.of_database("d") == ()


# refresh


@pytest.mark.parametrize(("held", "events"), [(Read, False), (Poll, True)], ids=["read", "fence"])
def test_refreshed_table_is_read_again_before_the_answer(held: type, events: bool) -> None:
    """P-ORDER-2: with events, what was read is published after the next poll."""
    core = loaded() if events else quiet()
    core.catalogd.hold(held)
    core.turn(2)
    core.add(core.metastore.get_table("d", "t"), "3")
    core.ask(REFRESH)
    core.turn(6)
    assert core.replies() == []
    core.catalogd.resume()
    core.turn(4)
    assert [type(answer) for answer in core.replies()] == [NamedFacts]
    assert core.partitions() == ["ds=1", "ds=2", "ds=3"]


@pytest.mark.parametrize("order", ["refresh", "invalidate"])
def test_refreshed_partition_is_read_alone(still: Alone, order: str) -> None:
    """Nothing else of its table is forgotten, either."""
    table = still.metastore.get_table("d", "t")
    changed = [part(table, value, note="new") for value in ("1", "2")]
    still.metastore.alter_partitions("d", "t", changed)
    reads = len([e for e in still.effects if isinstance(e, Read)])
    answer = still.order(order, "d.t/ds=1")
    assert answer == {"order": order, "object": "d.t/ds=1", "tables": 1, "failed": 0}
    assert still.is_loaded()
    (read,) = [e for e in still.effects if isinstance(e, Read)][reads:]
    assert read.requests[0].names == ("ds=1",)
    assert not read.requests[0].obj


# data that has changed


@pytest.mark.parametrize(
    ("named", "noted"), [("d.t", "d.t"), ("D.T/ds=1", "d.t/ds=1"), ("d", "d.t")]
)
def test_changed_data_of_what_is_known_raises_its_data_version_and_reads_nothing(
    still: Alone, named: str, noted: str
) -> None:
    """P-ORDER-3."""
    before, reads, commits = entry(still), len(still.reads), len(still.committed)
    answer = still.order("refresh", named, "data")
    assert isinstance(answer, dict)
    assert (answer["tables"], answer["failed"]) == (1, 0)
    (one,) = still.committed[commits:]
    assert (one.source, [row.object for row in one.changes]) == (SOURCE_ORDERS, [noted])
    after = entry(still)
    assert after.data_version == after.version == before.version + 1
    assert (after.schema_version, after.value) == (before.schema_version, before.value)
    assert len(still.reads) == reads
    assert [row.object for row in still.orders_given] == [f"{answer['object']} data"]


def test_changed_data_of_a_database_is_that_of_every_table_some_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admin, "TABLES_PER_STEP_MAX", 3)
    core = quiet(7)
    core.create_database("e")
    core.create("e", "t")
    core.order("refresh", "e.t")
    before = len(core.committed)
    assert tables_done(core, "refresh", "d", "data") == 7
    changed = [row.object for one in core.committed[before:] for row in one.changes]
    assert sorted(changed) == sorted(f"d.t{number or ''}" for number in range(7))


def test_table_that_is_dropped_meanwhile_ends_no_order_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-ORDER-3."""
    monkeypatch.setattr(admin, "TABLES_PER_STEP_MAX", 2)
    core = loaded("t0", "t1", "t2", "t3")
    core.ask(Order(request=9, sender="ann@host", order="refresh", arguments=("d", "data")))
    before = len(core.committed)
    core.step()
    core.catalog.namespace.write({}, {("d", "t2"): None}, source=SOURCE_EVENTS)
    core.turn(8)
    changes = [row for one in core.committed[before:] for row in one.changes]
    raised = [row.object for row in changes if row.kind == ChangeKind.DATA]
    assert raised == ["d.t0", "d.t1", "d.t3"]


def test_changed_data_of_what_is_not_known_yet_is_looked_for_first(still: Alone) -> None:
    still.add(still.metastore.get_table("d", "t"), "3")
    assert tables_done(still, "refresh", "d.t/ds=3", "data") == 1
    assert still.partitions() == ["ds=1", "ds=2", "ds=3"]
    still.create_database("new")
    still.create("new", "x")
    assert tables_done(still, "refresh", "new.x", "data") == 1
    still.add(still.create("new", "y", "ds"), "1")
    assert still.order("refresh", "new.y/ds=1", "data")["object"] == "new.y"  # type: ignore[index]
    assert still.partitions("new", "y") == ["ds=1"]
    still.create_database("newer")
    assert tables_done(still, "refresh", "newer", "data") == 0
    assert still.catalog.namespace.databases() == ("d", "default", "new", "newer")


def test_refreshed_table_has_other_data_and_a_dropped_table_is_gone(still: Alone) -> None:
    before = entry(still)
    assert tables_done(still, "refresh", "d.t") == 1
    after = entry(still)
    assert after.data_version == after.version > before.version, "its data may have changed"
    assert after.schema_version == before.schema_version
    still.metastore.drop_table("d", "t", False)
    answer = still.order("refresh", "d.t")
    assert isinstance(answer, Refused)
    assert (answer.code, answer.object) == ("NO_OBJECT", "d.t")
    assert answer.message == "no such object: d.t"
    assert still.tables() == []


def test_everything_is_refreshed_a_few_tables_at_a_time() -> None:
    core = quiet(20)
    core.create("d", "later")
    core.metastore.drop_table("d", "t1", False)
    core.add(core.metastore.get_table("d", "t2"), "3")
    before = core.catalog.tables.entry(("d", "t3"))
    assert tables_done(core, "refresh", turns=30) == 21
    assert "later" in core.tables()
    assert "t1" not in core.tables()
    assert core.partitions("d", "t2") == ["ds=1", "ds=2", "ds=3"]
    assert core.catalog.tables.entry(("d", "t3")) == before, "what is as it was is not reported"


def test_refresh_of_a_database_reads_only_what_is_held(still: Alone) -> None:
    still.order("mode", "minimal")
    still.order("invalidate", "d.t")
    assert tables_done(still, "refresh", "d") == 0
    assert not still.is_loaded()


def test_order_for_a_table_that_cannot_be_read_is_refused_with_the_reason(still: Alone) -> None:
    still.metastore.unreadable["t"] = "it is corrupt"
    answer = still.order("refresh", "d.t", turns=60)
    assert isinstance(answer, Refused)
    assert answer.code == "SOURCE"
    assert "it is corrupt" in answer.message
