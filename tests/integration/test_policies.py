"""A key with databases on real daemons: nothing of another database reaches it."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event

import pytest
from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import topicast
from topicast.tests.integration.daemons import Daemons, can_open
from topicast.tests.integration.tables import database, revise
from topicast.tests.keys import restricted_key
from topicast.tests.waiting import until, until_equal
from topicast.topics.errors import LinkError, NoSuchObject, NotVisible
from topicast.topics.keys.clients import Clients, clients_text
from topicast.topics.keys.files import write_secret
from topicast.topics.keys.folder import LIST, default_folder, find_credential
from topicast.topics.link import Link
from topicast.topics.objects.selector import ALL
from topicast.topics.policy import Policy
from topicast.topics.topic import FULL, MINIMAL, Entry, topic_ids
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import HEARTBEAT_PREFIX, prefix, without_policy
from topicast.topics.wire.messages.catalog import (
    Claimed,
    Compare,
    Pull,
    Scan,
    Scanned,
    Sync,
    Validate,
)
from topicast.topics.wire.messages.connection import READER, Channel, Hello, Refused, Welcome
from topicast.topics.wire.messages.data import Chunk, Delta
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import (
    CATALOG_ANSWERS,
    ReadDrivers,
    ReadHistory,
    ReadRecent,
    ReadStatus,
    ReadSubscribers,
    ReadTopics,
    ReadVerdict,
    ReadVersions,
)
from topicast.topics.wire.messages.readers import CatchUp, Join, Joined, Position, Wanted
from topicast.topics.wire.messages.reports import WRITTEN, Report, Write

MARKER = b"qzmark"  # in the names, places and partitions of every table that is not to be seen
OWN = "seen_sales.orders"
HIDDEN = "elsewhere.plain"  # has the marker in its place, so that it can be requested
MARKED = "elsewhere.qzmark_t"
TOPICS = topic_ids(16)
RULES = (b"c\0drivers\0", b"c\0metastore\0")  # how their keys begin
SYNC_S = 60.0  # the metastore lets a read wait up to 5 s for a lock, and tries ten times


@pytest.fixture
def client(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[HMSClient]:
    """A client, a database that is seen, and a database that is not."""
    with (
        database(hive.uri, tmp_path / "own", {OWN: 3}) as found,
        database(hive.uri, tmp_path / "qzmark", {HIDDEN: 3, MARKED: 3}, parameters=marked),
    ):
        yield found


def marked() -> dict[str, str]:
    return {"qzmark": "qzmark"}


@pytest.fixture
def key_file(tmp_path: Path) -> Iterator[Path]:
    """The key file of a driver that may see seen_*; its name is the test's."""
    with restricted_key(tmp_path / f"own-{tmp_path.name}.key", "seen_*") as found:
        yield found


