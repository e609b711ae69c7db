"""Folder: the keys of one machine's user, or catalogd's: key files, and the list of clients.

catalogd.key  statestored.key       of the daemons
driver.key    operator.key          of this user's drivers and commands
clients                             who may connect, for both daemons
lock                                held by whoever changes the folder
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import ConfigError
from ..settings import Address, state_folder
from .clients import Client, ClientRole, Clients, checked_name, clients_text, read_clients
from .credential import Credential, KeyPair, NewPair, credential_text, read_credential
from .files import locked, read_secret, write_secret

FOLDER: Final = "keys"
LIST: Final = "clients"
CATALOGD: Final = "catalogd"
STATESTORED: Final = "statestored"
DRIVER: Final = "driver"
OPERATOR: Final = "operator"
KEY: Final = "TOPICAST_KEY"  # the content of a key file
KEY_FILE: Final = "TOPICAST_KEY_FILE"
_FIRST: Final = {  # the clients that the first start makes
    CATALOGD: ClientRole.CATALOGD,
    STATESTORED: ClientRole.HUB,
    DRIVER: ClientRole.DRIVER,
    OPERATOR: ClientRole.OPERATOR,
}


class KeysFolder:
    """The folder ``path``; nothing is read or written before a method does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None  # the file that ``changed`` saw last

    def file(self, name: str) -> Path:
        """Return the key file of the client ``name``."""
        return self.path / f"{name}.key"

    def make(self, new_pair: NewPair) -> None:
        """Make the first keys and the list, unless there is a list.

        Raises:
            ConfigError: the folder cannot be written, or others can write it.
        """
        with locked(self.path):
            if (self.path / LIST).exists():
                return
            pairs = {name: new_pair() for name in _FIRST}
            clients = Clients(
                Client(name=name, role=role, public=pairs[name].public)
                for name, role in _FIRST.items()
            )
            for client in clients:
                self._write(
                    self.file(client.name), client, pair=pairs[client.name], clients=clients
                )
            self._write_list(clients)

    def credential(self, name: str) -> Credential:
        """Return the credential of the client ``name``.

        Raises:
            FileNotFoundError: it has no key file here.
            ConfigError: its file cannot be used; says how to mend that.
        """
        path = self.file(name)
        return read_credential(read_secret(path, setting="key_file"), source=str(path))

    def clients(self) -> Clients:
        """Return the list of clients.

        Raises:
            FileNotFoundError: there is none.
            ConfigError: it cannot be used; says how to mend that.
        """
        path = self.path / LIST
        return read_clients(read_secret(path, setting="keys_dir"), source=str(path))

    def changed(self) -> Clients | None:
        """Return the list if it is another file than at the last call; None if it is the same.

        Raises:
            ConfigError: it is not there, or cannot be used; raised once for each such file.
        """
        try:
            found = (self.path / LIST).stat()
            seen: tuple[int, ...] = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            seen = ()
        if seen == self._seen:
            return None
        self._seen = seen
        return self.listed()

    def add(
        self, name: str, role: ClientRole, new_pair: NewPair, *, address: str = "", to: Path | None
    ) -> Path:
        """Admit another client; return its new key file: ``to``, else the one in this folder.

        Raises:
            ConfigError: the name is taken or none, the file exists, or there is no list here.
        """
        checked_name(name, setting="name")
        path = to or self.file(name)
        with locked(self.path):
            before = self.listed()
            if before.named(name) is not None:
                allowed = f"it has a key already: topicast keys revoke {name}, or another name"
                raise ConfigError("name", name, allowed)
            if path.exists():
                raise ConfigError("out", str(path), "a file that does not exist yet")
            pair = new_pair()
            client = Client(name=name, role=role, public=pair.public, address=address)
            after = before.adding(client)
            try:
                self._write(path, client, pair=pair, clients=after)
            except OSError as exc:
                allowed = f"a file that can be written ({exc.strerror})"
                raise ConfigError("out", str(path), allowed) from exc
            self._write_list(after)
        return path

    def revoke(self, name: str) -> Client:
        """Admit the client ``name`` no longer, and return it; its key file here is removed.

        Raises:
            ConfigError: there is no such client, it is catalogd, or there is no list here.
        """
        with locked(self.path):
            before = self.listed()
            client = before.named(name)
            if client is None:
                known = ", ".join(one.name for one in before)
                raise ConfigError("name", name, f"one of the clients: {known}")
            if client.role is ClientRole.CATALOGD:
                raise ConfigError("name", name, "any client but catalogd, which keeps the list")
            self._write_list(before.without(name))
            self.file(name).unlink(missing_ok=True)
        return client

    def listed(self) -> Clients:
        """Return the list of clients; raises ConfigError as ``add`` does."""
        try:
            return self.clients()
        except FileNotFoundError:
            allowed = "a folder with the list of clients; topicast keys init makes one with keys"
            raise ConfigError("keys_dir", str(self.path), allowed) from None

    def _write(self, path: Path, client: Client, *, pair: KeyPair, clients: Clients) -> None:
        catalogd = next(one for one in clients if one.role is ClientRole.CATALOGD)
        credential = Credential(
            name=client.name,
            role=client.role,
            pair=pair,
            catalogd=catalogd.public,
            hubs=hubs_of(clients),
        )
        write_secret(path, credential_text(credential))

    def _write_list(self, clients: Clients) -> None:
        write_secret(self.path / LIST, clients_text(clients))


