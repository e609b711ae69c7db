"""The commands that make keys, and that add clients to catalogd's list and remove them.

They change files in catalogd's folder of keys; catalogd reads them again within half a second.
"""

import os
from pathlib import Path

import click

from ...topics.errors import ConfigError
from ...topics.keys.clients import ClientRole
from ...topics.keys.folder import KeysFolder, default_folder
from ...topics.link import new_pair
from ...topics.policy import parse_policy
from ...topics.settings import parse_addresses
from ..flags import OUTPUT, command, option, settings
from ..lists import Column, Record
from ..output import Output

KEYS_DIR = option(
    "keys_dir",
    metavar="FOLDER",
    default=None,
    show_default="~/.local/state/topicast/keys",
    help="Folder of catalogd's keys.",
)
ROLES = [role.value for role in ClientRole if role is not ClientRole.CATALOGD]
COLUMNS = (
    *(Column(name="name", rank=0), Column(name="role", rank=0), Column(name="databases")),
    *(Column(name="address", rank=2), Column(name="public", rank=3)),
)
NOBODY = "no client is admitted: topicast keys init makes the keys of one machine"


@click.group("keys", context_settings=settings())
def keys() -> None:
    """Make keys, and admit or revoke clients.

    The first start of a daemon makes the keys of one machine and user by itself. Every other client
    needs a key file of its own: 'add' makes it, and the client names it by TOPICAST_KEY_FILE.
    """


@command("init")
@KEYS_DIR
def init(keys_dir: str | None) -> None:
    """Make the keys of both daemons, a driver and an operator, unless there are any."""
    folder = _folder(keys_dir)
    folder.make(new_pair)
    print(folder.path)


@command("add")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it may do.")
@click.option("--address", default="", help="Of a hub: where it is reached, tcp://host:port.")
@click.option("--databases", help="Those that it may see, as sales,finance_*; else all.")
@click.option("--out", help="Its key file, else in the folder; -: printed, and kept nowhere.")
@KEYS_DIR
def add(
    *,
    name: str,
    role: str,
    address: str,
    databases: str | None,
    out: str | None,
    keys_dir: str | None,
) -> None:
    """Admit the client NAME, and write its key file.

    A driver reads and reports what it writes, an operator reads and gives orders, an observer
    reads. With --databases, a driver or observer receives nothing of any other database: no names,
    no changes, no sizes. Any reader of the file can act as that client, so only
    its owner may read it; with --out no copy is left.
    """
    if (role == ClientRole.HUB) is not bool(address):
        allowed = "a key of role hub needs --address tcp://host:port; other roles have none"
        raise ConfigError("address", address, allowed)
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
        print(made)


@command("list")
@KEYS_DIR
@OUTPUT
def list_(keys_dir: str | None, output: str) -> None:
    """List the clients that are admitted."""
    Output(output).rows(COLUMNS, _clients(keys_dir), nothing=NOBODY)


@command("show")
@click.argument("name")
@KEYS_DIR
@OUTPUT
def show(name: str, keys_dir: str | None, output: str) -> None:
    """Show the client NAME; its secret is in its key file alone."""
    found = [one for one in _clients(keys_dir) if one["name"] == name]
    if not found:
        raise ConfigError("name", name, "one of those that topicast keys list shows")
    Output(output).facts(found, found[0].items())


@command("revoke")
@click.argument("name")
@KEYS_DIR
def revoke(name: str, keys_dir: str | None) -> None:
    """Admit the client NAME no longer: its connections end within 2 s, and none is made again."""
    client = _folder(keys_dir).revoke(name)
    print(f"revoked {client.name} {client.public}")


@command("rotate")
@click.option("--now", is_flag=True, help="The keys are stolen: replace the next ones, too.")
@KEYS_DIR
def rotate(*, now: bool, keys_dir: str | None) -> None:
    """Give each daemon of the folder the next of its two keys, and make another one to be next.

    They take it within a second, without a restart. Every driver and command that runs knows the
    next keys and goes on, and a key file that was written since the last rotation is good for this
    one. So rotate once, bring new key files to where they are needed, then rotate again. A hub on
    another host has its own folder: rotate its key there.

    With --now both keys of each daemon are replaced, and every client with a key file elsewhere
    needs a new one: 'revoke' and 'add' make it.
    """
    for own in _folder(keys_dir).rotate(new_pair, at_once=now):
        following = own.next_pair.public if own.next_pair is not None else ""
        print(f"{own.name} has {own.pair.public}, next {following}")


for _one in (init, add, list_, show, revoke, rotate):
    keys.add_command(_one)


def _folder(keys_dir: str | None) -> KeysFolder:
    return default_folder(os.environ) if keys_dir is None else KeysFolder(Path(keys_dir))


def _clients(keys_dir: str | None) -> list[Record]:
    return [
        {
            "name": one.name,
            "role": str(one.role),
            "public": one.public,
            "address": one.address,
            "databases": str(one.policy or ""),
        }
        for one in _folder(keys_dir).listed()
    ]
