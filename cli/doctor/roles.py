"""Roles: the checks for a driver, for catalogd and for a hub, in their order."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from ...catalog.config import CatalogdConfig
from ...statestore.config import StatestoredConfig
from ...topics.errors import UsageError
from ...topics.keys.clients import ClientRole
from ...topics.keys.folder import (
    CATALOGD,
    DRIVER,
    KEY,
    KEY_FILE,
    STATESTORED,
    DaemonKeys,
    default_folder,
    find_credential,
)
from ...topics.settings import Address, listen_address, parse_addresses
from ..catalogd import catalogd
from ..client.operator import ANSWER_TIMEOUT_S
from ..statestored import statestored
from . import host
from .checks import Answer, Check, ok
from .driver import START_S, DriverChecks
from .metastore import MetastoreChecks
from .servers import Servers, admitted

PORTS_S: Final = 30.0  # for several addresses, any of which may not answer
HEARTBEAT_S: Final = 70.0  # the heartbeats of a hub may be set to a minute
CATALOG_LIBRARIES: Final = ("prometheus_client", "tornado", "hmsclient", "thrift")
HUB_LIBRARIES: Final = ("prometheus_client", "tornado")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The arguments of the operator. ``command``: the words after two dashes."""

    statestores: str
    command: tuple[str, ...]
    timeout_s: float

    @property
    def answer_s(self) -> float:
        """How long an answer may take: a check may wait for several."""
        return min(ANSWER_TIMEOUT_S, self.timeout_s / 3)


def checks_of(role: str, given: Given) -> list[Check]:
    """Return the checks for ``role``.

    Raises:
        UsageError: the command after the dashes is not that of this role.
        click.ClickException: the command has flags that do not exist.
    """
    return {DRIVER: _driver, CATALOGD: _catalogd, "hub": _hub}[role](given)


def _driver(given: Given) -> list[Check]:
    addresses = parse_addresses(given.statestores, setting="statestores")
    servers = Servers(addresses, timeout_s=given.answer_s)
    spark = DriverChecks(given.command, statestores=given.statestores)

    def key() -> Answer:
        servers.credential = find_credential(DRIVER, environ=os.environ)
        found = KEY if os.environ.get(KEY) else os.environ.get(KEY_FILE)
        source = found or str(default_folder(os.environ).file(DRIVER))
        return host.key(servers.credential, source, role=ClientRole.DRIVER)

    hub = ("key file", "ports", "hub")
    checks = [
        Check("python", host.python),
        Check("packages", partial(host.packages, ())),
        Check("key file", key),
        *_network(addresses),
        Check("hub", servers.hub, after=("key file", "ports"), limit_s=PORTS_S),
        Check("hub's data", servers.data, after=hub),
        Check("clocks", servers.clocks, after=(*hub, "hub's data"), limit_s=HEARTBEAT_S),
        Check("catalogd", servers.catalogd, after=hub),
        Check("versions", servers.versions, after=hub),
        Check("metastore", servers.metastore, after=("catalogd",)),
    ]
    if given.command:
        checks += [
            Check("application", spark.application, limit_s=START_S + 5),
            Check("attached", spark.attached, after=("application",)),
            Check("writes", spark.writes, after=("application", "attached")),
            Check("spark_catalog", spark.session_catalog, after=("application",)),
            Check("caches", spark.caches, after=("application",)),
        ]
    return checks


def _catalogd(given: Given) -> list[Check]:
    words = _flags(catalogd, given.command)
    metastore = MetastoreChecks()
    config: list[CatalogdConfig] = []
    keys: list[DaemonKeys] = []

    def read() -> Answer:
        config.append(CatalogdConfig(**_of(CatalogdConfig, words)))
        metastore.client = config[0].metastore_client()
        return ok("they are allowed")

    def key() -> Answer:
        missing = _not_made_yet(CATALOGD, config[0].keys_dir, config[0].service_address())
        if missing is None:
            keys.append(config[0].keys(os.environ))
        return missing or _key_of(keys[0])

    def store() -> Answer:
        return host.folder(str(config[0].state_dir), setting="state_dir")

    hubs = parse_addresses(str(words["statestores"]), setting="statestores")
    return [
        Check("python", host.python),
        Check("packages", partial(host.packages, CATALOG_LIBRARIES)),
        Check("settings", read),
        Check("key file", key, after=("settings",)),
        Check("state folder", store, after=("settings",)),
        Check("port", lambda: host.can_listen([config[0].service_address()]), after=("settings",)),
        *_network(hubs),
        Check(
            "hub",
            lambda: _admitted(keys, hubs, given.answer_s),
            after=("key file", "ports"),
            limit_s=PORTS_S,
        ),
        Check("metastore", metastore.reachable, after=("packages", "settings")),
        Check("events", metastore.events_on, after=("metastore",), limit_s=PORTS_S),
        Check("event settings", metastore.event_settings, after=("metastore",), limit_s=PORTS_S),
        Check("event log", metastore.rights, after=("metastore",), limit_s=PORTS_S),
        Check("clocks", metastore.clocks, after=("event log",)),
    ]


def _hub(given: Given) -> list[Check]:
    words = _flags(statestored, given.command)
    config: list[StatestoredConfig] = []

    def read() -> Answer:
        config.append(StatestoredConfig(**_of(StatestoredConfig, words)))
        return ok("they are allowed")

    def key() -> Answer:
        missing = _not_made_yet(STATESTORED, config[0].keys_dir, listens(config[0]))
        return missing or _key_of(config[0].keys(os.environ))

    def listens(of: StatestoredConfig) -> Address:
        return listen_address(of.state_store_host, of.state_store_port, setting="state_store_host")

    def listen() -> Answer:
        address = listens(config[0])
        data = [address.with_port(address.port + 1)] if address.port else []
        return host.can_listen([address, *data])

    return [
        Check("python", host.python),
        Check("packages", partial(host.packages, HUB_LIBRARIES)),
        Check("settings", read),
        Check("key file", key, after=("settings",)),
        Check("ports", listen, after=("settings",)),
    ]


def _network(addresses: Sequence[Address]) -> list[Check]:
    reach = partial(host.ports, addresses, daemon=STATESTORED, setting="--statestores")
    return [
        Check("names", partial(host.names, addresses)),
        Check("ports", reach, after=("names",), limit_s=PORTS_S),
    ]


def _not_made_yet(name: str, keys_dir: str | None, listens: Address) -> Answer | None:
    """Return the answer that the daemon will make its keys; None: it has keys, or makes none."""
    file = default_folder(os.environ).file(name)
    if keys_dir is None and listens.is_loopback and not file.exists():
        return ok(f"{file} is made at the first start")
    return None


def _key_of(keys: DaemonKeys) -> Answer:
    found = keys.credential
    return host.key(found, str(keys.folder.path), role=found.role)


def _admitted(keys: Sequence[DaemonKeys], hubs: Sequence[Address], timeout_s: float) -> Answer:
    if not keys:
        return ok("there is no key yet")
    return admitted(keys[0].credential, hubs, timeout_s=timeout_s)


def _flags(command: click.Command, words: Sequence[str]) -> dict[str, Any]:
    """Return the flags of a daemon's command line; those it lacks are from the environment."""
    name = str(command.name)
    if words and Path(words[0]).name != name:
        raise UsageError(f"after -- comes the command of this role, {name}, not {words[0]}")
    return command.make_context(name, list(words[1:])).params


def _of(kind: type, words: dict[str, Any]) -> dict[str, Any]:
    names = [field.name for field in fields(kind)]
    return {name: words[name] for name in names}
