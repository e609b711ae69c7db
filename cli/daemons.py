"""The commands ``statestored`` and ``catalogd``.

    flags ──▶ config ──▶ daemon ──▶ "listening …" ──▶ it serves: "ready …" ──▶ until SIGTERM, SIGINT

Both lines are on standard output; a daemon that cannot serve never prints the second. They log to
standard error, end with 0 after a signal, with 2 on settings that are not allowed, and with 1 on
anything else, such as a port in use. What needs an extra is imported when it is used.
"""

import gc
import os
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import click

from ..catalog.config import CatalogdConfig
from ..catalog.metastore.hive_site import URIS_DEFAULT
from ..statestore.config import StatestoredConfig
from ..topics.errors import ConfigError, TopicastError
from ..topics.settings import state_folder
from .exit_codes import FAILED, WRONG_USE
from .flags import F, flags_of, settings, version_option
from .logs import log_to_stderr
from .notify import Announcement
from .output import run
from .pages.config import PagesConfig
from .signals import handled

if TYPE_CHECKING:
    from .pages.access import Access
    from .pages.answers import Sources
    from .pages.sources import Daemon

EXIT_CODES: Final = "Exit codes: 0 ended by a signal, 1 failed, 2 wrong use."
STATESTORED_PAGES_PORT: Final = 25010
CATALOGD_PAGES_PORT: Final = 25020
YOUNG: Final = 350  # new objects until the collector visits them; three times as many at once
OLD_PASSES: Final = 7000  # until an old one: 7 million new objects that live on
OLD: Final = 2  # the oldest generation
ALL_EVERY: Final = 100  # old passes, until one over everything

STATESTORED_FLAGS: Final = {
    "state_store_host": "Address to listen on: a host name, a number, 0.0.0.0 or ::.",
    "state_store_port": "Port for requests; data goes out on the next one. 0 takes any free ones.",
    "advertise_address": "Where peers reach it, host or host:port, if not there; data at the next "
    "port.",
    "statestore_heartbeat_frequency_ms": "Time between two heartbeats.",
    "statestore_max_missed_heartbeats": "Heartbeat times of silence after which a member is LOST.",
    "keys_dir": "Folder with statestored.key; the default one is filled at the first start.",
}
CATALOGD_FLAGS: Final = {
    "hive_metastore_uris": "Metastores as in Hive, separated by commas: thrift://host:port,…",
    "hive_site": "Hive's own settings of the metastore's clients, hive-site.xml; flags come first.",
    "hive_metastore_use_ssl": "Connect to the metastore by TLS.",
    "hive_metastore_truststore": "Certificates that are trusted: PEM, PKCS 12 or JKS.",
    "hive_metastore_truststore_password_file": "File with the password of the truststore.",
    "hive_metastore_auth": "How to log in to the metastore: none, plain (a password) or kerberos.",
    "hive_metastore_user": "User for plain.",
    "hive_metastore_password_file": "File with the password for plain; only its owner may read it.",
    "hive_metastore_kerberos_principal": "The metastore's principal, as hive/_HOST@EXAMPLE.COM.",
    "principal": "Catalogd's own Kerberos principal.",
    "keytab_file": "File with the keys of catalogd's principal.",
    "statestores": "Every statestored to publish to, separated by commas: tcp://host:port,…",
    "catalog_service_host": "Address to serve pulls and syncs on: a host name, a number, 0.0.0.0 "
    "or ::.",
    "catalog_service_port": "Port to serve pulls and syncs on. 0 takes any free one.",
    "advertise_address": "Where peers reach it, host or host:port, if not there.",
    "state_dir": "Folder of the store, from which a restart continues.",
    "num_topics": "Table topics, a power of two; fixed for the life of the store.",
    "catalog_topic_mode": "What readers may join: full, minimal, or mixed, which is both.",
    "catalog_topic_mode_overrides": "Tables with another mode: PATTERN=full or PATTERN=minimal, …",
    "hms_event_polling_interval_s": "Time between two polls of the notification log; 0 is off.",
    "load_catalog_in_background": "Read every table after the start, not only on request.",
    "num_metadata_loading_threads": "Connections to the metastore.",
    "blacklisted_dbs": "Databases that are left out, separated by commas.",
    "change_history_mb": "Megabytes of former content that are kept for the change history.",
    "change_history_hours": "Hours for which they are kept.",
    "keys_dir": "Folder with catalogd.key and the list of clients; the default one is filled at "
    "the first start.",
}
PAGES_FLAGS: Final = {
    "webserver_interface": "Address of the pages, /healthz and /metrics; beyond loopback they need "
    "a password or a token.",
    "webserver_port": "Port of the pages. 0 takes any free one.",
    "webserver_password_file": "File with a line name:password for each person who may read them.",
    "webserver_token_file": "File with a line for each token (bearer) that may read them.",
    "webserver_certificate_file": "Certificate chain in PEM: the pages are served by HTTPS.",
    "webserver_private_key_file": "Private key of the certificate in PEM, unencrypted.",
}
DEFAULTS: Final = {
    "keys_dir": (None, "~/.local/state/topicast/keys"),
    "advertise_address": (None, "where it listens"),
}