class Raw:
    """A reader that keeps every frame it receives, on all its connections."""

    def __init__(self, address: str, key_file: Path | None) -> None:
        found = find_credential(
            "driver", key_file=str(key_file) if key_file else None, environ=os.environ
        )
        self.link = Link(found.pair)
        self.frames: list[bytes] = []
        self.seen: list[Message] = []
        self._next = count(1)
        self.numbers: dict[str, int] = {}
        for channel in Channel:
            self.link.connect_dealer(channel.name, address, found.hub_key(address))
            self.send(channel.name, hello(channel))
        self.welcome = self.wait(Welcome)
        until(lambda: self.receive() and self.catalog_address, what="catalogd's address")
        self.link.connect_dealer("service", self.catalog_address, found.catalogd)
        server = found.hub_key(address)
        self.link.connect_xsub("data", self.welcome.data_address, server)

    @property
    def catalog_address(self) -> str:
        """The address of catalogd, once it has announced itself to the hub."""
        if not self.welcome.catalog_address:
            self.send("CONTROL", hello(Channel.CONTROL))
        found = [one for one in self.seen if isinstance(one, Welcome) and one.catalog_address]
        return found[-1].catalog_address if found else ""

    def send(self, name: str, message: Message) -> None:
        assert self.link.send(name, encode(message))

    def receive(self) -> bool:
        frames = [one.frame for one in self.link.poll(0.05)]
        self.frames += frames
        self.seen += [decode(without_policy(frame)) for frame in frames]
        return True

    def wait(self, *kinds: type[Message], request: int = 0) -> Message:
        """Return the next message of ``kinds``, for ``request`` if that is not 0."""
        met = len(self.seen) if request == 0 and self.seen else 0

        def found() -> list[Message]:
            self.receive()
            return [
                one
                for one in self.seen[met:]
                if isinstance(one, kinds) and getattr(one, "request", 0) == request
            ]

        until(found, timeout_s=20, what=f"{kinds}")
        return found()[0]

    def ask(self, name: str, message: Message) -> Message:
        """Return the answer to ``message``, which is sent again while it is to be repeated."""
        answers: list[Message] = []

        def is_answered() -> bool:
            number = next(self._next)
            self.send(name, replace(message, request=number))
            answers.append(self.wait(Message, request=number))
            return not (isinstance(answers[-1], Refused) and answers[-1].retry_ms)

        until(is_answered, timeout_s=30, what=f"an answer to {message}")
        return answers[-1]

    def entries(self) -> list[Entry]:
        kinds = (Delta, Chunk, Scanned)
        found = [one.entries for one in self.seen if isinstance(one, kinds)]
        return [entry for some in found for entry in some]

    def subscribe_to_everything(self) -> None:
        for topic in TOPICS:
            for level in (MINIMAL, FULL):
                self.link.subscribe("data", prefix(topic, level))
        for odd in (b"", HEARTBEAT_PREFIX, HEARTBEAT_PREFIX[:1], b"\xfe", b"\xfe\0\1"):
            self.link.subscribe("data", odd)

    def catch_up(self, epoch: int, level: int) -> None:
        wanted = tuple(Wanted(topic=t, level=level, epoch=epoch, version=0) for t in TOPICS)
        self.send("BULK", CatchUp(stream=90 + level, credit=32 << 20, wanted=wanted))

        def is_done() -> bool:
            self.receive()
            chunks = [one for one in self.seen if isinstance(one, Chunk) and one.level == level]
            return {one.topic for one in chunks if one.last} == set(TOPICS)

        until(is_done, timeout_s=20, what=f"chunks at {level}")

    def ask_for_everything(self) -> None:
        """Send every request there is, about what may be seen and what may not."""
        self.ask("CONTROL", Join(request=0, positions=positions(MINIMAL)))
        joined = self.ask("CONTROL", Join(request=0, positions=positions(FULL)))
        assert isinstance(joined, Joined)
        epoch = joined.epoch
        for level in (FULL, MINIMAL):
            self.catch_up(epoch, level)
        for kind in (ReadStatus, ReadVerdict, ReadTopics, ReadSubscribers, ReadDrivers):
            self.ask("CONTROL", kind())
        for kind in CATALOG_ANSWERS:
            self.ask("service", kind())
        names = [name.split(".") for name in (OWN, HIDDEN, "elsewhere.absent")]
        self.ask("service", ReadVersions())
        for db, table in names[:2]:
            self.ask("service", ReadHistory(db=db, table=table))
        for pattern in ("", HIDDEN):
            self.ask("service", ReadRecent(since_us=0, count=100, pattern=pattern))
        claims = tuple(Claimed(db=d, table=t, version=1, whole=True) for d, t in names)
        for db, table in names:
            pull = Pull(request=0, db=db, table=table, selector=ALL, credit=1 << 20)
            self.ask("service", replace(pull, claims=claims, epoch=epoch))
        self.ask("service", Validate(request=0, epoch=epoch, claims=claims))
        self.ask("service", Compare(request=0, epoch=epoch, start=joined.start, versions=()))
        self.ask("service", Sync(request=0))
        writes = tuple(
            Write(number=number, state=WRITTEN, object=".".join(name))
            for number, name in enumerate(names, 1)
        )
        report = Report(request=0, driver=bytes(16), metastore="", finished=0, writes=writes)
        self.ask("service", report)
        for one in joined.topics:
            scan = Scan(request=0, epoch=epoch, topic=one.topic, version=one.version)
            page = self.ask("service", scan)
            while isinstance(page, Scanned) and page.after:
                page = self.ask("service", replace(scan, after=page.after))


