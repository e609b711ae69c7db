"""The history of a table: what each transaction did to it, read from a real store."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import Queue

import pytest

from topicast.catalog.history import change_log, scans
from topicast.catalog.history.history_thread import (
    WAITING_MAX,
    HistoryRead,
    HistoryThread,
    ReadHistory,
)
from topicast.catalog.history.table_history import (
    COLUMNS,
    NAMED_MAX,
    Bound,
    ChangeRange,
    Newest,
    Row,
    bounded,
    parse_bound,
    parse_changes,
    parse_history,
    topic_changes,
)
from topicast.catalog.storage.history import HistoryReader
from topicast.catalog.storage.store import FILE_NAME, Store
from topicast.tests.catalog.holding import NOW_US, NUM_TOPICS, Holding, T, parts, struct
from topicast.tests.catalog.stores import opened
from topicast.topics.errors import HistoryGone, UsageError
from topicast.topics.policy import Policy
from topicast.topics.topic import NAMESPACE, table_topic
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import FRAME_BYTES_MAX
from topicast.topics.wire.messages import SOURCE_LOAD, SOURCE_ORDERS, SOURCE_REPORTS, Inspected
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
        self._store.commit(self.written(), last_event_id=1, window=b"")

    def changes(self, *, after: int = 0, until: int = 99, skip: int = 0) -> list[Row]:
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
            return topic_changes(reader, change_range)

    def history(self, *, after: int = 0, count: int = 1000) -> list[tuple[object, ...]]:
        """Commit what was written; return object, change, source, before and after of each row.

        They are the newest ``count`` behind the version ``after``.
        """
        self.commit()
        answers: Queue[HistoryRead] = Queue()
        thread = HistoryThread(self.path, num_topics=NUM_TOPICS, deliver=answers.put)
        thread.start()
        with closing(thread):
            thread.order(ReadHistory(peer=b"p", request=7, newest=Newest(T, after, count)))
            found = answers.get(timeout=30)
        assert isinstance(found.answer, Inspected)
        self.answer = found.answer
        assert (found.peer, found.answer.request, found.answer.columns) == (b"p", 7, COLUMNS)
        assert {row[0] for row in found.answer.rows} <= {NOW_US}
        return [(*row[1:4], *row[5:]) for row in found.answer.rows]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Recorded]:
    with opened(tmp_path, num_topics=NUM_TOPICS) as store:
        yield Recorded(store, tmp_path)


def test_nothing_is_known_of_a_table_that_never_was(held: Recorded) -> None:
    assert held.history() == []


def test_table_is_loaded_reshaped_and_dropped(held: Recorded) -> None:
    held.whole(struct(), {}, source=SOURCE_LOAD)
    held.whole(struct(columns=1, owner="x"), {})
    held.tables.raise_data(T, partitions=(), source=SOURCE_REPORTS, at_us=NOW_US)
    held.tables.drop(T, source=SOURCE_ORDERS, at_us=NOW_US)
    dropped, data, schema, load = held.history()
    assert dropped[:3] == (TABLE, "dropped", "order")
    assert "column a=int" in str(dropped[3])
    assert data == (TABLE, "data", "report", "", "")
    assert schema == (
        TABLE,
        "schema",
        "event",
        "column b=string; columns=a, b",
        "columns=a; parameter owner=x",
    )
    assert load == (TABLE, "loaded", "load", "", "")


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
        (f"{TABLE}/ds=1", "dropped", "event"),
        (f"{TABLE}/ds=2", "data", "event"),
        (f"{TABLE}/ds=3", "created", "event"),
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
    held.tables.drop(T, source=SOURCE_ORDERS, at_us=NOW_US)
    assert [row[1:3] for row in held.changes(after=1)] == [(TABLE, "dropped")]


def test_partitions_that_come_and_go_with_their_table_s_content_have_not_changed(
    held: Recorded,
) -> None:
    held.whole(struct(T, "ds"), parts("1", "2"), source=SOURCE_LOAD)
    held.tables.withdraw(T, source=SOURCE_ORDERS, at_us=NOW_US)
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
    assert found[NAMED_MAX] == (TABLE, "data", "event", "", "and 30 more partitions")


def test_thread_refuses_what_it_cannot_read_and_more_than_wait(tmp_path: Path) -> None:
    answers: Queue[HistoryRead] = Queue()
    thread = HistoryThread(tmp_path / "no.sqlite3", num_topics=4, deliver=answers.put)
    for request in range(WAITING_MAX):
        assert thread.order(ReadHistory(peer=b"p", request=request, newest=Newest(T))) is None
    busy = thread.order(ReadHistory(peer=b"p", request=WAITING_MAX, newest=Newest(T)))
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
    answers: Queue[HistoryRead] = Queue()
    thread = HistoryThread(tmp_path / FILE_NAME, num_topics=NUM_TOPICS, deliver=answers.put)
    thread.start()
    with closing(thread):
        for request in (1, 2):
            thread.order(ReadHistory(peer=b"p", request=request, newest=Newest(T)))
            refused = answers.get(timeout=30).answer
            assert (refused.request, refused.code) == (request, Refusal.UNREADABLE)


def test_changes_of_a_topic_are_the_histories_of_its_tables_the_oldest_first(
    held: Recorded,
) -> None:
    held.whole(struct(T, "ds"), parts("1", "2", n="0"), source=SOURCE_LOAD)
    held.change(parts("2", "3", n="1") | {"ds=1": None})
    held.change(parts("3", n="2"))
    held.tables.drop(T, source=SOURCE_ORDERS, at_us=NOW_US)
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
    found: list[Row] = []
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
        assert topic_changes(reader, change_range, policy=Policy(("other",))) == []
        assert topic_changes(reader, change_range, policy=Policy(("d",))) == held.changes()


def test_changes_before_the_history_and_of_names_are_refused(held: Recorded) -> None:
    held.whole(struct(), {})
    assert [row[2] for row in held.changes()] == ["created"]
    with closing(sqlite3.connect(held.path)) as db, db:
        db.execute("INSERT INTO history_floors SELECT topic, version FROM topics")
    with pytest.raises(HistoryGone, match="the history begins at version"):
        held.changes()
    with closing(HistoryReader(held.path)) as reader, pytest.raises(UsageError, match="names"):
        topic_changes(reader, ChangeRange(epoch=1, topic=NAMESPACE, after=0, until=1, skip=0))


@pytest.mark.parametrize("numbers", ["", "1:2:3:4", "1:2:3:4:x", "1:2:3:4:-5"])
def test_changes_of_no_span_are_refused(numbers: str) -> None:
    with pytest.raises(UsageError, match="TOPIC:EPOCH:AFTER:UNTIL:SKIP"):
        parse_changes(f"changes@{numbers}")


def test_span_is_read_from_its_text() -> None:
    assert parse_changes("changes@1:2:3:4:5") == ChangeRange(
        topic=1, epoch=2, after=3, until=4, skip=5
    )
    assert parse_changes("history@db.t") is None


def test_table_and_version_of_a_history_are_read_from_its_text() -> None:
    assert parse_history("history@d.t") == Newest(T)
    assert parse_history("history@d.t:12:3") == Newest(T, after=12, count=3)
    assert parse_history("changes@1:2:3:4:5") is None
    for wrong in ("", "x", "1", "1:-1", "1:2:3"):
        with pytest.raises(UsageError, match=f"{wrong!r}: AFTER:COUNT, all numbers"):
            parse_history(f"history@d.t:{wrong}")


def test_version_behind_a_number_of_entries_is_found(held: Recorded) -> None:
    held.whole(struct(T, "ds"), {}, source=SOURCE_LOAD)
    for day in range(3):
        held.change(parts(str(day)))
    versions = sorted({row[4] for row in held.changes()})
    topic = table_topic(*T, NUM_TOPICS)
    with closing(HistoryReader(held.path)) as reader, reader.moment():

        def end(after: int, count: int) -> int:
            epoch = reader.epoch()
            return bounded(reader, Bound(epoch=epoch, topic=topic, after=after, count=count))

        assert end(0, 1) == versions[0]
        assert end(versions[0], 1) == versions[1]
        assert end(0, 1000) == versions[-1]
        assert end(versions[-1], 1000) == versions[-1]
        assert [end(versions[0], count) for count in (2, 3)] == versions[1:3]
        with pytest.raises(HistoryGone):
            bounded(reader, Bound(epoch=reader.epoch() + 1, topic=topic, after=0, count=1))


def test_bound_is_read_from_its_text() -> None:
    assert parse_bound("entries@1:2:3:4") == Bound(topic=1, epoch=2, after=3, count=4)
    assert parse_bound("changes@1:2:3:4:5") is None
    with pytest.raises(UsageError, match="TOPIC:EPOCH:AFTER:COUNT"):
        parse_bound("entries@1:2:3")


def test_log_and_cuts_are_of_what_the_key_sees(held: Recorded) -> None:
    held.whole(struct(T, "ds"), parts("1"))
    held.commit()
    topic = table_topic(*T, NUM_TOPICS)
    with closing(HistoryReader(held.path)) as reader, reader.moment():
        objects = {}
        for db in ("d", "other"):
            policy = Policy((db,))
            found = change_log.lines(reader, 1, after=0, policy=policy)
            cuts = scans.cuts_table(reader, 1, topic=topic, every_bytes=1, policy=policy)
            objects[db] = ({row[4] for row in found.rows}, [key for (key,) in cuts.rows])
        everything = change_log.lines(reader, 1, after=0)
        ((first, last),) = change_log.bounds(reader, 1).rows
        numbers = [row[0] for row in everything.rows]
        assert [first, last] == [numbers[0], numbers[-1]]
        assert change_log.lines(reader, 1, after=numbers[0]).rows == everything.rows[1:]
    assert objects["other"] == (set(), [])
    names, keys = objects["d"]
    assert TABLE in names
    assert keys == ["d\0t\0", "d\0t\0\x01"]


@pytest.mark.parametrize("what", ["cuts@1", "cuts@1:x", "log@", "log@-1"])
def test_log_and_cuts_of_no_number_are_refused(what: str) -> None:
    with pytest.raises(UsageError, match="all numbers"):
        _ = scans.parse_cuts(what), change_log.parse_log(what)