def _pages_flags(port: int) -> Callable[[F], F]:
    return flags_of(PagesConfig, meanings=PAGES_FLAGS, defaults={"webserver_port": (port, True)})


def _access(given: dict[str, Any]) -> "Access":
    """Take the pages' settings out of ``given``, and read their files before anything starts."""
    from .pages.access import Access

    names = [field.name for field in fields(PagesConfig)]
    return Access(PagesConfig(**{name: given.pop(name) for name in names}))


@click.command("statestored", context_settings=settings(), epilog=EXIT_CODES)
@flags_of(StatestoredConfig, meanings=STATESTORED_FLAGS, defaults=DEFAULTS)
@_pages_flags(STATESTORED_PAGES_PORT)
@version_option("statestored")
def statestored_command(**given: Any) -> None:
    """Run the hub, which broadcasts the topics to every subscriber."""
    from ..statestore.statestored import build
    from ..statestore.status import facts
    from .pages.metrics import STATESTORED
    from .pages.sources import sources_of

    access = _access(given)
    config = StatestoredConfig(**given)
    log_to_stderr()
    collect_old_rarely()
    daemon, address = build(config, keys=config.keys(os.environ))
    sources = sources_of("statestored", daemon, lambda: facts(daemon.status), numbers=STATESTORED)
    _serve(daemon, sources, address, access=access)


@click.command("catalogd", context_settings=settings(), epilog=EXIT_CODES)
@flags_of(
    CatalogdConfig,
    meanings=CATALOGD_FLAGS,
    defaults={
        **DEFAULTS,
        "state_dir": (state_folder("catalogd", os.environ), "~/.local/state/topicast/catalogd"),
        "hive_metastore_uris": (None, f"those of --hive_site, else {URIS_DEFAULT}"),
        "hive_metastore_use_ssl": (None, "as --hive_site says, else false"),
        "hive_metastore_truststore": (None, "that of --hive_site, else those of the system"),
        "hive_metastore_auth": (None, "as --hive_site says, else none"),
        "hive_metastore_user": (None, "that of --hive_site"),
        "hive_metastore_kerberos_principal": (None, "that of --hive_site"),
        "principal": (None, "the first in the keytab, or in the ticket cache"),
        "keytab_file": (None, "none: the user's ticket cache, KRB5CCNAME"),
        "catalog_topic_mode": (None, "the stored one, at first mixed"),
        "catalog_topic_mode_overrides": (None, "the stored ones, at first none"),
    },
)
@_pages_flags(CATALOGD_PAGES_PORT)
@version_option("catalogd")
def catalogd_command(**given: Any) -> None:
    """Follow a Hive metastore and publish what changes to every statestored."""
    from ..catalog.assembly import build
    from ..catalog.status import facts
    from .pages.metrics import CATALOGD
    from .pages.sources import sources_of

    access = _access(given)
    config = CatalogdConfig(**given)
    log_to_stderr()
    collect_old_rarely()
    keys = config.keys(os.environ)
    daemon, address = build(config, name=f"catalogd@{socket.gethostname()}", keys=keys)
    sources = sources_of("catalogd", daemon, lambda: facts(daemon.status), numbers=CATALOGD)
    _serve(daemon, sources, address, access=access)


def statestored() -> None:
    """Run ``statestored`` with this process's arguments and end the process."""
    run(statestored_command, code_of=_exit_code)


def catalogd() -> None:
    """Run ``catalogd`` with this process's arguments and end the process."""
    run(catalogd_command, code_of=_exit_code)


def collect_old_rarely(*, old_passes: int = OLD_PASSES) -> None:
    """Let the garbage collector visit young objects, a few at a time, and old ones hardly ever.

    A pass over 300,000 entries, which are in no cycle, stops the loop for 110 ms. Passes over
    young objects find the cycles that failures leave behind, and take 1 ms at most on a busy
    machine. What was young until an old pass is visited by that one, and then left alone, but for
    each 100th, which visits all: a cycle that lived on for hours is found by it.
    """
    gc.freeze()  # imported modules live as long as the process
    gc.set_threshold(YOUNG, 1, old_passes)
    passes = count(1)

    def leave_alone(phase: str, facts: dict[str, int]) -> None:
        if facts["generation"] != OLD:
            return
        if phase == "stop":
            gc.freeze()
        elif next(passes) % ALL_EVERY == 0:
            gc.unfreeze()

    gc.callbacks.append(leave_alone)


def _exit_code(error: TopicastError) -> int:
    return WRONG_USE if isinstance(error, ConfigError) else FAILED


def _serve(daemon: "Daemon", sources: "Sources", address: str, *, access: "Access") -> None:
    """Announce ``daemon``, and serve until a signal; ``access``: to its pages."""
    from .pages.server import Pages

    stop = dict.fromkeys((signal.SIGTERM, signal.SIGINT), lambda *_: daemon.stop())
    with closing(daemon), Pages(sources, access) as pages, handled(stop):
        announcement = Announcement(f"address={address} web={pages.url}")
        announcement.listening()
        daemon.run(announcement.report)


if __name__ == "__main__":
    both = click.Group(commands=[statestored_command, catalogd_command])
    run(both, code_of=_exit_code)
