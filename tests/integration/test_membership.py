"""Something dies, or the mode turns, in the middle of a join or of a pull: answers stay right."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.dam import Dam
from topicast.tests.integration.looking import Looker
from topicast.tests.integration.tables import database, is_held, revise, seen
from topicast.tests.waiting import until
from topicast.topics.topic import NAMESPACE, table_topic
from topicast.topics.wire.messages.questions import ReadTopics

DAYS = 160
NOTE_BYTES = 3000  # of each partition, and hardly compressed: the topic takes 300 KB
DAM_BYTES = 100_000
TABLES = ("members.big", "members.small")
TOPICS = 16
TOPIC, SMALL = (table_topic("members", name, TOPICS) for name in ("big", "small"))


@pytest.fixture
def client(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[HMSClient]:
    """A client, and two tables at revision 0: the first of many partitions, the second of one."""
    noise = random.Random(4)

    def note() -> dict[str, str]:
        return {"note": noise.randbytes(NOTE_BYTES // 2).hex()}

    tables = dict(zip(TABLES, (DAYS, 1), strict=True))
    with database(hive.uri, tmp_path, tables, parameters=note) as found:
        yield found


def room_for_one(daemons: Daemons) -> int:
    """Return the bytes of all names, which other tests may have left, and of the big topic once.

    The hub has all of the topic then.
    """
    with daemons.operator() as operator:

        def sizes() -> dict[object, int]:
            facts = operator.hub(ReadTopics())
            rows = [dict(zip(facts.columns, row, strict=True)) for row in facts.rows]
            return {row["topic"]: int(str(row["full_bytes"])) for row in rows}

        least_bytes = DAYS * NOTE_BYTES // 3
        until(lambda: sizes().get(TOPIC, 0) > least_bytes, timeout_s=40, what="the content")
        return sizes()[NAMESPACE] + sizes()[TOPIC] * 9 // 8


def level(catalog: Subscriber) -> str:
    return next(info.level for info in catalog.topics() if info.id == TOPIC)


def check_all(catalog: Subscriber, client: HMSClient) -> None:
    """Compare every partition with what the metastore holds."""
    catalog.sync(timeout_s=40)
    for name in TABLES:
        db, _, table = name.partition(".")
        expected = {tuple(p.values): p.parameters for p in client.get_partitions(db, table, -1)}
        assert {p.values: dict(p.parameters) for p in catalog.partitions(name)} == expected


@pytest.mark.parametrize(
    "modes",
    [
        pytest.param((), marks=pytest.mark.nightly, id="mode stays"),
        pytest.param(("minimal", "mixed"), id="mode is turned"),
    ],
)
def test_hub_dies_in_the_middle_of_a_join(
    client: HMSClient, daemons: Daemons, modes: tuple[str, ...]
) -> None:
    """Given a topic of which a part has come, when the hub is killed, then no answer is wrong."""
    budget = room_for_one(daemons)
    with (
        Dam(daemons.hub_address, bytes_max=DAM_BYTES) as dam,
        ThreadPoolExecutor(1) as threads,
        Subscriber(dam.address, budget=budget, timeout_s=40) as catalog,
        Looker(catalog, TABLES, look=seen) as looker,
    ):
        # By hand, so that nothing else is joined meanwhile: the dam would hold that, too.
        catalog.drop(set(range(TOPICS)) - {TOPIC, SMALL})
        catalog.join(SMALL, "minimal")
        until(lambda: level(catalog) == "minimal", timeout_s=20, what="the first use")
        catalog.sync(timeout_s=40)
        catalog.partitions("members.big")  # all of it is pulled, and has to give way
        join = threads.submit(catalog.join, TOPIC, "full")
        until(lambda: dam.held.is_set() or join.done(), timeout_s=30, what="the middle")
        assert not join.done(), join.result()
        assert level(catalog) == "minimal", "which stays until the other one is there"
        revise(client, TABLES, 1)
        catalog.sync(timeout_s=40)
        assert {seen(catalog, name) for name in TABLES} == {(1, 1)}, "while it is joined"
        if modes:
            daemons.turn(modes[0])
        assert not join.done()
        daemons.kill("statestored")
        revise(client, TABLES, 2)
        for name in TABLES:
            assert min(seen(catalog, name)) >= 1, "while there is no hub"
        dam.opened.set()
        daemons.start("statestored")
        join.result(60)
        for mode in modes[1:]:
            check_all(catalog, client)
            daemons.turn(mode)
        until(lambda: is_held(catalog, "members.big"), timeout_s=40, what="all of the topic")
        assert level(catalog) == "full"
        check_all(catalog, client)
        assert {seen(catalog, name) for name in TABLES} == {(2, 2)}
    assert looker.wrong == []
    assert looker.reads > 10


@pytest.mark.nightly  # the simulator kills catalogd
def test_catalogd_dies_in_the_middle_of_a_pull_and_the_mode_turns(
    client: HMSClient, daemons: Daemons
) -> None:
    """Given a pull without an answer, when catalogd is killed, then it is answered all the same."""
    room_for_one(daemons)
    with (
        ThreadPoolExecutor(1) as threads,
        Subscriber(daemons.hub_address, budget="4MB", timeout_s=60) as catalog,
    ):
        assert seen(catalog, "members.small") == (0, 0)
        catalog.join(TOPIC, "minimal")  # by hand, so that the planner does not raise it meanwhile
        catalog.sync()  # a session with catalogd: without it, the pull would not be sent at all
        daemons.freeze("catalogd")
        pulls = catalog.stats().pulls
        pull = threads.submit(catalog.partitions, "members.big", "ds = '007'")
        until(lambda: catalog.stats().pulls > pulls or pull.done(), timeout_s=20)
        assert not pull.done(), f"it needed no catalogd: {pull.result()}"
        revise(client, TABLES, 1)
        daemons.kill("catalogd")
        with Looker(catalog, TABLES, look=seen) as looker:
            daemons.start("catalogd")
            for mode in ("minimal", "full", "mixed"):
                daemons.turn(mode)
            (found,) = pull.result(60)
            check_all(catalog, client)
        assert found.values == ("007",)
        assert {seen(catalog, name) for name in TABLES} == {(1, 1)}
    assert looker.wrong == []
