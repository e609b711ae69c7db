"""Catalogd as it runs: a real metastore on one side, a real hub and clients on the other."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Protocol, TypeVar

import pytest

from topicast.catalog.assembly import build
from topicast.catalog.catalogd import SERVICE, Catalogd, HubConnection, load_topics
from topicast.catalog.config import CatalogdConfig
from topicast.catalog.core import Catalog, Fact, Requested, Settings
from topicast.catalog.ingest.poller import EventWindow, Polled, WindowState
from topicast.catalog.ingest.read_threads import ReadThreads
from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.catalog.metastore.port import NamesRead
from topicast.catalog.publish.publisher import WELCOME_S, PublishedState, Publisher, State
from topicast.catalog.storage.store import TOMBSTONES_AGE_MAX_US, Store
from topicast.statestore.config import StatestoredConfig
from topicast.statestore.statestored import Statestored
from topicast.statestore.statestored import build as build_hub
from topicast.tests.catalog.stores import (
    NOW_US,
    TOPICS,
    commit,
    entries_of,
    opened,
    transaction,
    value,
)
from topicast.tests.cluster.fake_metastore import FakeMetastore, Place, make_partition
from topicast.tests.waiting import until
from topicast.topics.link import Link, Received
from topicast.topics.objects.blocks import decode_block
from topicast.topics.objects.names import block_key, database_key, table_key
from topicast.topics.topic import NAMESPACE, prefix_tombstone
from topicast.topics.wire.codec import decode, encode
from topicast.topics.wire.messages import (
    SELECT_BLOCKS,
    Inspect,
    Inspected,
    Message,
    Pull,
    Pulled,
    Refused,
    Sync,
    Synced,
)

WAIT_S = 60.0
SETTLED = WindowState(last_id=41, settled=41)
T = TypeVar("T")
D = TypeVar("D", bound="Daemon")


class Daemon(Protocol):
    def run(self) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


@contextmanager
def running(make: Callable[[], tuple[D, str]]) -> Iterator[tuple[D, str]]:
    """Make a daemon and let it serve, all in one thread, until the block ends."""
    made: SimpleQueue[tuple[D, str]] = SimpleQueue()

    def serve() -> None:
        daemon, address = make()
        made.put((daemon, address))
        try:
            daemon.run()
        finally:
            daemon.close()

    thread = threading.Thread(target=serve)
    thread.start()
    daemon, address = made.get(timeout=WAIT_S)
    try:
        yield daemon, address
    finally:
        daemon.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


class Client:
    """A reader's connection to the catalog service."""

    def __init__(self, address: str) -> None:
        self.link = Link()
        self.link.connect_dealer("catalogd", address)
        self.heard: list[Message] = []

    def ask(self, message: Message, kind: type[T]) -> T:
        """Return the first answer of ``kind`` to ``message``."""
        self.link.send("catalogd", encode(message))
        return self.hear(kind)

    def hear(self, kind: type[T]) -> T:
        def found() -> T | None:
            self.heard += [decode(one.frame) for one in self.link.poll(0.02)]
            return next((one for one in self.heard if isinstance(one, kind)), None)

        answer = until(found, timeout_s=WAIT_S, what=kind.__name__)
        self.heard.clear()
        return answer


def versions(daemon: Catalogd | Statestored) -> list[tuple[int, int]]:
    """Return (topic, version) as of the last picture."""
    return [(one.topic, one.version) for one in daemon.status.topics]


class World:
    """One hub and one catalogd at a time, which may end and come back over its store."""

    def __init__(
        self, folder: Path, hive: EmbeddedMetastore, hub: Statestored, hub_address: str
    ) -> None:
        self.hub = hub
        self.config = CatalogdConfig(
            hive_metastore_uris=hive.uri,
            statestores=hub_address,
            catalog_service_port=0,
            state_dir=folder / "state",
            num_topics=4,
            hms_event_polling_interval_s=0.05,
        )
        self.clients: list[Client] = []

    @contextmanager
    def catalogd(self, **changes: object) -> Iterator[Catalogd]:
        """Let a catalogd serve until the block ends; clients made in it are its own."""
        config = replace(self.config, **changes)
        with running(lambda: build(config, name="catalogd@test")) as (daemon, self.address):
            self.serving(daemon)
            try:
                yield daemon
            finally:
                for client in self.clients:
                    client.link.close()
                self.clients.clear()

    def client(self) -> Client:
        self.clients.append(Client(self.address))
        return self.clients[-1]

    def serving(self, daemon: Catalogd) -> None:
        def follows() -> bool:
            same = self.hub.status.start == daemon.status.start
            ready = not daemon.status.problem and not daemon.status.tables_to_load
            return same and ready and not self.hub.status.problem

        until(follows, timeout_s=WAIT_S, what="a hub that follows")

    def agreed(self, daemon: Catalogd) -> None:
        """Wait until the hub holds what catalogd holds."""
        what = "a hub that holds everything"
        until(lambda: versions(self.hub) == versions(daemon), timeout_s=WAIT_S, what=what)


