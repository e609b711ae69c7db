"""The budget: what is held and reserved, and that a process takes no more than it accounts for."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.catalog.model.versions import Commit, Transaction
from topicast.catalog.storage.store import Store
from topicast.subscriber.store.resident_set import Budget
from topicast.tests.bench.stores import Rows, names_of
from topicast.tests.cluster.served import served
from topicast.tests.cluster.shop import Shop, followed
from topicast.tests.subscriber.store.cycles import TOPICS
from topicast.tests.subscriber.structs import table_struct
from topicast.topics.objects.encoding.values import COMPLETE, TableValue, encode_table_value
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.streams.followers import TopicLevel
from topicast.topics.topic import FULL, MINIMAL, NAMESPACE, Entry, table_topic


def at(topic: int) -> TopicLevel:
    return topic, FULL


def test_inbox_is_of_what_the_operator_allows_and_not_free() -> None:
    budget = Budget(1000, 200)
    assert (budget.total_bytes, budget.limit_bytes, budget.free_bytes) == (1200, 1000, 1000)


def test_reservation_counts_until_it_is_filled_and_never_twice() -> None:
    budget = Budget(1000)
    budget.reserve(at(1), 400)
    assert (budget.free_bytes, budget.unfilled(at(1)), budget.held_bytes) == (600, 400, 0)
    budget.hold(at(1), 300)
    assert (budget.free_bytes, budget.unfilled(at(1)), budget.held_bytes) == (600, 100, 300)
    budget.hold(at(1), 200)
    assert (budget.free_bytes, budget.unfilled(at(1)), budget.held_bytes) == (500, 0, 500)
    budget.reserve(at(1), 0)
    assert (budget.free_bytes, budget.committed(at(1))) == (500, 500)
    budget.release(at(1))
    assert (budget.free_bytes, budget.held(at(1))) == (1000, 0)


def test_growth_fits_into_its_own_reservation_and_what_is_free() -> None:
    budget = Budget(1000)
    budget.reserve(at(1), 400)
    budget.reserve(at(2), 500)
    assert budget.fits(at(1), 500)
    assert not budget.fits(at(1), 501)
    assert not budget.fits(at(3), 101)
    budget.hold(at(2), 500)
    assert budget.fits(at(2), -100)


def test_largest_topic_is_by_committed_bytes_and_never_the_excepted_topic() -> None:
    budget = Budget(1000)
    assert budget.largest(FULL, but=9) is None
    budget.hold(at(1), 100)
    budget.hold((8, MINIMAL), 300)
    budget.reserve(at(2), 200)
    budget.hold(at(9), 500)
    assert budget.largest(FULL, but=9) == 2
    budget.release(at(2))
    budget.reserve(at(3), 0)
    assert budget.largest(FULL, but=1) == 9
    budget.release(at(9))
    assert budget.largest(FULL, but=1) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hold", "reserve", "release"]), st.integers(0, 3), st.integers(0, 400)
        )
    )
)
def test_sums_are_those_of_the_topics(steps: list[tuple[str, int, int]]) -> None:
    budget = Budget(1000)
    for what, topic, size in steps:
        if what == "release":
            budget.release(at(topic))
        elif what == "reserve":
            budget.reserve(at(topic), size)
        elif budget.fits(at(topic), size):
            budget.hold(at(topic), size)
        if budget.free_bytes >= 0:
            budget.check()


BUDGET = 12_800_000  # the topics at full take nine tenths of it
RSS_PER_BUDGET = 1.25
PYTHON = (sys.executable, "-W", "error", "-m")
CREEP_BYTES = 2_000_000  # of noise: pages that are given back late


TABLES = 40  # in each topic, read one by one
BLOCKS = 1200  # in each topic, of 32 partitions' size
BLOCK_BYTES = 900
BATCH = 50  # rows in one transaction: below 64 KB
COLUMNS = tuple(f"column_{number:02}" for number in range(20))


def fill(folder: Path, shop: Shop) -> None:
    """Write a store of catalogd, which follows ``shop``; its topics at full take 1.5 MB each."""
    dice = Random(1)
    tables = {topic: list(islice(_names(topic), TABLES)) for topic in range(TOPICS)}
    rows = {
        NAMESPACE: list(names_of("db", sorted(chain.from_iterable(tables.values())), version=1)),
        **{topic: [_table(name) for name in names] for topic, names in tables.items()},
    }
    for topic, names in tables.items():
        keys = [block_key("db", names[0], f"ds=x{number:06}") for number in range(BLOCKS)]
        rows[topic] += [(key, dice.randbytes(BLOCK_BYTES)) for key in keys]
    store = Store.open(folder, num_topics=TOPICS, now_us=1, new_id=1)
    transactions = [
        Transaction(
            topic=topic,
            from_version=version - 1,
            to_version=version,
            entries=tuple(Entry(key, version, version, version, len(v), v) for key, v in some),
            source=0,
            at_us=1,
        )
        for topic, every in rows.items()
        for version, some in enumerate(_batches(every), 1)
    ]
    window = followed(shop)
    store.commit(Commit(transactions=tuple(transactions), window=window))
    store.close()


def _names(topic: int) -> Iterator[str]:
    """Yield the names of tables of one topic."""
    names = (f"t{number:04}" for number in count())
    return (name for name in names if table_topic("db", name, TOPICS) == topic)


def _table(name: str) -> tuple[bytes, bytes]:
    thrift = table_struct("db", name, columns=COLUMNS, keys=("ds",))
    value = TableValue(incarnation=1, partitions=COMPLETE, thrift=thrift, templates=())
    return table_key("db", name), encode_table_value(value)


def _batches(rows: Rows) -> Iterator[Rows]:
    return (rows[begin : begin + BATCH] for begin in range(0, len(rows), BATCH))


@pytest.mark.parametrize("cycles", [30, pytest.param(100, marks=pytest.mark.nightly)])
@pytest.mark.thorough
def test_process_takes_what_is_accounted_and_no_more_after_many_joins_and_drops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cycles: int
) -> None:
    shop = Shop(())
    fill(tmp_path, shop)
    with served(tmp_path, shop, num_topics=TOPICS) as running:
        process = "topicast.tests.subscriber.store.cycles"
        done = subprocess.run(
            [*PYTHON, process, running.address, str(BUDGET), str(cycles)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    rss, held, objects = found["rss"], found["held"], found["objects"]
    with capsys.disabled():
        above, late = max(rss) - found["base"], max(rss[-10:]) - max(rss[10:20])
        print(
            f"\nRSS of {cycles} cycles: {above / BUDGET:.2f} x budget above the base, "
            f"creep {late / 1e6:+.1f} MB, objects {objects[-1] / objects[0]:.3f} x, "
            f"traced / accounted {found['traced'] / found['accounted']:.2f}"
        )
    assert len(rss) == cycles
    assert 0.9 * BUDGET <= max(held) <= BUDGET
    assert max(rss) <= RSS_PER_BUDGET * BUDGET + found["base"]
    assert max(rss[-10:]) <= max(rss[10:20]) + CREEP_BYTES
    assert objects[-1] <= 1.03 * objects[0]
    assert 0.8 <= found["traced"] / found["accounted"] <= 1.0
