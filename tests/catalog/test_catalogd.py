"""catalogd's shell, one turn at a time: what it stores, sends and forgets, over real sockets."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random

import pytest

from topicast.catalog import catalogd as module
from topicast.catalog.catalogd import SERVICE, Catalogd, HubConnection
from topicast.catalog.core import Catalog, CatalogSettings
from topicast.catalog.effects import Fact, FloorRaised, Requested
from topicast.catalog.history.history_thread import WAITING_MAX
from topicast.catalog.ingest.events.event_window import EventWindow
from topicast.catalog.ingest.events.identity import Identified
from topicast.catalog.ingest.events.poller import Polled
from topicast.catalog.ingest.loads.read_threads import ReadThreads
from topicast.catalog.metastore.port import NamesRead
from topicast.catalog.model.window_state import WindowState
from topicast.catalog.publish.publisher import WELCOME_S, PublishedState, Publisher, State
from topicast.catalog.storage.loading import load_topics
from topicast.catalog.storage.store import TOMBSTONES_AGE_MAX_US, Store
from topicast.tests.catalog.stores import NOW_US, TOPICS, commit, entries_of, opened, transaction
from topicast.tests.cluster.fake_metastore import FakeMetastore
from topicast.tests.keys import PAIR, client, credential_of, own_link
from topicast.tests.strategies import value
from topicast.tests.waiting import until
from topicast.topics.keys.clients import ClientRole, Clients
from topicast.topics.link import Handshake, Link, ReceivedFrame
from topicast.topics.link.curve import derived_pair
from topicast.topics.objects.names import database_key, table_key
from topicast.topics.topic import NAMESPACE, Topic, prefix_tombstone, stub
from topicast.topics.verdict import Serving
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.answers import Inspected, Reasons
from topicast.topics.wire.messages.catalog import Grant, Granted, Validate, Validated
from topicast.topics.wire.messages.connection import Bye, Refused
from topicast.topics.wire.messages.data import SOURCE_LOAD
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import (
    Order,
    ReadEventLog,
    ReadHistory,
    ReadStatus,
    ReadTableStates,
    ReadVerdict,
)

WAIT_S = 60.0
STABLE = WindowState(last_id=41, stable_id=41)


class Shell:
    """A catalogd that takes its turns when a test says so, in virtual time; its readers rest."""

    def __init__(self, folder: Path, place: WindowState | None, *hubs: str) -> None:
        self.now = 100.0
        self.closed = False
        self.store = Store.open(folder, num_topics=4, now_us=5, new_id=9)
        topics = load_topics(self.store, TOPICS)
        self.place = place
        self.core = self._core(topics, "")
        self.published = PublishedState(
            topics=topics, starts=self.store.starts, catalog_address="c", catalog_name="hms"
        )
        self.link = own_link(SERVICE)
        self.address = self.link.bind_router(SERVICE, "tcp://127.0.0.1:0")
        self.publishers = [
            Publisher(self.published, name="c", registration=bytes(16), rng=Random(1)) for _ in hubs
        ]
        self.catalogd = Catalogd(
            self.core,
            self.store,
            self.link,
            published=self.published,
            hubs=[
                HubConnection(address, PAIR.public, own)
                for address, own in zip(hubs, self.publishers, strict=True)
            ],
            renew=self._core,
            make_read_threads=lambda deliver: ReadThreads(
                FakeMetastore, threads=3, deliver=deliver
            ),
            clock=lambda: self.now,
            wall_us=self.now_us,
        )

    def _core(self, topics: dict[int, Topic], finding: str) -> Catalog:
        window = EventWindow(self.place, now=self.now) if self.place is not None else None
        self.core = Catalog(
            topics,
            starts=self.store.starts,
            window=window,
            folders=self.store,
            settings=CatalogSettings(),
            finding=finding,
        )
        return self.core

    def now_us(self) -> int:
        return NOW_US + int(self.now * 1e6)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.catalogd.close()

    def turn(self, *facts: Fact, passed_s: float = 0.0) -> None:
        """Let time pass, hand the core ``facts``, then take a turn."""
        self.now += passed_s
        for fact in facts:
            self.core.handle(fact, now=self.now, now_us=self.now_us())
        self.catalogd.run_once()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[..., Shell]]:
    with ExitStack() as stack:

        def make(*hubs: str, place: WindowState | None = STABLE) -> Shell:
            made = Shell(tmp_path, place, *hubs)
            stack.callback(made.close)
            return made

        yield make


def test_restart_knows_its_watermark_before_anything_changes(
    shell: Callable[..., Shell],
) -> None:
    assert shell().published.watermark == STABLE.last_id


def test_error_of_ours_ends_the_daemon_with_what_came_and_went_before_it(
    shell: Callable[..., Shell],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = shell()
    found.turn()
    with found.core.version_log.transaction(0, source=SOURCE_LOAD) as written:
        written.add([stub(value(b"d\0t\0", written.version))])
    found.turn(FloorRaised(topic=0, floor=0))

    def fails(timeout_s: float) -> list[ReceivedFrame]:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(found.link, "poll", fails)
    with pytest.raises(RuntimeError):
        found.catalogd.run()
    (logged,) = [one.getMessage() for one in caplog.records if "steps=" in one.getMessage()]
    assert " in FloorRaised; " in logged
    assert " out Commit topic=0" in logged
    assert found.core.story(1) != found.core.story(0)


def test_hubs_are_told_nothing_before_the_names_are_known(shell: Callable[..., Shell]) -> None:
    """Given a store that holds nothing yet, a hub that knew of it would pass for empty."""
    found = shell("tcp://127.0.0.1:1", place=None)
    found.turn(passed_s=1.0)
    assert found.catalogd.verdict.state is Serving.NOT_SERVING
    assert found.publishers[0].state == State.CONNECTING, "it is sent the list of clients"
    assert not found.published.names_known
    found.turn(Identified(poll=1, connection=1, uuid="", current_id=3))
    found.turn(NamesRead(databases={"d": (b"struct", ())}))
    assert found.published.names_known
    found.turn(passed_s=1.0)
    assert found.catalogd.verdict.state is not Serving.NOT_SERVING


def test_what_is_told_is_in_the_store(shell: Callable[..., Shell]) -> None:
    found = shell(place=None)
    found.turn()
    found.turn(Identified(poll=1, connection=1, uuid="", current_id=3))
    found.turn(NamesRead(databases={"d": (b"struct", ())}))
    assert [entry.key for entry in entries_of(found.store, NAMESPACE)] == [database_key("d")]
    assert found.store.last_event_id == found.published.watermark == 3


def test_hub_that_does_not_answer_is_tried_again_and_said_once(
    shell: Callable[..., Shell], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    found = shell("tcp://127.0.0.1:1")
    for _ in range(6):
        found.turn(passed_s=WELCOME_S + 1)
    tries = [one.levelname for one in caplog.records if "state=CONNECTING" in one.getMessage()]
    assert tries == ["INFO", *["DEBUG"] * 2]
    warned = [one for one in caplog.records if "tcp://127.0.0.1:1 has not" in one.getMessage()]
    assert [one.levelname for one in warned] == ["WARNING"]
    facts = found.catalogd.verdict.document["reasons"]
    assert [one["subject"] for one in facts if one["code"] == "hub_away"] == ["tcp://127.0.0.1:1"]


@contextmanager
def greeted(shell: Callable[..., Shell]) -> Iterator[tuple[Shell, Link, bytes]]:
    """Yield a catalogd, the hub that it has greeted, and its connection there."""
    hub = own_link("hub")
    found = shell(hub.bind_router("hub", "tcp://127.0.0.1:0"))

    def greeting() -> list[ReceivedFrame]:
        found.turn()
        return hub.poll(0.01)

    yield found, hub, until(greeting, timeout_s=WAIT_S, what="a greeting")[0].peer
    hub.close()


def test_hub_that_sends_garbage_is_left_and_counted(shell: Callable[..., Shell]) -> None:
    with greeted(shell) as (found, hub, peer):
        hub.send("hub", b"garbage of a stranger", peer)
        publisher = found.publishers[0]
        until(lambda: found.turn() or publisher.state == State.WAITING, timeout_s=WAIT_S)
    assert publisher.reason.startswith("no message of ours")
    assert found.core.counts.frames_undecodable == 1


def test_hub_hears_that_catalogd_leaves(shell: Callable[..., Shell]) -> None:
    with greeted(shell) as (found, hub, _):
        found.close()
        messages = lambda: [decode(one.frame) for one in hub.poll(0.01)]  # noqa: E731
        until(lambda: any(isinstance(one, Bye) for one in messages()), timeout_s=WAIT_S)


def test_garbage_of_a_client_is_refused_and_counted(shell: Callable[..., Shell]) -> None:
    found, client = shell(), own_link()
    client.connect_dealer("catalogd", found.address, PAIR.public)
    client.send("catalogd", b"garbage of a stranger")
    answers = until(lambda: found.turn() or client.poll(0.01), timeout_s=WAIT_S)
    client.close()
    refused = decode(answers[0].frame)
    assert isinstance(refused, Refused)
    assert (refused.request, refused.code) == (0, "VERSION")
    assert (found.core.counts.frames_undecodable, found.core.dispatcher.counts["refused"]) == (1, 0)


def answers(found: Shell, link: Link, message: Message) -> Message:
    """Send ``message`` over ``link`` to catalogd; return the answer."""
    if link.handshake("catalogd") is Handshake.NONE:
        until(lambda: found.turn() or link.poll(0.01) or link.handshake("catalogd").name == "DONE")
    link.send("catalogd", encode(message))
    return decode(until(lambda: found.turn() or link.poll(0.01), timeout_s=WAIT_S)[0].frame)


@pytest.mark.parametrize("end", ["lease", "ended", "revoked"])
def test_granted_key_reads_until_its_lease_is_over_or_ended_or_its_granter_revoked(
    shell: Callable[..., Shell], end: str
) -> None:
    """P-GRANT-1, P-GRANT-2, P-GRANT-4."""
    credential, clients = credential_of(ClientRole.DRIVER, Clients())
    own = derived_pair(credential.pair, b"executors")
    found = shell()
    found.catalogd.admit(clients)
    with closing(Link(credential.pair)) as driver, closing(Link(own)) as executor:
        for link in (driver, executor):
            link.connect_dealer("catalogd", found.address, PAIR.public)
        grant = Grant(request=3, public=own.public, lease_s=60)
        assert answers(found, driver, grant) == Granted(request=3, lease_s=60)
        status = answers(found, executor, ReadStatus(request=4))
        assert isinstance(status, Inspected)
        refused = answers(found, executor, Grant(request=5, public=PAIR.public, lease_s=60))
        assert isinstance(refused, Refused)
        assert refused.code == "ROLE"
        if end == "lease":
            found.turn(passed_s=60.0)
        elif end == "ended":
            last = Grant(request=6, public=own.public, lease_s=0)
            assert answers(found, driver, last) == Granted(request=6, lease_s=0)
        else:
            found.catalogd.admit(Clients())
        until(
            lambda: (
                found.turn()
                or executor.poll(0.01)
                or executor.handshake("catalogd") is Handshake.REFUSED
            )
        )


def test_answer_to_who_has_gone_is_counted(shell: Callable[..., Shell]) -> None:
    found = shell()
    found.turn(Requested(peer=b"nobody", message=ReadStatus(request=1), client=client()))
    found.turn(passed_s=1.0)
    assert found.catalogd.status.counts["unreachable"] == 1


def test_reads_of_the_store_beyond_a_number_are_refused_in_the_next_turn(
    shell: Callable[..., Shell],
) -> None:
    found = shell()  # nobody started its threads: what is read of the store waits
    wanted = ReadHistory(request=1, db="d", table="t")
    several = [Requested(peer=b"p", message=wanted, client=client())] * (WAITING_MAX + 2)
    found.turn(*several)
    counts = found.core.dispatcher.counts
    assert counts["refused"] == 0
    found.turn()
    assert counts["refused"] == 2


@pytest.fixture
def moved(shell: Callable[..., Shell], tmp_path: Path) -> Iterator[tuple[Shell, Link, Path]]:
    """Yield a catalogd whose store is not where it was, an operator's link, and the missing file.

    The file is beside its place, as ``away``.
    """
    credential, clients = credential_of(ClientRole.OPERATOR, Clients())
    found, lock = shell(), tmp_path / "catalogd.lock"
    found.catalogd.admit(clients)
    with closing(Link(credential.pair)) as operator:
        operator.connect_dealer("catalogd", found.address, PAIR.public)
        answers(found, operator, ReadStatus(request=1))
        lock.rename(tmp_path / "away")
        found.turn(passed_s=2.0)
        yield found, operator, lock


def test_questions_about_catalogd_are_answered_and_orders_refused_while_nothing_is_stored(
    moved: tuple[Shell, Link, Path],
) -> None:
    found, operator, _ = moved
    verdict = answers(found, operator, ReadVerdict(request=2))
    assert isinstance(verdict, Reasons)
    assert (verdict.rows[0].state, verdict.rows[0].code) == ("not serving", "store_moved")
    refresh = Order(request=3, sender="ann", order="refresh", arguments=("d.t",))
    states = ReadTableStates(request=5, tables=("d.t",))
    for message in (refresh, ReadEventLog(request=4), states):
        refused = answers(found, operator, message)
        assert isinstance(refused, Refused)
        assert (refused.request, refused.code) == (message.request, "RETRY")
        assert "catalogd.lock: was deleted, moved or replaced; put the" in refused.message


def test_what_arrives_while_nothing_is_stored_is_answered_in_its_order_afterwards(
    moved: tuple[Shell, Link, Path],
) -> None:
    found, operator, lock = moved
    for request in (2, 3, 4):
        operator.send("catalogd", encode(Validate(request=request, epoch=5, claims=())))
    found.turn()
    answered = operator.poll(0.01)
    assert answered == []
    lock.with_name("away").rename(lock)

    def all_came() -> bool:
        found.turn()
        answered.extend(operator.poll(0.01))
        return len(answered) == 3

    until(all_came, timeout_s=WAIT_S)
    messages = [decode(one.frame) for one in answered]
    assert [one.request for one in messages if isinstance(one, Refused | Validated)] == [2, 3, 4]


def test_hub_of_which_more_arrives_than_waits_for_the_store_is_greeted_anew(
    shell: Callable[..., Shell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 0)
    lock = tmp_path / "catalogd.lock"
    with greeted(shell) as (found, hub, peer):
        lock.rename(tmp_path / "away")
        found.turn(passed_s=2.0)
        hub.send("hub", b"garbage that nobody has read", peer)
        found.turn()
        (tmp_path / "away").rename(lock)
        reasons = set[str]()

        def is_left() -> bool:
            found.turn()
            reasons.add(found.publishers[0].reason)
            return "more arrived than waits for the store" in reasons

        until(is_left, timeout_s=WAIT_S)
    assert found.core.counts.frames_undecodable == 0


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
    found.turn(passed_s=2 * TOMBSTONES_AGE_MAX_US / 1e6)
    for _ in range(4 * len(TOPICS)):
        found.turn(passed_s=1.0)
    assert found.published.topics[0].floor == 2
    assert found.catalogd.status.topics[0].floor == 2
    assert entries_of(found.store, 0) == []


def test_another_metastore_is_a_new_epoch_that_hubs_hear_of_with_its_names(
    shell: Callable[..., Shell], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Given readers of the old epoch, the new epoch is there for them once it is complete."""
    with opened(tmp_path) as store:
        commit(store, transaction(NAMESPACE, 1, value(database_key("old"), 1)))
        commit(store, transaction(0, 1, value(table_key("old", "t"), 1)))
    found = shell("tcp://127.0.0.1:1")
    found.turn()
    assert found.publishers[0].state == State.CONNECTING
    before, found.place = found.core, None
    found.turn(Identified(poll=1, connection=1, uuid="", current_id=40))
    epoch = found.store.epoch
    assert found.core is not before
    assert found.core.position == found.published.position == (epoch, 9)
    assert epoch > 5
    assert entries_of(found.store, 0) == []
    assert found.published.topics[0].group_ids() == ()
    assert found.published.topics[NAMESPACE].version == 1
    assert found.publishers[0].state == State.WAITING
    why = "another metastore: its newest event is 40, and 41 was read before"
    assert caplog.messages == [
        f"metastore: connected to {why}",
        f"epoch minted: epoch={epoch} reason={why}",
    ]
    found.turn(passed_s=60.0)
    assert found.catalogd.status.metastore_found == why
    assert found.catalogd.verdict.state is Serving.NOT_SERVING
    assert not found.published.names_known
    found.turn(Identified(poll=1, connection=1, uuid="one", current_id=40))
    found.turn(NamesRead(databases={"new": (b"struct", ())}))
    found.turn()
    assert [entry.key for entry in entries_of(found.store, NAMESPACE)] == [database_key("new")]
    assert found.published.names_known
    found.turn(passed_s=1.0)
    assert found.catalogd.verdict.state is not Serving.NOT_SERVING
    assert found.catalogd.status.metastore_uuid == "one"


