"""The commands ``statestored`` and ``catalogd``.

    flags ──▶ config ──▶ daemon ──▶ one line "ready …" on standard output ──▶ until SIGTERM, SIGINT

They log to standard error, end with 0 after a signal, with 2 on settings that are not allowed, and
with 1 on anything else, such as a port in use. What needs an extra is imported when it is used.
"""

import gc
import os
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

from ..catalog.config import CatalogdConfig
from ..catalog.metastore.hive_site import URIS_DEFAULT
from ..statestore.config import StatestoredConfig
from ..topics.errors import ConfigError, TopicastError
from ..topics.settings import state_folder
from .flags import F, flags_of, option, settings, version_option
from .logs import log_to_stderr
from .output import FAILED, WRONG_USE, run
from .signals import handled

if TYPE_CHECKING:
    from .pages.server import Sources
    from .pages.sources import Daemon

EXIT_CODES: Final = "Exit codes: 0 ended by a signal, 1 failed, 2 wrong use."
STATESTORED_PAGES_PORT: Final = 25010
CATALOGD_PAGES_PORT: Final = 25020
PASSES_BEFORE_OLD: Final = 1000  # of the collector: 7 million new objects that live on

STATESTORED_FLAGS: Final = {
    "state_store_host": "Address to listen on, a loopback one.",
    "state_store_port": "Port for requests; data goes out on the next one. 0 takes any free ones.",
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
    "statestores": "Every statestored to publish to, separated by commas: tcp://host:port,…",
    "catalog_service_host": "Address to serve pulls and syncs on, a loopback one.",
    "catalog_service_port": "Port to serve pulls and syncs on. 0 takes any free one.",
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
KEYS_DIR_DEFAULT: Final = {"keys_dir": (None, "~/.local/state/topicast/keys")}


def _web_options(port: int) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        command = option(
            "webserver_port",
            type=click.IntRange(0, 65_535),
            default=port,
            help="Port of the pages. 0 takes any free one.",
        )(command)
        return option(
            "webserver_interface",
            default="127.0.0.1",
            help="Address of the pages, /healthz and /metrics.",
        )(command)

    return decorate


@click.command("statestored", context_settings=settings(), epilog=EXIT_CODES)
@flags_of(StatestoredConfig, meanings=STATESTORED_FLAGS, defaults=KEYS_DIR_DEFAULT)
@_web_options(STATESTORED_PAGES_PORT)
@version_option("statestored")
def statestored_command(webserver_interface: str, webserver_port: int, **given: Any) -> None:
    """Run the hub, which broadcasts the topics to every subscriber."""
    from ..statestore.statestored import build
    from ..statestore.status import facts
    from .pages.metrics import STATESTORED
    from .pages.sources import sources_of

    config = StatestoredConfig(**given)
    log_to_stderr()
    collect_old_rarely()
    daemon, address = build(config, keys=config.keys(os.environ))
    sources = sources_of("statestored", daemon, lambda: facts(daemon.status), numbers=STATESTORED)
    _serve(daemon, sources, address, web=(webserver_interface, webserver_port))


@click.command("catalogd", context_settings=settings(), epilog=EXIT_CODES)
@flags_of(
    CatalogdConfig,
    meanings=CATALOGD_FLAGS,
    defaults={
        **KEYS_DIR_DEFAULT,
        "state_dir": (state_folder("catalogd", os.environ), "~/.local/state/topicast/catalogd"),
        "hive_metastore_uris": (None, f"those of --hive_site, else {URIS_DEFAULT}"),
        "hive_metastore_use_ssl": (None, "as --hive_site says, else false"),
        "hive_metastore_truststore": (None, "that of --hive_site, else those of the system"),
        "catalog_topic_mode": (None, "the stored one, at first mixed"),
        "catalog_topic_mode_overrides": (None, "the stored ones, at first none"),
    },
)
@_web_options(CATALOGD_PAGES_PORT)
@version_option("catalogd")
def catalogd_command(webserver_interface: str, webserver_port: int, **given: Any) -> None:
    """Follow a Hive metastore and publish what changes to every statestored."""
    from ..catalog.assembly import build
    from ..catalog.status import facts
    from .pages.metrics import CATALOGD
    from .pages.sources import sources_of

    config = CatalogdConfig(**given)
    log_to_stderr()
    collect_old_rarely()
    keys = config.keys(os.environ)
    daemon, address = build(config, name=f"catalogd@{socket.gethostname()}", keys=keys)
    sources = sources_of("catalogd", daemon, lambda: facts(daemon.status), numbers=CATALOGD)
    _serve(daemon, sources, address, web=(webserver_interface, webserver_port))


def statestored() -> None:
    """Run ``statestored`` with this process's arguments and end the process."""
    run(statestored_command, code_of=_exit_code)


def catalogd() -> None:
    """Run ``catalogd`` with this process's arguments and end the process."""
    run(catalogd_command, code_of=_exit_code)


def collect_old_rarely() -> None:
    """Let the garbage collector visit old objects only rarely.

    A pass over 300,000 entries, which are in no cycle, stops the loop for 110 ms; a pass over young
    objects takes 3 ms, and finds the cycles that failures leave behind.
    """
    gc.freeze()  # imported modules live as long as the process
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, PASSES_BEFORE_OLD)


def _exit_code(error: TopicastError) -> int:
    return WRONG_USE if isinstance(error, ConfigError) else FAILED


def _serve(daemon: "Daemon", sources: "Sources", address: str, *, web: tuple[str, int]) -> None:
    """Print that it serves, and serve until a signal; ``web``: interface and port of the pages."""
    from .pages.server import Pages

    stop = dict.fromkeys((signal.SIGTERM, signal.SIGINT), lambda *_: daemon.stop())
    interface, port = web
    with closing(daemon), Pages(sources, interface=interface, port=port) as pages, handled(stop):
        print(f"ready address={address} web={pages.url}", flush=True)
        daemon.run()


if __name__ == "__main__":
    both = click.Group(commands=[statestored_command, catalogd_command])
    run(both, code_of=_exit_code)
