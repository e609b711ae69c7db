"""Jobs: what is forgotten is a stub at once, what is refreshed is read again and published."""

import pytest

from topicast.catalog.ingest.read_threads import perform
from topicast.catalog.ingest.reads import Read, ReadFailed, ReadNames
from topicast.catalog.serve.admin import TABLES_PER_STEP_MAX
from topicast.tests.catalog.core import Core, loaded, part
from topicast.tests.catalog.serve.ordering import REQUEST, given, is_loaded, quiet, say
from topicast.topics.entries import STUB, Entry
from topicast.topics.objects.names import table_key
from topicast.topics.wire.messages import (
    SOURCE_ORDERS,
    Inspected,
    Order,
    Refused,
)


def entry(core: Core) -> Entry:
    found = core.catalog.tables.entry(("d", "t"))
    assert found is not None
    return found


# invalidate


def test_invalidated_table_becomes_a_stub_and_is_loaded_again() -> None:
    core = loaded()
    before = len(core.committed)
    answer = say(core, "invalidate", "D.T", turns=1)
    assert answer == {"order": "invalidate", "object": "d.t", "tables": 1, "failed": 0}
    one = core.committed[before]
    assert one.source == SOURCE_ORDERS
    assert [(e.key, e.kind) for e in one.entries if e.kind == STUB] == [(table_key("d", "t"), STUB)]
    assert [change.kind for change in one.changes] == ["unloaded"]
    core.turn(20)
    assert is_loaded(core)
    assert core.partitions("d", "t") == ["ds=1", "ds=2"]
    assert [(row.order, row.object) for row in given(core)] == [("invalidate", "d.t")]


def test_invalidated_table_shows_what_no_event_told() -> None:
    core = quiet()
    core.add(core.metastore.get_table("d", "t"), "3")
    say(core, "invalidate", "d.t")
    core.turn(20)
    assert core.partitions("d", "t") == ["ds=1", "ds=2", "ds=3"]


def test_read_that_began_before_an_invalidation_is_not_published_after_it() -> None:
    """The load fence."""
    core = quiet()
    core.hold = lambda effect: isinstance(effect, Read)
    core.catalog.tables.withdraw(("d", "t"), source=0, at_us=1)
    core.catalog.loader.load(("d", "t"), urgent=True)
    core.turn(2)
    old = [perform(core.metastore, read) for read in core.held]
    core.held.clear()
    core.add(core.metastore.get_table("d", "t"), "3")
    say(core, "invalidate", "d.t", turns=2)
    for fact in old:
        core.tell(fact)
    core.hold = lambda _: False
    core.turn(2)
    core.release()
    core.turn(20)
    assert core.partitions("d", "t") == ["ds=1", "ds=2", "ds=3"]


def test_table_that_is_loading_is_forgotten_too() -> None:
    core = quiet()
    core.catalog.loader.begin_chunked_load(("d", "t"), ("ds=1",))
    core.hold = lambda effect: isinstance(effect, Read)
    say(core, "invalidate", "d.t", turns=1)
    assert not core.catalog.loader.is_loading(("d", "t"))


def test_everything_is_invalidated_some_tables_a_turn_and_the_names_are_listed() -> None:
    core = quiet(TABLES_PER_STEP_MAX + 10)
    core.create_database("new")
    core.create("new", "x")
    core.metastore.drop_table("d", "t1", False)
    before = len(core.committed)
    answer = say(core, "invalidate", turns=20)
    assert answer == {
        "order": "invalidate",
        "object": "",
        "tables": TABLES_PER_STEP_MAX + 10,
        "failed": 0,
    }
    unloaded = [c for one in core.committed[before:] for c in one.changes if c.kind == "unloaded"]
    assert len(unloaded) == TABLES_PER_STEP_MAX + 10
    assert core.tables("new") == ["x"]
    assert "t1" not in core.tables("d")


def test_database_alone_is_invalidated() -> None:
    core = quiet()
    core.create_database("e")
    core.create("e", "t")
    say(core, "refresh")
    before = len(core.committed)
    say(core, "invalidate", "e")
    objects = {c.object for one in core.committed[before:] for c in one.changes}
    assert objects == {"e.t"}


