"""The core of catalogd: events become reads, reads become transactions, each once and in order."""

from topicast.catalog.core import Lifecycle
from topicast.catalog.facts import Commit, Minted, Publish
from topicast.catalog.ingest.poller import Poll
from topicast.catalog.ingest.reads import NamesFailed, Read, ReadFailed, ReadNames
from topicast.catalog.model.lineage import StartRecord
from topicast.tests.catalog.core import Core, loaded, part
from topicast.topics.errors import SourceError, SourceRefused
from topicast.topics.objects.values import ABSENT, COMPLETE, LOADING
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import (
    SOURCE_EVENTS,
    SOURCE_LOAD,
    Sync,
)


def test_names_are_read_first_and_contents_after_them() -> None:
    core = loaded()
    assert core.catalog.namespace.databases() == ("d", "default")
    assert core.tables("d") == ["t"]
    assert core.partitions("d", "t") == ["ds=1", "ds=2"]
    assert core.committed[0].topic == NAMESPACE
    assert core.committed[0].source == SOURCE_LOAD


def test_commit_precedes_publish_and_answers() -> None:
    core = loaded()
    core.ask(Sync(request=1))
    core.create("d", "u")
    core.turn(12)
    assert [e for e in core.effects if isinstance(e, Publish)]
    for before, effect in zip([None, *core.effects], core.effects, strict=False):
        if isinstance(effect, Publish):
            assert isinstance(before, Commit)
            assert before.transactions == effect.transactions


def test_nothing_is_committed_as_read_before_its_events_are_published() -> None:
    core = loaded()
    core.hold = lambda effect: isinstance(effect, Read)
    core.create("d", "u")
    core.turn(12)
    assert core.place is not None
    before = core.place.last_id
    assert before < core.metastore.current_event_id()
    core.hold = lambda _effect: False
    core.release()
    core.turn(12)
    assert core.place.last_id == core.metastore.current_event_id()


def test_added_partition_is_one_small_transaction() -> None:
    core = loaded()
    table = core.metastore.get_table("d", "t")
    core.committed.clear()
    core.add(table, "3")
    core.turn(12)
    (one,) = core.committed
    assert [entry.key.count(b"\1") for entry in one.entries] == [1]
    assert one.source == SOURCE_EVENTS
    assert core.partitions("d", "t") == ["ds=1", "ds=2", "ds=3"]


def test_dropped_partition_is_gone() -> None:
    core = loaded()
    core.metastore.drop_partition("d", "t", ["1"], False)
    core.turn(12)
    assert core.partitions("d", "t") == ["ds=2"]


def test_event_that_overtakes_a_read_makes_it_be_read_again() -> None:
    """Given a read under way, when its partition changes again, the first answer is not shown."""
    core = loaded()
    table = core.metastore.get_table("d", "t")
    core.hold = lambda effect: isinstance(effect, Read)
    core.metastore.alter_partitions("d", "t", [part(table, "1", rev="1")])
    core.turn(12)
    core.release()  # has seen rev 1
    core.metastore.alter_partitions("d", "t", [part(table, "1", rev="2")])
    core.committed.clear()
    core.turn(3)
    assert core.committed == []
    core.hold = lambda _effect: False
    core.release()
    core.turn(12)
    assert len(core.committed) == 1


def test_recreated_table_is_another_incarnation_even_within_one_poll() -> None:
    core = loaded()
    first = core.catalog.namespace.find(("d", "t"))
    core.metastore.drop_table("d", "t", False)
    core.create("d", "t", "ds")
    core.turn(12)
    second = core.catalog.namespace.find(("d", "t"))
    assert first is not None
    assert second is not None
    assert second.incarnation > first.incarnation
    value = core.catalog.tables.value(("d", "t"))
    assert value is not None
    assert value.incarnation == second.incarnation
    assert core.partitions("d", "t") == []


def test_rename_is_one_transaction_of_the_namespace() -> None:
    core = loaded()
    core.committed.clear()
    table = core.metastore.get_table("d", "t")
    table.tableName = "v"
    core.metastore.alter_table("d", "t", table)
    core.turn(12)
    names = [one for one in core.committed if one.topic == NAMESPACE]
    assert len(names) == 1
    assert [(c.object, c.kind) for c in names[0].changes] == [
        ("d.t", "dropped"),
        ("d.v", "created"),
    ]
    assert core.tables("d") == ["v"]
    assert core.partitions("d", "v") == ["ds=1", "ds=2"]


