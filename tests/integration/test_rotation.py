"""Rotation of the servers' keys while a driver reads: nothing restarts, and nothing is stale."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from hmsclient import HMSClient

from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import topicast
from topicast.tests.hive.releases import RealMetastore
from topicast.tests.integration.hosts import Hosts
from topicast.tests.integration.tables import database, revise
from topicast.tests.waiting import in_thread, until
from topicast.topics.keys.files import write_secret
from topicast.topics.keys.folder import KeysFolder

TABLE = "rotated.orders"
PAUSE_S = 0.05  # between two reads: other tests run beside this test


def rotate(folder: KeysFolder, daemon: str, *flags: str) -> str:
    """Rotate the key of ``daemon``, the last rotation of which is long ago; return it."""
    before = folder.credential(daemon)
    for path in folder.path.glob("*.key"):
        write_secret(path, re.sub("(?m)^rotated .*", "rotated 1", path.read_text()))
    done = topicast("keys", "rotate", f"--keys_dir={folder.path}", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    after = folder.credential(daemon).pair
    assert after.public in done.stdout
    assert after.secret not in done.stdout
    assert flags or after == before.next_pair
    return after.public


class Reader:
    """Writes revisions and reads each behind a sync, until it is stopped; an error ends it."""

    def __init__(self, catalog: Subscriber, client: HMSClient) -> None:
        self._catalog, self._client = catalog, client
        self._stopping = threading.Event()
        self.revision = 0  # the last that was written and read
        self._thread, self._errors = in_thread(self._run)

    def goes_on(self) -> None:
        """Wait until it has read twice more."""
        aim = self.revision + 2
        until(lambda: self._errors or self.revision >= aim, what="reads")
        assert self._errors == []

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        """Write, sync, read: what is read is what was written."""
        while not self._stopping.is_set():
            revise(self._client, [TABLE], self.revision + 1)
            self._catalog.sync(timeout_s=60)
            assert self._catalog.table(TABLE).parameters["rev"] == str(self.revision + 1)
            self.revision += 1
            self._stopping.wait(PAUSE_S)


@contextmanager
def reading(hosts: Hosts, key_file: Path, client: HMSClient) -> Iterator[Reader]:
    with Subscriber(hosts.address, key_file=str(key_file), timeout_s=60) as catalog:
        reader = Reader(catalog, client)
        yield reader
        reader.stop()


def rotate_both(hosts: Hosts, reader: Reader) -> None:
    """Rotate the hub's key, then catalogd's; the reader goes on behind each."""
    for folder, daemon, process in (
        (hosts.hub_keys, "statestored", hosts.hub),
        (hosts.keys, "catalogd", hosts.catalogd),
    ):
        rotated = f"key rotated: public={rotate(folder, daemon)}"
        until(partial(log_has, process.log, rotated), what=rotated)
        reader.goes_on()
    until(hosts.is_list_at_hub, what="the list at the hub")


def log_has(log: Path, text: str) -> bool:
    return text in log.read_text()


def said(hosts: Hosts, key_file: Path) -> str:
    """Return what a command says that joins with this file."""
    own = {"TOPICAST_KEY_FILE": str(key_file), "TOPICAST_STATESTORES": hosts.address}
    done = topicast("topics", **own)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.nightly  # units rotate keys in links
def test_driver_reads_through_rotations_of_both_servers(
    hosts: Hosts, hive: RealMetastore, tmp_path: Path
) -> None:
    """Twice each, on two hosts; who was off meanwhile comes in with a file of before the last."""
    own, late = hosts.add("own"), hosts.add("late")
    with (
        database(hive.uri, tmp_path, {TABLE: 0}) as client,
        reading(hosts, own, client) as reader,
    ):
        reader.goes_on()
        rotate_both(hosts, reader)
        assert said(hosts, late) == ""
        rotate_both(hosts, reader)
        assert "topicast keys add" in said(hosts, late)
        newer = hosts.add("newer")
        until(lambda: said(hosts, newer) == "", what="a key file of after them")
        hosts.hub.end(signal.SIGKILL)
        hosts.catalogd.end(signal.SIGKILL)
        hosts.start_hub()
        hosts.start_catalogd()
        reader.goes_on()
