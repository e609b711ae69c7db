"""catalogd names no database to a client that the key of this client may not see."""

from dataclasses import replace

import pytest

from topicast.catalog.history.history_thread import ReadStore
from topicast.catalog.ingest.writes.reports import INTENT_LAPSES_S
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.catalogd import EPOCH_0
from topicast.tests.keys import client
from topicast.topics.errors import SourceError
from topicast.topics.keys.clients import Client
from topicast.topics.objects.names import table_key, table_name
from topicast.topics.objects.selector import ALL, TABLE_ONLY, Selector
from topicast.topics.policy import Policy
from topicast.topics.topic import table_topic
from topicast.topics.wire import encode
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.catalog import (
    Claimed,
    Pull,
    Pulled,
    Sync,
    Synced,
    Validate,
    Validated,
)
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import (
    ReadFiles,
    ReadHeldTopics,
    ReadHistory,
    ReadStatus,
    ReadSweeps,
)
from topicast.topics.wire.messages.reports import (
    INTENT,
    WRITTEN,
    Report,
    Reported,
    Sweep,
    Swept,
    Write,
)

MARKER = b"hidden"
SALES = Policy(("sales",))
DRIVER = replace(client(), policy=SALES)


@pytest.fixture
def core() -> Alone:
    """catalogd with a table in a database that is seen, and a table in another."""
    made = Alone()
    for db in ("sales", "hidden"):
        made.create_database(db)
        made.add(made.create(db, "orders", "ds"), "1", marker="hidden" if db == "hidden" else "")
    made.turn(10)
    for db in ("sales", "hidden"):
        made.answer_to(pull(db), Pulled, turns=10)
    return made


def pull(db: str, table: str = "orders", **more: object) -> Pull:
    fields = {"selector": ALL, "credit": 1 << 20, **more}
    return Pull(request=4, db=db, table=table, **fields)


def answer(core: Alone, message: Message, *, turns: int = 10) -> Message:
    """Return the one answer to a driver that sees sales alone."""
    core.ask(message, client=DRIVER)
    core.turn(turns)
    (found,) = core.replies()
    return found


def test_table_that_is_seen_is_pulled(core: Alone) -> None:
    found = answer(core, pull("sales"))
    assert isinstance(found, Pulled)
    assert {entry.key[:6] for entry in found.entries} == {b"sales\0"}


@pytest.mark.parametrize("selector", [TABLE_ONLY, ALL])
def test_table_that_is_not_seen_is_refused_alike_and_at_once_be_it_there_or_not(
    core: Alone, selector: Selector
) -> None:
    """P-POLICY-5."""
    refused = []
    for db, table in (("hidden", "orders"), ("hidden", "absent"), ("absent", "orders")):
        core.ask(pull(db, table, selector=selector), client=DRIVER)
        core.turn()
        found = core.reply(Refused)
        assert found.object == f"{db}.{table}"
        refused.append((found.code, found.message.replace(found.object, "X"), found.retry_ms))
    text = "X is not visible to this key, which sees sales"
    assert refused == [("NOT_VISIBLE", text, 0)] * 3


def claims(core: Alone) -> tuple[Claimed, ...]:
    found = [(db, "orders") for db in ("sales", "hidden")] + [("hidden", "absent")]
    versions = [core.topics[table_topic(*one, 4)].version for one in found]
    return tuple(
        Claimed(db=db, table=table, version=version, whole=True)
        for (db, table), version in zip(found, versions, strict=True)
    )


def test_claims_about_tables_that_are_not_seen_are_stale_as_of_absent_tables(core: Alone) -> None:
    """P-POLICY-5."""
    validated = answer(core, Validate(request=4, epoch=EPOCH_0, claims=claims(core)))
    assert isinstance(validated, Validated)
    assert validated.stale == ((1, 0), (2, 0))
    pulled = answer(core, pull("sales", claims=claims(core), epoch=EPOCH_0))
    assert isinstance(pulled, Pulled)
    assert pulled.stale == (1, 2)


def test_history_of_a_table_that_is_not_seen_is_refused(core: Alone) -> None:
    for db in ("hidden", "absent"):
        found = answer(core, ReadHistory(request=4, db=db, table="orders"))
        assert isinstance(found, Refused)
        assert found.code == "NOT_VISIBLE"


def swept_tables(core: Alone, driver: Client) -> list[str]:
    """Return which tables catalogd reads from its store for those that a sweep has found."""
    core.effects.clear()
    core.ask(ReadSweeps(request=4), client=driver)
    core.turn()
    (order,) = (one for one in core.effects if isinstance(one, ReadStore))
    return [table_name(*table) for table, _ in order.query.tables]