def test_cascade_is_one_transaction_of_the_namespace() -> None:
    core = loaded()
    for name in ("u", "v", "w"):
        core.create("d", name)
    core.turn(12)
    core.committed.clear()
    core.metastore.drop_database("d", True, True)
    core.turn(12)
    assert len([one for one in core.committed if one.topic == NAMESPACE]) == 1
    assert core.catalog.namespace.databases() == ("default",)
    assert core.partitions("d", "t") == []


def test_large_table_is_loading_until_every_piece_is_here() -> None:
    core = Core()
    core.create_database("d")
    table = core.create("d", "big", "ds")
    core.add(table, *(f"{n:05d}" for n in range(2_500)))
    states = []
    for _ in range(30):
        core.turn()
        value = core.catalog.tables.value(("d", "big"))
        states.append(None if value is None else value.partitions)
    assert LOADING in states
    assert states[-1] == COMPLETE
    assert states.index(LOADING) < states.index(COMPLETE)
    assert len(core.partitions("d", "big")) == 2_500


def test_partition_that_changes_while_its_table_loads_is_read_again() -> None:
    core = Core()
    core.create_database("d")
    table = core.create("d", "big", "ds")
    core.add(table, *(f"{n:05d}" for n in range(2_500)))
    core.hold = lambda e: isinstance(e, Read) and any(len(w.names) > 100 for w in e.requests)
    core.turn(12)
    assert core.held
    core.release()
    core.add(table, "x")
    core.metastore.drop_partition("d", "big", ["00001"], False)
    core.hold = lambda _effect: False
    for _ in range(12):
        core.turn()
        core.release()
    names = core.partitions("d", "big")
    assert core.catalog.tables.loaded(("d", "big"))
    assert len(names) == 2_500
    assert "ds=x" in names
    assert "ds=00001" not in names


def test_metastore_that_is_back_is_followed_again() -> None:
    core = loaded()
    core.metastore.failures += [SourceError("down")] * 3
    core.create("d", "u")
    core.turn(6)
    assert core.catalog.counts.polls_failed
    for _ in range(40):
        core.turn()
    assert core.tables("d") == ["t", "u"]
    assert core.catalog.poller.error == ""


def test_table_that_cannot_be_read_is_withdrawn_and_the_others_go_on() -> None:
    core = loaded()
    core.hold = lambda e: isinstance(e, Read) and any(w.table == "t" for w in e.requests)
    table = core.metastore.get_table("d", "t")
    table.sd.cols = table.sd.cols[:1]
    core.metastore.alter_table("d", "t", table)
    core.create("d", "u")
    for _ in range(200):
        core.turn()
        for order in core.held:
            assert isinstance(order, Read)
            core.tell(ReadFailed(read=order.read, error="corrupt", away=False))
        core.held.clear()
        if core.catalog.counts.withdrawn:
            break
    assert core.catalog.counts.withdrawn == 1
    assert core.catalog.tables.value(("d", "t")) is None
    assert "u" in core.tables("d")
    core.hold = lambda _effect: False
    core.now += 60.0
    core.turn(12)
    assert core.catalog.tables.loaded(("d", "t"))


def test_failed_listing_is_tried_again() -> None:
    core = Core()
    core.hold = lambda effect: isinstance(effect, ReadNames)
    core.turn(2)
    core.held.clear()
    core.tell(NamesFailed(error="down"))
    core.turn(2)
    assert core.held == []
    core.now += 1.0
    core.turn(1)
    core.hold = lambda _effect: False
    core.release()
    core.turn(2)
    assert core.catalog.serving


def test_cleaned_log_makes_everything_be_read_again() -> None:
    core = loaded()
    core.turn(200)  # the window settles
    core.create("d", "u")
    core.create("d", "v")
    core.metastore.clean_log(core.metastore.current_event_id() - 1)
    core.turn(12)
    assert core.catalog.counts.gaps == 1
    assert core.tables("d") == ["t", "u", "v"]
    assert core.partitions("d", "t") == ["ds=1", "ds=2"]
    assert core.catalog.lifecycle is Lifecycle.SERVING