def positions(level: int) -> tuple[Position, ...]:
    return tuple(Position(topic=t, level=level, epoch=0, version=0) for t in TOPICS)


def hello(channel: Channel) -> Hello:
    return Hello(
        role=READER,
        channel=channel,
        name="raw",
        registration=b"raw-registration",
    )


def foreign(entries: list[Entry]) -> set[bytes]:
    """Return the keys of databases that are not seen_*, but those of rules."""
    found = {one.key for one in entries}
    return {
        key for key in found if not key.startswith((b"seen_", b"d\0seen_", b"n\0seen_", *RULES))
    }


def test_no_frame_of_a_restricted_reader_has_anything_of_another_database(
    daemons: Daemons, client: HMSClient, key_file: Path
) -> None:
    """P-POLICY-2. The same requests of an unrestricted reader bring what is looked for."""
    whole = received_by(daemons, client, None)
    restricted = received_by(daemons, client, key_file)
    assert foreign(whole.entries())
    assert any(MARKER in frame for frame in whole.frames)
    assert foreign(restricted.entries()) == set()
    assert [frame for frame in restricted.frames if MARKER in frame] == []
    assert b"elsewhere\0" not in b"".join(restricted.frames)
    for kind in (Delta, Chunk, Scanned):
        own = [e.key for one in restricted.seen if isinstance(one, kind) for e in one.entries]
        assert any(key.startswith(b"seen_") for key in own), kind


def received_by(daemons: Daemons, client: HMSClient, key_file: Path | None) -> Raw:
    """Return a reader that has requested everything, while everything was changed."""
    with Subscriber(daemons.hub_address, timeout_s=SYNC_S) as catalog:
        catalog.sync()
        for name in (OWN, HIDDEN, MARKED):
            catalog.partitions(name)
        until(lambda: can_open(daemons.hub_address, key_file), what="the key")
        raw = Raw(daemons.hub_address, key_file)
        raw.subscribe_to_everything()
        raw.ask_for_everything()
        for rev in (1, 2):
            revise(client, (OWN, HIDDEN, MARKED), rev + len(str(key_file)))
            catalog.sync()
        until(lambda: raw.receive() and has_deltas(raw), what="deltas")
        raw.link.close()
        return raw


def has_deltas(raw: Raw) -> bool:
    """Return whether a delta about the own table has arrived."""
    return any(
        entry.key.startswith(b"seen_")
        for one in raw.seen
        if isinstance(one, Delta)
        for entry in one.entries
    )


def test_subscriber_with_a_restricted_key_reads_its_databases_and_no_others(
    daemons: Daemons, client: HMSClient, key_file: Path
) -> None:
    until(lambda: can_open(daemons.hub_address, key_file), what="the key")
    with Subscriber(
        daemons.hub_address, key_file=str(key_file), name="restricted", timeout_s=SYNC_S
    ) as catalog:
        catalog.sync()
        until_equal(catalog.databases, ("seen_sales",), timeout_s=SYNC_S)
        assert len(catalog.partitions(OWN)) == 3
        watch = catalog.watch("*.*")
        revise(client, (MARKED, HIDDEN, OWN), 7)
        until(lambda: catalog.table(OWN).parameters.get("rev") == "7", what="the change")
        changed = str(watch.all_within(1.0))
        watch.close()
        assert "orders" in changed
        assert "qzmark" not in changed
        assert "elsewhere" not in changed
        for db in ("elsewhere", "absent"):
            with pytest.raises(NotVisible) as caught:
                catalog.table(f"{db}.plain")
            assert str(caught.value) == f"{db}.plain is not visible to this key, which sees seen_*"
        change_policy(key_file.stem, Policy(("elsewhere",)))
        until(lambda: databases(catalog) == ("elsewhere",), what="the other database")
        assert len(catalog.partitions(HIDDEN)) == 3
        with pytest.raises(NoSuchObject):
            catalog.partitions(OWN)


