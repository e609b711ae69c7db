"""A reader whose key has databases receives nothing of others, in frames or in messages."""

from dataclasses import replace

import pytest

from topicast.statestore.content import policies
from topicast.statestore.effects import Subscription
from topicast.tests.keys import client
from topicast.tests.statestore.hub_driver import (
    AMPLE,
    HubDriver,
    PublisherPeer,
    at,
    contents,
    seeded,
)
from topicast.tests.strategies import value
from topicast.topics.keys.clients import Clients
from topicast.topics.objects.names import block_key, database_key, names_key, table_key
from topicast.topics.policy import Policy
from topicast.topics.topic import FULL, MINIMAL, NAMESPACE, Entry, Topic, prefix_tombstone, stub
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import (
    HEARTBEAT_PREFIX,
    PROTOCOL,
    barrier_prefix,
    policy_number,
    prefix,
    set_prefix,
    without_policy,
)
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.connection import Refused, Welcome
from topicast.topics.wire.messages.data import Barrier, Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import (
    Question,
    ReadLevels,
    ReadStatus,
    ReadSubscribers,
    ReadTopics,
)
from topicast.topics.wire.messages.readers import CatchUp, Credit, Join, Joined, Wanted

MARKER = b"hidden"  # in every name and value of what the readers here may not see
SALES = Policy(("sales",))
OWN = table_key("sales", "orders")
FOREIGN = table_key("hidden", "orders")


def entries(version: int) -> tuple[Entry, ...]:
    """Return a change of a table topic that is about both databases."""
    return (
        value(FOREIGN, version, b"s3://hidden/orders"),
        value(block_key("hidden", "orders", "ds=hidden"), version, b"hidden"),
        value(OWN, version, b"s3://sales/orders"),
        prefix_tombstone(table_key("hidden", "dropped"), version),
    )


class Reader:
    """A reader with a policy, connected to a hub as its link would connect it."""

    def __init__(self, driver: HubDriver, name: str = "restricted", policy: Policy = SALES) -> None:
        self.driver = driver
        self.name = name
        self.client = replace(client(), name=name, public=name.ljust(40, "."), policy=policy)
        self.prefixes: list[bytes] = []
        driver.hub.admit(driver_clients(driver, self.client))
        driver.greet(name, as_client=self.client)

    @property
    def control(self) -> bytes:
        return f"{self.name}-control".encode()

    def request(self, message: Message) -> list[Message]:
        """Return what the hub answers to this reader."""
        peer = self.control.replace(b"control", b"bulk" if is_bulk(message) else b"control")
        before = len(self.driver.sent)
        self.driver.receive(peer, message)
        self.driver.turn()
        return [answer for to, answer in self.driver.sent[before:] if to == peer]

    def subscribe(self, prefixed: bytes) -> None:
        self.prefixes += self.driver.hub.prefixes_for(self.client.public, prefixed)
        self.driver.handle(Subscription(b"\1" + prefixed, self.client.policy))

    def follow(self, topic: int, level: int = FULL) -> None:
        self.subscribe(prefix(topic, level))
        self.request(Join(request=1, positions=(at(topic, level=level),)))

    def frames(self) -> list[bytes]:
        """Return the frames that ZeroMQ would have sent to it, and discard all."""
        frames, self.driver.frames = self.driver.frames, []
        return [frame for frame in frames if frame.startswith(tuple(self.prefixes))]

    def deltas(self) -> list[Delta]:
        found = [decode(without_policy(frame)) for frame in self.frames()]
        return [one for one in found if isinstance(one, Delta)]


def driver_clients(driver: HubDriver, more) -> Clients:
    """Return the clients of the driver's connections, and one more."""
    known = {one.public: one for one in (*driver.clients.values(), more)}
    return Clients(known.values())


def is_bulk(message: Message) -> bool:
    return isinstance(message, CatchUp | Credit)


def with_reader() -> tuple[HubDriver, PublisherPeer, Reader]:
    driver, publisher = seeded()
    return driver, publisher, Reader(driver)


def catch_up(reader: Reader, topic: int, version: int = 0, *, level: int = FULL) -> list[Chunk]:
    wanted = Wanted(topic=topic, level=level, epoch=10, version=version)
    answers = reader.request(CatchUp(stream=5, credit=AMPLE, wanted=(wanted,)))
    return [one for one in answers if isinstance(one, Chunk)]


