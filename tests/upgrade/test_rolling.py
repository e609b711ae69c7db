"""A rolling upgrade as docs/deploy.md has it, and the way back: each daemon of either release.

    hubs, one by one ──▶ catalogd, on the store that it has ──▶ drivers, beside older ones

At each step every driver sees a change of the metastore, and no answer is older than one before.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from hmsclient import HMSClient

from topicast.catalog.storage.store import SCHEMA
from topicast.subscriber.client.conversation import catalogd_behind, greet
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.hive.releases import RealMetastore
from topicast.tests.integration.tables import database, revise
from topicast.tests.upgrade.driver import Content
from topicast.tests.upgrade.fleet import NEW, OLD, Driver, Fleet, Release
from topicast.tests.waiting import until
from topicast.topics.errors import UsageError
from topicast.topics.keys.folder import find_credential
from topicast.topics.link import Link
from topicast.topics.settings import parse_addresses
from topicast.topics.wire.messages import FileFacts, Sweep, Swept

DB = "fleet"
# The older catalogd warned of a problem's end, too; a busy machine restarts nothing within 3 s.
FINE = re.compile(r" INFO |serving: problem=none|^server not reached: ")
ANSWER_S = 20.0
ORDERS, PLAIN = f"{DB}.orders", f"{DB}.plain"


class Story:
    """A fleet on a metastore that changes, and drivers that are compared with it."""

    def __init__(self, fleet: Fleet, client: HMSClient, folder: Path, up: ExitStack) -> None:
        self.fleet = fleet
        self.drivers: dict[str, Driver] = {}
        self._client = client
        self._folder = folder
        self._up = up
        self._revision = 0

    def change(self) -> None:
        """Alter two tables and a partition; make a table and a partition; drop a table."""
        self._revision += 1
        revise(self._client, [ORDERS, PLAIN], self._revision)
        orders = self._client.get_table(DB, "orders")
        self._client.add_partitions([make_partition(orders, [f"9{self._revision:02}"])])
        name = f"made_{self._revision}"
        self._client.create_table(make_table(DB, name, location=f"file:{self._folder}/{name}"))
        if self._revision > 1:
            self._client.drop_table(DB, f"made_{self._revision - 1}", False)

    def truth(self) -> Content:
        """Return what the metastore has, as `driver.content`."""
        found: Content = {}
        for name in sorted(self._client.get_all_tables(DB)):
            table = self._client.get_table(DB, name)
            days = {}
            if table.partitionKeys:
                days = {
                    f"ds={one.values[0]}": one.parameters.get("rev", "0")
                    for one in self._client.get_partitions(DB, name, -1)
                }
            found[name] = [table.parameters.get("rev", "0"), days]
        return found

    def goes_on(self, what: str) -> None:
        """Change the metastore: every driver reads the change, and watches see it.

        What one driver reports to have written, the others see as a change.
        """
        for driver in self.drivers.values():
            driver.ask("changed")
        for release in (OLD, NEW):
            until(partial(self.fleet.answers, release, "sync"), what=f"{what}: a command")
        self.change()
        truth = self.truth()
        for name, driver in self.drivers.items():
            assert driver.ask("content", DB) == truth, (what, name)
        for name, driver in self.drivers.items():
            self._sees(driver, {ORDERS, PLAIN, f"{DB}.made_{self._revision}"}, (what, name))
        for writer, driver in self.drivers.items():
            assert driver.ask("report", PLAIN), (what, writer)
            for name, other in self.drivers.items():
                if name != writer:
                    self._sees(other, {PLAIN}, (what, writer, name))
        self.reads_well(what)

    def reads_well(self, what: str) -> None:
        """No driver has read anything older than before, or was refused an answer."""
        for name, driver in self.drivers.items():
            count, older, failed = driver.ask("reads")
            assert count > 0
            assert (older, failed) == ([], {}), (what, name)

    def join(self, release: Release, name: str, key: Path, *, levels: str = "auto") -> None:
        """Start a driver, which reads from now on."""
        started = self.fleet.driver(release, name, key, levels=levels, table=PLAIN)
        self.drivers[name] = self._up.enter_context(started)

    def leave(self, name: str) -> None:
        self.drivers.pop(name).end()

    def complaints(self) -> list[str]:
        """Return what daemons and drivers logged as warnings and errors, or printed."""
        lines = (line for log in self.fleet.logs for line in log.read_text().splitlines())
        return [line for line in lines if not FINE.search(line)]

    def _sees(self, driver: Driver, objects: set[str], what: object) -> None:
        seen: set[str] = set()

        def has_seen() -> bool:
            seen.update(driver.ask("changed"))
            return objects <= seen

        until(has_seen, what=f"{what}: changes of {objects}")


def refusal_of_a_sweep(fleet: Fleet, key: Path) -> str:
    """Return what an older catalogd answers to a message that has fields it does not know."""
    own = find_credential("", key_file=str(key), environ={})
    (hub,) = parse_addresses(fleet.hubs[0], setting="statestores")
    facts = FileFacts(partition="", fingerprint=1, files=1, bytes=1, small=0, newest_ms=1)
    sweep = Sweep(
        request=1,
        db=DB,
        table="plain",
        revision=0,
        facts=(facts,),
        changed=(),
        overwritten=False,
        removed=(),
        as_of=1,
    )
    with closing(Link(own.pair)) as link:
        _, _, welcome = greet(link, (hub,), own, timeout_s=ANSWER_S)
        with catalogd_behind(link, welcome, own, hub=hub) as catalogd:
            with pytest.raises(UsageError) as refused:
                catalogd.request(sweep, Swept, timeout_s=ANSWER_S)
            return str(refused.value)


@pytest.fixture
def story(fleet: Fleet, hive: RealMetastore, tmp_path: Path) -> Iterator[Story]:
    with (
        database(hive.uri, tmp_path, {ORDERS: 40, PLAIN: 0}) as client,
        ExitStack() as up,
    ):
        yield Story(fleet, client, tmp_path, up)


def test_each_process_is_upgraded_while_the_others_go_on(story: Story) -> None:
    """The store goes on with its epoch, and commands of either release serve all the time.

    A driver that is newer than the servers reads, too; so does an older one with a key file that
    the newer release has made, before and after the servers' keys are rotated.
    """
    fleet = story.fleet
    etl = fleet.admit(OLD, "etl")
    story.join(OLD, "old-full", etl, levels="full")
    story.join(OLD, "old-auto", etl)
    story.join(NEW, "early", etl)
    story.goes_on("all old")
    assert "fields" in refusal_of_a_sweep(fleet, etl)
    for hub in ("hub-1", "hub-2"):
        fleet.replace(NEW, hub)
        story.goes_on(f"new {hub}")
    epoch = fleet.facts("catalogd")["epoch"]
    fleet.replace(NEW, "catalogd")
    story.goes_on("new catalogd")
    assert fleet.facts("catalogd")["epoch"] == epoch
    story.join(OLD, "old-late", fleet.admit(NEW, "late", reader=OLD))
    story.join(NEW, "new-full", etl, levels="full")
    story.goes_on("new drivers")
    fleet.run(NEW, "keys", "rotate", f"--keys_dir={fleet.keys}")
    story.goes_on("new key")
    after = fleet.admit(NEW, "after")
    assert fleet.attempt(OLD, "status", key=after).returncode == 0
    for name in ("old-full", "old-auto", "old-late"):
        story.leave(name)
    story.join(NEW, "new-after", after)
    story.goes_on("all new")
    assert story.complaints() == []


def test_catalogd_goes_back_with_a_copy_of_the_store_or_without(story: Story) -> None:
    """The older one refuses the newer one's store and says what to do; then the hubs go back."""
    fleet = story.fleet
    etl = fleet.admit(OLD, "etl")
    for hub in ("hub-1", "hub-2"):
        fleet.replace(NEW, hub)
    story.join(OLD, "old", etl)
    story.join(NEW, "new", etl, levels="full")
    fleet.stop("catalogd")
    copy = fleet.state.with_name("copy")
    shutil.copytree(fleet.state, copy)
    fleet.start(NEW, "catalogd")
    story.goes_on("new servers")
    epoch = fleet.facts("catalogd")["epoch"]
    fleet.stop("catalogd")
    refusal = fleet.refusal(OLD, "catalogd")
    assert f"was written by a newer catalogd (schema {SCHEMA}, 6 understood here)" in refusal
    assert "run that version, or put back an older copy" in refusal
    shutil.rmtree(fleet.state)
    copy.rename(fleet.state)
    fleet.start(OLD, "catalogd")
    story.goes_on("old catalogd")
    assert fleet.facts("catalogd")["epoch"] > epoch
    (complaint,) = story.complaints()
    assert f"epoch minted: epoch={fleet.facts('catalogd')['epoch']}" in complaint
    fleet.stop("catalogd")
    shutil.rmtree(fleet.state)
    fleet.start(OLD, "catalogd")
    story.goes_on("no store")
    for hub in ("hub-2", "hub-1"):
        fleet.replace(OLD, hub)
        story.goes_on(f"old {hub}")
    assert story.complaints() == [complaint]


def test_older_hubs_follow_the_list_of_a_newer_catalogd(story: Story) -> None:
    """If catalogd comes first: no revoked client comes in, and one with databases sees no other."""
    fleet = story.fleet
    etl = fleet.admit(OLD, "etl")
    gone = fleet.admit(OLD, "gone")
    fleet.replace(NEW, "catalogd")
    story.join(OLD, "old", etl)
    story.join(NEW, "new", etl)
    story.goes_on("new catalogd")
    some = fleet.add_key(NEW, "some", "driver", f"--databases={DB}")
    fleet.run(NEW, "keys", "revoke", "gone", f"--keys_dir={fleet.keys}")
    fleet.admit(NEW, "late")  # so the list was received
    for release in (OLD, NEW):
        assert "does not admit" in fleet.attempt(release, "topics", key=gone).stderr
        seen = fleet.attempt(release, "topics", key=some).stderr
        assert f"note: this key sees {DB} only" in seen
    story.goes_on("a newer list")
    for hub in ("hub-1", "hub-2"):
        fleet.replace(NEW, hub)
    assert f"note: this key sees {DB} only" in fleet.attempt(NEW, "topics", key=some).stderr
    story.goes_on("new hubs")
    assert story.complaints() == []