def hubs_of(clients: Clients) -> tuple[tuple[str, str], ...]:
    """Return address and public key of each hub in the list; see ``Credential.hubs``."""
    return tuple((one.address, one.public) for one in clients if one.role is ClientRole.HUB)


@dataclass(frozen=True, slots=True)
class DaemonKeys:
    """What a daemon joins with, and the folder that it is from."""

    credential: Credential
    folder: KeysFolder


def daemon_keys(
    name: str,
    keys_dir: str | None,
    *,
    listens: Address,
    new_pair: NewPair,
    environ: Mapping[str, str],
) -> DaemonKeys:
    """Return the keys of the daemon ``name``, which listens at this address.

    The default folder's are made if they are missing and only this machine can reach the daemon.

    Raises:
        ConfigError: there is no key file, or it cannot be used; says how to mend that.
    """
    folder = default_folder(environ) if keys_dir is None else KeysFolder(Path(keys_dir))
    if keys_dir is None and listens.is_loopback:
        folder.make(new_pair)
    try:
        credential = folder.credential(name)
    except FileNotFoundError:
        raise ConfigError("keys_dir", str(folder.path), _how_to_get(name, folder)) from None
    if credential.role is not _FIRST[name]:
        allowed = f"a key of role {_FIRST[name]}, not {credential.role}"
        raise ConfigError("keys_dir", str(folder.file(name)), allowed)
    return DaemonKeys(credential, folder)


def _how_to_get(name: str, folder: KeysFolder) -> str:
    if name == CATALOGD:
        return f"there is no {name}.key in it; make it: topicast keys init --keys_dir={folder.path}"
    return (
        f"there is no {name}.key in it; where catalogd's keys are: topicast keys add NAME "
        f"--role hub --address tcp://HOST:PORT --out {name}.key, and bring the file here"
    )


def default_folder(environ: Mapping[str, str]) -> KeysFolder:
    """Return the folder under the user's state folder."""
    return KeysFolder(state_folder(FOLDER, environ))


def find_credential(
    name: str, *, key_file: str | None = None, environ: Mapping[str, str]
) -> Credential:
    """Return what this process joins with: ``key_file``, TOPICAST_KEY (the content of one),
    TOPICAST_KEY_FILE, or that of the client ``name`` in the default folder: the first there is.

    Raises:
        ConfigError: there is none, or it cannot be used; says how to mend that.
    """
    if key_file is None and environ.get(KEY):
        return read_credential(environ[KEY], source=KEY)
    given = key_file or environ.get(KEY_FILE)
    path = Path(given) if given else default_folder(environ).file(name)
    setting = "key_file" if key_file else KEY_FILE
    try:
        return read_credential(read_secret(path, setting=setting), source=str(path))
    except FileNotFoundError:
        remedy = (
            f"there is no such file; the daemons of this user make {name}.key at their first "
            f"start; elsewhere make one where catalogd's keys are: topicast keys add NAME "
            f"--role {name} --out FILE"
        )
        raise ConfigError(setting, str(path), remedy) from None