@pytest.fixture
def world(tmp_path: Path, hive: EmbeddedMetastore) -> Iterator[World]:
    with running(lambda: build_hub(StatestoredConfig(state_store_port=0))) as (hub, address):
        yield World(tmp_path, hive, hub, address)


def pull(place: Place, table: str = "t", request: int = 4) -> Pull:
    return Pull(request=request, db=place.db, table=table, selector=SELECT_BLOCKS, credit=1 << 20)


def test_change_is_seen_by_whoever_synced_after_it(world: World, real_place: Place) -> None:
    """P-SYNC-1: pulled from catalogd, and held by the hub."""
    table = real_place.table("t", "ds")
    with world.catalogd():
        client = world.client()
        for number in range(3):
            real_place.writes.add_partitions([make_partition(table, [str(number)])])
            synced = client.ask(Sync(request=number), Synced)
            assert synced.event_id >= real_place.reads.current_event_id()
            answer = client.ask(pull(real_place), Pulled)
            block = next(e for e in answer.entries if e.key == block_key(real_place.db, "t", ""))
            assert answer.topic_version >= synced.versions[answer.topic], "others may load still"
            assert f"ds={number}" in decode_block(block.value or b"", block.version).names
        topic, version = answer.topic, answer.topic_version
        until(lambda: dict(versions(world.hub))[topic] >= version, timeout_s=WAIT_S)
        until(lambda: world.hub.status.watermark >= synced.event_id, timeout_s=WAIT_S)


def test_hub_that_is_ahead_costs_an_epoch_and_is_filled_anew(
    world: World, real_place: Place, tmp_path: Path
) -> None:
    """P-START-3. Given a store of an older epoch than the hub's, it begins one above that."""
    real_place.table("t")
    older = tmp_path / "older"
    Store.open(older, num_topics=4, now_us=5, new_id=9).close()
    with world.catalogd() as newer:
        world.agreed(newer)
    with world.catalogd(state_dir=older) as catalogd:
        until(lambda: catalogd.status.epoch > newer.status.epoch, timeout_s=WAIT_S)
        until(lambda: world.hub.status.epoch == catalogd.status.epoch, timeout_s=WAIT_S)
        world.agreed(catalogd)
        answer = world.client().ask(pull(real_place), Pulled)
        assert answer.epoch == catalogd.status.epoch
    with opened(older) as store:
        assert store.epoch == catalogd.status.epoch, "a restart goes on with it"


def test_garbage_is_refused_and_counted_and_changes_nothing(world: World) -> None:
    with world.catalogd():
        client = world.client()
        client.link.send("catalogd", b"garbage of a stranger")
        refused = client.hear(Refused)
        assert (refused.request, refused.code) == (0, "VERSION")
        facts = dict(client.ask(Inspect(request=3, what="status"), Inspected).rows)
        assert facts["undecodable"] == 1
        assert facts["refused"] == 0


def test_hub_hears_that_catalogd_leaves(world: World) -> None:
    with world.catalogd():
        until(lambda: world.hub.status.subscribers, timeout_s=WAIT_S, what="a member")
    what = "a hub without members"
    until(lambda: not world.hub.status.subscribers, timeout_s=WAIT_S, what=what)
    assert world.hub.status.counts.lost == 0, "it was told, and did not have to notice"


# -- one turn at a time, over a metastore in memory


class Shell:
    """A catalogd that takes its turns when it is told, in virtual time; its readers rest."""

    def __init__(self, folder: Path, place: WindowState | None, *hubs: str) -> None:
        self.now = 100.0
        self.store = Store.open(folder, num_topics=4, now_us=5, new_id=9)
        topics = load_topics(self.store, TOPICS)
        window = EventWindow(place, now=self.now) if place is not None else None
        starts = self.store.starts
        self.core = Catalog(topics, starts=starts, window=window, settings=Settings())
        self.published = PublishedState(
            topics=topics, starts=starts, catalog_address="c", catalog_name="hms"
        )
        self.link = Link()
        self.link.bind_router(SERVICE, "tcp://127.0.0.1:0")
        self.publishers = [
            Publisher(self.published, name="c", registration=bytes(16), rng=Random(1)) for _ in hubs
        ]
        self.catalogd = Catalogd(
            self.core,
            self.store,
            self.link,
            published=self.published,
            hubs=[HubConnection(*pair) for pair in zip(hubs, self.publishers, strict=True)],
            make_read_threads=lambda deliver: ReadThreads(
                FakeMetastore, threads=3, deliver=deliver
            ),
            clock=lambda: self.now,
            wall_us=self.now_us,
        )

    def now_us(self) -> int:
        return NOW_US + int(self.now * 1e6)

    def turn(self, *facts: Fact, passed_s: float = 0.0) -> None:
        """Let time pass, tell the core ``facts``, then take a turn."""
        self.now += passed_s
        for fact in facts:
            self.core.handle(fact, now=self.now, now_us=self.now_us())
        self.catalogd.run_once()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[..., Shell]]:
    with ExitStack() as stack:

        def make(*hubs: str, place: WindowState | None = SETTLED) -> Shell:
            made = Shell(tmp_path, place, *hubs)
            stack.callback(made.catalogd.close)
            return made

        yield make


