"""A publisher leads one hub: greeting, comparison, announcement, deltas, catch-ups, waits."""

from dataclasses import replace
from itertools import pairwise, permutations
from random import Random

import pytest

from topicast.catalog.model.lineage import EPOCH_MAX, StartRecord
from topicast.catalog.model.versions import VersionLog
from topicast.catalog.publish.publisher import (
    AHEAD_S,
    AHEAD_S_MAX,
    BACKOFF_S,
    BACKOFF_S_MAX,
    CLIENTS_AGAIN_S,
    PROBE_S,
    SILENCE_S,
    SLOW_S,
    UNACKED_BYTES_MAX,
    UNACKED_MAX,
    WAIT_S_MAX,
    WELCOME_S,
    Committed,
    Effect,
    Entered,
    EpochBegun,
    Fact,
    FromHub,
    Learned,
    Lost,
    MintAbove,
    PublishedState,
    Publisher,
    Put,
    Reconnect,
    SendOn,
    State,
)
from topicast.topics.liveness import HEARTBEAT_MS
from topicast.topics.topic import Entry, Topic, topic_ids
from topicast.topics.turn import Tick, Turn
from topicast.topics.wire.messages.connection import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    Bye,
    Hello,
    Introduction,
    Refused,
    ServerKeys,
    Welcome,
)
from topicast.topics.wire.messages.data import Chunk, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.publishers import Announce, ClientList, Filed, Have
from topicast.topics.wire.messages.readers import Cancel, CatchUp, Credit, Dropped, Wanted

EPOCH = 1000
FULL = 2


def welcome(hub: int = 5, protocol: int = 1) -> Welcome:
    return Welcome(
        protocol=protocol,
        hub=hub,
        epoch=0,
        start=0,
        num_topics=0,
        data_address="",
        catalog_address="",
        catalog_name="",
        heartbeat_ms=250,
        lost_ms=8000,
    )


def refusal(code: str, *, request: int = 0, retry_ms: int = 0) -> Refused:
    return Refused(request=request, code=code, message="why", retry_ms=retry_ms)


class HubPeer:
    """A publisher in virtual time, and what its hub sends to it."""

    def __init__(self) -> None:
        topics = {number: Topic() for number in topic_ids(4)}
        self.version_log = VersionLog(topics, Turn[object]())
        self.published = PublishedState(
            topics=topics, starts=(), catalog_address="c", catalog_name="hms"
        )
        self.begin_epoch(EPOCH)
        self.publisher = Publisher(
            self.published, name="catalogd", registration=b"r" * 16, rng=Random(1)
        )
        self.now = 50.0

    def begin_epoch(self, epoch: int) -> None:
        versions = self.version_log.versions()
        self.published.starts = (StartRecord(start=1, epoch=epoch, versions=versions),)
        for topic in self.published.topics.values():
            topic.epoch = epoch

    def write(self, number: int, content: bytes = b"v", key: bytes = b"a\0b\0") -> None:
        with self.version_log.transaction(number, source=0) as written:
            version = written.version
            written.add([Entry(key, version, version, version, len(content), content)])

    def handle(self, fact: Fact) -> tuple[Effect, ...]:
        effects = self.publisher.handle(fact, now=self.now, now_us=7)
        self.publisher.check()
        return effects

    def receive(self, message: Message, channel: int = CONTROL_CHANNEL) -> tuple[Effect, ...]:
        return (*self.handle(FromHub(channel, message)), *self.publisher.send_some(1))

    def tick(self, seconds: float = 0.0) -> tuple[Effect, ...]:
        self.now += seconds
        return (*self.handle(Tick()), *self.publisher.send_some(1))

    def sent(self, effects: tuple[Effect, ...]) -> list[Message]:
        return [effect.message for effect in effects if isinstance(effect, SendOn)]

    def have(self, epoch: int = 0, start: int = 0, *versions: int) -> Have:
        return Have(epoch=epoch, start=start, versions=versions)

    def filed(self, *versions: tuple[int, int]) -> Filed:
        epoch, start = self.published.position
        return Filed(epoch=epoch, start=start, versions=versions)

    def connect(self) -> None:
        self.tick()
        self.receive(welcome())
        self.receive(welcome(), BULK_CHANNEL)

    def lead(self) -> None:
        self.connect()
        self.receive(self.have())
        self.receive(self.filed((0, 0)))
        assert self.publisher.state == State.LEADING


