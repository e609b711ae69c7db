"""The core of catalogd: events become reads, reads become transactions, each once and in order."""

from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from topicast.catalog.effects import Publish
from topicast.catalog.follow import event_router
from topicast.catalog.follow.name_listing import Lifecycle
from topicast.catalog.follow.notes import Noted
from topicast.catalog.ingest.events.actions import dirty_objects
from topicast.catalog.ingest.events.identity import Identify
from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.ingest.loads import (
    chunked_comparison,
    chunked_load,
    large_tables,
    read_threads,
)
from topicast.catalog.ingest.loads.chunked_load import ROUNDS_MAX
from topicast.catalog.ingest.loads.follow_rules import PARAMETER
from topicast.catalog.ingest.loads.read_threads import perform
from topicast.catalog.metastore.port import Dirty, RawEvent, Read, ReadNames
from topicast.catalog.model.modes import parse_mode
from topicast.catalog.model.versions import Commit
from topicast.catalog.status import (
    BEHIND_S,
    PARTITIONS_UNREADABLE,
    UNFOLLOWED,
    UNREADABLE,
    verdict,
)
from topicast.tests.cluster.alone import Alone, cold, loaded, part
from topicast.tests.cluster.catalogd import EPOCH_0
from topicast.tests.cluster.fake_metastore import TIME_S, FakeMetastore, make_table
from topicast.topics.errors import SourceError, SourceRefused, UsageError
from topicast.topics.objects.encoding.values import ABSENT, COMPLETE, LOADING, TableValue
from topicast.topics.objects.names import KEY_BYTES_MAX, TableId, table_key
from topicast.topics.objects.selector import ALL
from topicast.topics.topic import NAMESPACE, PREFIX
from topicast.topics.wire.messages.answers import TableStates
from topicast.topics.wire.messages.catalog import Pull, Pulled, Sync, Synced
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import SOURCE_EVENTS, SOURCE_LOAD
from topicast.topics.wire.messages.questions import TABLE_STATES_MAX, ReadTableStates
from topicast.topics.wire.refusal import Refusal


def held(core: Alone, name: str = "t", db: str = "d") -> TableValue:
    found = core.catalog.tables.value((db, name))
    assert found is not None
    return found


def of_namespace(core: Alone, since: int) -> list[list[tuple[str, str]]]:
    """Return what each transaction of the namespace changed, after the first ``since``."""
    found = (one for one in core.committed[since:] if one.topic == NAMESPACE)
    return [[(change.object, change.kind) for change in one.changes] for one in found]


def test_names_are_read_first_and_contents_after_them(core: Alone) -> None:
    assert core.catalog.namespace.databases() == ("d", "default")
    assert core.tables() == ["t"]
    assert core.partitions() == ["ds=1", "ds=2"]
    assert (core.committed[0].topic, core.committed[0].source) == (NAMESPACE, SOURCE_LOAD)


def test_commit_precedes_publish_and_answers(core: Alone) -> None:
    core.ask(Sync(request=1))
    core.create("d", "u")
    core.turn(6)
    assert core.published
    for before, effect in zip([None, *core.effects], core.effects, strict=False):
        if isinstance(effect, Publish):
            assert isinstance(before, Commit)
            assert before.transactions == effect.transactions


def test_nothing_is_committed_as_read_before_its_events_are_published(core: Alone) -> None:
    core.catalogd.hold(Read)
    core.create("d", "u")
    core.turn(6)
    assert core.catalogd.store.place.last_id < core.metastore.current_event_id()
    core.catalogd.resume()
    core.turn(6)
    assert core.catalogd.store.place.last_id == core.metastore.current_event_id()


def test_partition_is_added_by_one_small_transaction_and_dropped(core: Alone) -> None:
    before = len(core.committed)
    core.add(core.metastore.get_table("d", "t"), "3")
    core.turn(6)
    (one,) = core.committed[before:]
    assert [entry.key.count(b"\1") for entry in one.entries] == [1]
    assert one.source == SOURCE_EVENTS
    assert core.partitions() == ["ds=1", "ds=2", "ds=3"]
    core.metastore.drop_partition("d", "t", ["1"], False)
    core.turn(6)
    assert core.partitions() == ["ds=2", "ds=3"]


def raised(core: Alone, since: int, table: TableId = ("d", "t")) -> list[bool]:
    """Return of each transaction with a table's own entry whether its data version was raised."""
    own = (e for one in core.committed[since:] for e in one.entries if e.key == table_key(*table))
    return [entry.data_version == entry.version for entry in own]


def test_event_without_a_difference_raises_the_data_version_and_a_description_does_not(
    core: Alone,
) -> None:
    table, before = core.metastore.get_table("d", "t"), len(core.committed)
    core.metastore.alter_table("d", "t", table)
    core.turn(6)
    assert raised(core, before) == [True]
    core.metastore.alter_partitions("d", "t", [core.metastore.get_partition("d", "t", ["1"])])
    core.turn(6)
    assert raised(core, before) == [True, True]
    table.parameters["comment"] = "orders"
    core.metastore.alter_table("d", "t", table)
    core.turn(6)
    assert raised(core, before) == [True, True, False]


def test_written_partition_of_a_table_that_is_not_held_raises_its_data_version() -> None:
    core = cold()
    assert core.catalog.tables.value(("d", "t")) is None
    before = len(core.committed)
    core.metastore.alter_partitions("d", "t", [core.metastore.get_partition("d", "t", ["1"])])
    core.turn(6)
    assert raised(core, before) == [True]
    assert core.committed[-1].source == SOURCE_EVENTS


def reasons(core: Alone) -> list[str]:
    """Return the codes of the reasons why catalogd is degraded."""
    return [one.code for one in verdict(core.catalog.status()).reasons]


def test_metastore_that_tells_events_and_answers_no_read_is_said_once_changes_have_waited(
    core: Alone,
) -> None:
    core.catalogd.hold(Read)
    core.create("d", "u")
    core.wait(BEHIND_S - 5)
    assert reasons(core) == []
    core.wait(10)
    assert reasons(core) == ["behind"]
    assert "(1 event waits)" in core.reasons["behind"]
    core.catalogd.resume()
    core.wait(2)
    assert reasons(core) == []


