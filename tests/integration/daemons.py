"""Statestoreds and a catalogd as processes at fixed ports; they may be killed and come back."""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from topicast.cli.client.operator import Operator, facts_of
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import Running, running, steady_port
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError
from topicast.topics.settings import parse_addresses
from topicast.topics.topic import offered_names
from topicast.topics.wire.messages.answers import NamedFacts
from topicast.topics.wire.messages.questions import ReadStatus

ANSWER_S: Final = 60.0  # of a machine that is busy with other tests


class Daemons:
    """Hubs ``statestored``, ``statestored2`` …, and ``catalogd``; each is started by name."""

    def __init__(self, folder: Path, metastore: str, *, module: str = "daemons") -> None:
        """``module`` runs them, as `hasty` does."""
        self._module = module
        self._folder = folder
        self._metastore = metastore
        self._stacks: dict[str, ExitStack] = {}
        self._running: dict[str, Running] = {}
        self._hubs: dict[str, str] = {}
        self._service_port = steady_port()

    @property
    def hub_address(self) -> str:
        """Every hub, separated by commas."""
        return ",".join(self._hubs.values())

    def start(self, name: str, *options: str, under: Sequence[str] = ()) -> None:
        """Start ``name``, by ``under``, at the port that it had before, with more ``options``."""
        stack = self._stacks[name] = ExitStack()
        command = "catalogd" if name == "catalogd" else "statestored"
        if command == "statestored":
            port = self._hubs.get(name, "").rpartition(":")[2] or steady_port()
            flags = [f"--state_store_port={port}"]
        else:
            flags = [
                f"--catalog_service_port={self._service_port}",
                "--num_topics=16",
                f"--hive_metastore_uris={self._metastore}",
                f"--statestores={self.hub_address}",
                f"--state_dir={self._folder / 'state'}",
            ]
        log = self._folder / f"{name}.log"
        words = (command, "--webserver_port=0", *flags, *options)
        daemon = running(log, self._module, *words, under=under)
        self._running[name] = stack.enter_context(daemon)
        address = self._running[name].ready["address"]
        if command == "statestored":
            self._hubs[name] = address

    def of(self, name: str) -> Running:
        return self._running[name]

    def kill(self, name: str) -> None:
        """Let ``name`` die on the spot."""
        self._running[name].end(signal.SIGKILL)
        self._stacks.pop(name).close()

    def freeze(self, name: str) -> None:
        os.kill(self._running[name].process.pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        os.kill(self._running[name].process.pid, signal.SIGCONT)

    def operator(self) -> Operator:
        """Return what requests tables of a hub and of catalogd, and gives orders, in a ``with``."""
        return Operator(parse_addresses(self.hub_address), timeout_s=ANSWER_S)

    def status(self, of: Literal["hub", "catalog"]) -> dict[str, Any]:
        """Return the status of one of them; of catalogd nothing while no hub has its address."""
        with self.operator() as operator:
            try:
                return facts_of(
                    operator.hub(ReadStatus()) if of == "hub" else operator.catalog(ReadStatus())
                )
            except LinkError:
                return {}

    def order(self, *words: str) -> dict[str, Any]:
        """Give catalogd an order; return its answer."""
        with self.operator() as operator:
            return facts_of(operator.order(words[0], words[1:], NamedFacts, sender="test"))

    def turn(self, *mode: str) -> None:
        """Let another mode hold; return when the hub has received it."""
        offers = self.order("mode", *mode)["offers"]
        until(
            lambda: offered_names(self.status("hub")["offers"]) == offers,
            timeout_s=30,
            what="the mode at the hub",
        )

    def copy_store(self) -> Path:
        """Return a copy of the state folder, of a catalogd that does not run."""
        copy = self._folder / "copy"
        shutil.copytree(self._folder / "state", copy)
        return copy

    def restore_store(self, copy: Path) -> None:
        shutil.rmtree(self._folder / "state")
        shutil.copytree(copy, self._folder / "state")

    def close(self) -> None:
        for stack in self._stacks.values():
            stack.close()


def can_open(hubs: str, key_file: Path | None) -> bool:
    """Return whether a subscriber with the key in ``key_file``, or this user's, is admitted."""
    try:
        with Subscriber(hubs, key_file=str(key_file) if key_file else None, timeout_s=1):
            return True
    except LinkError:
        return False


@contextmanager
def both_daemons(
    folder: Path, metastore: str, *, module: str = "daemons", of_hub: Sequence[str] = ()
) -> Iterator[Daemons]:
    """Run a hub, with more options ``of_hub``, and a catalogd until the block ends."""
    with closing(Daemons(folder, metastore, module=module)) as found:
        found.start("statestored", *of_hub)
        found.start("catalogd")
        yield found