def test_names_that_were_being_read_when_another_metastore_was_found_are_not_taken(
    shell: Callable[..., Shell],
) -> None:
    """Given the names of either metastore in the same turn, the epoch ends with what it had."""
    found = shell()
    found.turn()
    before, found.place = found.core, None
    names = NamesRead(databases={"new": (b"struct", ())})
    found.turn(Identified(poll=1, connection=1, uuid="", current_id=40), names)
    assert found.core is not before
    assert found.store.epoch > 5
    assert entries_of(found.store, NAMESPACE) == []
    assert not found.published.names_known


def test_new_epoch_begins_in_store_and_topics_before_it_is_told(
    shell: Callable[..., Shell],
) -> None:
    """P-START-3."""
    found = shell("tcp://127.0.0.1:1")
    found.core.epochs.mint_above(NOW_US * 2)
    found.turn()
    assert found.published.position[0] == 5, "events since the store was written come first"
    found.turn(Identified(poll=1, connection=1, uuid="", current_id=41))
    found.turn(Identified(poll=2, connection=1, uuid="", current_id=41))
    assert found.published.position[0] == 5, "a check of the connection is no poll"
    found.turn(NamesRead(databases={}))  # no event said that the metastore is the same
    found.turn(Polled(poll=3, connection=1, current_id=41, events=()))
    assert found.published.position[0] == found.store.epoch == NOW_US * 2 + 1
    assert {topic.epoch for topic in found.published.topics.values()} == {found.store.epoch}
    assert found.core.position == found.published.position
