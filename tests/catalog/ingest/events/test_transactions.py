"""A commit makes dirty what its transaction may have written, and nothing else does."""

import json

import pytest

from topicast.catalog.ingest.events.transactions import OPEN_MAX, TABLES_MAX, Transactions
from topicast.catalog.metastore.port import Dirty, DirtyDatabase, DirtyTable, RawEvent
from topicast.tests.cluster.alone import Alone, loaded
from topicast.tests.cluster.fake_metastore import raw_event


def event(kind: str, body: object, *, db: str = "null", table: str = " ") -> RawEvent:
    return raw_event(1, table, kind=kind, db=db, message=json.dumps(body))


def allocated(table: str, *transactions: int) -> RawEvent:
    """As 3.1 sends it: the event itself names no table."""
    body = {"dbName": "D", "tableName": table, "txnIdList": transactions, "writeIdList": [1]}
    return event("ALLOC_WRITE_ID_EVENT", body, db="D")


def ended(number: int, kind: str = "COMMIT_TXN") -> RawEvent:
    return event(kind, {"txnid": number})


def written(*tables: str, degraded: bool = False) -> tuple[Dirty, ...]:
    return tuple(DirtyTable(db="d", table=one, data=True, degraded=degraded) for one in tables)


@pytest.fixture
def begun() -> Transactions:
    """Transaction 1 may write ``t`` and ``u``, and 2 ``t``."""
    found = Transactions()
    assert found.dirty_objects(allocated("T", 1, 2)) == ()
    assert found.dirty_objects(allocated("u", 1)) == ()
    return found


def test_commit_makes_dirty_the_data_of_the_tables_that_its_transaction_may_write(
    begun: Transactions,
) -> None:
    assert begun.dirty_objects(ended(1)) == written("t", "u")
    assert begun.dirty_objects(ended(1)) == (), "it is over"
    assert begun.dirty_objects(ended(2)) == written("t")
    assert begun.dirty_objects(ended(3)) == (), "it wrote nothing"
    assert len(begun) == 0


def test_abort_makes_nothing_dirty(begun: Transactions) -> None:
    assert begun.dirty_objects(ended(1, "ABORT_TXN")) == ()
    assert begun.dirty_objects(ended(1)) == ()


@pytest.mark.parametrize("body", ["no object", {}, {"txnid": "1"}, {"txnid": True}, {"txnid": 1.5}])
def test_commit_of_an_unknown_transaction_makes_dirty_what_any_may_write(
    begun: Transactions, body: object
) -> None:
    assert begun.dirty_objects(event("COMMIT_TXN", body)) == written("t", "u", degraded=True)


@pytest.mark.parametrize(
    "body",
    [
        {"dbName": "d", "tableName": "t"},
        {"dbName": "d", "tableName": "t", "txnIdList": ["1"]},
        {"dbName": "d", "tableName": "", "txnIdList": [1]},
        {"tableName": "t", "txnIdList": [1]},
    ],
)
def test_write_id_that_is_not_understood_makes_dirty_what_it_names(body: object) -> None:
    kind = "ALLOC_WRITE_ID_EVENT"
    found = Transactions()
    assert found.dirty_objects(event(kind, body)) == ()
    assert found.dirty_objects(event(kind, body, db="D")) == (DirtyDatabase(db="d", degraded=True),)
    named = event(kind, body, db="D", table="T")
    whole = DirtyTable(db="d", table="t", whole=True, data=True, degraded=True)
    assert found.dirty_objects(named) == (whole,)


def test_transactions_and_their_tables_are_bounded_and_what_goes_counts_as_written() -> None:
    found = Transactions()
    for number in range(OPEN_MAX):
        found.dirty_objects(allocated(f"t{number}", number))
    assert found.dirty_objects(allocated("t", OPEN_MAX)) == written("t0")
    found.check()
    for number in range(TABLES_MAX - 1):
        assert found.dirty_objects(allocated(f"u{number}", OPEN_MAX)) == ()
    assert found.dirty_objects(allocated("more", OPEN_MAX)) == written("more")
    found.check()


def test_committed_write_raises_the_data_version_once_it_is_committed() -> None:
    core: Alone = loaded("t", "u")
    before = len(core.committed)
    core.metastore.log_transaction("d", "t", 7)
    core.turn(6)
    (one,) = core.committed[before:]
    (entry,) = one.entries
    assert entry.data_version == entry.version
    assert core.catalog.counts.events_not_understood == 0