def test_dropped_database_goes_with_its_tables() -> None:
    core = quiet()
    core.metastore.drop_database("d", False, True)
    assert say(core, "invalidate")["failed"] == 0  # type: ignore[index]
    assert core.catalog.namespace.databases() == ("default",)
    assert core.catalog.tables.of_database("d") == ()


# refresh


def test_refreshed_table_is_read_again_before_the_answer() -> None:
    """P-ORDER-2."""
    core = quiet()
    table = core.metastore.get_table("d", "t")
    core.add(table, "3")
    core.hold = lambda effect: isinstance(effect, Read)
    core.ask(Order(request=REQUEST, who="ann", order="refresh", arguments=("d.t",)))
    core.turn(10)
    assert core.replies() == []
    core.hold = lambda _: False
    core.release()
    core.turn(2)
    assert [type(answer) for answer in core.replies()] == [Inspected]
    assert core.partitions("d", "t") == ["ds=1", "ds=2", "ds=3"]


def test_refreshed_table_waits_for_the_fence() -> None:
    """P-ORDER-2: with events, what was read is published after the next poll."""
    core = loaded()
    core.hold = lambda effect: not isinstance(effect, Read | ReadNames)
    core.ask(Order(request=REQUEST, who="ann", order="refresh", arguments=("d.t",)))
    core.turn(10)
    assert core.replies() == []
    core.hold = lambda _: False
    core.release()
    core.turn(10)
    assert [type(answer) for answer in core.replies()] == [Inspected]


def test_refresh_of_a_table_tells_that_its_data_may_have_changed() -> None:
    core = loaded()
    before = core.catalog.tables.entry(("d", "t"))
    assert say(core, "refresh", "d.t") == {
        "order": "refresh",
        "object": "d.t",
        "tables": 1,
        "failed": 0,
    }
    after = core.catalog.tables.entry(("d", "t"))
    assert before is not None
    assert after is not None
    assert after.data_version == after.version > before.version
    assert after.schema_version == before.schema_version


@pytest.mark.parametrize("order", ["refresh", "invalidate"])
def test_refreshed_partition_is_read_alone(order: str) -> None:
    """Nothing else of its table is forgotten, either."""
    core = quiet()
    table = core.metastore.get_table("d", "t")
    changed = [part(table, value, note="new") for value in ("1", "2")]
    core.metastore.alter_partitions("d", "t", changed)
    reads = len([e for e in core.effects if isinstance(e, Read)])
    answer = say(core, order, "d.t/ds=1")
    assert answer == {"order": order, "object": "d.t/ds=1", "tables": 1, "failed": 0}
    assert is_loaded(core)
    (read,) = [e for e in core.effects if isinstance(e, Read)][reads:]
    assert read.requests[0].names == ("ds=1",)
    assert not read.requests[0].obj


@pytest.mark.parametrize("order", ["refresh", "invalidate"])
@pytest.mark.parametrize("name", ["ds=0", "ds=9", "hour=1"])
def test_partition_that_is_nowhere_is_no_object_and_changes_nothing(name: str, order: str) -> None:
    core = quiet()
    before = core.catalog.tables.entry(("d", "t"))
    answer = say(core, order, f"d.t/{name}")
    assert isinstance(answer, Refused)
    assert (answer.code, answer.message) == ("NO_OBJECT", f"no such object: d.t/{name}")
    after = core.catalog.tables.entry(("d", "t"))
    assert after is not None
    assert after == before


def test_table_that_no_event_told_of_is_found_by_its_name() -> None:
    core = quiet()
    core.create_database("new")
    core.create("new", "x")
    assert say(core, "refresh", "new.x")["tables"] == 1  # type: ignore[index]
    assert core.tables("new") == ["x"]


# data that has changed


def reads_of(core: Core) -> int:
    return len([effect for effect in core.effects if isinstance(effect, Read | ReadNames)])


