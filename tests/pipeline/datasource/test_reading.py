"""The data source without Spark: planned here, read here, from daemons on real sockets."""

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from topicast.pipeline.datasource import renewal, snapshot_version
from topicast.pipeline.datasource.conditions import Condition, Conditions
from topicast.pipeline.datasource.options import read_options
from topicast.pipeline.datasource.planning import (
    Piece,
    ReadPlanner,
    StreamPlanner,
    Work,
    planning,
)
from topicast.pipeline.datasource.reading import Row, TaskReader
from topicast.pipeline.datasource.renewal import (
    ApplicationProcess,
    application_of,
    start_renewal,
    this_application,
)
from topicast.pipeline.datasource.snapshot_versions import SnapshotVersion, parse_snapshot_version
from topicast.pipeline.sweep.known import KnownInOrder, known_at
from topicast.pipeline.sweep.plan import Point
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import steady_port
from topicast.tests.cluster.served import Served, served
from topicast.tests.cluster.shop import NAMES
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.errors import AuthRefused, HistoryGone, SourceRefused
from topicast.topics.keys.credential import KeyPair, credential_text, read_credential
from topicast.topics.keys.folder import DRIVER
from topicast.topics.settings import parse_addresses
from topicast.topics.wire.messages.reports import FileFacts

