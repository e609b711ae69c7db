"""Folder: the keys of one machine's user, or catalogd's: key files, and the list of clients.

catalogd.key  statestored.key       of the daemons
driver.key    operator.key          of this user's drivers and commands
clients                             those admitted; a hub elsewhere has a copy, from catalogd
clients.for                         at such a hub: catalogd's key when its own key was made
lock                                held by the process that changes the folder
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypedDict

from ..errors import ConfigError
from ..policy import Policy
from ..settings import Address, state_folder
from .clients import (
    LIST_BYTES_MAX,
    Client,
    ClientRole,
    Clients,
    checked_name,
    checked_policy,
    clients_text,
    read_clients,
)
from .credential import (
    Credential,
    KeyPair,
    NewPair,
    PublicKeys,
    credential_text,
    read_credential,
)
from .files import locked, read_secret, write_secret

FOLDER: Final = "keys"
LIST: Final = "clients"
KEPT_FOR: Final = "clients.for"
CATALOGD: Final = "catalogd"
STATESTORED: Final = "statestored"
DRIVER: Final = "driver"
OPERATOR: Final = "operator"
KEY: Final = "TOPICAST_KEY"  # the content of a key file
KEY_FILE: Final = "TOPICAST_KEY_FILE"
LEARNT_S: Final = 60  # after a rotation, until every driver that runs knows the next key
GUARDED: Final = "CREDENTIALS_DIRECTORY"  # systemd's name for a folder that it lets one daemon read
DAEMONS: Final = (CATALOGD, STATESTORED)
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
        self._seen: tuple[int, ...] | None = None  # the list that ``changed`` saw last
        self._seen_keys: dict[str, tuple[int, ...]] = {}  # the key files that it saw last, by name

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
            next_pairs = {name: new_pair() for name in DAEMONS}
            clients = Clients(
                Client(
                    name=name,
                    role=role,
                    public=pairs[name].public,
                    next_public=next_pairs[name].public if name in DAEMONS else "",
                )
                for name, role in _FIRST.items()
            )
            for client in clients:
                self._write(
                    self.file(client.name),
                    client,
                    pair=pairs[client.name],
                    next_pair=next_pairs.get(client.name),
                    clients=clients,
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
        text = read_secret(path, setting="keys_dir", bytes_max=LIST_BYTES_MAX)
        return read_clients(text, source=str(path))

    def keep(self, clients: Clients, *, of: str) -> None:
        """Write the list that catalogd sent, for restarts; catalogd's own folder is left as it is.

        ``of``: the key of catalogd that the hub's key file names. catalogd may have another key
        after rotations, and the hub's file need not be written for them.

        Raises:
            ConfigError: it cannot be written.
        """
        if self.file(CATALOGD).exists():
            return
        with locked(self.path):
            try:
                write_secret(self.path / KEPT_FOR, of)
                self._write_list(clients)
            except OSError as exc:
                allowed = f"a folder that can be written ({exc.strerror})"
                raise ConfigError("keys_dir", str(self.path), allowed) from exc

    def kept_for(self) -> str:
        """Return the key of catalogd that ``keep`` was given last; empty: it was not called.

        Raises:
            ConfigError: the file that has it cannot be used.
        """
        try:
            return read_secret(self.path / KEPT_FOR, setting="keys_dir")
        except FileNotFoundError:
            return ""

    def changed(self) -> Clients | None:
        """Return the list if it is another file than at the last call; None if it is the same.

        Caller: the assembly before catalogd serves, then catalogd's shell, which looks regularly.
        Affects: the next call, which returns the list only if the file has changed meanwhile.

        Raises:
            ConfigError: it is not there, or cannot be used; raised once for each such file.
        """
        seen = _file_id(self.path / LIST)
        if seen == self._seen:
            return None
        self._seen = seen
        return self.listed()

    def changed_credential(self, name: str) -> Credential | None:
        """Return the credential ``name`` if its file has changed since the last call.

        None if it is the same, at the first call, and while there is no file.

        Raises:
            ConfigError: it cannot be used; raised once for each such file.
        """
        seen = _file_id(self.file(name))
        before = self._seen_keys.get(name)
        self._seen_keys[name] = seen
        return self.credential(name) if before not in (None, seen) and seen else None

    def rotate(self, new_pair: NewPair, *, at_once: bool = False) -> tuple[Credential, ...]:
        """Let each daemon whose key file is here have its next key; return their credentials.

        It has the next pair from now on, and another next pair is drawn: a client that knew both
        public keys before can connect at any moment of it, and receives the new next key.
        ``at_once``: both pairs are replaced, because they are known to others; a client elsewhere
        needs a new key file. A daemon that has no next pair yet gets a pair, and keeps its own
        until the next time.

        A rotation that was cut off at any point leaves keys that work, and the next rotation, or a
        start of catalogd, completes it.

        Raises:
            ConfigError: no daemon's key file is here, it or the folder cannot be used, or the last
                rotation is younger than a minute, so that drivers may not know the next key yet.
        """
        if not any(self.file(name).exists() for name in DAEMONS):
            allowed = f"a folder with {CATALOGD}.key or {STATESTORED}.key"
            raise ConfigError("keys_dir", str(self.path), allowed)
        with locked(self.path):
            found = [(name, own) for name in DAEMONS if (own := self._own(name)) is not None]
            now_s = int(time.time())
            if not at_once:
                _check_learnt([own for _, own in found], now_s=now_s)
            if self.file(CATALOGD).exists():
                self.listed()  # or nothing is changed
                self._spread()
            for name, own in found:
                write_secret(
                    self.file(name),
                    credential_text(_rotated(own, new_pair, at_once=at_once, now_s=now_s)),
                )
            if self.file(CATALOGD).exists():
                self._spread()
            return tuple(self.credential(name) for name, _ in found)

    def spread(self) -> None:
        """Complete what a rotation here left undone: list and key files name the daemons' keys.

        Raises:
            ConfigError: the folder, the list or a key file cannot be used.
        """
        if not self.file(CATALOGD).exists() or not (self.path / LIST).exists():
            return
        listed = self.listed()
        if listed != self._with_own_keys(listed):  # the list is written last
            with locked(self.path):
                self._spread()

    def learn_hub(self, before: PublicKeys, after: PublicKeys) -> None:
        """Note in catalogd's folder that the hub with a key of ``before`` has ``after``.

        Raises:
            ConfigError: the folder, the list or a key file cannot be used.
        """
        with locked(self.path):
            listed = self.listed()
            for one in listed:
                if one.role is ClientRole.HUB and not set(before).isdisjoint(one.keys):
                    known = replace(one, public=after[0], next_public="".join(after[1:]))
                    self._write_everywhere(listed.replacing(known), before=listed)

    def add(
        self,
        name: str,
        role: ClientRole,
        new_pair: NewPair,
        *,
        address: str = "",
        policy: Policy | None = None,
        to: Path | None,
    ) -> Path:
        """Admit another client; return its new key file: ``to``, else that of this folder.

        The key files here learn the public key of another hub; those elsewhere do not.

        Raises:
            ConfigError: the name is taken or not valid, the file exists, the role has no
                ``policy``, or there is no list here.
        """
        checked_name(name, setting="name")
        checked_policy(policy, role, setting="databases")
        path = to or self.file(name)
        with locked(self.path):
            before = self.listed()
            if before.named(name) is not None:
                allowed = f"it has a key already: topicast keys revoke {name}, or another name"
                raise ConfigError("name", name, allowed)
            if path.exists():
                raise ConfigError("out", str(path), "a file that does not exist yet")
            pair = new_pair()
            next_pair = new_pair() if role is ClientRole.HUB else None
            client = Client(
                name=name,
                role=role,
                public=pair.public,
                address=address,
                policy=policy,
                next_public=next_pair.public if next_pair is not None else "",
            )
            after = before.adding(client)
            self._list_text(after)  # or nothing is written
            try:
                self._write(path, client, pair=pair, next_pair=next_pair, clients=after)
            except OSError as exc:
                allowed = f"a file that can be written ({exc.strerror})"
                raise ConfigError("out", str(path), allowed) from exc
            if role is ClientRole.HUB:
                self._write_all_servers(after)
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
            after = before.without(name)
            if client.role is ClientRole.HUB:
                self._write_all_servers(after)
            self._write_list(after)
            self.file(name).unlink(missing_ok=True)
        return client

    def listed(self) -> Clients:
        """Return the list of clients; raises ConfigError as ``add`` does."""
        try:
            return self.clients()
        except FileNotFoundError:
            allowed = "a folder with the list of clients; topicast keys init makes one with keys"
            raise ConfigError("keys_dir", str(self.path), allowed) from None

    def _own(self, name: str) -> Credential | None:
        try:
            return self.credential(name)
        except FileNotFoundError:
            return None

    def _spread(self) -> None:
        """Let list and key files name the keys that the daemons' own files have."""
        before = self.listed()
        self._write_everywhere(self._with_own_keys(before), before=before)

    def _with_own_keys(self, listed: Clients) -> Clients:
        """Return ``listed`` with the keys that the daemons' files here have."""
        after = listed
        for name in DAEMONS:
            own = self._own(name)
            one = after.named(own.name) if own is not None else None
            if own is not None and one is not None and one.role is _FIRST[name]:
                following = own.next_pair.public if own.next_pair is not None else ""
                known = replace(one, public=own.pair.public, next_public=following)
                after = after.replacing(known)
        return after

    def _write_everywhere(self, clients: Clients, *, before: Clients) -> None:
        """Write the servers' keys in each file here, then the list, if it is another."""
        self._write_all_servers(clients)
        if clients != before:
            self._write_list(clients)

    def _write_all_servers(self, clients: Clients) -> None:
        for client in clients:
            for name in {client.name, *([STATESTORED] if client.role is ClientRole.HUB else [])}:
                if self.file(name).exists():
                    self._write_servers(name, clients)

    def _write_servers(self, name: str, clients: Clients) -> None:
        """Let a key file in this folder know the servers in ``clients``, and no others."""
        before = self.credential(name)
        after = with_servers(before, clients)
        if after != before:
            write_secret(self.file(name), credential_text(after))

    def _write(
        self,
        path: Path,
        client: Client,
        *,
        pair: KeyPair,
        next_pair: KeyPair | None,
        clients: Clients,
    ) -> None:
        credential = Credential(
            name=client.name,
            role=client.role,
            pair=pair,
            policy=client.policy,
            next_pair=next_pair,
            **_servers_of(clients),
        )
        write_secret(path, credential_text(credential))

    def _write_list(self, clients: Clients) -> None:
        write_secret(self.path / LIST, self._list_text(clients))

    def _list_text(self, clients: Clients) -> str:
        """Return the text of the list with ``clients``, and with the comments that it has now.

        Raises:
            ConfigError: it would be too long to be read again; says what to do.
        """
        path = self.path / LIST
        try:
            before = read_secret(path, setting="keys_dir", bytes_max=LIST_BYTES_MAX)
        except FileNotFoundError:
            return clients_text(clients)
        text = clients_text(clients, before=before)
        if (size := len(text.encode())) > LIST_BYTES_MAX:
            allowed = f"at most {LIST_BYTES_MAX} bytes, not {size}: shorten its comments"
            raise ConfigError("keys_dir", str(path), allowed)
        return text


