"""Site: three hosts as a cluster has them, each with its own folder and its own key.

driver ──only outgoing──▶ gate (a NAT in user space) ──┬──▶ hub-1      statestored
                                                       └──▶ catalog-1  metastore, catalogd
"""

import shutil
from pathlib import Path
from typing import Final

from topicast.cli.quickstart.console import read_ready
from topicast.tests.net.namespaces import Host, Network, Process, python
from topicast.tests.net.remote import Remote
from topicast.topics.keys.clients import ClientRole
from topicast.topics.keys.folder import KeysFolder
from topicast.topics.link import new_pair

STATESTORES: Final = "tcp://hub-1:24000"
HUB, HUB_MOVED, CATALOG, GATE = "10.77.0.2", "10.77.0.12", "10.77.0.3", "10.77.0.4"
INNER, INNER_MOVED, DRIVER = "192.168.77.1", "192.168.77.11", "192.168.77.2"
METASTORE_PORT: Final = 9083
METASTORE: Final = f"thrift://catalog-1:{METASTORE_PORT}"  # as everybody knows it
PORTS: Final = (24000, 24001, 26000)
READING: Final = """
from topicast.subscriber import Subscriber
catalog = Subscriber("{statestores}", levels="full", timeout_s=20).__enter__()
def revision(name):
    return catalog.table(name).parameters.get("rev", "0")
def listening():
    text = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    return [line for line in map(str.split, text.splitlines()) if line[3] == "0A"]
"""
WRITING: Final = """
from topicast.tests.integration.tables import connect, database, revise
up = database("{uri}", Path("{folder}"), {{"shop.orders": 3}})
client = up.__enter__()
"""


class Site:
    """The hosts, with everything started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = Network(folder)
        self.hub = self.network.host("hub-1", f"{HUB}/24")
        self.catalog = self.network.host("catalog-1", f"{CATALOG}/24")
        self.gate = self.network.host("gate", f"{GATE}/24")
        self.driver = self.network.behind(
            self.gate, "driver", outer=f"{INNER}/24", inner=f"{DRIVER}/24"
        )
        self.name_the_hub(HUB, INNER)
        self._make_keys()
        self.revision = 0

    def name_the_hub(self, address: str, inner: str) -> None:
        """Let the hub's name stand for its address on each host; behind the gate for the gate's."""
        for host in (self.hub, self.catalog, self.gate):
            host.know({"hub-1": address, "catalog-1": CATALOG})
        self.driver.know({"hub-1": inner, "catalog-1": inner})

    def start(self) -> None:
        """Start everything, from the metastore to a driver that follows."""
        metastore = self.catalog.start(
            *python("topicast.cli.main", "metastore", "start", "--port=0"),
            f"--folder={self.catalog.folder / 'metastore'}",
        )
        uri = read_ready(metastore.first)["uri"]  # on loopback, and so beyond it by a forwarder
        metastore_port = f"{METASTORE_PORT}=127.0.0.1:{uri.rpartition(':')[2]}"
        self.catalog.start(*python("topicast.tests.net.forwarder", metastore_port))
        self.start_hub()
        self.catalogd = self.catalog.start(
            *python("topicast.cli.daemons", "catalogd", "--catalog_service_host=0.0.0.0"),
            *("--advertise_address=catalog-1", f"--statestores={STATESTORES}"),
            *(f"--hive_metastore_uris={METASTORE}", f"--keys_dir={self.catalog.folder / 'keys'}"),
            *("--webserver_port=0", "--num_topics=16"),
        )
        servers = ("24000=hub-1:24000", "24001=hub-1:24001", "26000=catalog-1:26000")
        self.forwarder = self.gate.start(
            *python("topicast.tests.net.forwarder", *servers),
            f"{METASTORE_PORT}=catalog-1:{METASTORE_PORT}",
        )
        writing = WRITING.format(uri=uri, folder=self.catalog.folder)
        self._writer = Remote(self.catalog, writing)
        self.reader = self.reading(self.driver)
        self.reader.get("catalog.sync(timeout_s=60)")

    def start_hub(self) -> Process:
        """Start statestored on its host."""
        self.statestored = self.hub.start(
            *python("topicast.cli.daemons", "statestored", "--state_store_host=0.0.0.0"),
            *("--advertise_address=hub-1", f"--keys_dir={self.hub.folder / 'keys'}"),
            "--webserver_port=0",
        )
        return self.statestored

    def reading(self, host: Host) -> Remote:
        """Return Python with a subscriber as ``catalog``, and ``revision`` of a table."""
        key = {"TOPICAST_KEY_FILE": str(host.folder / "driver.key")}
        return Remote(host, READING.format(statestores=STATESTORES), **key)

    def order(self, line: str) -> None:
        """Order the gate's forwarder."""
        self.forwarder.write(line)
        assert self.forwarder.read() == "done"

    def revise(self) -> str:
        """Change a table in the metastore; return the revision that is to be seen."""
        self.revision += 1
        self._writer.get(f"revise(client, ['shop.orders'], {self.revision})")
        return str(self.revision)

    def seen(self) -> str:
        """Return the revision of the table that the driver has."""
        return str(self.reader.get("revision('shop.orders')"))

    def problem(self) -> str:
        """Return which server the driver does not reach."""
        return str(self.reader.get("catalog.stats().connection_problem"))

    def topicast(self, *words: str) -> tuple[int, str, str]:
        """Run a command on the driver's host, with the key of an operator."""
        key = {"TOPICAST_KEY_FILE": str(self.driver.folder / "operator.key")}
        where = f"--statestores={STATESTORES}"
        done = self.driver.run(*python("topicast.cli.main", *words, where), **key)
        return done.returncode, done.stdout, done.stderr

    def close(self) -> None:
        self.network.close()

    def _make_keys(self) -> None:
        """Make the keys where catalogd is, and bring each host the file that is its own."""
        self.keys = KeysFolder(self.catalog.folder / "keys")
        self.keys.make(new_pair)
        (self.hub.folder / "keys").mkdir(mode=0o700)
        hub = self.hub.folder / "keys" / "statestored.key"
        self.keys.add("hub-1", ClientRole.HUB, new_pair, address=STATESTORES, to=hub)
        for name, role in (("driver", ClientRole.DRIVER), ("operator", ClientRole.OPERATOR)):
            made = self.keys.add(f"far-{name}", role, new_pair, to=self.folder / f"{name}.key")
            shutil.move(made, self.driver.folder / f"{name}.key")