@pytest.mark.parametrize(
    ("named", "noted"), [("d.t", "d.t"), ("D.T/ds=1", "d.t/ds=1"), ("d", "d.t")]
)
def test_changed_data_of_what_is_known_raises_its_data_version_and_reads_nothing(
    named: str, noted: str
) -> None:
    """P-ORDER-3."""
    core = quiet()
    before, reads, commits = entry(core), reads_of(core), len(core.committed)
    answer = say(core, "refresh", named, "data")
    assert isinstance(answer, dict)
    assert (answer["tables"], answer["failed"]) == (1, 0)
    (one,) = core.committed[commits:]
    assert (one.source, [row.object for row in one.changes]) == (SOURCE_ORDERS, [noted])
    after = entry(core)
    assert after.data_version == after.version == before.version + 1
    assert (after.schema_version, after.value) == (before.schema_version, before.value)
    assert reads_of(core) == reads
    assert [row.object for row in given(core)] == [f"{answer['object']} data"]


def test_changed_data_of_a_database_is_that_of_every_table_some_a_turn() -> None:
    core = quiet(TABLES_PER_STEP_MAX + 10)
    core.create_database("e")
    core.create("e", "t")
    say(core, "refresh", "e.t")
    before = len(core.committed)
    assert say(core, "refresh", "d", "data")["tables"] == TABLES_PER_STEP_MAX + 10  # type: ignore[index]
    changed = [row.object for one in core.committed[before:] for row in one.changes]
    assert sorted(changed) == sorted(
        f"d.t{number or ''}" for number in range(TABLES_PER_STEP_MAX + 10)
    )


def test_changed_data_of_what_is_not_known_yet_is_looked_for_first() -> None:
    core = quiet()
    core.add(core.metastore.get_table("d", "t"), "3")
    assert say(core, "refresh", "d.t/ds=3", "data")["tables"] == 1  # type: ignore[index]
    assert core.partitions("d", "t") == ["ds=1", "ds=2", "ds=3"]
    core.create_database("new")
    core.create("new", "x")
    assert say(core, "refresh", "new.x", "data")["tables"] == 1  # type: ignore[index]
    core.add(core.create("new", "y", "ds"), "1")
    assert say(core, "refresh", "new.y/ds=1", "data")["object"] == "new.y"  # type: ignore[index]
    assert core.partitions("new", "y") == ["ds=1"]
    core.create_database("newer")
    assert say(core, "refresh", "newer", "data")["tables"] == 0  # type: ignore[index]
    assert core.catalog.namespace.databases() == ("d", "default", "new", "newer")


def test_dropped_table_is_gone_once_it_is_refreshed() -> None:
    core = quiet()
    core.metastore.drop_table("d", "t", False)
    answer = say(core, "refresh", "d.t")
    assert isinstance(answer, Refused)
    assert (answer.code, answer.message) == ("NO_OBJECT", "no such object: d.t")
    assert core.tables("d") == []


def test_everything_is_refreshed_a_few_tables_at_a_time() -> None:
    core = quiet(20)
    core.create("d", "later")
    core.metastore.drop_table("d", "t1", False)
    core.add(core.metastore.get_table("d", "t2"), "3")
    before = core.catalog.tables.entry(("d", "t3"))
    assert say(core, "refresh", turns=30)["tables"] == 21  # type: ignore[index]
    assert "later" in core.tables("d")
    assert "t1" not in core.tables("d")
    assert core.partitions("d", "t2") == ["ds=1", "ds=2", "ds=3"]
    assert core.catalog.tables.entry(("d", "t3")) == before, "what is as it was is not told"


def test_refresh_of_a_database_reads_only_what_is_held() -> None:
    core = quiet()
    say(core, "mode", "minimal")
    say(core, "invalidate", "d.t")
    assert say(core, "refresh", "d")["tables"] == 0  # type: ignore[index]
    assert not is_loaded(core)


def test_table_that_cannot_be_read_is_told() -> None:
    core = quiet()

    core.hold = lambda effect: isinstance(effect, Read)
    core.ask(Order(request=REQUEST, who="ann", order="refresh", arguments=("d.t",)))
    for _ in range(60):
        core.turn()
        for read in core.held:
            assert isinstance(read, Read)
            core.tell(ReadFailed(read=read.read, error="it is corrupt", away=False))
        core.held.clear()
    (answer,) = core.replies()
    assert isinstance(answer, Refused)
    assert answer.code == "SOURCE"
    assert "it is corrupt" in answer.message
