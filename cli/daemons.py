"""Daemons: the commands ``statestored`` and ``catalogd``.

    flags ──▶ config ──▶ daemon ──▶ one line "ready …" on standard output ──▶ until SIGTERM, SIGINT

They log to standard error, end with 0 when told to, with 2 on settings that are not allowed, and
with 1 on anything else, such as a port in use.
"""

import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import click

from ..catalog.config import CatalogdConfig
from ..statestore.config import StatestoredConfig
from ..topics.errors import ConfigError, TopicastError
from ..topics.link import LinkCounts
from ..topics.offers import offered_names
from .flags import F, config_from, flags_of, option, settings, version_option
from .logs import log_to_stderr
from .output import FAILED, WRONG_USE, run
from .pages import health, metrics
from .pages.server import Facts, Pages, Sources

EXIT_CODES: Final = "Exit codes: 0 told to end, 1 failed, 2 wrong use."
STATESTORED_PAGES_PORT: Final = 25010
CATALOGD_PAGES_PORT: Final = 25020
PASSES_BEFORE_OLD: Final = 1000  # of the collector: 7 million new objects that stay

STATESTORED_FLAGS: Final = {
    "state_store_host": "Address to listen on; without keys a loopback one.",
    "state_store_port": "Port for requests; data goes out on the next one. 0 takes any free ones.",
    "statestore_heartbeat_frequency_ms": "Time between two heartbeats.",
    "statestore_max_missed_heartbeats": "Heartbeat times of silence after which a member is LOST.",
}
CATALOGD_FLAGS: Final = {
    "hive_metastore_uris": "Metastores as in Hive, separated by commas: thrift://host:port,…",
    "statestores": "Every statestored to publish to, separated by commas: tcp://host:port,…",
    "catalog_service_host": "Address to serve pulls and syncs on; without keys a loopback one.",
    "catalog_service_port": "Port to serve pulls and syncs on. 0 takes any free one.",
    "state_dir": "Folder of the store, which lets a restart go on where it was.",
    "num_topics": "Table topics, a power of two; fixed for the life of the store.",
    "catalog_topic_mode": "What readers may join: full, minimal, or mixed, which is both.",
    "catalog_topic_mode_overrides": "Tables that differ: PATTERN=full or PATTERN=minimal, …",
    "hms_event_polling_interval_s": "Time between two polls of the notification log; 0 is off.",
    "load_catalog_in_background": "Read every table after the start, not only when asked for.",
    "num_metadata_loading_threads": "Connections to the metastore.",
    "blacklisted_dbs": "Databases that are left out, separated by commas.",
}


Told = tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]] | None


class Daemon(Protocol):
    """What both daemons are to this module. ``turned_at``: when the loop turned last."""

    turned_at: float

    @property
    def counts(self) -> LinkCounts:
        """What its sockets have carried, refused and dropped."""

    def run(self) -> None:
        """Serve until ``stop``."""

    def stop(self) -> None:
        """Make ``run`` return; from a signal handler, too."""

    def close(self) -> None:
        """Let everything go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """Where the pages are."""

    interface: str
    port: int


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


def state_folder(name: str) -> Path:
    """Return the platform's folder for what ``name`` keeps between its lives."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "topicast" / name


@click.command("statestored", context_settings=settings(), epilog=EXIT_CODES)
@flags_of(StatestoredConfig, meanings=STATESTORED_FLAGS)
@_web_options(STATESTORED_PAGES_PORT)
@version_option("statestored")
def statestored_command(webserver_interface: str, webserver_port: int, **given: Any) -> None:
    """Run the hub, which broadcasts the topics to every subscriber."""
    from ..statestore.statestored import build
    from ..statestore.status import table

    web = Web(interface=webserver_interface, port=webserver_port)
    config = config_from(StatestoredConfig, given)
    log_to_stderr()
    collect_old_rarely()
    daemon, address = build(config)
    sources = sources_of(
        "statestored", daemon, lambda: table(daemon.status, "status"), numbers=metrics.STATESTORED
    )
    _serve(daemon, sources, web=web, addresses={"address": address})


