"""The command that makes keys, and says who may connect.

It changes files where catalogd's keys are; catalogd sees that within half a second.
"""

import os
from pathlib import Path

import click

from ...topics.errors import ConfigError
from ...topics.keys.clients import ClientRole
from ...topics.keys.folder import KeysFolder, default_folder
from ...topics.link import new_pair
from ...topics.settings import parse_addresses
from ..flags import OUTPUT, command, option, settings
from ..output import Output

KEYS_DIR = option(
    "keys_dir",
    metavar="FOLDER",
    default=None,
    show_default="~/.local/state/topicast/keys",
    help="Folder of catalogd's keys.",
)
ROLES = [role.value for role in ClientRole if role is not ClientRole.CATALOGD]
COLUMNS = ("name", "role", "public", "address")


@click.group("keys", context_settings=settings())
def keys() -> None:
    """Make keys, and say who may connect.

    The first start of a daemon makes the keys of one machine and user by itself. Everybody else
    has a key file of their own, which 'add' makes, and names it by TOPICAST_KEY_FILE.
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
@click.option("--out", type=click.Path(path_type=Path), help="Its key file, else in the folder.")
@KEYS_DIR
def add(*, name: str, role: str, address: str, out: Path | None, keys_dir: str | None) -> None:
    """Admit the client NAME, and write its key file.

    A driver reads and reports what it writes, an operator reads and gives orders, an observer
    reads. Whoever reads the file is that client, so only its owner may; with --out no copy is left.
    """
    if (role == ClientRole.HUB) is not bool(address):
        raise ConfigError("address", address, "a hub has one: tcp://host:port; others have none")
    if address:
        (address,) = map(str, parse_addresses(address, setting="address")[:1])
    print(_folder(keys_dir).add(name, ClientRole(role), new_pair, address=address, to=out))


@command("list")
@KEYS_DIR
@OUTPUT
def list_(keys_dir: str | None, output: str) -> None:
    """List who may connect."""
    Output(output).rows(COLUMNS, _rows(keys_dir))


@command("show")
@click.argument("name")
@KEYS_DIR
@OUTPUT
def show(name: str, keys_dir: str | None, output: str) -> None:
    """Show the client NAME; its secret is in its key file alone."""
    rows = [row for row in _rows(keys_dir) if row[0] == name]
    if not rows:
        raise ConfigError("name", name, "one of those that topicast keys list shows")
    Output(output).rows(COLUMNS, rows)


@command("revoke")
@click.argument("name")
@KEYS_DIR
def revoke(name: str, keys_dir: str | None) -> None:
    """Admit the client NAME no longer: its connections end within 2 s, and none is made again."""
    client = _folder(keys_dir).revoke(name)
    print(f"revoked {client.name} {client.public}")


for _one in (init, add, list_, show, revoke):
    keys.add_command(_one)


def _folder(keys_dir: str | None) -> KeysFolder:
    return default_folder(os.environ) if keys_dir is None else KeysFolder(Path(keys_dir))


def _rows(keys_dir: str | None) -> list[tuple[str, str, str, str]]:
    clients = _folder(keys_dir).listed()
    return [(one.name, str(one.role), one.public, one.address) for one in clients]