def test_welcome_names_the_policy_by_its_number_here_and_its_digest() -> None:
    """P-POLICY-6."""
    driver, publisher, reader = with_reader()
    reader.follow(1)
    driver.put(publisher.commit(1, *entries(1)))
    (frame,) = reader.frames()
    for peer in (b"restricted-control", b"restricted-bulk"):
        (welcome,) = [one for to, one in driver.sent if to == peer and isinstance(one, Welcome)]
        assert (welcome.policy, welcome.policy_digest) == (policy_number(frame), SALES.digest)
    driver.greet("whole")
    (welcome,) = [one for to, one in driver.sent if to == b"whole-control"]
    assert (welcome.policy, welcome.policy_digest) == (0, 0)
    assert SALES.digest != Policy(("sale*",)).digest


def test_delta_is_cut_for_the_policy_and_whole_for_the_others() -> None:
    """P-POLICY-1, P-POLICY-2."""
    driver, publisher, reader = with_reader()
    reader.follow(1)
    delta = publisher.commit(1, *entries(1))
    driver.put(delta)
    assert encode(delta) in driver.frames
    (frame,) = reader.frames()
    assert MARKER not in frame
    assert decode(without_policy(frame)) == replace(delta, entries=delta.entries[2:3])


def test_delta_about_other_databases_alone_has_its_versions_and_no_entry() -> None:
    """P-POLICY-2."""
    driver, publisher, reader = with_reader()
    reader.follow(1)
    driver.put(publisher.change(1, FOREIGN, MARKER))
    (delta,) = reader.deltas()
    assert (delta.from_version, delta.to_version, delta.entries) == (0, 1, ())


def test_reader_at_minimal_receives_stubs_of_its_own_databases() -> None:
    driver, publisher, reader = with_reader()
    reader.follow(1, MINIMAL)
    driver.put(publisher.commit(1, *entries(1)))
    (delta,) = reader.deltas()
    assert (delta.level, delta.entries) == (MINIMAL, (stub(entries(1)[2]),))


def test_one_cut_delta_serves_all_readers_of_a_policy() -> None:
    driver, publisher, reader = with_reader()
    others = [Reader(driver, f"reader-{number}") for number in range(3)]
    for one in (reader, *others):
        one.follow(1)
    driver.put(publisher.change(1, OWN))
    assert len(driver.frames) == 2
    assert len({tuple(one.prefixes) for one in (reader, *others)}) == 1


def test_two_policies_never_receive_each_others_frames() -> None:
    driver, publisher, reader = with_reader()
    other = Reader(driver, "other", Policy(("hidden",)))
    for one in (reader, other):
        one.follow(1)
    driver.put(publisher.commit(1, *entries(1)))
    frames = list(driver.frames)
    assert [frame for frame in frames if frame.startswith(tuple(reader.prefixes))] == [
        frame for frame in frames if b"s3://sales" in frame and MARKER not in frame
    ]
    assert [one.key for one in other.deltas()[0].entries if b"sales" in one.key] == []


def test_hub_without_such_readers_broadcasts_what_it_received_and_nothing_else() -> None:
    driver, publisher, _ = with_reader()
    delta = publisher.commit(1, *entries(1))
    driver.put(delta)
    assert driver.frames == [encode(delta)]


def test_policy_is_published_for_members_after_another_of_its_readers_has_gone() -> None:
    driver, publisher, reader = with_reader()
    reader.follow(1, MINIMAL)
    driver.handle(Subscription(b"\0" + prefix(1, MINIMAL)))
    driver.put(publisher.change(1, OWN))
    assert len(reader.deltas()) == 1


def test_subscription_of_a_policys_reader_is_served_until_it_ends_whoever_else_subscribes() -> None:
    """It has not joined yet: its subscription alone tells of it."""
    driver, publisher, reader = with_reader()
    reader.subscribe(prefix(1, FULL))
    driver.handle(Subscription(b"\1" + prefix(1, FULL)))
    driver.handle(Subscription(b"\0" + prefix(2, FULL)))
    driver.put(publisher.change(1, OWN))
    assert len(reader.deltas()) == 1
    driver.handle(Subscription(b"\0" + prefix(1, FULL)))
    driver.put(publisher.change(1, OWN))
    assert reader.deltas() == []