@click.command("catalogd", context_settings=settings(), epilog=EXIT_CODES)
@flags_of(
    CatalogdConfig,
    meanings=CATALOGD_FLAGS,
    defaults={
        "state_dir": (state_folder("catalogd"), "~/.local/state/topicast/catalogd"),
        "catalog_topic_mode": (None, "as it was, at first mixed"),
        "catalog_topic_mode_overrides": (None, "as they were, at first none"),
    },
)
@_web_options(CATALOGD_PAGES_PORT)
@version_option("catalogd")
def catalogd_command(webserver_interface: str, webserver_port: int, **given: Any) -> None:
    """Follow a Hive metastore and publish what changes to every statestored."""
    from ..catalog.assembly import build
    from ..catalog.status import table

    web = Web(interface=webserver_interface, port=webserver_port)
    config = config_from(CatalogdConfig, given)
    log_to_stderr()
    collect_old_rarely()
    daemon, address = build(config, name=f"catalogd@{socket.gethostname()}")
    sources = sources_of(
        "catalogd", daemon, lambda: table(daemon.status, "status"), numbers=metrics.CATALOGD
    )
    _serve(daemon, sources, web=web, addresses={"address": address})


def statestored() -> None:
    """Run ``statestored`` with this process's arguments and end the process."""
    run(statestored_command, code_of=_exit_code)


def catalogd() -> None:
    """Run ``catalogd`` with this process's arguments and end the process."""
    run(catalogd_command, code_of=_exit_code)


def sources_of(
    name: str, daemon: Daemon, told: Callable[[], Told], *, numbers: metrics.Table
) -> Sources:
    """Return what the pages of ``daemon`` show: what it ``told``, and whether it still turns."""

    def facts() -> Facts:
        silent_s = max(time.monotonic() - daemon.turned_at, 0.0)
        found = _facts(told())
        problem = health.trouble(str(found.get("problem", "")), silent_s=silent_s)
        counts = daemon.counts
        of_the_shell = {
            "dropped": counts.dropped,
            "strangers": counts.strangers,
            "loop_silent_s": round(silent_s, 3),
        }
        return {**found, "problem": problem, **of_the_shell}

    def shown() -> Facts:
        found = facts()
        offers = found.get("offers")  # a number for the metrics, words for eyes
        return {**found, "offers": offered_names(offers)} if type(offers) is int else found

    registry = metrics.registry_of(name, numbers, facts)
    return Sources(title=name, facts=shown, meanings=numbers, metrics=registry)


def collect_old_rarely() -> None:
    """Let the garbage collector look at what has lived long only now and then.

    A pass over 300,000 entries, which are in no cycle, stops the loop for 110 ms; a pass over what
    is young takes 3 ms, and finds the cycles that failures leave behind.
    """
    gc.freeze()  # what was imported lives as long as we do
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, PASSES_BEFORE_OLD)


def _exit_code(error: TopicastError) -> int:
    return WRONG_USE if isinstance(error, ConfigError) else FAILED


def _serve(daemon: Daemon, sources: Sources, *, web: Web, addresses: Mapping[str, str]) -> None:
    """Say that it serves, and serve until a signal."""
    with (
        closing(daemon),
        Pages(sources, interface=web.interface, port=web.port) as pages,
        _stopped_by_signals(daemon.stop),
    ):
        told = {**addresses, "web": pages.url}
        print("ready", *(f"{name}={address}" for name, address in told.items()), flush=True)
        daemon.run()


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    before = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _facts(told: Told) -> Facts:
    return {str(name): value for name, value in told[1]} if told is not None else {}


if __name__ == "__main__":
    both = click.Group(commands=[statestored_command, catalogd_command])
    run(both, code_of=_exit_code)