class _Servers(TypedDict):
    """The servers, as a credential knows them."""

    catalogd: str
    hubs: tuple[tuple[str, str], ...]
    next_keys: tuple[tuple[str, str], ...]


def _servers_of(clients: Clients) -> _Servers:
    (catalogd,) = (one for one in clients if one.role is ClientRole.CATALOGD)
    next_keys = tuple(_next_keys(clients, catalogd))
    return _Servers(catalogd=catalogd.public, hubs=hubs_of(clients), next_keys=next_keys)


def with_servers(credential: Credential, clients: Clients) -> Credential:
    """Return ``credential`` with the servers' keys as the list has them, if it has any."""
    return replace(credential, **_servers_of(clients)) if len(clients) else credential


def _next_keys(clients: Clients, catalogd: Client) -> Iterator[tuple[str, str]]:
    """Yield the servers' keys and next keys, in the order of a key file's lines."""
    for one in (catalogd, *(one for one in clients if one.role is ClientRole.HUB)):
        if one.next_public:
            yield one.public, one.next_public


def _check_learnt(daemons: Iterable[Credential], *, now_s: int) -> None:
    """Raise ConfigError if a key was rotated so lately that drivers may not know its next key."""
    for own in daemons:
        age_s = now_s - own.rotated_at
        if 0 <= age_s < LEARNT_S:
            left_s = LEARNT_S - age_s
            allowed = f"drivers need a minute to learn the next key; rotate again in {left_s} s"
            raise ConfigError(own.name, f"rotated {age_s} s ago", allowed)