PARTITIONS = [("sales", f"ds={day:03}") for day in range(100)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as running:
        yield running


def planned(
    shop: Served,
    view: str,
    *columns: str,
    conditions: tuple[Condition, ...] = (),
    **options: str,
) -> tuple[TaskReader, list[Work]]:
    """Return the reader of a view and its work, both as executors get them."""
    given = {"view": view, "statestores": shop.address, **options}
    checked = replace(read_options(given), conditions=Conditions(conditions))
    with planning(checked) as planner:
        works = planner.works(checked, columns)
    return TaskReader(checked, columns), pickle.loads(pickle.dumps(works))


def rows(shop: Served, view: str, *columns: str, **options: Any) -> list[Row]:
    reader, works = planned(shop, view, *columns, **options)
    return sorted(
        (row for work in works for batch in reader.batches(work) for row in batch), key=repr
    )


def committed(shop: Served, before: str) -> str:
    """Return the snapshot version after ``before``, once there is a later version."""
    return until(lambda: (now := snapshot_version(shop.address)) != before and now)


def test_views_hold_what_the_metastore_has(shop: Served) -> None:
    assert rows(shop, "databases", "db", "location")[-1] == ("shop", "file:/w/shop")
    assert rows(shop, "tables", "table") == [(name,) for name in NAMES]
    assert rows(shop, "columns", "table", "column", "position", "is_partition")[-3:] == [
        ("sales", "id", 0, False),
        ("stock", "id", 0, False),
        ("visits", "id", 0, False),
    ]
    assert rows(shop, "partitions", "table", "partition") == PARTITIONS
    found = rows(shop, "partitions", "values", "location", "parameters")
    assert found[7] == (["007"], "file:/w/shop/sales", [("n", "7")])
    roles = [role for (role,) in rows(shop, "subscribers", "role")]
    assert set(roles) == {"operator", "publisher"}


def test_tables_are_selected_by_a_pattern(shop: Served) -> None:
    assert rows(shop, "tables", "table", tables="SHOP.s*") == [("sales",), ("stock",)]
    assert len(rows(shop, "tables", "table", tables="Shop")) == len(NAMES)
    assert rows(shop, "tables", "table", tables="other.*") == []


def test_files_are_what_sweeps_have_found_of_selected_tables(shop: Served) -> None:
    names = [f"ds={number:04}" for number in range(2500)]  # of several pages
    sales = [
        FileFacts(partition=name, fingerprint=1, files=number, bytes=7, small=1, newest_ms=number)
        for number, name in enumerate(names)
    ]
    stock = FileFacts(partition="", fingerprint=2, files=3, bytes=30, small=2, newest_ms=4)
    assert rows(shop, "files", "db") == []
    with known_at(shop.address) as known:
        revision = 0
        for at in range(0, len(sales), 1000):
            part = sales[at : at + 1000]
            kept = known.send("shop.sales", revision, part, changed={}, removed=())
            revision = kept.revision
        known.send("shop.stock", 0, [stock], changed={}, removed=())
        swept = sum(row.as_of for row in known.swept().values())
        assert swept == 0
        known.send("shop.stock", 1, (), changed={}, removed=(), point=Point(9, last=True))
        assert {name: one.as_of for name, one in known.swept().items()} == {
            "shop.sales": 0,
            "shop.stock": 9,
        }
    columns = ("table", "partition", "files", "bytes", "small_files", "newest")
    found = rows(shop, "files", "db", *columns, tables="shop.stock")
    assert found == [("shop", "stock", None, 3, 30, 2, 4000)]
    ((swept_us,),) = rows(shop, "files", "swept_at", tables="shop.stock")
    assert abs(swept_us - time.time_ns() // 1000) < 60_000_000
    assert {one for (one,) in rows(shop, "files", "swept_at", tables="shop.sales")} == {None}
    found = rows(shop, "files", *columns, conditions=(SALES,))
    assert [row[1] for row in found] == names
    assert found[:2] == [
        ("sales", "ds=0000", 0, 7, 1, None),
        ("sales", "ds=0001", 1, 7, 1, 1000),
    ]


def test_facts_are_read_along_with_partitions_and_no_more_together_than_is_allowed(
    shop: Served,
) -> None:
    names = [f"ds={number:04}" for number in range(900)]
    facts = [
        FileFacts(partition=name, fingerprint=1, files=1, bytes=7, small=1, newest_ms=1)
        for name in names
    ]
    with known_at(shop.address) as known:
        known.send("shop.sales", 0, facts, changed={}, removed=())
        order, found = KnownInOrder(known, "shop.sales", pages_ahead=1), list[str]()
        first, reached = order.up_to(names[9], facts_max=100)
        assert (list(first), reached) == (names[:10], names[9])
        order.begin()
        while reached is not None:
            some, reached = order.up_to(None, facts_max=100)
            assert len(some) <= 100
            found += some
        assert found == names[10:]
        order.go_back(7)
        assert order.revision == 1  # of what is read again
        wanted = [names[10], f"{names[10]}x", names[-1]]
        assert list(order.of(wanted, facts_max=100)) == [names[10], names[-1]]


def test_sweep_goes_on_with_a_catalogd_that_has_moved(shop: Served) -> None:
    with known_at(shop.address) as known:
        assert known.swept() == {}
        moved_from = shop.catalogd.address
        shop.catalogd.stop()
        shop.start_catalogd()
        assert shop.catalogd.address != moved_from
        point = Point(9, last=True)
        assert known.send("shop.stock", 0, (), changed={}, removed=(), point=point).kept
        assert (known.was_repeated, list(known.swept())) == (True, ["shop.stock"])


SALES = Condition("table", ("sales",))
SHOP = Condition("db", ("shop",))


def test_conditions_on_names_leave_the_rest_unread(shop: Served) -> None:
    assert rows(shop, "tables", "table", conditions=(SHOP, SALES)) == [("sales",)]
    assert rows(shop, "partitions", "table", "partition", conditions=(SALES,)) == PARTITIONS
    prefix = Condition("table", ("s",), prefix=True)
    assert rows(shop, "tables", "table", conditions=(prefix,)) == [("sales",), ("stock",)]
    for db in (Condition("db", ("sho",), prefix=True), Condition("db", ("nothing", "shop"))):
        assert rows(shop, "tables", "table", conditions=(db,)) == [(name,) for name in NAMES]
    for none in (Condition("db", ("sho", "shop2")), Condition("db", ())):
        assert rows(shop, "tables", "table", conditions=(none,)) == []
        assert rows(shop, "databases", "db", conditions=(none,)) == []
    assert rows(shop, "databases", "db", conditions=(SHOP,)) == [("shop",)]
    _, works = planned(shop, "partitions", "partition", conditions=(SHOP, SALES))
    (piece,) = (piece for work in works for piece in work.pieces)
    assert isinstance(piece, Piece)
    assert list(piece.tables) == [("shop", "sales")]
    assert rows(shop, "changes", "table", conditions=(SHOP, SALES)) == rows(
        shop, "changes", "table", tables="shop.sales"
    )


@pytest.mark.thorough
def test_large_tables_are_cut_for_several_tasks(tmp_path: Path) -> None:
    noise = random.Random(1)
    wide = {f"ds=w{day:04}": {"noise": noise.randbytes(8000).hex()} for day in range(1500)}
    wanted = sorted([*PARTITIONS, *(("sales", name) for name in wide)])
    with served(tmp_path, num_topics=1) as shop:
        before = snapshot_version(shop.address)
        shop.shop.add("shop.sales", wide)
        after = committed(shop, before)
        _, works = planned(shop, "partitions", "partition", "location")
        assert len(works) > 2
        for columns in (("table", "partition"), ("table", "partition", "location")):
            found = rows(shop, "partitions", *columns, asOf=after)
            assert [row[:2] for row in found] == wanted
        assert rows(shop, "partitions", "table", "partition", asOf=before) == PARTITIONS
        assert rows(shop, "tables", "table") == [(name,) for name in NAMES]
        found = rows(shop, "partitions", "table", "partition", conditions=(SHOP, SALES))
        assert found == wanted
        shop.order("mode", "minimal")
        shop.order("invalidate", "shop.sales")
        assert rows(shop, "partitions", "table", "partition") == wanted


def test_each_read_is_of_one_moment_that_can_be_read_again(shop: Served) -> None:
    before = snapshot_version(shop.address)
    shop.shop.remove("shop.sales", "ds=000")
    shop.shop.drop("shop.stock")
    until(lambda: len(rows(shop, "tables", "table")) == 5)
    until(lambda: len(rows(shop, "partitions", "partition")) == 99)
    assert len(rows(shop, "tables", "table", asOf=before)) == 6
    assert rows(shop, "partitions", "table", "partition", asOf=before) == PARTITIONS
    versions = dict(rows(shop, "topics", "topic", "version"))
    for topic, version in rows(shop, "partitions", "topic", "topic_version"):
        assert versions[topic] == version


def test_work_that_was_planned_before_a_change_does_not_see_it(shop: Served) -> None:
    reader, works = planned(shop, "partitions", "table", "partition")
    before = snapshot_version(shop.address)
    shop.shop.add("shop.sales", {"ds=999": {}})
    committed(shop, before)
    found = sorted(row for work in works for batch in reader.batches(work) for row in batch)
    assert found == PARTITIONS
    assert len(rows(shop, "partitions", "partition")) == 101


def test_planned_read_survives_a_drop_dead_hubs_and_a_task_that_died_midway(shop: Served) -> None:
    reader, works = planned(shop, "partitions", "table", "partition")
    begun = [next(reader.batches(work)) for work in works]
    assert sorted(row for batch in begun for row in batch) == PARTITIONS
    shop.shop.drop("shop.sales")
    until(lambda: len(rows(shop, "tables", "table")) == 5)
    assert rows(shop, "partitions", "partition") == []
    for hub in shop.hubs:
        hub.stop()
    again = sorted(row for work in works for batch in reader.batches(work) for row in batch)
    assert again == PARTITIONS


def test_table_that_is_not_loaded_is_pulled_and_not_as_of_another_moment(shop: Served) -> None:
    shop.order("mode", "minimal")
    shop.order("invalidate", "shop.sales")
    now = snapshot_version(shop.address)
    with pytest.raises(HistoryGone, match=r"shop\.sales was not loaded in that snapshot version"):
        rows(shop, "partitions", "partition", asOf=now)
    assert rows(shop, "partitions", "partition", asOf=now, unreadable="skip") == []
    pulled = rows(shop, "partitions", "table", "partition", asOf=now, notloaded="pull")
    assert pulled == PARTITIONS
    assert rows(shop, "partitions", "table", "partition") == PARTITIONS


def test_table_that_the_metastore_cannot_read_fails_the_read_or_is_left_out(shop: Served) -> None:
    shop.order("mode", "minimal")
    shop.order("invalidate", "shop.sales")
    shop.shop.unreadable["sales"] = "a torn row"
    with pytest.raises(SourceRefused, match=r"shop\.sales: .* cannot read it: a torn row"):
        rows(shop, "partitions", "partition")
    assert rows(shop, "partitions", "partition", unreadable="skip") == []


def test_moment_of_another_epoch_or_before_the_history_is_refused(shop: Served) -> None:
    epoch, _, versions = snapshot_version(shop.address).partition(":")
    with pytest.raises(HistoryGone, match="the history is of epoch"):
        rows(shop, "tables", "table", asOf=f"{int(epoch) - 1}:{versions}")


def test_executors_have_a_key_of_their_own_that_may_only_read(shop: Served) -> None:
    driver = user_keys(DRIVER).credential
    _, works = planned(shop, "tables", "table")
    _, again = planned(shop, "columns", "column")
    given = {read_credential(work.credential, source="work") for work in (*works, *again)}
    (executors,) = given
    assert (executors.role, executors.hubs) == ("observer", ())
    assert driver.pair.secret not in works[0].credential
    assert executors.pair.secret not in repr(works)


def test_restarted_catalogd_knows_no_executors_until_it_is_read_anew(shop: Served) -> None:
    _, works = planned(shop, "tables", "table")
    shop.catalogd.stop()
    shop.start_catalogd()
    moved = replace(works[0], address=shop.catalogd.address)
    with pytest.raises(AuthRefused, match="does not admit executors of driver: .*; start the read"):
        read_at_once(shop, moved)
    assert len(rows(shop, "tables", "table")) == 6


def read_at_once(shop: Served, work: Work) -> list[Row]:
    """Return the tables that ``work`` reads, or fail at once where its key is not admitted."""
    options = read_options({"view": "tables", "statestores": shop.address})
    return [
        row for batch in TaskReader(options, ["table"], refused_s=0).batches(work) for row in batch
    ]


def renewals() -> list[psutil.Process]:
    """Return the processes started here that renew a key."""
    return [one for one in psutil.Process().children() if renewal.__name__ in command_line(one)]


def command_line(process: psutil.Process) -> str:
    """Return the command of a process; it is empty once the process has ended, or is about to."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


@pytest.mark.real
def test_key_of_executors_lives_as_long_as_their_application_and_over_restarts_of_catalogd(
    tmp_path: Path,
) -> None:
    noise = random.Random(1)
    days = {f"ds=n{day:05}": {"noise": noise.randbytes(200).hex()} for day in range(12_000)}
    with served(tmp_path, num_topics=1, catalog_port=steady_port()) as shop, application() as it:
        before = snapshot_version(shop.address)
        shop.shop.add("shop.sales", days)
        committed(shop, before)
        _, tables = planned(shop, "tables", "table")
        reader, works = planned(shop, "partitions", "table", "partition", "location")
        driver = user_keys(DRIVER).credential
        pair = it.pair_of(driver)
        of_it = [replace(one, credential=credential_of(one, pair)) for one in (*works, *tables)]
        hubs = parse_addresses(shop.address, setting="statestores")
        start_renewal(hubs, None, it)
        until(lambda: len(renewals()) == 1)
        first, *others = of_it[: len(works)]
        found = read_over_a_restart(shop, reader, first)
        found += [row for work in others for batch in reader.batches(work) for row in batch]
        assert sorted(row[:2] for row in found) == [*PARTITIONS, *(("sales", day) for day in days)]

        start_renewal(hubs, None, it)  # there is one
        assert len(renewals()) == 1
        os.kill(it.pid, signal.SIGKILL)
        until(lambda: not renewals())
        with pytest.raises(AuthRefused, match="their key ends with the application"):
            read_at_once(shop, of_it[-1])


@contextmanager
def application() -> Iterator[ApplicationProcess]:
    """Run a process that stands for an application."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield application_of(process.pid)
        process.kill()


def credential_of(work: Work, pair: KeyPair) -> str:
    """Return the credential in ``work`` with another key pair."""
    found = read_credential(work.credential, source="work")
    return credential_text(replace(found, pair=pair))


def read_over_a_restart(shop: Served, reader: TaskReader, work: Work) -> list[Row]:
    """Return the rows of ``work``; catalogd is restarted behind the first batch."""
    batches = reader.batches(work)
    found = [*next(batches)]
    shop.catalogd.stop()
    shop.start_catalogd()
    return [*found, *(row for batch in batches for row in batch)]


CHANGE = ("kind", "table", "partition", "after", "origin")


def test_changes_are_what_became_of_each_table_and_partition(shop: Served) -> None:
    before = snapshot_version(shop.address)
    shop.shop.change("shop.sales", {"ds=001": {"n": "new"}})
    shop.shop.drop("shop.stock")
    shop.shop.remark("shop.items", {"note": "x"})
    shop.shop.create("shop.more")
    wanted = {
        ("data", "sales", "ds=001", "parameter n=new", "events"),
        ("dropped", "stock", None, "", "events"),
        ("data", "items", None, "parameter note=x", "events"),
    }
    found = until(
        lambda: len(now := rows(shop, "changes", *CHANGE, startingVersion=before)) == 4 and now
    )
    assert wanted <= set(found)
    assert ("created", "more") in {row[:2] for row in found}
    created = [
        row[1] for row in rows(shop, "changes", *CHANGE) if row[0] == "created" and not row[2]
    ]
    assert sorted(created) == sorted((*NAMES, "more"))
    assert rows(shop, "changes", *CHANGE, startingVersion="latest") == []
    dropped = rows(shop, "changes", *CHANGE, tables="shop.stock", startingVersion=before)
    assert dropped == [("dropped", "stock", None, "", "events")]


def test_changes_up_to_a_moment_and_behind_it_are_all_changes(shop: Served) -> None:
    for day in range(5):
        shop.shop.add("shop.sales", {f"ds=9{day}": {}})
    until(lambda: len(rows(shop, "partitions", "partition")) == 105)
    middle = snapshot_version(shop.address)
    shop.shop.add("shop.sales", {f"ds=8{day}": {"n": "x"} for day in range(40)})
    until(lambda: len(rows(shop, "partitions", "partition")) == 145)
    wanted = ("topic", "version", "kind", "partition")
    everything = rows(shop, "changes", *wanted, tables="shop.sales")
    first = rows(shop, "changes", *wanted, tables="shop.sales", asOf=middle)
    rest = rows(shop, "changes", *wanted, tables="shop.sales", startingVersion=middle)
    assert sorted(first + rest, key=repr) == everything
    assert len(rest) == 40


def test_changes_of_another_epoch_are_gone(shop: Served) -> None:
    epoch, _, versions = snapshot_version(shop.address).partition(":")
    with pytest.raises(HistoryGone, match="begin anew with another checkpoint"):
        rows(shop, "changes", *CHANGE, startingVersion=f"{int(epoch) - 1}:{versions}")


def batch(
    shop: Served, after: SnapshotVersion, until: SnapshotVersion, **options: str
) -> list[Row]:
    """Return the rows of one batch of a stream."""
    checked = read_options({"view": "changes", "statestores": shop.address, **options})
    with planning(checked) as planner:
        works = planner.changes(after, until, checked)
    reader = TaskReader(checked, CHANGE)
    return sorted(
        (row for work in works for rows in reader.batches(work) for row in rows), key=repr
    )


def now(shop: Served) -> SnapshotVersion:
    return parse_snapshot_version(snapshot_version(shop.address))


GO_ON = {"failondataloss": "false"}


def test_changes_that_are_gone_end_the_read_or_are_a_snapshot(tmp_path: Path) -> None:
    with served(tmp_path, history_hours=1e-6) as shop:
        before = now(shop)
        for note in ("1", "2"):
            began = snapshot_version(shop.address)
            shop.shop.remark("shop.sales", {"note": note})
            committed(shop, began)
        after = now(shop)
        with pytest.raises(
            HistoryGone, match=r"changes of topics \d+ \(from version \d+, kept from"
        ):
            batch(shop, before, after)
        found = batch(shop, before, after, **GO_ON)
        assert {row[0] for row in found} == {"snapshot"}
        sales = [row for row in found if row[1] == "sales"]
        assert [row[2] for row in sales] == [*(name for _, name in PARTITIONS), None]
        assert "parameter note=2" in sales[-1][3]
        assert sales[1][3] == "location=file:/w/shop/sales; parameter n=1"
        gone = SnapshotVersion(before.epoch, tuple(max(0, one - 1) for one in before.versions))
        left = {row[1] for row in batch(shop, gone, before, **GO_ON)}
        assert "sales" not in left  # the next batch, which begins at ``before``, has it


def test_checkpoint_of_another_catalog_is_refused_or_followed_by_a_snapshot(shop: Served) -> None:
    present = now(shop)
    lost = replace(present, epoch=present.epoch - 1)
    fewer = SnapshotVersion(present.epoch - 1, (1, 1, 1))
    ahead = replace(present, versions=tuple(one + 7 for one in present.versions))  # of a lost disk
    with pytest.raises(HistoryGone, match="failOnDataLoss=false"):
        batch(shop, lost, present)
    with pytest.raises(HistoryGone, match="with 2 topics are not known: this is .* with 4 topics"):
        batch(shop, fewer, present)
    with pytest.raises(HistoryGone, match=r"topics 0 \(from version \d+, catalogd is at \d+\), 1"):
        batch(shop, ahead, present)
    for before in (lost, fewer, ahead):
        found = batch(shop, before, present, **GO_ON)
        assert {row[1] for row in found} == set(NAMES)
        assert len(found) == len(NAMES) + len(PARTITIONS)
        assert batch(shop, before, before, **GO_ON) == []


def test_snapshot_has_tables_that_are_not_loaded_too(shop: Served) -> None:
    before = now(shop)
    lost = replace(before, epoch=before.epoch - 1)
    whole = batch(shop, lost, before, **GO_ON)
    none = SnapshotVersion(
        before.epoch, (*[0] * before.num_topics, before.versions[-1])
    )  # none is loaded
    assert batch(shop, lost, none, **GO_ON) == whole
    shop.order("mode", "minimal")
    shop.order("invalidate", "shop.sales")
    found = batch(shop, lost, now(shop), **GO_ON)
    assert [row[:3] for row in found] == [row[:3] for row in whole]
    assert len(found) == len(NAMES) + len(PARTITIONS)


def test_batches_are_bounded_by_entries_and_are_all_changes_together(shop: Served) -> None:
    before = now(shop)
    for day in range(6):
        shop.shop.add("shop.sales", {f"ds=9{day}": {}})
        shop.shop.remark("shop.stock", {"day": str(day)})
        until(lambda: len(batch(shop, before, now(shop))) == 2 * (day + 1))  # noqa: B023 - at once
    last, found, batches = now(shop), [], 0
    checked = read_options({"view": "changes", "statestores": shop.address})
    after = before
    while after != last:
        with planning(checked) as planner:
            end = planner.bounded(after, last, 2)
        found += batch(shop, after, end)
        after, batches = end, batches + 1
    assert sorted(found, key=repr) == batch(shop, before, last)
    assert batches > 2


@pytest.mark.real
def test_stream_is_planned_on_while_no_hub_lives_and_by_a_catalogd_that_has_moved(
    tmp_path: Path,
) -> None:
    with served(tmp_path, port=(port := steady_port())) as shop:
        options = read_options({"view": "changes", "statestores": shop.address})
        with closing(StreamPlanner(options, this_application())) as planner:
            before = planner.plan(ReadPlanner.snapshot_version)
            shop.hubs.pop().stop()
            shop.shop.remark("shop.items", {"note": "no hub"})
            until(lambda: planner.plan(ReadPlanner.snapshot_version) != before)
            shop.hubs.append(shop.hub(port))
            moved_from = shop.catalogd.address
            shop.catalogd.stop()
            shop.start_catalogd()
            assert shop.catalogd.address != moved_from
            works = planner.plan(lambda one: one.changes(before, one.snapshot_version(), options))
            assert [work.address for work in works] == [shop.catalogd.address]


def test_latest_state_begins_with_what_there_is_and_has_each_object_once(shop: Served) -> None:
    options = {"lateststate": "true"}
    checked = read_options({"statestores": shop.address, "view": "changes", **options})
    with planning(checked) as planner:
        beginning = planner.starting(checked, "latest")
    first = now(shop)
    assert len(batch(shop, beginning, first, **options)) == len(NAMES) + len(PARTITIONS)
    for note in ("1", "2"):
        shop.shop.remark("shop.items", {"note": note})
        shop.shop.change("shop.sales", {"ds=001": {"n": note * 2}})
        until(lambda: shows(shop, first, note))  # noqa: B023 - called at once
    shop.shop.drop("shop.stock")
    until(lambda: ("dropped", "stock") in {row[:2] for row in batch(shop, first, now(shop))})
    shop.shop.create("shop.stock")
    until(lambda: ("created", "stock") in {row[:2] for row in batch(shop, first, now(shop))})
    found = batch(shop, first, now(shop), **options)
    assert [row[:3] for row in found if row[1] == "stock"] == [
        ("created", "stock", None),
        ("dropped", "stock", None),
    ]
    assert [row[:4] for row in found if row[1] != "stock"] == [
        ("data", "items", None, "parameter note=2"),
        ("data", "sales", "ds=001", "parameter n=22"),
    ]


def test_events_are_the_log_of_changes_and_orders(shop: Served) -> None:
    columns = ("object", "kind", "origin", "who", "event_before", "event_after")
    first = len(rows(shop, "events", *columns))
    assert first >= len(NAMES)
    shop.shop.drop("shop.stock")
    shop.order("mode", "mixed")
    found = until(lambda: len(now := rows(shop, "events", "number", *columns)) > first + 1 and now)
    drop, order = (next(row[1:] for row in found if row[2] == kind) for kind in ("dropped", "mode"))
    assert drop[:4] == ("shop.stock", "dropped", "events", None)
    assert drop[4] < drop[5]
    assert order[:3] == ("mixed", "mode", "orders")
    assert order[3].endswith(" (ann)"), "behind the name of its key"
    numbers = [row[0] for row in found]
    assert len(numbers) == len(set(numbers))


def test_drivers_are_those_that_answer(shop: Served) -> None:
    assert rows(shop, "drivers", "application", "host") == []
    facts = {"application": "etl", "application_id": "local-1", "writes_reported": 3}
    with Subscriber(shop.address, driver_facts=lambda: facts):
        found = until(lambda: rows(shop, "drivers", "application", "writes_reported", "host"))
    assert found == [("etl", 3, None)]


def shows(shop: Served, first: SnapshotVersion, note: str) -> bool:
    texts = {row[3] for row in batch(shop, first, now(shop))}
    return {f"parameter note={note}", f"parameter n={note * 2}"} <= texts