def test_catch_up_holds_what_the_policy_sees_and_ends_at_the_topics_version() -> None:
    driver, publisher, reader = with_reader()
    for version in (1, 2):
        driver.put(publisher.commit(1, *entries(version)))
    (chunk,) = catch_up(reader, 1)
    assert MARKER not in encode(chunk)
    assert (chunk.entries, chunk.to_version, chunk.last) == ((entries(2)[2],), 2, True)
    (stubs,) = catch_up(reader, 1, 1, level=MINIMAL)
    assert MARKER not in encode(stubs)
    assert stubs.entries == (stub(entries(2)[2]),)


def test_catch_up_that_follows_cut_deltas_ends_in_what_the_hub_holds_of_the_policy() -> None:
    driver, publisher, reader = with_reader()
    driver.put(publisher.commit(1, *entries(1)))
    held = Topic()
    held.reset(10)
    held.file(entry for chunk in catch_up(reader, 1) for entry in chunk.entries)
    reader.follow(1)
    driver.put(publisher.commit(1, *entries(2), value(table_key("sales", "new"), 2)))
    held.file(entry for delta in reader.deltas() for entry in delta.entries)
    own = {key: one for key, one in contents(driver.topic(1)).items() if key.startswith(b"sales")}
    assert contents(held) == own


def test_names_of_other_databases_are_in_no_catch_up() -> None:
    """P-POLICY-2."""
    driver, publisher, reader = with_reader()
    names = [database_key("hidden"), database_key("sales"), names_key("hidden", "a")]
    driver.put(publisher.commit(NAMESPACE, *(value(key, 1, key) for key in names)))
    (chunk,) = catch_up(reader, NAMESPACE)
    assert MARKER not in encode(chunk)
    assert [one.key for one in chunk.entries] == [database_key("sales")]


def test_sizes_are_those_of_what_the_policy_sees() -> None:
    driver, publisher, reader = with_reader()
    driver.put(publisher.commit(1, *entries(1)))
    (joined,) = reader.request(Join(request=1, positions=(at(1),)))
    assert isinstance(joined, Joined)
    own, whole = joined.topics[0].full_bytes, driver.topic(1).held_bytes
    only, other = seeded()
    only.put(other.commit(1, entries(1)[2]))
    assert 0 < own == only.topic(1).held_bytes < whole


