"""A catalogd and a hub with folders of keys of their own, as on two hosts."""

from contextlib import ExitStack
from pathlib import Path

from topicast.tests.cli.processes import Running, running, steady_port
from topicast.topics.keys.clients import ClientRole
from topicast.topics.keys.folder import DaemonKeys, KeysFolder
from topicast.topics.link import new_pair


class Hosts:
    """catalogd with its folder of keys, and a hub whose folder has nothing but its own key."""

    def __init__(self, folder: Path, metastore: str) -> None:
        self._stack = ExitStack()
        self._folder = folder
        self._hub_port, self._service_port = steady_port(), steady_port()
        self._metastore = metastore
        self.address = f"tcp://127.0.0.1:{self._hub_port}"
        self.state = folder / "state"
        self.keys = KeysFolder(folder / "catalogd-keys")
        self.hub_keys = KeysFolder(folder / "hub-keys")
        self.keys.make(new_pair)
        self.hub_keys.path.mkdir(mode=0o700)
        own = self.hub_keys.file("statestored")
        self.keys.add("hub-1", ClientRole.HUB, new_pair, address=self.address, to=own)
        self.start_hub()
        self.start_catalogd()

    def add(self, name: str, role: ClientRole = ClientRole.DRIVER) -> Path:
        """Admit a client; return its key file, which is not in catalogd's folder."""
        return self.keys.add(name, role, new_pair, to=self._folder / f"{name}.key")

    def start_hub(self) -> None:
        port = (f"--state_store_port={self._hub_port}", f"--keys_dir={self.hub_keys.path}")
        self.hub = self._run("statestored", *port)

    def start_catalogd(self) -> None:
        self.catalogd = self._run(
            "catalogd",
            f"--catalog_service_port={self._service_port}",
            f"--keys_dir={self.keys.path}",
            f"--hive_metastore_uris={self._metastore}",
            f"--statestores={self.address}",
            f"--state_dir={self.state}",
            "--num_topics=16",
        )

    def is_list_at_hub(self) -> bool:
        """Return whether the hub would begin with the list that catalogd has."""
        own = DaemonKeys(self.hub_keys.credential("statestored"), self.hub_keys)
        return own.last_clients() == self.keys.clients()

    def close(self) -> None:
        self._stack.close()

    def _run(self, name: str, *flags: str) -> Running:
        log = self._folder / f"{name}.log"
        return self._stack.enter_context(
            running(log, "daemons", name, "--webserver_port=0", *flags)
        )