@pytest.fixture
def peer() -> HubPeer:
    return HubPeer()


def catch_up(stream: int = 3, credit: int = 1 << 20, topic: int = 0) -> CatchUp:
    wanted = Wanted(topic=topic, level=FULL, epoch=0, version=0)
    return CatchUp(stream=stream, credit=credit, wanted=(wanted,))


def test_first_tick_connects_and_greets_on_both_connections(peer: HubPeer) -> None:
    effects = peer.tick()
    assert effects[:2] == (Reconnect(), Entered(State.CONNECTING, "starting"))
    assert [effect.channel for effect in effects[2:]] == [CONTROL_CHANNEL, BULK_CHANNEL]
    assert all(isinstance(message, Hello) for message in peer.sent(effects))


@pytest.mark.parametrize("order", tuple(permutations(range(3))))
def test_announcement_waits_for_both_welcomes_and_what_the_hub_has(
    peer: HubPeer, order: tuple[int, ...]
) -> None:
    facts = (
        FromHub(CONTROL_CHANNEL, welcome()),
        FromHub(BULK_CHANNEL, welcome()),
        FromHub(CONTROL_CHANNEL, peer.have()),
    )
    peer.tick()
    sent = [peer.sent(peer.handle(facts[at])) for at in order]
    first, second, third = ([one for one in some if type(one) is Announce] for some in sent)
    ours = Announce(epoch=EPOCH, start=1, num_topics=4, catalog_address="c", catalog_name="hms")
    assert (first, second, third) == ([], [], [ours])
    assert peer.publisher.state == State.ANNOUNCED


def test_nothing_is_announced_before_the_names_were_read_but_clients_are_sent(
    peer: HubPeer,
) -> None:
    """P-START-8, P-CLIENTS-1."""
    peer.published.names_known, peer.published.clients = False, b"a"
    peer.connect()
    assert peer.sent(peer.receive(peer.have())) == []
    for _ in range(10):  # longer than a welcome is waited for
        sent = peer.sent(peer.tick(WELCOME_S / 4))
        assert not any(isinstance(one, Announce) for one in sent)
        peer.receive(welcome())
        peer.receive(welcome(), BULK_CHANNEL)
        peer.receive(peer.have())
    assert peer.publisher.state == State.CONNECTING
    assert peer.publisher.deadline > peer.now
    peer.published.clients = b"b"
    assert lists(peer, *peer.tick()) == [b"b"]
    peer.published.names_known = True
    assert [type(one) for one in peer.sent(peer.tick())] == [Announce, Heartbeat]
    assert peer.publisher.state == State.ANNOUNCED


def test_hub_is_told_where_requests_are_taken_and_where_the_pages_are(peer: HubPeer) -> None:
    """P-START-9, P-PAGES-1: behind each Welcome on control, and before the names were read."""
    peer.published.names_known = False
    peer.tick()
    for pages in ("", "http://c:25020"):
        peer.published.pages = pages
        introduction = Introduction(catalog_address="c", pages=pages)
        assert peer.sent(peer.receive(welcome())) == [introduction]
        assert peer.sent(peer.receive(welcome(), BULK_CHANNEL)) == []


@pytest.mark.parametrize("sign", ["filed", "have"])
def test_deltas_begin_once_the_hub_follows(peer: HubPeer, sign: str) -> None:
    peer.connect()
    peer.receive(peer.have())
    assert peer.handle(Committed(0, 1, b"early")) == ()
    other_life = Filed(epoch=EPOCH, start=99, versions=((0, 1),))
    assert peer.receive(other_life) == ()
    accepted = {"filed": peer.filed((0, 0)), "have": peer.have(EPOCH, 1, 0, 0, 0, 0, 0)}
    assert peer.receive(accepted[sign]) == (Entered(State.LEADING, "the hub follows"),)
    assert peer.handle(Committed(0, 2, b"frame")) == (Put(b"frame"),)


