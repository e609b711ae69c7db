"""Keys for tests on real sockets: one pair that all links of a test have, or the user's keys."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from topicast.topics.keys.clients import Client, ClientRole, Clients
from topicast.topics.keys.credential import Credential, KeyPair
from topicast.topics.keys.folder import DaemonKeys, KeysFolder, default_folder
from topicast.topics.link import Link, new_pair
from topicast.topics.policy import Policy
from topicast.topics.wire.messages.connection import Hello, Role
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import Order

PAIR: Final = new_pair()
CREDENTIAL: Final = Credential(
    name="test", role=ClientRole.DRIVER, pair=PAIR, catalogd=PAIR.public, hubs=(("", PAIR.public),)
)
"""Joins servers that have PAIR themselves."""
BOUND: Final = ("router", "publisher", "second", "quiet", "another", "other", "hub", "a", "b")
"""Names that tests give to bound sockets."""


def client(role: ClientRole = ClientRole.DRIVER) -> Client:
    """Return a client as a list of clients has it, the same for each ``role``."""
    return Client(name=f"a-{role}", role=role, public=f"{role:.<40}")


def client_for(message: Message) -> Client:
    """Return a client that may send ``message``."""
    match message:
        case Hello(role=Role.PUBLISHER):
            return client(ClientRole.CATALOGD)
        case Order():
            return client(ClientRole.OPERATOR)
        case _:
            return client()


def own_link(*bound: str, pair: KeyPair = PAIR) -> Link:
    """Return a link that admits PAIR to the sockets ``bound``, once it binds them."""
    link = Link(pair)
    for name in bound:
        link.admit(name, {PAIR.public})
    return link


def user_keys(name: str) -> DaemonKeys:
    """Return keys of the default folder, which are made if they are missing.

    Its daemons, and those that tests start as processes, admit each other.
    """
    folder = default_folder(os.environ)
    folder.make(new_pair)
    return DaemonKeys(folder.credential(name), folder)


def guarded_keys(role: ClientRole) -> DaemonKeys:
    """Return PAIR as the keys of a daemon; it has no folder, and they do not change."""
    return DaemonKeys(
        replace(CREDENTIAL, role=role), KeysFolder(Path("/nonexistent")), is_guarded=True
    )


def credential_of(role: ClientRole, clients: Clients) -> tuple[Credential, Clients]:
    """Return a new credential for servers that have PAIR, and ``clients`` with its client."""
    pair = new_pair()
    added = Client(name=f"{role}-{len(clients)}", role=role, public=pair.public)
    return replace(CREDENTIAL, name=added.name, role=role, pair=pair), clients.adding(added)


@contextmanager
def restricted_key(file: Path, *databases: str) -> Iterator[Path]:
    """Let a driver, named as ``file``, see only ``databases`` until the block ends."""
    folder, policy = default_folder(os.environ), Policy(databases)
    yield folder.add(file.stem, ClientRole.DRIVER, new_pair, policy=policy, to=file)
    folder.revoke(file.stem)
