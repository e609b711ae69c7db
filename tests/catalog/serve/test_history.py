"""The history of a table: what each transaction did to it, read from a real store."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import Queue

import pytest

from topicast.catalog.serve.history import (
    COLUMNS,
    NAMED_MAX,
    WAITING_MAX,
    HistoryRead,
    HistoryThread,
    ReadHistory,
)
from topicast.catalog.storage.store import FILE_NAME, Store
from topicast.tests.catalog.holding import NOW_US, NUM_TOPICS, Holding, T, parts, struct
from topicast.tests.catalog.stores import opened
from topicast.topics.wire.messages import SOURCE_LOAD, SOURCE_ORDERS, SOURCE_REPORTS, Inspected
from topicast.topics.wire.refusal import Refusal

TABLE = "d.t"


class Recorded(Holding):
    """A holding whose transactions are committed to a store in ``folder``."""

    def __init__(self, store: Store, folder: Path) -> None:
        super().__init__()
        self._store = store
        self._path = folder / FILE_NAME

    def history(self) -> list[tuple[object, ...]]:
        """Commit what was written; return object, change, source, before and after of each row."""
        self._store.commit(self.written(), last_event_id=1, window=b"")
        answers: Queue[HistoryRead] = Queue()
        thread = HistoryThread(self._path, num_topics=NUM_TOPICS, deliver=answers.put)
        thread.start()
        with closing(thread):
            thread.order(ReadHistory(peer=b"p", request=7, table=T))
            found = answers.get(timeout=30)
        assert isinstance(found.answer, Inspected)
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


def test_partitions_beyond_a_number_are_counted(held: Recorded) -> None:
    held.whole(struct(T, "ds"), {}, source=SOURCE_LOAD)
    held.change(parts(*(f"{n:03}" for n in range(NAMED_MAX + 30))))
    found = held.history()
    assert [row[0] for row in found[:2]] == [f"{TABLE}/ds=000", f"{TABLE}/ds=001"]
    assert found[NAMED_MAX] == (TABLE, "data", "event", "", "and 30 more partitions")


def test_thread_refuses_what_it_cannot_read_and_more_than_wait(tmp_path: Path) -> None:
    answers: Queue[HistoryRead] = Queue()
    thread = HistoryThread(tmp_path / "no.sqlite3", num_topics=4, deliver=answers.put)
    for request in range(WAITING_MAX + 1):
        thread.order(ReadHistory(peer=b"p", request=request, table=T))
    (busy,) = [answers.get_nowait() for _ in range(answers.qsize())]
    assert (busy.answer.request, busy.answer.code) == (WAITING_MAX, Refusal.BUSY)
    thread.start()
    with closing(thread):
        refused = answers.get(timeout=30)
    assert refused.answer.code == Refusal.UNREADABLE
    assert "the history of d.t cannot be read" in refused.answer.message
