"""The commands that make keys, and that add clients to catalogd's list and remove them.

They change files in catalogd's folder of keys; catalogd reads them again within half a second.
"""

import os
from pathlib import Path
from typing import TypedDict

import click

from ...topics.errors import ConfigError, UsageError
from ...topics.keys.clients import ClientRole
from ...topics.keys.folder import KeysFolder, default_folder
from ...topics.link import new_pair
from ...topics.policy import parse_policy
from ...topics.settings import parse_addresses
from ..options.flags import command, option, prints, settings
from ..terminal.lists import Heading
from ..terminal.output import Output

KEYS_DIR = option(
    "keys_dir",
    metavar="FOLDER",
    default=None,
    show_default="~/.local/state/topicast/keys",
    help="Folder of catalogd's keys.",
)
ROLES = [role.value for role in ClientRole if role is not ClientRole.CATALOGD]
COLUMNS = (
    *(Heading(name="name", rank=0), Heading(name="role", rank=0), Heading(name="databases")),
    *(Heading(name="address", rank=2), Heading(name="public", rank=3)),
)


class ListedClient(TypedDict):
    """A client. ``address``: of a hub; ``databases``: patterns, empty if it sees all."""

    name: str
    role: str
    public: str
    address: str
    databases: str


class KeyFolder(TypedDict):
    """The folder of keys, which ``init`` has filled, or found filled."""

    keys_dir: str


class AddedClient(TypedDict):
    """A client that was admitted, and where its key file is."""

    name: str
    role: str
    key_file: str


class RevokedClient(TypedDict):
    """A client that is not admitted any more."""

    name: str
    public: str


class RotatedKey(TypedDict):
    """The key of a daemon, and its next key; empty: not known here."""

    name: str
    public: str
    next: str


NOBODY = "no client is admitted: topicast keys init makes the keys of one machine"


@click.group("keys", context_settings=settings())
def keys() -> None:
    """Make keys, and admit or revoke clients.

    The first start of a daemon makes the keys of one machine and user by itself. Every other client
    needs a key file of its own: 'add' makes it, and the client names it by TOPICAST_KEY_FILE.
    """


@command("init", short_help="Make the first keys: both daemons, a driver, an operator.")
@KEYS_DIR
@prints(lambda: {"": KeyFolder})
def init(keys_dir: str | None, output: str) -> None:
    """Make the keys of both daemons, a driver and an operator, unless there are any."""
    folder = _folder(keys_dir)
    folder.make(new_pair)
    Output(output).document(KeyFolder(keys_dir=str(folder.path)), text=str(folder.path))


@command("add")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it may do.")
@click.option("--address", default="", help="Of a hub: where it is reached, tcp://host:port.")
@click.option("--databases", help="Databases that it may see, as sales,finance_*; else all.")
@click.option("--out", help="Its key file, else a file in the folder; -: print it, keep no copy.")
@KEYS_DIR
@prints(lambda: {"NAME": AddedClient})
def add(
    *,
    name: str,
    role: str,
    address: str,
    databases: str | None,
    out: str | None,
    keys_dir: str | None,
    output: str,
) -> None:
    """Admit the client NAME, and write its key file.

    A driver reads and reports what it writes, an operator reads and gives orders, an observer
    reads. With --databases, a driver or observer receives nothing of any other database: no names,
    no changes, no sizes. Any reader of the file can act as that client, so only its owner may read
    the file; with --out no copy is left in the folder.
    """
    if (role == ClientRole.HUB) is not bool(address):
        allowed = "a key of role hub needs --address tcp://host:port; other roles have none"
        raise ConfigError("address", address, allowed)
    printed = Output(output)
    if out == "-" and printed.is_json:
        raise UsageError("--out - prints the key file itself: leave --output away, or name a file")
    if address:
        (address,) = map(str, parse_addresses(address, setting="address")[:1])
    folder = _folder(keys_dir)
    to = Path(out) if out and out != "-" else None
    policy = None if databases is None else parse_policy(databases, setting="databases")
    made = folder.add(name, ClientRole(role), new_pair, address=address, policy=policy, to=to)
    if out == "-":
        print(made.read_text(encoding="utf-8"), end="")
        made.unlink()
    else:
        added = AddedClient(name=name, role=role, key_file=str(made))
        printed.document(added, text=str(made))


@command("list")
@KEYS_DIR
@prints(lambda: {"": list[ListedClient]})
def list_(keys_dir: str | None, output: str) -> None:
    """List the clients that are admitted."""
    Output(output).rows(COLUMNS, _clients(keys_dir), nothing=NOBODY)


@command("show")
@click.argument("name")
@KEYS_DIR
@prints(lambda: {"NAME": ListedClient})
def show(name: str, keys_dir: str | None, output: str) -> None:
    """Show the client NAME; its secret is only in its key file."""
    found = [one for one in _clients(keys_dir) if one["name"] == name]
    if not found:
        raise ConfigError("name", name, "one of those that topicast keys list shows")
    Output(output).facts(found[0], [(n, str(value)) for n, value in found[0].items()])


@command("revoke", short_help="Admit a client no longer, and end its connections.")
@click.argument("name")
@KEYS_DIR
@prints(lambda: {"NAME": RevokedClient})
def revoke(name: str, keys_dir: str | None, output: str) -> None:
    """Admit the client NAME no longer: its connections end within 2 s, and none is made again."""
    client = _folder(keys_dir).revoke(name)
    revoked = RevokedClient(name=client.name, public=client.public)
    Output(output).sentence(revoked, text=f"revoked {client.name} {client.public}")


@command("rotate", short_help="Give each daemon its next key, and draw the one after it.")
@click.option("--now", is_flag=True, help="The keys are stolen: replace the next ones, too.")
@KEYS_DIR
@prints(lambda: {"": list[RotatedKey]})
def rotate(*, now: bool, keys_dir: str | None, output: str) -> None:
    """Give each daemon of the folder the next of its two keys, and draw another next key.

    The daemons take it within a second, without a restart. Every driver and command that runs knows
    the next keys and goes on. A key file that was written since the last rotation is good for this
    rotation only. So rotate once, bring new key files to where they are needed, then rotate again.
    A hub on another host has its own folder: rotate its key there.

    With --now both keys of each daemon are replaced, and every client with a key file elsewhere
    needs a new key: 'revoke' and 'add' make it.
    """
    rotated = [
        RotatedKey(
            name=own.name,
            public=own.pair.public,
            next=own.next_pair.public if own.next_pair is not None else "",
        )
        for own in _folder(keys_dir).rotate(new_pair, at_once=now)
    ]
    lines = [f"{one['name']} has {one['public']}, next {one['next']}" for one in rotated]
    Output(output).document(rotated, text="\n".join(lines))


for _one in (init, add, list_, show, revoke, rotate):
    keys.add_command(_one)


def _folder(keys_dir: str | None) -> KeysFolder:
    return default_folder(os.environ) if keys_dir is None else KeysFolder(Path(keys_dir))


def _clients(keys_dir: str | None) -> list[ListedClient]:
    return [
        ListedClient(
            name=one.name,
            role=str(one.role),
            public=one.public,
            address=one.address,
            databases=str(one.policy or ""),
        )
        for one in _folder(keys_dir).listed()
    ]