@pytest.mark.parametrize(("size", "frames"), [(UNACKED_BYTES_MAX // 4, 4), (1, UNACKED_MAX)])
def test_unacknowledged_frames_are_bounded_in_bytes_and_in_number(
    peer: HubPeer, size: int, frames: int
) -> None:
    """P-START-7: what is skipped is a gap to the hub, which catches up."""
    peer.lead()
    sent = [peer.handle(Committed(0, version, b"x" * size)) for version in range(1, frames + 3)]
    assert [len(effects) for effects in sent] == [1] * frames + [0, 0]
    one = Committed(0, frames + 3, b"x" * size)
    peer.receive(Filed(epoch=EPOCH, start=99, versions=((0, frames),)))
    assert peer.handle(one) == (), "another start's were filed"
    peer.receive(peer.filed((0, 1)))
    assert peer.handle(one) == (Put(one.frame),), "one was acknowledged"
    assert peer.handle(one) == ()
    peer.handle(Lost("reset"))
    peer.now = peer.publisher.deadline
    peer.lead()
    assert peer.handle(one) == (Put(one.frame),), "another connection begins with none"


def test_hub_that_is_ahead_orders_a_new_epoch_and_is_announced_it(peer: HubPeer) -> None:
    peer.connect()
    effects = peer.receive(peer.have(EPOCH + 9, 4, 1))
    assert effects[-1] == MintAbove(EPOCH + 9)
    assert peer.publisher.state == State.COMPARING
    assert peer.receive(peer.have(EPOCH + 9, 4, 1)) == ()
    peer.begin_epoch(EPOCH + 10)
    (announce,) = peer.sent(peer.handle(EpochBegun()))
    assert announce.epoch == EPOCH + 10


def test_epochs_for_one_hub_are_ordered_ever_more_slowly(peer: HubPeer) -> None:
    ordered: list[float] = []
    while len(ordered) < 9:
        peer.connect()
        effects = peer.receive(peer.have(EPOCH, 77, 1))
        ordered += [peer.now] * (MintAbove(EPOCH) in effects)
        assert MintAbove(EPOCH) in effects or "another catalogd" in peer.publisher.reason
        peer.handle(Lost("reset"))
        peer.now = peer.publisher.deadline
    gaps = [later - earlier for earlier, later in pairwise(ordered)]
    least = [min(AHEAD_S * 2**number, AHEAD_S_MAX) for number in range(8)]
    assert all(gap >= low for gap, low in zip(gaps, least, strict=True))
    peer.now += 2 * AHEAD_S_MAX
    peer.connect()
    assert MintAbove(EPOCH) in peer.receive(peer.have(EPOCH, 77, 1))
    peer.handle(Lost("reset"))
    peer.now += AHEAD_S
    peer.connect()
    assert MintAbove(EPOCH) in peer.receive(peer.have(EPOCH, 77, 1))


def test_hub_that_changed_before_it_was_announced_to_is_judged_again(peer: HubPeer) -> None:
    peer.connect()
    peer.receive(peer.have(EPOCH - 1, 4, 1))
    (again,) = peer.sent(peer.receive(peer.have(EPOCH - 1, 4, 2)))
    assert isinstance(again, Announce)
    peer.receive(peer.have(EPOCH, 4, 2))
    assert peer.publisher.state == State.COMPARING


def test_new_epoch_is_announced_to_a_hub_that_follows_and_ends_its_streams(peer: HubPeer) -> None:
    peer.lead()
    peer.write(0)
    peer.receive(catch_up(credit=0), BULK_CHANNEL)
    frame = b"x" * UNACKED_BYTES_MAX
    assert peer.handle(Committed(0, 1, frame)) == (Put(frame),)
    peer.begin_epoch(EPOCH + 1)
    (announce,) = peer.sent(peer.handle(EpochBegun()))
    assert announce.epoch == EPOCH + 1
    assert peer.receive(Credit(stream=3, amount=1 << 20), BULK_CHANNEL) == ()
    peer.receive(peer.filed((1, 0)))
    assert peer.handle(Committed(0, 2, frame)) == (Put(frame),), "none is unacknowledged"


def test_silent_connection_is_greeted_again_once_then_both_are_made_anew(peer: HubPeer) -> None:
    peer.lead()
    began = peer.now
    greeted: list[tuple[float, int]] = []
    while peer.publisher.state == State.LEADING:
        peer.now = max(peer.publisher.deadline, peer.now + 0.001)
        peer.receive(peer.filed((0, 0)))
        effects = peer.tick()
        hellos = (e for e in effects if isinstance(e, SendOn) and isinstance(e.message, Hello))
        greeted += ((peer.now - began, hello.channel) for hello in hellos)
    assert [channel for _, channel in greeted] == [BULK_CHANNEL]
    assert greeted[0][0] == pytest.approx(PROBE_S, abs=0.05)
    assert peer.now - began == pytest.approx(SILENCE_S, abs=0.05)
    wait_s = peer.publisher.deadline - peer.now
    assert BACKOFF_S / 2 <= wait_s <= BACKOFF_S * 1.5
    assert peer.tick(wait_s)[0] == Reconnect()


def test_it_is_known_since_when_a_hub_is_connected_or_not_and_why(peer: HubPeer) -> None:
    def facts() -> tuple[bool, float, str]:
        found = peer.publisher.facts("tcp://hub", now=peer.now)
        assert found.address == "tcp://hub"
        return found.connected, found.since_s, found.reason

    assert facts() == (False, 0.0, "starting")
    peer.tick()
    peer.now += 1.5
    assert facts() == (False, 1.5, "starting")
    peer.lead()
    peer.now += 0.5
    assert facts() == (True, 0.5, "the hub follows")
    heard_at = peer.now
    while peer.now < heard_at + SILENCE_S + 9:  # it is tried again and again
        peer.tick(0.1)
    connected, since_s, reason = facts()
    assert (connected, reason) == (False, f"the hub is silent for {SILENCE_S} s")
    assert since_s == pytest.approx(peer.now - heard_at, abs=0.7)
    peer.now = peer.publisher.deadline
    peer.lead()
    assert facts()[:2] == (True, 0.0)


def test_hub_that_waits_for_names_with_catalogd_is_connected(peer: HubPeer) -> None:
    peer.published.names_known = False
    peer.connect()
    assert not peer.publisher.connected
    peer.receive(peer.have())
    assert peer.publisher.connected
    assert peer.publisher.state == State.CONNECTING


def test_hub_of_another_catalogd_is_never_connected(peer: HubPeer) -> None:
    """Given two catalogds that fight for a hub, this one has not led it, however often greeted."""
    for _ in range(5):
        peer.connect()
        peer.receive(peer.have(EPOCH, 77, 1))
        assert not peer.publisher.connected
        peer.handle(Lost("reset"))
        peer.now = peer.publisher.deadline


def test_attempts_that_find_nothing_else_are_marked_as_such(peer: HubPeer) -> None:
    peer.lead()
    entered: list[Entered] = []
    for _ in range(300):
        entered += [one for one in peer.tick(0.1) if isinstance(one, Entered)]
    reasons = [one.reason for one in entered if not one.again]
    assert reasons == [f"the hub is silent for {SILENCE_S} s"]
    assert len(entered) > 10


def test_hub_that_sends_messages_and_no_welcome_is_left(peer: HubPeer) -> None:
    began, _ = peer.now, peer.tick()
    while peer.publisher.state == State.CONNECTING:
        peer.now = min(peer.publisher.deadline, peer.now + 0.1)
        peer.receive(catch_up(), BULK_CHANNEL)
        peer.receive(welcome())
        peer.tick()
    assert peer.now - began == WELCOME_S


def test_answer_to_the_greeting_keeps_an_idle_hub(peer: HubPeer) -> None:
    peer.lead()
    for _ in range(400):
        for message in peer.sent(peer.tick(0.05)):
            if isinstance(message, Hello):
                peer.receive(welcome(), message.channel)
    assert peer.publisher.state == State.LEADING


def test_heartbeat_has_the_versions_of_catalogd_four_times_a_second(
    peer: HubPeer,
) -> None:
    peer.lead()
    peer.write(1)
    peer.published.watermark = 42
    first = peer.sent(peer.tick())[0]
    assert isinstance(first, Heartbeat)
    assert (first.epoch, first.start, first.watermark) == (EPOCH, 1, 42)
    assert (first.hub, first.age_ms) == (0, 0), "what only a hub has"
    assert (first.versions, first.floors) == ((0, 1, 0, 0, 0), (0, 0, 0, 0, 0))
    assert (first.sequence, first.sent_us, first.catalog_address) == (1, 7, "c")
    assert peer.tick(HEARTBEAT_MS / 1000 - 0.01) == ()
    assert peer.publisher.deadline == pytest.approx(peer.now + 0.01)
    assert [message.sequence for message in peer.sent(peer.tick(0.01))] == [2]


def test_catch_up_is_answered_in_chunks_under_credit(peer: HubPeer) -> None:
    peer.lead()
    for version in range(1, 13):
        peer.write(0, b"x" * 100_000, b"a\0b\0\x01%03d" % version)
    first = peer.sent(peer.receive(catch_up(credit=1), BULK_CHANNEL))
    assert [type(message) for message in first] == [Chunk]
    assert (first[0].stream, first[0].start, first[0].snapshot) == (3, 1, True)
    assert not peer.publisher.sending, "it waits for credit"
    rest = peer.sent(peer.receive(Credit(stream=3, amount=1 << 21), BULK_CHANNEL))
    assert peer.publisher.deadline < peer.now
    while not rest[-1].last:
        rest += peer.sent(peer.tick())
    chunks = [chunk for chunk in first + rest if isinstance(chunk, Chunk)]
    assert [entry.version for chunk in chunks for entry in chunk.entries] == list(range(1, 13))


def test_chunks_leave_in_turns_of_their_own(peer: HubPeer) -> None:
    """However many streams are given credit at once: catalogd's other work comes between."""
    peer.lead()
    for version in range(1, 13):
        peer.write(0, b"x" * 100_000, b"a\0b\0\x01%03d" % version)
    for stream in range(1, 5):
        assert peer.handle(FromHub(BULK_CHANNEL, catch_up(stream))) == ()
        assert peer.handle(FromHub(BULK_CHANNEL, Credit(stream=stream, amount=1 << 20))) == ()
    sent = []
    while peer.publisher.sending:
        turn = peer.publisher.send_some(1)
        assert len(turn) <= 1
        sent += turn
    assert len(sent) == 4 * 6


def test_cancelled_or_refused_stream_ends(peer: HubPeer) -> None:
    peer.lead()
    peer.write(0)
    for end in (Cancel(stream=3), refusal("CHUNK", request=3)):
        peer.receive(catch_up(credit=0), BULK_CHANNEL)
        assert peer.receive(end, BULK_CHANNEL) == ()
        assert peer.receive(Credit(stream=3, amount=1 << 20), BULK_CHANNEL) == ()


def test_catch_up_of_an_unknown_topic_or_before_the_announcement_is_refused(peer: HubPeer) -> None:
    peer.connect()
    (early,) = peer.sent(peer.receive(catch_up(), BULK_CHANNEL))
    assert (early.request, early.code) == (3, "START")
    assert early.retry_ms > 0
    peer.receive(peer.have())
    (unknown,) = peer.sent(peer.receive(catch_up(topic=9), BULK_CHANNEL))
    assert (unknown.request, unknown.code, unknown.topic) == (3, "UNKNOWN", 9)


@pytest.mark.parametrize(
    ("fact", "low_s", "high_s"),
    [
        (FromHub(CONTROL_CHANNEL, refusal("START")), 0, 1),
        (FromHub(CONTROL_CHANNEL, refusal("HELLO")), 0, 1),
        (FromHub(CONTROL_CHANNEL, refusal("AHEAD")), 0, 1),
        (FromHub(CONTROL_CHANNEL, refusal("HUB_FULL", retry_ms=5000)), 2.5, 7.5),
        (FromHub(CONTROL_CHANNEL, refusal("HUB_FULL", retry_ms=1 << 60)), 1, 1.5 * WAIT_S_MAX),
        (FromHub(CONTROL_CHANNEL, refusal("VERSION")), SLOW_S / 2, SLOW_S * 1.5),
        (FromHub(CONTROL_CHANNEL, refusal("4")), SLOW_S / 2, SLOW_S * 1.5),
        (FromHub(CONTROL_CHANNEL, welcome(protocol=9)), SLOW_S / 2, SLOW_S * 1.5),
        (FromHub(CONTROL_CHANNEL, welcome(hub=6)), 0, 1),
        (FromHub(CONTROL_CHANNEL, Have(epoch=EPOCH, start=9, versions=())), 0, 1),
        (FromHub(BULK_CHANNEL, Bye(reason="stop")), 0, 1),
        (Lost("no message of ours", SLOW_S), SLOW_S / 2, SLOW_S * 1.5),
        (Lost("gone"), 0, 1),
    ],
)
def test_connection_that_ends_is_tried_again_as_soon_as_its_end_allows(
    peer: HubPeer, fact: Fact, low_s: float, high_s: float
) -> None:
    peer.lead()
    (moved,) = peer.handle(fact)
    assert moved.state == peer.publisher.state == State.WAITING
    assert moved.reason
    assert low_s <= peer.publisher.deadline - peer.now <= high_s
    assert peer.handle(Committed(0, 1, b"frame")) == ()
    assert peer.receive(peer.have()) == ()
    peer.now = peer.publisher.deadline
    peer.lead()


def test_waits_grow_with_each_failure_and_start_anew_once_the_hub_follows(peer: HubPeer) -> None:
    waits = []
    for _ in range(8):
        peer.connect()
        peer.handle(Lost("reset"))
        waits.append(peer.publisher.deadline - peer.now)
        peer.now = peer.publisher.deadline
    assert waits[0] <= 1.5 * BACKOFF_S
    assert all(BACKOFF_S_MAX / 2 <= wait <= 1.5 * BACKOFF_S_MAX for wait in waits[3:])
    peer.lead()
    peer.handle(Lost("reset"))
    assert peer.publisher.deadline - peer.now <= 1.5 * BACKOFF_S


def test_pages_of_a_hub_are_known_and_what_is_no_address_is_not_shown(peer: HubPeer) -> None:
    """P-PAGES-2."""
    peer.connect()
    assert peer.publisher.facts("tcp://a:1", now=peer.now).pages == ""
    peer.receive(Introduction(pages="http://a:25010"))
    assert peer.receive(Introduction(pages="javascript:alert(1)")) == ()
    assert peer.publisher.facts("tcp://a:1", now=peer.now).pages == "http://a:25010"


def test_refused_message_is_logged_and_changes_nothing(peer: HubPeer) -> None:
    peer.lead()
    assert peer.receive(refusal("DELTA")) == (Entered(State.LEADING, "the hub refuses: DELTA why"),)
    assert peer.receive(Dropped(request=1)) == ()


def test_claim_of_an_impossible_epoch_is_not_obeyed(peer: HubPeer) -> None:
    peer.connect()
    assert peer.receive(peer.have(EPOCH_MAX + 1, 1, 1))[0].state == State.WAITING


def lists(peer: HubPeer, *effects: Effect) -> list[bytes]:
    return [one.text for one in peer.sent(effects) if isinstance(one, ClientList)]


def test_hub_is_sent_the_list_of_clients_on_each_connection_and_at_each_change() -> None:
    """P-CLIENTS-1."""
    peer = HubPeer()
    peer.published.clients = b"a"
    peer.tick()
    assert lists(peer, *peer.receive(welcome(), BULK_CHANNEL)) == []
    assert lists(peer, *peer.receive(welcome())) == [b"a"]
    assert lists(peer, *peer.receive(welcome()), *peer.tick()) == []
    peer.published.clients = b"b"
    assert lists(peer, *peer.tick(), *peer.tick()) == [b"b"]
    peer.handle(Lost("cut"))
    assert lists(peer, *peer.tick(BACKOFF_S_MAX * 2)) == []
    assert lists(peer, *peer.receive(welcome())) == [b"b"]


def test_list_of_clients_is_sent_again_so_that_none_that_is_lost_leaves_a_key_admitted(
    peer: HubPeer,
) -> None:
    """P-CLIENTS-1."""
    peer.lead()
    peer.published.clients = b"a"
    assert lists(peer, *peer.tick()) == [b"a"]
    sent: list[bytes] = []
    for _ in range(int(CLIENTS_AGAIN_S)):
        assert sent == []
        sent += lists(peer, *peer.tick(1.0))
        peer.receive(welcome())
        peer.receive(welcome(), BULK_CHANNEL)
    assert sent == [b"a"]


def test_keys_of_a_hub_are_learned_and_what_is_none_is_not(peer: HubPeer) -> None:
    """P-KEYS-2."""
    peer.connect()
    keys = ServerKeys(hub="h" * 40, hub_next="i" * 40, catalogd="c" * 40, catalogd_next="")
    assert peer.receive(keys) == (Learned(("h" * 40, "i" * 40)),)
    assert peer.receive(replace(keys, hub_next="")) == (Learned(("h" * 40,)),)
    nothing = replace(keys, hub="", hub_next="")
    for bad in (nothing, replace(keys, hub="short"), replace(keys, hub_next="é" * 40)):
        assert peer.receive(bad) == ()