def test_restart_goes_on_from_its_place() -> None:
    core = loaded()
    core.turn(12)
    core.create("d", "u")
    again = Core(core.metastore, topics=core.topics, place=core.place)
    again.turn(12)
    assert again.tables("d") == ["t", "u"]
    assert not [e for e in again.effects if isinstance(e, ReadNames)]


def test_table_that_was_loading_at_a_crash_is_loaded_again() -> None:
    core = Core()
    core.create_database("d")
    table = core.create("d", "big", "ds")
    core.add(table, *(f"{n:05d}" for n in range(1_500)))
    core.hold = lambda e: isinstance(e, Read) and any(len(w.names) > 100 for w in e.requests)
    core.turn(12)
    value = core.catalog.tables.value(("d", "big"))
    assert value is not None
    assert value.partitions == LOADING
    again = Core(core.metastore, topics=core.topics, place=core.place)
    again.turn(12)
    assert again.catalog.tables.loaded(("d", "big"))
    assert len(again.partitions("d", "big")) == 1_500


def test_blacklisted_database_is_not_followed() -> None:
    core = Core(blacklisted_dbs=("hidden",))
    core.create_database("hidden")
    core.create("hidden", "t")
    core.turn(12)
    core.create("hidden", "u")
    core.turn(12)
    assert core.catalog.namespace.databases() == ("default",)


def test_view_and_plain_table_have_no_partitions() -> None:
    core = Core()
    core.create("default", "plain")
    core.turn(12)
    value = core.catalog.tables.value(("default", "plain"))
    assert value is not None
    assert value.partitions == ABSENT


def test_doubled_event_ids_lose_nothing() -> None:
    core = loaded()
    core.create("d", "u")
    core.turn(12)
    core.metastore.double_ids(1)
    core.create("d", "v")
    core.turn(12)
    assert core.tables("d") == ["t", "u", "v"]


def test_refused_read_is_told_apart_from_a_metastore_that_is_away() -> None:
    core = loaded()
    core.create("d", "u")
    core.hold = lambda effect: isinstance(effect, Read)
    core.turn(12)
    core.metastore.failures.append(SourceRefused("no"))
    core.hold = lambda _effect: False
    core.release()
    core.now += 1.0
    core.turn(12)
    assert core.catalog.counts.reads_failed == 1
    assert core.tables("d") == ["t", "u"]


def test_metastore_that_refuses_everything_withdraws_nothing() -> None:
    """Given a change whose read is refused, as polls are, then what was held stays until later."""
    core = loaded()
    table = core.metastore.get_table("d", "t")
    table.parameters["rev"] = "1"
    core.metastore.alter_table("d", "t", table)
    core.hold = lambda effect: isinstance(effect, Read)
    core.turn(12)
    before = core.catalog.version_log.versions()
    core.metastore.failures += [SourceRefused("no")] * 1000
    core.hold = lambda _effect: False
    core.release()
    core.turn(200)
    assert core.catalog.counts.reads_failed > 3
    assert core.catalog.counts.withdrawn == 0
    assert core.catalog.version_log.versions() == before
    core.metastore.failures.clear()
    core.turn(200)
    value = core.catalog.tables.value(("d", "t"))
    assert value is not None
    assert b"rev" in value.thrift
    assert core.catalog.counts.withdrawn == 0


def test_new_epoch_waits_until_everything_is_as_new_as_the_metastore() -> None:
    """Given a store put back from a copy, its epoch does not begin with what was replaced."""
    core = loaded()
    core.create("d", "u")
    again = Core(core.metastore, topics=core.topics, place=core.place)
    again.catalog.mint_above(4)
    again.hold = lambda effect: isinstance(effect, Poll | Read)
    again.turn(6)
    assert again.minted() == []
    again.hold = lambda _effect: False
    again.release()
    again.turn(12)
    assert again.tables("d") == ["t", "u"]
    assert 4 in again.minted()


def test_new_epoch_is_above_every_epoch_that_was_seen() -> None:
    """P-START-3: ordered until it begins, above whoever was furthest ahead, and then not again."""
    core = loaded()
    core.catalog.mint_above(9)
    core.catalog.mint_above(4)
    core.turn(2)
    assert core.minted() == [9, 9]
    record = StartRecord(start=7, epoch=12, versions=core.catalog.version_log.versions())
    core.tell(Minted(epoch=12, starts=(record,)))
    core.effects.clear()
    core.turn(2)
    assert core.minted() == []
    assert {topic.epoch for topic in core.topics.values()} == {12}