def test_sweeps_are_of_tables_that_are_there_and_are_seen(core: Alone) -> None:
    """P-SWEEP-5."""
    for db in ("sales", "hidden"):
        sweep = Sweep(
            request=4,
            db=db,
            table="orders",
            revision=0,
            facts=(),
            changed=(),
            overwritten=False,
            removed=(),
            as_of=9,
            last=True,
        )
        assert core.answer_to(sweep, Swept).kept
    assert swept_tables(core, client()) == ["hidden.orders", "sales.orders"]
    assert swept_tables(core, DRIVER) == ["sales.orders"]
    found = answer(core, ReadFiles(request=4, db="hidden", table="orders"))
    assert isinstance(found, Refused)
    assert found.code == "NOT_VISIBLE"
    core.metastore.drop_table("sales", "orders", delete_data=False)
    core.turn(30)
    assert swept_tables(core, client()) == ["hidden.orders"]
    assert swept_tables(core, DRIVER) == []


def test_status_has_no_totals_and_no_texts_of_the_metastore(core: Alone) -> None:
    status = answer(core, ReadStatus(request=4))
    assert isinstance(status, Inspected)
    facts = dict(status.rows)
    assert facts["epoch"] == EPOCH_0
    assert {facts[name] for name in ("databases", "entries", "held_bytes", "overrides")} == {None}
    assert {facts[name] for name in ("pulls", "unreadable", "loading", "reads")} == {None}
    topics = answer(core, ReadHeldTopics(request=4))
    assert isinstance(topics, Inspected)
    rows = [dict(zip(topics.columns, row, strict=True)) for row in topics.rows]
    assert {row["held_bytes"] for row in rows} == {row["entries"] for row in rows} == {None}
    assert max(row["version"] for row in rows) > 0


def test_what_the_metastore_says_is_not_repeated_in_a_refusal(core: Alone) -> None:
    core.metastore.failures += [SourceError("hidden.orders cannot be read")] * 1000
    for peer, sender in ((b"restricted", DRIVER), (b"whole", client())):
        core.ask(Sync(request=4), peer=peer, client=sender)
    core.wait(120)
    assert core.reply(Refused, b"restricted").message == "the metastore does not answer"
    assert MARKER in encode(core.reply(Refused, b"whole"))


def report(core: Alone, *writes: Write) -> Message:
    return answer(
        core, Report(request=4, driver=bytes(16), metastore="", finished=0, writes=writes)
    )


def write(number: int, of: str, state: int = WRITTEN) -> Write:
    return Write(number=number, state=state, object=of)


def versions(core: Alone) -> dict[str, int]:
    tables = {db: (db, "orders") for db in ("sales", "hidden")}
    return {
        db: core.topics[table_topic(*one, 4)].changed_at(table_key(*one))
        for db, one in tables.items()
    }


def test_write_to_a_table_that_is_not_seen_is_refused_with_the_reason(core: Alone) -> None:
    """P-POLICY-5."""
    before = versions(core)
    found = report(
        core, write(1, "hidden.orders"), write(2, "hidden.absent"), write(3, "sales.orders")
    )
    assert isinstance(found, Reported)
    hidden, absent, own = (verdict.problem for verdict in found.outcomes)
    assert hidden.replace("orders", "absent") == absent
    assert hidden.startswith("NOT_VISIBLE: hidden.orders is not visible to this driver's key")
    assert own == ""
    after = versions(core)
    assert after["hidden"] == before["hidden"]
    assert after["sales"] > before["sales"]
    assert core.catalog.reports.counts()["reported_writes_not_visible"] == 2


def test_path_of_a_table_that_is_not_seen_leads_to_no_table(core: Alone) -> None:
    """P-POLICY-5."""
    before = versions(core)
    found = report(core, write(1, "file:/w/hidden/orders"), write(2, "file:/w/hidden/absent"))
    assert isinstance(found, Reported)
    one, other = (verdict.problem for verdict in found.outcomes)
    assert one.replace("orders", "absent") == other
    assert versions(core) == before


def test_intent_to_write_a_table_that_is_not_seen_is_never_taken_for_written(core: Alone) -> None:
    before = versions(core)
    writes = (write(1, "hidden.orders", INTENT), write(2, "file:/w/hidden/orders", INTENT))
    found = report(core, *writes)
    assert isinstance(found, Reported)
    core.wait(INTENT_LAPSES_S * 2)
    assert versions(core) == before
    assert core.catalog.reports.intents == 0


def test_sync_of_a_restricted_driver_is_answered(core: Alone) -> None:
    assert isinstance(answer(core, Sync(request=4)), Synced)