def _rotated(own: Credential, new_pair: NewPair, *, at_once: bool, now_s: int) -> Credential:
    pair = new_pair() if at_once else own.next_pair or own.pair
    return replace(own, pair=pair, next_pair=new_pair(), rotated_at=now_s)


def _file_id(path: Path) -> tuple[int, ...]:
    """Return the identity of the file at ``path``; empty if there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def hubs_of(clients: Clients) -> tuple[tuple[str, str], ...]:
    """Return address and public key of each hub in the list; see ``Credential.hubs``."""
    return tuple((one.address, one.public) for one in clients if one.role is ClientRole.HUB)


@dataclass(frozen=True, slots=True)
class DaemonKeys:
    """The credential of a daemon, and the folder that it is from."""

    credential: Credential
    folder: KeysFolder
    is_guarded: bool = False  # from CREDENTIALS_DIRECTORY: it changes with a restart only

    def changed(self) -> Credential | None:
        """Return the credential if its file has changed; raises as ``changed_credential``."""
        name = _name_of(self.credential)
        return None if self.is_guarded else self.folder.changed_credential(name)

    def key_age_s(self, *, now_s: float) -> float | None:
        """Return how old the daemon's key is: the time since it was rotated last.

        Before the first rotation, since its file was written; None: that is not known.
        """
        path = self.folder.file(_name_of(self.credential))
        try:
            own = self.credential if self.is_guarded else self.folder.credential(path.stem)
            if own.rotated_at or self.is_guarded:
                return max(now_s - own.rotated_at, 0.0) if own.rotated_at else None
            return max(now_s - path.stat().st_mtime, 0.0)
        except (ConfigError, OSError):
            return None

    def last_clients(self) -> Clients:
        """Return the list that a hub begins with: the last list from catalogd, else catalogd alone.

        Raises:
            ConfigError: it cannot be used, or is not of the catalogd that the key file names.
        """
        publics = self.credential.catalogd_keys
        try:
            clients = self.folder.clients()
        except FileNotFoundError:
            public, following = publics[0], "".join(publics[1:])
            role = ClientRole.CATALOGD
            return Clients([Client(name=CATALOGD, role=role, public=public, next_public=following)])
        if not clients.are_kept_by(publics) and self.folder.kept_for() != publics[0]:
            path = self.folder.path / LIST
            allowed = f"the list of the catalogd that {STATESTORED}.key names; remove the file"
            raise ConfigError("keys_dir", str(path), allowed)
        return clients


def _name_of(credential: Credential) -> str:
    """Return the name of the file that a daemon's key has in its folder."""
    return CATALOGD if credential.role is ClientRole.CATALOGD else STATESTORED