def test_sizes_of_a_new_policy_are_counted_in_steps_while_its_reader_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-JOIN-6: a step counts one topic here, the others come with the next."""
    driver, publisher, reader = with_reader()
    monkeypatch.setattr(policies, "SIZED_MAX", 6)

    def change(topic: int, version: int, size: int) -> None:
        keys = (table_key("sales", f"t{number}") for number in range(6))
        rows = [value(key, version, b"x" * size) for key in keys]
        driver.put(publisher.commit(topic, *rows))

    def join(*topics: int) -> list[int] | Refused:
        (answer,) = reader.request(Join(request=2, positions=tuple(map(at, topics))))
        if isinstance(answer, Refused):
            return answer
        assert isinstance(answer, Joined)
        return [state.full_bytes for state in answer.topics]

    def whole(*topics: int) -> list[int]:
        return [driver.topic(topic).full_bytes for topic in topics]

    for topic in (1, 2, 3):
        change(topic, 1, size=100)
    for version in (2, 3):
        later = join(1, 2, 3)
        assert isinstance(later, Refused)
        assert (later.code, later.request, later.retry_ms > 0) == ("RETRY", 2, True)
        change(1, version, size=100)  # which is not sized again before the others are
    before = whole(1, 2, 3)
    assert join(1, 2, 3) == before
    for topic, version in ((1, 4), (2, 2), (3, 2)):
        change(topic, version, size=200)
    assert join(1, 2, 3) == whole(1) + before[1:], "a size of before will do: no reader waits"
    assert join(1, 2, 3) == whole(1, 2) + before[2:]


def test_heartbeats_have_no_sizes_but_the_policys_own() -> None:
    driver, publisher, reader = with_reader()
    driver.put(publisher.commit(1, *entries(1)))
    reader.follow(1)
    reader.subscribe(HEARTBEAT_PREFIX)
    (joined,) = reader.request(Join(request=2, positions=(at(1),)))
    assert isinstance(joined, Joined)
    driver.frames.clear()
    driver.pass_time(11.0)
    whole = [decode(one) for one in driver.frames if one.startswith(HEARTBEAT_PREFIX)]
    beats = [decode(without_policy(frame)) for frame in reader.frames()]
    sizes = [one.sizes for one in beats if isinstance(one, Heartbeat)]
    position = list(driver.hub.ingest.followed).index(1)
    assert len(list(filter(None, sizes))) <= sum(bool(one.sizes) for one in whole) < len(whole) / 2
    assert {one[position] for one in sizes if one} == {joined.topics[0].full_bytes}
    assert () in sizes


@pytest.mark.parametrize(
    "subscribed",
    [
        b"",
        bytes((PROTOCOL,)),
        prefix(1, FULL)[:3],
        prefix(1, FULL) + b"\1",
        prefix(1, 0),
        prefix(1, 3),
        b"\xfe\0\1",
        HEARTBEAT_PREFIX[:2],
        barrier_prefix(b"short"),
    ],
)
def test_odd_subscription_of_a_policys_reader_is_sent_nothing(subscribed: bytes) -> None:
    """P-POLICY-3."""
    driver, _, reader = with_reader()
    assert driver.hub.prefixes_for(reader.client.public, subscribed) == ()


def test_topic_set_is_the_prefix_of_each_of_its_topics() -> None:
    """P-SUB-5, P-POLICY-3."""
    driver, publisher, reader = with_reader()
    driver.hub.admit(driver_clients(driver, client()))
    both = set_prefix([0, 1], FULL)
    every = (prefix(0, FULL), prefix(1, FULL))
    assert driver.hub.prefixes_for(client().public, both) == every
    assert driver.hub.prefixes_for("x" * 40, both) == ()
    reader.subscribe(both)
    assert [without_policy(one + b"\0") for one in reader.prefixes] == [
        one + b"\0" for one in every
    ]
    driver.put(publisher.commit(1, *entries(1)))
    assert [delta.topic for delta in reader.deltas()] == [1]


def test_unknown_key_is_sent_nothing_and_an_unrestricted_key_what_it_asks() -> None:
    driver, _, _ = with_reader()
    driver.hub.admit(driver_clients(driver, client()))
    assert driver.hub.prefixes_for("x" * 40, prefix(1, FULL)) == ()
    assert driver.hub.prefixes_for(client().public, prefix(1, FULL)) == (prefix(1, FULL),)


def test_barrier_of_a_policys_reader_comes_back_to_it() -> None:
    _, _, reader = with_reader()
    reader.subscribe(barrier_prefix(b"n" * 16))
    assert [decode(frame) for frame in reader.frames()] == [Barrier(nonce=b"n" * 16)]


def inspected(reader: Reader, question: Question) -> list[dict]:
    (answer,) = reader.request(question)
    assert isinstance(answer, Inspected), answer
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def test_tables_of_the_hub_have_no_totals_and_no_other_members() -> None:
    driver, publisher, reader = with_reader()
    driver.greet("hidden")
    driver.put(publisher.commit(1, *entries(1)))
    status = {row["name"]: row["value"] for row in inspected(reader, ReadStatus(request=3))}
    assert status["epoch"] == 10
    totals = ("entries", "full_bytes", "deltas", "delta_bytes", "members")
    assert {status[name] for name in totals} == {None}
    topics = inspected(reader, ReadTopics(request=3))
    assert {row["version"] for row in topics} == {0, 1}
    assert {row[name] for row in topics for name in ("entries", "full_bytes")} == {None}
    assert [row["name"] for row in inspected(reader, ReadSubscribers(request=3))] == ["restricted"]


def test_other_members_are_not_there_for_a_policys_reader() -> None:
    driver, _, reader = with_reader()
    driver.greet("hidden")
    (member,) = (one for one in driver.status.subscribers if one.name == "hidden")
    for of in (member.registration, "0" * 32):
        (refused,) = reader.request(ReadLevels(request=3, member=bytes.fromhex(of)))
        assert refused.message == f"no member has the registration {of}"


def test_reader_whose_policy_has_changed_is_no_member_any_more() -> None:
    driver, _, reader = with_reader()
    changed = replace(reader.client, policy=Policy(("finance",)))
    driver.hub.admit(driver_clients(driver, changed))
    assert "restricted" not in [one.name for one in driver.status.subscribers]
