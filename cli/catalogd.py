"""The command ``catalogd``, and its flags."""

import os
import socket
from typing import Any, Final

import click

from ..catalog.config import CatalogdConfig
from ..topics.settings import state_folder
from .daemons import (
    EXIT_CODES,
    access_to_pages,
    collect_old_rarely,
    log_start,
    pages_flags,
    refuse_shared_port,
    serve,
)
from .logs import log_to_stderr
from .options.flags import (
    SettingsCommand,
    config_option,
    flags_of,
    settings,
    settings_given,
    version_option,
)

CATALOGD_PAGES_PORT: Final = 25020


@click.command("catalogd", cls=SettingsCommand, context_settings=settings(), epilog=EXIT_CODES)
@flags_of(CatalogdConfig, defaults={"state_dir": state_folder("catalogd", os.environ)})
@pages_flags(CATALOGD_PAGES_PORT)
@config_option()
@version_option("catalogd")
def catalogd(**given: Any) -> None:
    """Follow a Hive metastore and publish what changes to every statestored."""
    from ..catalog.assembly import build
    from ..catalog.status import facts
    from .pages.metrics import CATALOGD
    from .pages.sources import facts_of_process, sources_of
    from .pages.views.catalog_pages import catalog_pages, held_by_catalogd, peers_of_catalogd
    from .pages.views.event_pages import event_pages, histograms_of
    from .pages.views.memory_page import memory_page
    from .pages.views.process_pages import process_pages

    settings = settings_given()
    access = access_to_pages(given)
    config = CatalogdConfig(**given)
    refuse_shared_port(access.config, config.listens())
    recent = log_to_stderr()
    collect_old_rarely()
    keys = config.keys(os.environ)
    daemon, address = build(config, name=f"catalogd@{socket.gethostname()}", keys=keys)
    is_guarded = access.config.needs_secret
    pages = catalog_pages(lambda: daemon.status, daemon.store_path)
    pages |= event_pages(
        lambda: daemon.status,
        daemon.store_path,
        hubs=lambda: peers_of_catalogd(daemon.status),
        ask=daemon.ask,
        is_guarded=is_guarded,
    )
    pages |= memory_page(
        lambda: held_by_catalogd(
            daemon.status, daemon.store_path, history_bytes_max=config.change_history_mb << 20
        ),
        config.limit_bytes(),
    )
    pages |= process_pages(settings, lambda: recent.lines)
    sources = sources_of(
        "catalogd",
        daemon,
        lambda: facts(daemon.status),
        numbers=CATALOGD,
        pages=pages,
        peers=lambda: peers_of_catalogd(daemon.status),
        process=lambda: facts_of_process(keys, access, config.limit_bytes()),
        histograms=lambda: histograms_of(daemon.status, calls=daemon.metastore_calls),
        is_guarded=is_guarded,
    )
    log_start("catalogd", settings)
    serve(daemon, sources, address, access=access)