def daemon_keys(
    name: str,
    keys_dir: str | None,
    *,
    listens: Address,
    new_pair: NewPair,
    environ: Mapping[str, str],
) -> DaemonKeys:
    """Return the keys of the daemon ``name``, which listens at this address.

    A key file in the folder CREDENTIALS_DIRECTORY comes first. The default folder's are made if
    they are missing and only this machine can reach the daemon.

    Raises:
        ConfigError: there is no key file, or it cannot be used; says how to mend that.
    """
    folder = default_folder(environ) if keys_dir is None else KeysFolder(Path(keys_dir))
    credential = _guarded_credential(name, environ)
    is_guarded = credential is not None
    if credential is None:
        if keys_dir is None and listens.is_loopback:
            folder.make(new_pair)
        folder.spread()
        try:
            folder.changed_credential(name)
            credential = folder.credential(name)
        except FileNotFoundError:
            raise ConfigError("keys_dir", str(folder.path), _how_to_get(name, folder)) from None
    if credential.role is not _FIRST[name]:
        allowed = f"for {name} a key of role {_FIRST[name]}, not {credential.role}"
        raise ConfigError("key", credential.name, allowed)
    return DaemonKeys(credential, folder, is_guarded)


def _guarded_credential(name: str, environ: Mapping[str, str]) -> Credential | None:
    """Return what systemd or Kubernetes lets the daemon read; others' modes say nothing there."""
    path = Path(environ.get(GUARDED) or "/nonexistent", f"{name}.key")
    try:
        text = read_secret(path, setting=GUARDED, is_guarded=True)
    except FileNotFoundError:
        return None
    return read_credential(text, source=str(path))


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
    """Return what this process joins with: ``key_file``, TOPICAST_KEY (the content of such a file),
    TOPICAST_KEY_FILE, or that of the client ``name`` in the default folder: the first there is.

    Raises:
        ConfigError: there is none, or it cannot be used; says how to mend that.
    """
    if key_file is None and environ.get(KEY):
        try:
            return read_credential(environ[KEY], source=KEY)
        except ConfigError as exc:
            allowed = f"{exc.allowed}; {KEY} is the content of a key file, {KEY_FILE} its path"
            raise ConfigError(exc.setting, exc.value, allowed) from None
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