def change_policy(name: str, policy: Policy) -> None:
    """Give the client ``name`` other databases, in the list that catalogd keeps."""
    folder = default_folder(os.environ)
    found = folder.clients()
    after = Clients(replace(one, policy=policy) if one.name == name else one for one in found)
    write_secret(folder.path / LIST, clients_text(after))


def databases(catalog: Subscriber) -> tuple[str, ...]:
    try:
        return catalog.databases()
    except LinkError:  # its connections have just been ended
        return ()


STATUS = "status --verbose"
LISTS = (
    *(STATUS, "topics", "subscribers", "subscribers --topics", "drivers"),
    *("tables", "watch seen_* --count=1", "events"),
)
REFUSED = (
    "tables elsewhere",
    *("describe elsewhere.plain", "describe elsewhere", "history elsewhere.plain"),
    "describe elsewhere.qzmar_t",  # another one is alike
)
FAILING = ("partitions seen_sales.order", "topics --why nobody")
ALLOWED = (
    *("describe seen_sales.orders", "partitions seen_sales.orders", "history seen_sales.orders"),
    "doctor",
)


@pytest.mark.nightly  # a minute; frames are examined above
def test_commands_with_a_restricted_key_print_nothing_of_another_database(
    daemons: Daemons, client: HMSClient, key_file: Path
) -> None:
    """A list says what it leaves out, a refusal what the key sees; no unknown fact is shown."""
    until(lambda: can_open(daemons.hub_address, key_file), what="the key")
    with Subscriber(daemons.hub_address, key_file=str(key_file)) as catalog:
        catalog.sync(timeout_s=SYNC_S)  # the tables were made just now
    own = {"TOPICAST_KEY_FILE": str(key_file), "TOPICAST_STATESTORES": daemons.hub_address}
    commands, ended = (*LISTS, *REFUSED, *FAILING, *ALLOWED), Event()
    with ThreadPoolExecutor(3) as threads:
        revised = threads.submit(revise_until, client, (OWN, HIDDEN), ended)
        try:
            printed = threads.map(lambda one: topicast(*one.split(), **own), commands)
            done = dict(zip(commands, printed, strict=True))
        finally:
            ended.set()
        revised.result()
    for command, one in done.items():
        text = one.stdout + one.stderr
        assert "Traceback" not in text, text
        assert "qzmark" not in text
        fails = command in (*REFUSED, *FAILING)
        degraded = command == STATUS  # for a while, as the key was tried before it was admitted
        assert one.returncode in ((1, 2) if fails else (0, 5) if degraded else (0,)), text
        assert ("note: this key sees seen_* only: " in one.stderr) is (command in LISTS), text
        assert ("not visible to this key, which sees seen_*" in text) is (command in REFUSED)
        assert "elsewhere" not in one.stdout
    assert "ds=000" in done["partitions seen_sales.orders"].stdout
    checks = done["doctor"].stdout
    assert {line.split()[0] for line in checks.splitlines()} == {"ok"}, checks
    assert "orders" in done["tables"].stdout
    assert "watermark" in done[STATUS].stdout
    assert not {"members", "entries", "databases"} & set(done[STATUS].stdout.split())
    assert "entries" not in done["topics"].stdout


def revise_until(client: HMSClient, names: tuple[str, ...], ended: Event) -> None:
    """Change tables until ``ended``."""
    for rev in count(100):
        revise(client, names, rev)
        if ended.wait(0.2):
            return