def test_restart_knows_its_watermark_before_anything_changes(
    shell: Callable[..., Shell],
) -> None:
    assert shell().published.watermark == SETTLED.last_id


def test_hubs_are_told_nothing_before_the_names_are_known(shell: Callable[..., Shell]) -> None:
    """Given a store that holds nothing yet, a hub that heard of it would pass for empty."""
    found = shell("tcp://127.0.0.1:1", place=None)
    found.turn(passed_s=1.0)
    assert found.catalogd.status.problem
    assert found.publishers[0].state == State.WAITING
    found.turn(Polled(poll=1, current_id=3, events=()))
    found.turn(NamesRead(databases={"d": (b"struct", ())}))
    assert found.publishers[0].state == State.CONNECTING
    found.turn(passed_s=1.0)
    assert found.catalogd.status.problem == ""


def test_what_is_told_is_in_the_store(shell: Callable[..., Shell]) -> None:
    found = shell(place=None)
    found.turn()
    found.turn(Polled(poll=1, current_id=3, events=()))
    found.turn(NamesRead(databases={"d": (b"struct", ())}))
    assert [entry.key for entry in entries_of(found.store, NAMESPACE)] == [database_key("d")]
    assert found.store.last_event_id == found.published.watermark == 3


def test_hub_that_does_not_answer_is_connected_to_again(shell: Callable[..., Shell]) -> None:
    found = shell("tcp://127.0.0.1:1")
    for _ in range(3):
        found.turn(passed_s=WELCOME_S + 1)
    assert found.publishers[0].counts.reconnects == 2


def test_hub_that_sends_garbage_is_left_and_counted(shell: Callable[..., Shell]) -> None:
    hub = Link()
    address = hub.bind_router("hub", "tcp://127.0.0.1:0")
    found = shell(address)

    def greeted() -> list[Received]:
        found.turn()
        return hub.poll(0.01)

    hello = until(greeted, timeout_s=WAIT_S, what="a greeting")[0]
    hub.send("hub", b"garbage of a stranger", hello.peer)
    publisher = found.publishers[0]
    until(
        lambda: found.turn() or publisher.state == State.WAITING, timeout_s=WAIT_S, what="it leaves"
    )
    hub.close()
    assert publisher.reason.startswith("no message of ours")
    assert found.core.counts.undecodable == 1


def test_answer_to_who_has_gone_is_counted(shell: Callable[..., Shell]) -> None:
    found = shell()
    found.turn(Requested(peer=b"nobody", message=Inspect(request=1, what="status")))
    found.turn(passed_s=1.0)
    assert found.catalogd.status.counts["unreachable"] == 1


def test_old_tombstones_are_forgotten_by_store_and_topics(
    shell: Callable[..., Shell], tmp_path: Path
) -> None:
    key = table_key("d", "t")
    with opened(tmp_path) as store:
        commit(store, transaction(0, 1, value(key, 1)))
        commit(store, transaction(0, 2, prefix_tombstone(key, 2)))
    found = shell()
    for _ in range(3):
        found.turn()
    assert found.published.topics[0].floor == 0
    for _ in range(3):
        found.turn(passed_s=2 * TOMBSTONES_AGE_MAX_US / 1e6)
    assert found.published.topics[0].floor == 2
    assert found.catalogd.status.topics[0].floor == 2
    assert entries_of(found.store, 0) == []


def test_new_epoch_begins_in_store_and_topics_before_it_is_told(
    shell: Callable[..., Shell],
) -> None:
    """P-START-3."""
    found = shell("tcp://127.0.0.1:1")
    found.core.mint_above(NOW_US * 2)
    found.turn()
    assert found.published.position[0] == 5, "events since the store was written come first"
    found.turn(Polled(poll=1, current_id=41, events=()))
    assert found.published.position[0] == found.store.epoch == NOW_US * 2 + 1
    assert {topic.epoch for topic in found.published.topics.values()} == {found.store.epoch}
    assert found.core.position == found.published.position
