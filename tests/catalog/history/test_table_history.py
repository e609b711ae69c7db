"""The history of a table: what each transaction did to it, read from a real store."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import Queue

import pytest

from topicast.catalog.history.change_log import LogBounds, LogLines
from topicast.catalog.history.history_thread import WAITING_MAX, HistoryRead, HistoryThread
from topicast.catalog.history.queries import NUMBER_MAX, StoreQuery, query_of
from topicast.catalog.history.scans import Cuts, Versions
from topicast.catalog.history.table_history import (
    NAMED_MAX,
    Bound,
    ChangeRange,
    NewestChanges,
)
from topicast.catalog.model.versions import Commit
from topicast.catalog.storage.database import FILE_NAME
from topicast.catalog.storage.history import HistoryReader
from topicast.catalog.storage.store import Store
from topicast.subscriber.store.change_feed import ChangeFeed
from topicast.subscriber.store.table_snapshot import Swap, snapshot_of
from topicast.tests.catalog.holding import NOW_US, NUM_TOPICS, Holding, T, parts, struct
from topicast.tests.catalog.stores import answering, opened, read
from topicast.tests.topics.following import delta
from topicast.topics.errors import HistoryGone, UsageError
from topicast.topics.objects.names import table_key
from topicast.topics.policy import Policy
from topicast.topics.topic import NAMESPACE, table_topic
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import FRAME_BYTES_MAX
from topicast.topics.wire.messages.answers import HistoryLine, Inspected
from topicast.topics.wire.messages.data import (
    SOURCE_EVENTS,
    SOURCE_LOAD,
    SOURCE_ORDERS,
    SOURCE_REPORTS,
)
from topicast.topics.wire.messages.questions import (
    ReadBound,
    ReadChanges,
    ReadCuts,
    ReadHistory,
    ReadLog,
    ReadLogBounds,
    ReadRecent,
    ReadVersions,
    StoreQuestion,
)
from topicast.topics.wire.refusal import Refusal

TABLE = "d.t"


class Recorded(Holding):
    """A holding whose transactions are committed to a store in ``folder``."""

    def __init__(self, store: Store, folder: Path) -> None:
        super().__init__()
        self._store = store
        self.path = folder / FILE_NAME

    def commit(self) -> None:
        """Commit what was written."""
        self._store.commit(Commit(transactions=self.written(), window=None))

    def changes(self, *, after: int = 0, until: int = 99, skip: int = 0) -> list[HistoryLine]:
        """Commit what was written; return the changes of the topic of ``d.t``."""
        self.commit()
        change_range = ChangeRange(
            epoch=self._store.epoch,
            topic=table_topic(*T, NUM_TOPICS),
            after=after,
            until=until,
            skip=skip,
        )
        with closing(HistoryReader(self.path)) as reader, reader.moment():
            return list(change_range.answer(reader, 1, None).rows)

    def history(self, *, after: int = 0, count: int = 1000) -> list[tuple[object, ...]]:
        """Commit what was written; return object, change, source, before and after of each row.

        They are the newest ``count`` behind the version ``after``.
        """
        self.commit()
        with answering(self.path) as answer:
            found = answer(read(NewestChanges(T, after, count), 7))
        assert isinstance(found, Inspected)
        self.answer = found
        assert found.request == 7
        assert {row[0] for row in found.rows} <= {NOW_US}
        return [(*row[1:4], *row[5:]) for row in found.rows]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Recorded]:
    with opened(tmp_path, num_topics=NUM_TOPICS) as store:
        yield Recorded(store, tmp_path)


def test_nothing_is_known_of_a_table_that_never_was(held: Recorded) -> None:
    assert held.history() == []


def test_table_is_loaded_reshaped_and_dropped(held: Recorded) -> None:
    held.whole(struct(), {}, source=SOURCE_LOAD)
    held.whole(struct(columns=1, owner="x"), {})
    held.tables.raise_data(T, partitions=(), source=SOURCE_REPORTS)
    held.tables.drop(T, source=SOURCE_ORDERS)
    dropped, data, schema, load = held.history()
    assert dropped[:3] == (TABLE, "dropped", "orders")
    assert "column a=int" in str(dropped[3])
    assert data == (TABLE, "data", "reports", "", "")
    assert schema == (
        TABLE,
        "schema",
        "events",
        "column b=string; columns=a, b",
        "columns=a; parameter owner=x",
    )
    assert load == (TABLE, "loaded", "load", "", "")


@pytest.mark.parametrize(
    ("thrift", "partitions", "kind"),
    [
        (struct(T, "ds", columns=1), {}, "schema"),
        (struct(T, "ds", **{"spark.sql.sources.schema": "{}"}), {}, "schema"),
        (struct(T, "ds", owner="x"), {}, "data"),
        (struct(T, "ds", columns=1), parts("2"), "schema"),
        (struct(T, "ds", owner="x"), parts("2"), "data"),
    ],
    ids=["a column", "Spark's schema", "a parameter", "a column, files", "a parameter, files"],
)
def test_log_history_and_watch_call_a_change_by_one_word(
    held: Recorded, thrift: bytes, partitions: dict[str, bytes | None], kind: str
) -> None:
    held.whole(struct(T, "ds"), parts("1"), source=SOURCE_LOAD)
    before = snapshot_of(held.rows())
    held.change(partitions, thrift=thrift)
    assert next(row[1] for row in held.history() if row[0] == TABLE) == kind
    with closing(HistoryReader(held.path)) as reader, reader.moment():
        *_, line = reader.log(0)
    assert (line[4], line[5]) == (TABLE, kind)
    after = snapshot_of(held.rows())
    entries, feed = tuple(one for one in held.rows() if one.version > 1), ChangeFeed()
    feed.enabled = True
    told = delta(1, 2, entries=entries, source=SOURCE_EVENTS)
    assert [one.kind for one in feed.applied(told, [Swap(table_key(*T), before, after)])] == [kind]
    assert [one.kind for one in feed.stubbed(told)] == [kind]


def test_history_after_a_version_has_what_came_later_as_the_whole_has_it(held: Recorded) -> None:
    held.whole(struct(T, "ds"), parts("1", n="0"), source=SOURCE_LOAD)
    for number in "123":
        held.change(parts("1", n=number))
    whole = held.history()
    versions = [int(str(row[4])) for row in held.answer.rows]
    assert len(set(versions)) == 4
    for version in (0, *versions):
        newer = sum(one > version for one in versions)
        assert held.history(after=version) == whole[:newer], version
        assert held.history(after=version, count=2) == whole[: min(newer, 2)], version


def test_partitions_are_named_with_what_differs(held: Recorded) -> None:
    held.whole(struct(T, "ds"), parts("1", "2", n="0"), source=SOURCE_LOAD)
    held.change(parts("2", "3", n="1") | {"ds=1": None})
    found = held.history()[:3]
    assert [row[:3] for row in found] == [
        (f"{TABLE}/ds=1", "dropped", "events"),
        (f"{TABLE}/ds=2", "data", "events"),
        (f"{TABLE}/ds=3", "created", "events"),
    ]
    assert found[1][3:] == ("parameter n=0", "parameter n=1")
    assert "parameter n=1" in str(found[2][4])


def test_partitions_that_are_created_with_their_table_are_named(held: Recorded) -> None:
    """Given partitions that were added before catalogd had read the new table."""
    held.whole(struct(T, "ds"), parts("1", "2"))
    assert [row[1:3] for row in held.changes()] == [
        (TABLE, "created"),
        (f"{TABLE}/ds=1", "created"),
        (f"{TABLE}/ds=2", "created"),
    ]
    held.tables.drop(T, source=SOURCE_ORDERS)
    assert [row[1:3] for row in held.changes(after=1)] == [(TABLE, "dropped")]


def test_partitions_that_come_and_go_with_their_table_s_content_have_not_changed(
    held: Recorded,
) -> None:
    held.whole(struct(T, "ds"), parts("1", "2"), source=SOURCE_LOAD)
    held.tables.end_content(T, source=SOURCE_ORDERS)
    held.whole(struct(T, "ds"), parts("1", "2"))
    held.whole(struct(T, "ds"), None)
    held.whole(struct(T, "ds"), parts("1", "3"))
    assert [row[1:3] for row in held.changes()] == [
        *((TABLE, kind) for kind in ("loaded", "unloaded", "loaded", "unloaded", "loaded"))
    ]


def test_partitions_beyond_a_number_are_counted(held: Recorded) -> None:
    held.whole(struct(T, "ds"), {}, source=SOURCE_LOAD)
    held.change(parts(*(f"{n:03}" for n in range(NAMED_MAX + 30))))
    found = held.history()
    assert [row[0] for row in found[:2]] == [f"{TABLE}/ds=000", f"{TABLE}/ds=001"]
    assert found[NAMED_MAX] == (TABLE, "data", "events", "", "and 30 more partitions")


def test_thread_refuses_what_it_cannot_read_and_more_than_wait(tmp_path: Path) -> None:
    answers: Queue[HistoryRead] = Queue()
    thread = HistoryThread(tmp_path / "no.sqlite3", deliver=answers.put)
    for request in range(WAITING_MAX):
        assert thread.order(read(NewestChanges(T), request)) is None
    busy = thread.order(read(NewestChanges(T), WAITING_MAX))
    assert busy is not None
    assert (busy.peer, busy.answer.request, busy.answer.code) == (b"p", WAITING_MAX, Refusal.BUSY)
    assert answers.empty(), "the caller may be who takes from it"
    thread.start()
    with closing(thread):
        refused = answers.get(timeout=30)
    assert refused.answer.code == Refusal.UNREADABLE
    assert "the history of d.t cannot be read" in refused.answer.message


def test_answer_fits_a_frame_however_long_its_texts_are(held: Recorded) -> None:
    held.whole(struct(T, "ds"), {}, source=SOURCE_LOAD)
    for number in range(25):
        note = f"{number}" + "é€" * 1000
        held.change(parts(*(f"{day:03}" for day in range(60)), note=note))
    assert len(held.history()) > 100
    assert len(encode(held.answer)) <= FRAME_BYTES_MAX
    assert decode(encode(held.answer)) == held.answer


def test_thread_goes_on_after_a_store_that_holds_what_it_cannot_read(
    tmp_path: Path, held: Recorded
) -> None:
    held.whole(struct(), {})
    assert held.history()[0][1] == "created"
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db, db:
        db.execute("UPDATE images SET source = 99")
    with answering(tmp_path / FILE_NAME) as answer:
        for request in (1, 2):
            refused = answer(read(NewestChanges(T), request))
            assert (refused.request, refused.code) == (request, Refusal.UNREADABLE)


def test_changes_of_a_topic_are_the_histories_of_its_tables_the_oldest_first(
    held: Recorded,
) -> None:
    held.whole(struct(T, "ds"), parts("1", "2", n="0"), source=SOURCE_LOAD)
    held.change(parts("2", "3", n="1") | {"ds=1": None})
    held.change(parts("3", n="2"))
    held.tables.drop(T, source=SOURCE_ORDERS)
    held.whole(struct(T), {})
    history = held.history()
    changes = held.changes()
    assert sorted(changes, key=lambda row: (row[4], row[1])) == changes
    assert sorted((*row[1:4], *row[5:]) for row in changes) == sorted(history)
    assert [row[2] for row in changes] == [
        *("loaded", "dropped", "data", "created", "data", "dropped", "created")
    ]
    assert held.changes(after=2, until=3) == [row for row in changes if row[4] == 3]
    assert held.changes(skip=3) == changes[3:]


def test_changes_go_on_where_an_answer_ended_and_name_every_partition(held: Recorded) -> None:
    held.whole(struct(T, "ds"), {}, source=SOURCE_LOAD)
    days = [f"{day:04}" for day in range(NAMED_MAX + 900)]
    held.change(parts(*days, note="é" * 400))
    held.change(parts(*days[:3], note="x"))
    found: list[HistoryLine] = []
    answers, after, skip = 0, 0, 0
    while rows := held.changes(after=after, skip=skip):
        answers += 1
        found += rows
        after = found[-1][4] - 1
        skip = sum(row[4] == found[-1][4] for row in found)
    assert answers > 1
    created = [row[1] for row in found if row[2] == "created"]
    assert created == [f"{TABLE}/ds={day}" for day in days]
    assert [row[1] for row in found[-3:]] == [f"{TABLE}/ds={day}" for day in days[:3]]


def test_changes_are_those_that_the_key_sees(held: Recorded) -> None:
    held.whole(struct(), {})
    assert held.changes()
    with closing(HistoryReader(held.path)) as reader, reader.moment():
        change_range = ChangeRange(
            epoch=reader.epoch(), topic=table_topic(*T, NUM_TOPICS), after=0, until=99, skip=0
        )
        assert change_range.answer(reader, 1, Policy(("other",))).rows == ()
        assert list(change_range.answer(reader, 1, Policy(("d",))).rows) == held.changes()


def test_changes_before_the_history_and_of_names_are_refused(held: Recorded) -> None:
    held.whole(struct(), {})
    assert [row[2] for row in held.changes()] == ["created"]
    with closing(sqlite3.connect(held.path)) as db, db:
        db.execute("INSERT INTO history_floors SELECT topic, version FROM topics")
    with pytest.raises(HistoryGone, match="the history begins at version"):
        held.changes()
    with closing(HistoryReader(held.path)) as reader, pytest.raises(UsageError, match="names"):
        ChangeRange(epoch=1, topic=NAMESPACE, after=0, until=1, skip=0).answer(reader, 1, None)


def test_version_behind_a_number_of_entries_is_found(held: Recorded) -> None:
    held.whole(struct(T, "ds"), {}, source=SOURCE_LOAD)
    for day in range(3):
        held.change(parts(str(day)))
    versions = sorted({row[4] for row in held.changes()})
    topic = table_topic(*T, NUM_TOPICS)
    with closing(HistoryReader(held.path)) as reader, reader.moment():

        def end(after: int, count: int) -> int:
            bound = Bound(epoch=reader.epoch(), topic=topic, after=after, count=count)
            ((version,),) = bound.answer(reader, 1, None).rows
            return version

        assert end(0, 1) == versions[0]
        assert end(versions[0], 1) == versions[1]
        assert end(0, 1000) == versions[-1]
        assert end(versions[-1], 1000) == versions[-1]
        assert [end(versions[0], count) for count in (2, 3)] == versions[1:3]
        other = Bound(epoch=reader.epoch() + 1, topic=topic, after=0, count=1)
        with pytest.raises(HistoryGone):
            other.answer(reader, 1, None)


BEYOND = (1 << 64) - 1  # more than SQLite takes


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        (ReadHistory(db="d", table="t"), NewestChanges(T)),
        (ReadHistory(db="d", table="t", after=12, count=3), NewestChanges(T, after=12, count=3)),
        (ReadHistory(db="d", table="t", after=BEYOND), NewestChanges(T, after=NUMBER_MAX)),
        (
            ReadChanges(topic=1, epoch=2, after=3, until=BEYOND, skip=5),
            ChangeRange(topic=1, epoch=2, after=3, until=NUMBER_MAX, skip=5),
        ),
        (
            ReadBound(topic=1, epoch=2, after=3, count=BEYOND),
            Bound(topic=1, epoch=2, after=3, count=NUMBER_MAX),
        ),
        (ReadCuts(topic=1, every_bytes=BEYOND), Cuts(topic=1, every_bytes=NUMBER_MAX)),
        (ReadLog(after=BEYOND), LogLines(NUMBER_MAX)),
        (ReadLogBounds(), LogBounds()),
        (ReadVersions(), Versions()),
    ],
)
def test_request_asks_its_question_with_numbers_that_sqlite_takes(
    asked: StoreQuestion, query: StoreQuery
) -> None:
    assert query_of(asked) == query


def test_log_and_cuts_are_of_what_the_key_sees(held: Recorded) -> None:
    held.whole(struct(T, "ds"), parts("1"))
    held.commit()
    topic = table_topic(*T, NUM_TOPICS)
    with closing(HistoryReader(held.path)) as reader, reader.moment():
        objects = {}
        for db in ("d", "other"):
            policy = Policy((db,))
            found = LogLines(0).answer(reader, 1, policy)
            cuts = Cuts(topic, every_bytes=1).answer(reader, 1, policy)
            objects[db] = ({row[4] for row in found.rows}, [key for (key,) in cuts.rows])
        everything = LogLines(0).answer(reader, 1, None)
        ((first, last),) = LogBounds().answer(reader, 1, None).rows
        numbers = [row[0] for row in everything.rows]
        assert [first, last] == [numbers[0], numbers[-1]]
        assert LogLines(numbers[0]).answer(reader, 1, None).rows == everything.rows[1:]
    assert objects["other"] == (set(), [])
    names, keys = objects["d"]
    assert TABLE in names
    assert keys == [b"d\0t\0", b"d\0t\0\x01"]


def test_newest_lines_of_the_log_are_told_since_a_time_of_the_objects_that_are_named(
    held: Recorded,
) -> None:
    held.whole(struct(), parts("1"), source=SOURCE_LOAD)
    held.whole(struct(columns=1), parts("1"), source=SOURCE_REPORTS)
    held.commit()

    def recent(
        pattern: str = "", *, since_us: int = 0, count: int = 100, policy: Policy | None = None
    ) -> list[tuple[object, ...]]:
        query = query_of(ReadRecent(since_us=since_us, count=count, pattern=pattern))
        with answering(held.path) as answer:
            found = answer(read(query, 7, policy))
        assert isinstance(found, Inspected)
        assert found.columns[-2:] == ("who", "driver")
        return [(one["object"], one["source"]) for one in found.records()]

    newest, *older = recent()
    assert newest == (TABLE, "reports")
    assert (TABLE, "load") in older
    for pattern in ("d.t", "D.T", "d", "d.*"):
        assert recent(pattern) == [newest, *older], pattern
    assert recent(count=1) == [newest]
    assert recent("d.u") == recent(since_us=NOW_US + 1) == []
    assert recent(policy=Policy(("x",))) == []