def test_type_that_is_not_known_is_counted_warned_of_and_has_what_it_names_read_again(
    core: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicast.catalog.follow.event_router.DOUBT_S", 60.0)  # an hour takes 10 s
    reads = len(core.reads)
    for _ in range(2):
        core.metastore.log_unknown("ALTER_TABLES", "d", "t")
    core.turn(6)
    assert len(core.reads) > reads
    assert core.catalog.counts.events_not_understood == 2
    text = "events ALTER_TABLES are of a type that is not known: what they name is read again whole"
    assert [one.text for one in core.effects if isinstance(one, Noted) and one.trouble] == [text]
    assert reasons(core) == ["events_not_understood"]
    core.wait(61)
    assert not reasons(core)


def test_event_that_names_nothing_has_the_names_read_again_but_not_each_time(core: Alone) -> None:
    listings = core.metastore.calls.count("databases")
    for _ in range(20):
        core.metastore.log_unknown("NEWS", "null", " ")
        core.turn()
    assert listings < core.metastore.calls.count("databases") <= listings + 2


def test_type_that_needs_nothing_is_counted_and_reads_nothing(core: Alone) -> None:
    reads = len(core.reads)
    core.metastore.log_unknown("OPEN_TXN", "null", " ")
    core.turn(6)
    assert len(core.reads) == reads
    counts = core.catalog.counts
    assert (counts.events_skipped, counts.events_not_understood) == (1, 0)
    assert not reasons(core)


def test_release_that_was_not_tried_is_said_once(core: Alone) -> None:
    for release in ("4.0.1", "4.3.0", "4.3.0"):
        core.metastore.release_said = release
        core.metastore.connections += 1
        core.turn(6)
    said = [one.text for one in core.effects if isinstance(one, Noted) and "not tried" in one.text]
    assert len(said) == 1
    assert said[0].startswith(
        "the metastore is Hive 4.3.0, which was not tried (2.3, 3.1, 4.0, 4.1, 4.2"
    )


def tells_less(core: Alone) -> None:
    """Let the metastore leave parameters out of events, so that what they name is read."""
    core.metastore.tells = False
    core.metastore.connections += 1
    core.turn(6)


def test_event_that_overtakes_a_read_makes_it_be_read_again(core: Alone) -> None:
    """Given a read under way, when its partition changes again, the first answer is not shown."""
    tells_less(core)
    table, before = core.metastore.get_table("d", "t"), len(core.committed)
    core.catalogd.hold(Read)
    core.metastore.alter_partitions("d", "t", [part(table, "1", rev="1")])
    core.turn(6)
    core.catalogd.release()  # has seen rev 1
    core.metastore.alter_partitions("d", "t", [part(table, "1", rev="2")])
    core.turn(4)
    assert core.committed[before:] == []
    core.catalogd.resume()
    core.turn(6)
    assert len(core.committed[before:]) == 1


def test_recreated_table_is_another_incarnation_even_within_one_poll(core: Alone) -> None:
    first = held(core).incarnation
    core.metastore.drop_table("d", "t", False)
    core.create("d", "t", "ds")
    core.turn(6)
    record = core.catalog.namespace.find(("d", "t"))
    assert record is not None
    assert first < record.incarnation == held(core).incarnation
    assert core.partitions() == []


def test_table_of_another_catalog_is_none_of_ours_and_its_event_no_gap(core: Alone) -> None:
    before, events = len(core.committed), core.catalog.counts.events
    core.metastore.drop_elsewhere("d", "t")
    core.metastore.drop_elsewhere("d", "u")
    core.turn(6)
    assert core.committed[before:] == []
    assert core.catalog.watermark == core.metastore.current_event_id()
    assert (core.catalog.counts.events, core.catalog.counts.event_gaps) == (events + 2, 0)


def test_rename_and_cascade_are_one_transaction_of_the_namespace_each() -> None:
    core = loaded("t", "u", "w")
    before = len(core.committed)
    table = core.metastore.get_table("d", "t")
    table.tableName = "v"
    core.metastore.alter_table("d", "t", table)
    core.turn(6)
    assert of_namespace(core, before) == [[("d.t", "dropped"), ("d.v", "created")]]
    assert core.tables() == ["u", "v", "w"]
    assert core.partitions("d", "v") == ["ds=1", "ds=2"]
    before = len(core.committed)
    core.metastore.drop_database("d", True, True)
    core.turn(6)
    assert len(of_namespace(core, before)) == 1
    assert core.catalog.namespace.databases() == ("default",)
    assert core.partitions("d", "v") == []


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Alone:
    """A catalogd that is about to load ``d.t``, of 25 partitions, ten by ten."""
    monkeypatch.setattr(read_threads, "WHOLE_PARTITIONS_MAX", 10)
    monkeypatch.setattr(chunked_load, "PARTITIONS_PER_READ_MAX", 10)
    monkeypatch.setattr(chunked_load, "SLICE_MAX", 10)
    core = Alone()
    core.create_database("d")
    core.add(core.create("d", "t", "ds"), *(f"{number:02d}" for number in range(25)))
    core.catalogd.hold(Read, where=lambda read: any(len(one.names) > 5 for one in read.requests))
    core.turn(6)
    assert core.catalogd.held
    assert held(core).partitions == LOADING
    return core


@pytest.fixture
def compared(large: Alone, monkeypatch: pytest.MonkeyPatch) -> Alone:
    """A catalogd that compares ``d.t`` after lost events: ds=01 is gone, ds=03 written, ds=x new.

    Its chunks, ten partitions each, are held, and then the read of what differs.
    """
    monkeypatch.setattr(chunked_comparison, "PARTITIONS_PER_CALL_MAX", 10)
    large.catalogd.resume()
    large.turn(20)
    assert held(large).partitions == COMPLETE
    large.catalogd.crash()
    table = large.metastore.get_table("d", "t")
    large.metastore.alter_partitions("d", "t", [part(table, "03", rev="1")])
    large.metastore.drop_partition("d", "t", ["01"], False)
    large.add(table, "x")
    large.metastore.clean_log(large.metastore.current_event_id())
    large.catalogd.hold(Read, where=lambda read: any(one.names for one in read.requests))
    large.catalogd.revive()
    large.turn(8)
    return large


def test_large_table_is_held_as_it_was_after_a_gap_until_all_of_it_was_compared(
    compared: Alone,
) -> None:
    compared.ask(Sync(request=1, scope="d.t"))
    before, said = len(compared.committed), list[str]()
    for _ in range(3 + 1):  # the chunks, and what differs
        assert len(compared.catalogd.held) == 1
        assert held(compared).partitions == COMPLETE
        assert "ds=01" in compared.partitions()
        assert compared.replies() == []
        said.append(compared.catalog.status().loading)
        compared.catalogd.release()
        compared.turn(3)
    compared.turn(3)
    compared_of = "d.t: events are missing, and {} of 25 partitions are compared".format
    assert said == [*map(compared_of, (0, 10, 20)), ""]
    names = compared.partitions()
    assert (len(names), "ds=x" in names, "ds=01" in names) == (25, True, False)
    assert compared.reply(Synced).request == 1
    (written,) = [one for one in compared.committed[before:] if one.topic != NAMESPACE]
    assert PREFIX not in [entry.kind for entry in written.entries], "what is equal stays"


def test_event_of_a_large_table_that_is_compared_is_published_with_what_was_lost(
    compared: Alone,
) -> None:
    compared.add(compared.metastore.get_table("d", "t"), "y")
    for _ in range(3):
        compared.turn(3)
        assert "ds=y" not in compared.partitions()
        compared.catalogd.release()
    compared.catalogd.resume()
    compared.turn(6)
    names = compared.partitions()
    assert (len(names), "ds=y" in names, "ds=x" in names, "ds=01" in names) == (26, 1, 1, 0)


def test_large_table_that_is_dropped_and_created_while_it_is_compared_is_loaded(
    compared: Alone,
) -> None:
    compared.metastore.drop_table("d", "t", False)
    compared.add(compared.create("d", "t", "ds"), "z")
    compared.turn(3)
    compared.catalogd.resume()
    compared.turn(10)
    assert compared.partitions() == ["ds=z"]


@pytest.mark.parametrize("why", ["much differs", "a chunk is refused", "another gap"])
def test_large_table_that_cannot_be_compared_to_the_end_is_read_again(
    compared: Alone, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "much differs":
        monkeypatch.setattr(chunked_comparison, "DIFFERING_MAX", 2)
    elif why == "a chunk is refused":
        compared.metastore.unreadable["ds=05"] = "corrupt"
    else:
        compared.add(compared.metastore.get_table("d", "t"), "y")
        compared.metastore.drop_partition("d", "t", ["y"], False)
        compared.metastore.clean_log(compared.metastore.current_event_id())
        compared.turn(3)
    compared.catalogd.resume()
    compared.turn(20)
    assert (held(compared).partitions == LOADING) is (why == "a chunk is refused")
    compared.metastore.unreadable.clear()
    compared.turn(50)
    names = compared.partitions()
    assert held(compared).partitions == COMPLETE
    assert (len(names), "ds=x" in names, "ds=01" in names) == (25, True, False)


def test_large_tables_are_compared_some_at_a_time(
    large: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked_comparison, "PARTITIONS_PER_CALL_MAX", 10)
    monkeypatch.setattr(large_tables, "COMPARED_MAX", 1)
    tables = [large.create("d", name, "ds") for name in ("u", "v")]
    for table in tables:
        large.add(table, *(f"{number:02d}" for number in range(25)))
    large.catalogd.resume()
    large.turn(40)
    large.catalogd.crash()
    for table in tables:
        large.add(table, "x")
    large.metastore.clean_log(large.metastore.current_event_id())
    large.metastore.calls.clear()
    large.catalogd.revive()
    large.turn(60)
    assert [len(large.partitions("d", name)) for name in "tuv"] == [25, 26, 26]
    calls = Counter(large.metastore.calls)
    assert calls["partition_names"] == 3 + 2, "the names of those that wait are listed again"
    assert calls["partitions"] == 3 * 3 + 2, "of two tables, what differs"


def test_partition_that_changes_while_its_table_loads_is_read_again(large: Alone) -> None:
    large.catalogd.release()
    large.add(large.metastore.get_table("d", "t"), "x")
    large.metastore.drop_partition("d", "t", ["01"], False)
    large.turn()
    assert held(large).partitions == LOADING
    large.catalogd.resume()
    large.turn(20)
    assert held(large).partitions == COMPLETE
    names = large.partitions()
    assert (len(names), "ds=x" in names, "ds=01" in names) == (25, True, False)


def test_partition_that_is_written_while_its_table_loads_raises_its_data_version(
    large: Alone,
) -> None:
    before = len(large.committed)
    written = large.metastore.get_partition("d", "t", ["01"])
    large.metastore.alter_partitions("d", "t", [written])
    large.turn(6)
    assert [one.source for one in large.committed[before:]] == [SOURCE_EVENTS]
    assert raised(large, before) == [True]
    large.catalogd.resume()
    large.turn(20)
    assert held(large).partitions == COMPLETE


def test_table_whose_partitions_are_written_without_a_pause_is_named_until_it_is_complete(
    large: Alone,
) -> None:
    """Given another partition at each poll: three chunks and four rounds, each with its poll."""
    table = large.metastore.get_table("d", "t")
    assert large.catalog.status().loading == "d.t: 0 of 25 partitions are read"
    large.catalogd.resume()
    said, turns = list[str](), 0
    while held(large).partitions != COMPLETE and turns < 3 + 2 * (ROUNDS_MAX + 1):
        large.add(table, f"x{turns}")
        large.turn()
        said.append(large.catalog.status().loading)
        turns += 1
    assert held(large).partitions == COMPLETE
    busy = "d.t: its partitions are written while it loads: "
    assert any(text.startswith(busy) and text.endswith(f"round 3 of {ROUNDS_MAX}") for text in said)
    assert large.catalog.status().loading == ""
    large.turn(4)
    assert len(large.partitions()) == 25 + turns


def test_table_that_was_loading_at_a_crash_is_loaded_again(large: Alone) -> None:
    large.catalogd.hold()
    large.restart()
    large.turn(20)
    assert held(large).partitions == COMPLETE
    assert len(large.partitions()) == 25


def test_new_table_that_cannot_be_read_exists_and_is_refused_with_the_reason(core: Alone) -> None:
    core.metastore.unreadable["new"] = "corrupt"
    core.create("d", "new")
    core.turn(100)
    assert core.tables() == ["new", "t"]
    refused = core.answer_to(
        Pull(request=4, db="d", table="new", selector=ALL, credit=1 << 20), Refused
    )
    assert (refused.code, "corrupt" in refused.message) == (Refusal.UNREADABLE, True)
    core.metastore.unreadable.clear()
    core.wait(60.0)
    assert core.is_loaded("new")
    record = core.catalog.namespace.find(("d", "new"))
    assert record is not None
    assert record.type == "EXTERNAL_TABLE"
    core.metastore.drop_table("d", "new", True)
    core.turn(20)
    assert core.tables() == ["t"]


def test_metastore_that_is_back_is_followed_again(core: Alone) -> None:
    core.metastore.failures += [SourceError("down")] * 3
    core.create("d", "u")
    core.turn(3)
    assert core.catalog.counts.polls_failed
    core.turn(20)
    assert core.tables() == ["t", "u"]
    assert core.catalog.poller.error == ""


def test_table_that_cannot_be_read_is_unreadable_and_the_others_go_on(core: Alone) -> None:
    core.metastore.unreadable["t"] = "corrupt"
    table = core.metastore.get_table("d", "t")
    table.sd.cols = table.sd.cols[:1]
    core.metastore.alter_table("d", "t", table)
    core.create("d", "u")
    core.turn(100)
    assert core.catalog.counts.tables_turned_unreadable
    assert core.catalog.tables.value(("d", "t")) is None
    assert core.tables() == ["t", "u"]
    status = core.catalog.status()
    assert (status.tables_unreadable, status.unreadable) == (1, "d.t: corrupt")
    core.metastore.unreadable.clear()
    core.wait(60.0)
    assert core.is_loaded()
    status = core.catalog.status()
    assert (status.tables_unreadable, status.unreadable) == (0, "")
    noted = [(one.text, one.trouble) for one in core.effects if isinstance(one, Noted)]
    assert noted == [("d.t cannot be read: corrupt", True), ("d.t can be read again", False)]


def test_partition_that_cannot_be_read_is_named_once_and_the_others_are_held(
    large: Alone,
) -> None:
    large.metastore.unreadable["ds=13"] = "no such serde"
    large.catalogd.resume()
    large.wait(100.0)
    assert large.catalog.counts.tables_turned_unreadable == 0
    status = large.catalog.status()
    assert (status.tables_unreadable, status.partitions_unreadable) == (0, 1)
    assert status.unreadable == "d.t/ds=13: no such serde"
    assert len(large.partitions()) == 24
    assert "ds=13" not in large.partitions()
    assert large.catalog.loader.tables_left == 0, "nothing is to be loaded but that one"
    large.metastore.unreadable.clear()
    large.wait(70.0)
    assert held(large).partitions == COMPLETE
    assert len(large.partitions()) == 25
    noted = [(one.text, one.trouble) for one in large.effects if isinstance(one, Noted)]
    said = "d.t/ds=13 cannot be read, the rest of its table is served: no such serde"
    assert noted == [(said, True), ("d.t/ds=13 can be read again, or is gone", False)]


def test_question_about_tables_names_those_that_are_not_as_they_should_be() -> None:
    core = loaded("t", "w")
    core.metastore.unreadable.update({"u": "no such serde", "ds=3": "no such class"})
    core.create("d", "u")
    core.add(core.create("d", "v", "ds"), "1", "3")
    table = core.metastore.get_table("d", "w")
    table.parameters = {**table.parameters, PARAMETER: "true"}
    core.metastore.alter_table("d", "w", table)
    core.wait(60)
    impossible = ("\0", "d.\0", "d." + "x" * KEY_BYTES_MAX, "x" * KEY_BYTES_MAX)
    names = ("d.t", "d.u", "d.v", "d.w", "d.none", "rubbish", *impossible)
    asked = ReadTableStates(request=4, tables=names)
    found = core.answer_to(asked, TableStates)
    assert found.columns == ("table", "state", "why")
    assert found.rows == (
        ("d.u", UNREADABLE, "no such serde"),
        ("d.v", PARTITIONS_UNREADABLE, "ds=3: no such class"),
        ("d.w", UNFOLLOWED, ""),
    )
    many = core.answer_to(ReadTableStates(request=5, tables=("d.u",) * 1000), TableStates)
    assert len(many.rows) == TABLE_STATES_MAX


@pytest.mark.parametrize("bad", [(0,), (999,), (3, 4, 700), tuple(range(100, 131))])
def test_partitions_that_cannot_be_read_are_found_in_few_reads(bad: tuple[int, ...]) -> None:
    """Ten halvings of a chunk of 1,000 for each of them, while those before are tried again."""
    core = Alone()
    core.create_database("d")
    core.add(core.create("d", "t", "ds"), *(f"{number:04d}" for number in range(2_500)))
    core.metastore.unreadable |= {f"ds={number:04d}": "no such serde" for number in bad}
    while core.catalog.status().partitions_unreadable < len(bad):
        core.turn()
        assert core.now < 1_200, "it ends"
    reads = core.metastore.calls.count("partitions")
    assert reads <= 14 * len(bad) + 5
    core.turn(50)
    assert len(core.partitions()) == 2_500 - len(bad)
    assert core.catalog.counts.tables_turned_unreadable == 0
    before = core.metastore.calls.count("partitions")
    core.wait(600.0)
    assert core.metastore.calls.count("partitions") - before <= 20 * len(bad), "once a minute each"


def test_table_with_many_partitions_that_cannot_be_read_is_unreadable_as_a_whole() -> None:
    core = Alone()
    core.create_database("d")
    core.add(core.create("d", "t", "ds"), *map(str, range(40)))
    core.metastore.unreadable |= {f"ds={number}": "no such serde" for number in range(40)}
    core.wait(60.0)
    assert core.catalog.counts.tables_turned_unreadable
    status = core.catalog.status()
    assert (status.tables_unreadable, status.partitions_unreadable) == (1, 0)
    core.metastore.unreadable.clear()
    core.wait(70.0)
    assert len(core.partitions()) == 40


def test_changed_partition_that_cannot_be_read_any_more_leaves_the_others_of_its_table(
    core: Alone,
) -> None:
    """Given a table that is held, then the former facts of the bad partition are gone."""
    tells_less(core)
    core.metastore.alter_partitions("d", "t", [core.metastore.get_partition("d", "t", ["1"])])
    core.metastore.unreadable["ds=1"] = "no such serde"
    core.wait(30.0)
    assert core.partitions() == ["ds=2"]
    assert held(core).partitions == LOADING
    core.answer_to(Sync(request=9), Synced, turns=10)
    core.metastore.unreadable.clear()
    core.metastore.alter_partitions("d", "t", [core.metastore.get_partition("d", "t", ["1"])])
    core.wait(5.0)
    assert core.partitions() == ["ds=1", "ds=2"]
    assert held(core).partitions == COMPLETE


def test_failed_listing_is_tried_again() -> None:
    core = Alone()
    core.catalogd.hold(ReadNames)
    core.turn(2)
    core.metastore.failures.append(SourceError("down"))
    core.catalogd.release()
    core.turn(4)
    assert core.catalogd.held == []
    core.turn(10)
    core.catalogd.resume()
    core.turn(2)
    assert core.catalog.names_known


def test_catalogd_takes_no_turn_while_it_waits_for_a_listing() -> None:
    core = Alone()
    core.catalogd.hold(ReadNames)
    core.turn(2)
    assert core.catalog.deadline(core.now) > core.now, "the first names"
    core.catalogd.resume()
    core.turn(150)
    core.catalogd.hold(ReadNames)
    for name in ("u", "v"):  # the second gap wants another listing
        core.create("d", name)
        core.create("d", f"{name}2")
        core.metastore.clean_log(core.metastore.current_event_id() - 1)
        core.turn(30)
    assert core.catalog.counts.event_gaps == 2
    core.step()
    assert core.catalog.deadline(core.now) > core.now


@pytest.fixture
def in_portions() -> Iterator[Alone]:
    """A catalogd that lists one database after the other, of ``a``, ``b`` and ``default``."""
    with patch.object(read_threads, "LISTED_DATABASES_MAX", 1):
        core = Alone()
        for db in ("a", "b"):
            core.create_database(db)
            core.create(db, "t")
        core.catalogd.hold(ReadNames)
        yield core


def test_listing_that_fails_goes_on_where_it_was(in_portions: Alone) -> None:
    core = in_portions
    core.turn(2)
    core.catalogd.release()
    core.turn(2)
    assert core.reasons["metastore_names"].endswith(", of 1 of 3 databases so far")
    core.metastore.failures.append(SourceError("down"))
    core.catalogd.release()
    core.turn(1)
    core.catalogd.resume()
    core.turn(20)
    listed = [one.after for one in core.reads if isinstance(one, ReadNames)]
    assert listed == ["", "a", "a", "b"]
    assert core.tables("a") == core.tables("b") == ["t"]


def test_listing_that_began_before_a_gap_is_followed_by_another(in_portions: Alone) -> None:
    """P-SYNC-1. Given a gap while names are read, a sync waits for names that are read after it."""
    core = in_portions
    core.catalogd.resume()
    core.turn(150)
    core.catalogd.hold(ReadNames)

    def lose_the_creation_of(name: str) -> None:
        core.create("a", name)
        core.create("b", name)
        core.metastore.clean_log(core.metastore.current_event_id() - 1)
        core.turn(30)

    lose_the_creation_of("u")
    core.catalogd.release()
    core.turn(2)
    assert [one.after for one in core.catalogd.held if isinstance(one, ReadNames)] == ["a"]
    lose_the_creation_of("v")
    core.ask(Sync(request=9))
    for _ in range(2):  # the rest of the first listing: it has not seen a.v
        core.catalogd.release()
        core.turn(5)
    assert core.replies() == []
    core.catalogd.resume()
    core.turn(20)
    assert [type(one) for one in core.replies()] == [Synced]
    assert core.tables("a") == ["t", "u", "v"]


def test_only_the_first_listing_asks_for_types(core: Alone) -> None:
    core.turn(150)
    core.create("d", "u")
    core.create("d", "v")
    core.metastore.clean_log(core.metastore.current_event_id() - 1)
    core.turn(30)
    assert [one.typed for one in core.reads if isinstance(one, ReadNames)] == [True, False]
    records = {one.name: one.type for one in core.catalog.namespace.tables("d")}
    assert records == dict.fromkeys("tuv", "EXTERNAL_TABLE")


def test_cleaned_log_makes_everything_be_read_again_and_a_sync_waits_for_it(core: Alone) -> None:
    """P-SYNC-1."""
    core.turn(150)  # the window settles
    core.create("d", "u")
    core.create("d", "v")
    core.metastore.clean_log(core.metastore.current_event_id() - 1)
    core.catalogd.hold(ReadNames)
    core.ask(Sync(request=9))
    core.turn(30)
    assert core.replies() == [], "nothing is finished before the names were read"
    core.catalogd.resume()
    core.turn(8)
    assert [type(one) for one in core.replies()] == [Synced]
    assert core.catalog.counts.event_gaps == 1
    assert core.tables() == ["t", "u", "v"]
    assert core.partitions() == ["ds=1", "ds=2"]
    assert core.catalog.listing.lifecycle is Lifecycle.SERVING


@pytest.fixture
def gapped() -> Alone:
    """A catalogd that has read ``d.t`` to ``d.w`` and a view, and that is away."""
    core = loaded("t", "u", "v", "w")
    view = make_table("d", "seen", location="")
    view.tableType, view.viewOriginalText, view.viewExpandedText = "VIRTUAL_VIEW", "q", "q"
    core.metastore.create_table(view)
    core.turn(100)
    core.effects.clear()
    core.catalogd.crash()
    return core


def after_gap(core: Alone) -> list[tuple[str, str]]:
    """Let the events since be lost; return what is said to have changed then."""
    core.metastore.clean_log(core.metastore.current_event_id())
    core.catalogd.revive()
    core.turn(30)
    assert core.catalog.counts.event_gaps == 1
    changes = [change for one in core.committed for change in one.changes]
    return sorted((change.object, str(change.kind)) for change in changes)


def test_gap_is_said_with_its_ids_and_how_much_is_read_again(gapped: Alone) -> None:
    last = gapped.metastore.current_event_id()
    gapped.create("d", "new")
    gapped.create("d", "newer")
    after_gap(gapped)
    texts = [one.text for one in gapped.effects if isinstance(one, Noted) and one.trouble]
    missing = f"events {last + 1} to {last + 2} are missing"
    assert texts == [f"{missing}: 5 tables are read again, and what is new"]
    assert gapped.reasons == {}


def test_tables_are_reported_after_a_gap_as_what_has_become_of_them(gapped: Alone) -> None:
    """Given lost events, one of them perhaps an INSERT, then data of every table with files may
    have changed; an incarnation ended only where the creation time is another.
    """
    before = {name: held(gapped, name) for name in ("t", "u", "w", "seen")}
    gapped.metastore.drop_table("d", "u", False)
    anew = make_table("d", "u", location="file:/w/d/u", keys=("ds",))
    anew.createTime = TIME_S + 1
    gapped.metastore.create_table(anew)
    gapped.metastore.drop_table("d", "v", False)
    gapped.add(gapped.metastore.get_table("d", "w"), "3")
    changes = after_gap(gapped)
    assert changes == [
        ("d.t", "data"),
        ("d.u", "created"),
        ("d.u", "dropped"),
        ("d.u", "schema"),
        ("d.v", "dropped"),
        ("d.w", "data"),
    ]
    assert held(gapped, "t") == before["t"]
    assert held(gapped, "seen") == before["seen"]
    assert held(gapped, "w").incarnation == before["w"].incarnation
    assert gapped.partitions("d", "w") == ["ds=1", "ds=2", "ds=3"]
    assert held(gapped, "u").incarnation > before["u"].incarnation
    assert gapped.partitions("d", "u") == []
    written = [entry.key for one in gapped.committed for entry in one.entries]
    assert [key for key in written if key.startswith(table_key("d", "t"))] == [table_key("d", "t")]
    entry = gapped.catalog.tables.entry(("d", "t"))
    assert entry is not None
    assert entry.data_version == entry.version > entry.schema_version


@pytest.fixture
def lean() -> Alone:
    """A catalogd that loads nothing by itself, and holds ``d.seen``; the log is cut behind it."""
    core = Alone(load_in_background=False)
    core.create_database("d")
    for name in ("t", "u"):
        core.add(core.create("d", name, "ds"), "1", "2")
    core.metastore.clean_log(core.metastore.current_event_id())
    core.restart()
    core.turn(6)
    core.add(core.create("d", "seen", "ds"), "1")
    core.turn(6)
    assert [core.is_loaded(name) for name in ("t", "u", "seen")] == [False, False, True]
    core.catalogd.crash()
    core.add(core.metastore.get_table("d", "seen"), "2")
    core.metastore.drop_table("d", "u", False)
    core.create("d", "new", "ds")
    core.metastore.clean_log(core.metastore.current_event_id())
    core.metastore.calls.clear()
    core.catalogd.revive()
    return core


def test_after_a_gap_no_table_is_loaded_of_which_nothing_is_to_be_held(lean: Alone) -> None:
    before = lean.catalog.namespace.find(("d", "t"))
    lean.turn(30)
    assert lean.catalog.counts.event_gaps == 1
    assert lean.tables() == ["new", "seen", "t"]
    assert lean.partitions("d", "seen") == ["ds=1", "ds=2"]
    assert not (lean.is_loaded("t"))
    assert not (lean.is_loaded("new"))
    calls = Counter(lean.metastore.calls)
    assert (calls["all_partitions"], calls["partitions"]) == (1, 0), "of the table that is held"
    after = lean.catalog.namespace.find(("d", "t"))
    assert before is not None
    assert after is not None
    assert after.incarnation > before.incarnation, "readers keep nothing that they pulled"


def test_pull_of_a_table_that_a_gap_reads_without_its_partitions_is_answered_soon(
    lean: Alone,
) -> None:
    lean.catalogd.hold(Read, where=lambda read: any(one.table == "t" for one in read.requests))
    lean.turn(10)
    assert lean.catalogd.held
    lean.ask(Pull(request=4, db="d", table="t", selector=ALL, credit=1 << 20))
    lean.turn(1)
    lean.catalogd.resume()
    lean.turn(6)
    assert lean.reply(Pulled).found
    assert lean.partitions("d", "t") == ["ds=1", "ds=2"]


def test_event_behind_a_gap_publishes_no_part_of_a_table_that_is_not_read_again(
    gapped: Alone,
) -> None:
    """Given lost partitions, when one more is added, then a table of that one alone never was."""
    table = gapped.metastore.get_table("d", "t")
    gapped.add(table, "3")
    gapped.metastore.clean_log(gapped.metastore.current_event_id())
    gapped.add(table, "4")
    gapped.catalogd.revive()
    gapped.turn(30)
    assert gapped.catalog.counts.event_gaps == 1
    assert gapped.partitions() == ["ds=1", "ds=2", "ds=3", "ds=4"]
    group = table_key("d", "t")
    written = [one for one in gapped.committed if any(group in e.key for e in one.entries)]
    assert len(written) == 1


@pytest.mark.parametrize("limits", [False, True])
def test_event_that_the_metastore_cannot_send_is_passed_by_itself_and_what_it_told_is_read(
    core: Alone, limits: bool
) -> None:
    """Hive 2.3 reads every event after an id to send a single event: it loses those before it."""
    core.metastore.limits = limits
    core.turn(100)
    last = core.metastore.current_event_id()
    core.create("d", "before")
    core.metastore.drop_table("d", "t", False)
    core.metastore.unsendable.add(last + 2)
    core.create("d", "after")
    core.wait(40)
    first = last + 2 if limits else last + 1
    text = f"events {first} to {last + 2} are passed, and all is read again: Internal error"
    said = [one.text for one in core.effects if isinstance(one, Noted) and one.trouble]
    assert [one for one in said if one.startswith(text)]
    assert core.catalog.counts.events_passed == last + 3 - first
    assert core.tables() == ["after", "before"]
    assert core.reasons == {}
    core.metastore.drop_table("d", "after", False)
    core.answer_to(Sync(request=9), Synced, turns=10)
    assert core.tables() == ["before"], "events behind it are followed"


def test_skipped_event_is_not_read_and_what_it_told_is(core: Alone) -> None:
    core.turn(100)
    core.metastore.drop_table("d", "t", False)
    bad = core.metastore.current_event_id()
    core.metastore.unsendable.add(bad)
    core.wait(2)
    assert core.tables() == ["t"]
    core.catalog.event_router.skip(bad)
    core.wait(1)
    assert core.tables() == []
    assert core.catalog.counts.events_passed == 1
    with pytest.raises(UsageError, match="was read before"):
        core.catalog.event_router.skip(bad)


def test_mode_that_is_ordered_as_the_metastore_is_replaced_holds_afterwards(core: Alone) -> None:
    core.metastore.become(FakeMetastore())
    core.turn(1)
    core.catalogd.hold(Identify)
    core.turn(4)
    (check,) = core.catalogd.held
    mode = parse_mode("minimal", "")
    core.catalogd.turn_mode(mode)
    core.catalogd.turn([perform(core.metastore, check)])
    core.catalogd.resume()
    core.turn(20)
    assert core.counts["begun anew"] == 1
    assert core.catalogd.mode == core.catalogd.store.mode_state.mode == mode
    assert core.catalog.namespace.databases() == ("default",)
    assert core.catalog.namespace.find(("d", "t")) is None
    assert core.partitions() == []


def test_metastore_that_is_replaced_before_the_first_poll_is_another(core: Alone) -> None:
    """Given names of the first metastore and no event of it, then nothing distinguishes them."""
    found = Alone()
    found.create_database("d")
    found.create("d", "t", "ds")
    found.catalogd.hold(Poll)
    found.turn(4)
    assert found.tables() == ["t"]
    found.metastore.become(core.metastore)
    found.catalogd.resume()
    found.turn(20)
    assert found.counts["begun anew"] == 1
    assert found.partitions() == ["ds=1", "ds=2"]


def test_counter_of_events_that_goes_back_begins_one_epoch_and_loses_no_change(
    core: Alone,
) -> None:
    """Given a log with events above the counter, then the ids of the next changes come twice."""
    table = core.metastore.get_table("d", "t")
    for value in ("3", "4", "5"):
        core.add(table, value)
        core.turn(4)
    core.metastore.set_counter_back(3)
    core.turn(30)
    assert core.counts["begun anew"] == 1
    for value in ("6", "7", "8", "9", "10"):  # below the old ids, at them, and above
        core.add(table, value)
        core.turn(10)
        assert f"ds={value}" in core.partitions()
    assert core.counts["begun anew"] == 1


def put_back_behind_a_read(core: Alone, value: str) -> None:
    """Put back a copy that has a partition of ``d.t``, after a read has shown that it is gone."""
    copy = core.metastore.copy()
    core.catalogd.hold(Poll)
    core.metastore.drop_partition("d", "t", [value], False)
    core.catalogd.release()
    core.turn(2)
    core.metastore.become(copy)
    core.catalogd.resume()
    core.turn(30)
    assert core.counts["begun anew"] == 0


def test_read_from_before_a_copy_was_put_back_is_read_again(core: Alone) -> None:
    """Given a read that shows what the copy does not have, then no poll of it confirms the read."""
    tells_less(core)
    table = core.metastore.get_table("d", "t")
    core.catalogd.hold(Read)
    core.metastore.alter_partitions("d", "t", [part(table, "1", rev="1")])
    core.turn(4)
    put_back_behind_a_read(core, "1")
    assert core.catalog.status().metastore_found.startswith("the same metastore")
    assert core.partitions() == ["ds=1", "ds=2"]


def test_large_table_that_is_loading_when_a_copy_is_put_back_is_loaded_again(large: Alone) -> None:
    put_back_behind_a_read(large, "01")
    assert held(large).partitions == COMPLETE
    assert len(large.partitions()) == 25


def test_effect_of_an_event_that_is_not_covered_yet_tells_the_metastore_from_a_copy(
    core: Alone,
) -> None:
    """Given a table whose read takes long, then the store is behind what it shows of others."""
    core.catalogd.hold(Read, where=lambda read: read.requests[0].table == "slow")
    core.create("d", "slow")
    core.turn(4)
    copy = core.metastore.copy()
    core.add(core.metastore.get_table("d", "t"), "3")
    core.turn(6)
    assert core.partitions() == ["ds=1", "ds=2", "ds=3"]
    assert core.catalogd.store.place.last_id < copy.current_event_id()
    core.catalogd.crash()
    core.catalogd.hold()
    core.metastore.become(copy)
    core.create("d", "other")
    core.catalogd.revive()
    core.turn(30)
    assert core.counts["begun anew"] == 1
    assert core.partitions() == ["ds=1", "ds=2"]
    assert core.tables() == ["other", "slow", "t"]


@pytest.mark.parametrize("known_as", ["", "one"])
def test_names_alone_do_not_tell_that_a_metastore_is_the_same(known_as: str) -> None:
    """Given a cleaned log and no content, then only a UUID does."""
    found, other = Alone(load_in_background=False), FakeMetastore()
    for metastore in (found.metastore, other):
        metastore.known_as = known_as
        metastore.create_table(make_table("default", "t", location="file:/w/t"))
        metastore.clean_log(metastore.current_event_id())
    found.turn(4)
    assert found.tables("default") == ["t"]
    found.catalogd.crash()
    found.metastore.become(other)
    found.catalogd.revive()
    found.turn(20)
    assert found.counts["begun anew"] == (not known_as)
    assert found.tables("default") == ["t"]


@pytest.fixture
def many() -> Alone:
    """A catalogd that has read 250 tables, and that is away; it reads 8 of them at once."""
    core = loaded(*(f"t{number:03}" for number in range(250)), reads_max=3)
    core.turn(200)
    assert all(core.is_loaded(f"t{number:03}") for number in range(250))
    core.effects.clear()
    core.catalogd.crash()
    return core


def lose_events(core: Alone) -> None:
    """Let the events since be lost, and hold what catalogd reads because of that."""
    core.create("d", "new")
    core.metastore.clean_log(core.metastore.current_event_id())
    core.catalogd.hold(Read)
    core.catalogd.revive()
    core.turn(8)


def test_after_a_gap_nothing_is_read_twice(many: Alone) -> None:
    """Given a start over a cleaned log, then its reads begin before a poll finds the gap."""
    many.create("d", "new")
    many.metastore.clean_log(many.metastore.current_event_id())
    many.metastore.calls.clear()
    many.catalogd.revive()
    many.turn(200)
    assert many.catalog.counts.event_gaps == 1
    assert not many.catalog.loader.resyncing
    calls = Counter(many.metastore.calls)
    assert calls["all_partitions"] == 250
    assert not calls["partition_names"]
    assert not calls["partitions"]
    assert calls["database"] == 2 + 2, "the listing reads their structs, too"


def test_after_a_gap_what_somebody_syncs_is_read_first_and_answered_before_the_rest(
    many: Alone,
) -> None:
    lose_events(many)
    many.ask(Sync(request=1, scope="d.t240"))
    many.ask(Sync(request=2))
    for _ in range(2):  # the databases; then the first tables
        many.turn(8)
        many.catalogd.release()
    many.turn(100)  # until the folders of all tables are known, which may share a folder
    assert [one.request for one in many.replies() if isinstance(one, Synced)] == [1]
    assert many.catalog.loader.tables_left > 200
    many.catalogd.resume()
    many.turn(200)
    assert [one.request for one in many.replies() if isinstance(one, Synced)] == [2]


def test_sync_that_is_repeated_after_a_gap_hastens_its_table_too(many: Alone) -> None:
    """P-SYNC-3. Given a sync that came before the poll that finds the gap."""
    many.catalogd.revive()
    many.turn(150)  # the window settles
    many.catalogd.hold(Poll)
    sync = Sync(request=1, scope="d.t240")
    many.ask(sync)
    many.turn(8)
    many.create("d", "new")
    many.create("d", "newer")
    many.metastore.clean_log(many.metastore.current_event_id() - 1)
    many.catalogd.resume()
    many.catalogd.hold(Read)
    while not many.catalog.loader.resyncing:
        many.turn()
    many.ask(sync)
    for _ in range(5):  # the databases; then 8 tables each time
        many.turn(8)
        many.catalogd.release()
    assert [one.request for one in many.replies() if isinstance(one, Synced)] == [1]
    assert many.catalog.loader.tables_left > 200


def test_after_a_gap_what_was_read_again_is_followed_by_its_events_alone(many: Alone) -> None:
    lose_events(many)
    many.catalogd.hold(Read, where=lambda read: any(r.table == "t249" for r in read.requests))
    many.catalogd.release()
    many.turn(60)
    before = many.catalog.counts.events_in_place
    one = many.metastore.get_partition("d", "t000", ["1"])
    one.parameters = {"rev": "2"}
    many.metastore.alter_partitions("d", "t000", [one])
    many.turn(6)
    assert many.catalog.loader.resyncing, "others are not read again yet"
    assert many.catalog.counts.events_in_place == before + 1


def test_sync_waits_until_everything_was_read_again(gapped: Alone) -> None:
    gapped.catalogd.hold(Read)
    gapped.create("d", "new")
    gapped.metastore.clean_log(gapped.metastore.current_event_id())
    gapped.catalogd.revive()
    gapped.ask(Sync(request=1))
    gapped.turn(30)
    assert gapped.replies() == []
    gapped.catalogd.resume()
    gapped.turn(30)
    assert len(gapped.replies()) == 1


def test_restart_goes_on_from_its_place(core: Alone) -> None:
    core.create("d", "u")
    core.effects.clear()
    core.restart()
    core.turn(6)
    assert core.tables() == ["t", "u"]
    assert not [effect for effect in core.reads if isinstance(effect, ReadNames)]


def test_blacklisted_database_is_not_followed() -> None:
    core = Alone(blacklisted_dbs=("hidden",))
    core.create_database("hidden")
    core.create("hidden", "t")
    core.turn(6)
    core.create("hidden", "u")
    core.turn(6)
    assert core.catalog.namespace.databases() == ("default",)


@pytest.mark.parametrize("reconcile_calls_per_s", [0.0, 3.0])
def test_database_that_is_blacklisted_later_is_dropped_and_comes_back(
    reconcile_calls_per_s: float,
) -> None:
    core = Alone(reconcile_calls_per_s=reconcile_calls_per_s)
    core.create_database("hidden")
    core.create("hidden", "t")
    core.turn(6)
    assert held(core, "t", "hidden").partitions == ABSENT
    core.restart(blacklisted_dbs=("hidden",))
    core.turn()
    assert core.catalog.namespace.databases() == ("default",)
    assert core.catalog.tables.value(("hidden", "t")) is None
    core.create("hidden", "u")
    core.turn(200)
    assert core.catalog.namespace.databases() == ("default",)
    core.restart(blacklisted_dbs=())
    core.turn(1000)
    if not reconcile_calls_per_s:
        assert core.tables("hidden") == []
        core.order("refresh", "hidden", turns=50)
    assert core.tables("hidden") == ["t", "u"]


def test_plain_table_has_no_partitions() -> None:
    core = Alone()
    core.create("default", "plain")
    core.turn(6)
    assert held(core, "plain", "default").partitions == ABSENT


def test_refused_read_is_told_apart_from_a_metastore_that_is_away(core: Alone) -> None:
    core.create("d", "u")
    core.catalogd.hold(Read)
    core.turn(6)
    core.metastore.failures.append(SourceRefused("no"))
    core.catalogd.resume()
    core.turn(20)
    assert core.catalog.counts.reads_failed == 1
    assert core.tables() == ["t", "u"]


def test_metastore_that_refuses_everything_makes_nothing_unreadable(core: Alone) -> None:
    """Given a change whose read is refused, as polls are, then what was held stays until later."""
    tells_less(core)
    table = core.metastore.get_table("d", "t")
    table.parameters["rev"] = "1"
    core.metastore.alter_table("d", "t", table)
    core.catalogd.hold(Read)
    core.turn(6)
    before = core.catalog.version_log.versions()
    core.metastore.failures += [SourceRefused("no")] * 1000
    core.catalogd.resume()
    core.turn(100)
    assert core.catalog.counts.reads_failed > 3
    assert core.catalog.counts.tables_turned_unreadable == 0
    assert core.catalog.version_log.versions() == before
    core.metastore.failures.clear()
    core.turn(100)
    assert b"rev" in held(core).thrift
    assert core.catalog.counts.tables_turned_unreadable == 0


def test_new_epoch_waits_until_everything_is_as_new_as_the_metastore(core: Alone) -> None:
    """Given a store put back from a copy, its epoch does not begin with what was replaced."""
    core.create("d", "u")
    core.restart()
    core.catalogd.hold(Poll, Read)
    core.catalogd.release()
    core.catalog.epochs.mint_above(EPOCH_0 + 4)
    core.turn(6)
    assert core.catalogd.store.epoch == EPOCH_0
    core.catalogd.resume()
    core.turn(6)
    assert core.tables() == ["t", "u"]
    assert core.catalogd.store.epoch == EPOCH_0 + 5


def test_new_epoch_is_above_every_epoch_that_was_seen_and_begins_once(core: Alone) -> None:
    """P-START-3."""
    start = core.catalog.position[1]
    core.catalog.epochs.mint_above(EPOCH_0 + 9)
    core.catalog.epochs.mint_above(EPOCH_0 + 4)
    core.turn(2)
    assert core.counts["epochs minted"] == 1
    assert core.catalog.position == (EPOCH_0 + 10, start)
    assert {topic.epoch for topic in core.topics.values()} == {EPOCH_0 + 10}


def test_event_at_which_our_own_code_fails_is_counted_named_once_and_read_again() -> None:
    def fails(event: RawEvent) -> tuple[Dirty, ...]:
        if event.table == "u":
            raise KeyError("a defect")
        return dirty_objects(event)

    core = loaded()
    with patch.object(event_router, "dirty_objects", fails):
        table = core.create("d", "u", "ds")
        core.create("d", "v")
        core.add(table, "1")
        core.add(table, "2")
        core.wait(2)
    assert (core.tables(), core.partitions("d", "u")) == (["t", "u", "v"], ["ds=1", "ds=2"])
    assert core.catalog.counts.events_failed == 3
    notes = [one.text for one in core.effects if isinstance(one, Noted) and "defect" in one.text]
    assert len(notes) == 2, "one for each type"
    assert "CREATE_TABLE of d.u" in notes[0]
