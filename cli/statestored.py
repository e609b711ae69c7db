"""The command ``statestored``, and its flags."""

import os
from typing import Any, Final

import click

from ..statestore.config import StatestoredConfig
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

STATESTORED_PAGES_PORT: Final = 25010


@click.command("statestored", cls=SettingsCommand, context_settings=settings(), epilog=EXIT_CODES)
@flags_of(StatestoredConfig)
@pages_flags(STATESTORED_PAGES_PORT)
@config_option()
@version_option("statestored")
def statestored(**given: Any) -> None:
    """Run the hub, which broadcasts the topics to every subscriber."""
    from ..statestore.statestored import build
    from ..statestore.status import facts
    from .pages.metrics import STATESTORED
    from .pages.sources import facts_of_process, sources_of
    from .pages.views.hub_pages import held_by_hub, hub_pages, peers_of_hub
    from .pages.views.memory_page import memory_page
    from .pages.views.process_pages import process_pages

    settings = settings_given()
    access = access_to_pages(given)
    config = StatestoredConfig(**given)
    refuse_shared_port(access.config, config.listens())
    recent = log_to_stderr()
    collect_old_rarely()
    keys = config.keys(os.environ)
    daemon, address = build(config, keys=keys)
    is_guarded = access.config.needs_secret
    pages = hub_pages(lambda: daemon.status, daemon.ask, is_guarded=is_guarded)
    pages |= memory_page(lambda: held_by_hub(daemon.status), config.limit_bytes())
    pages |= process_pages(settings, lambda: recent.lines)
    sources = sources_of(
        "statestored",
        daemon,
        lambda: facts(daemon.status),
        numbers=STATESTORED,
        pages=pages,
        peers=lambda: peers_of_hub(daemon.status),
        process=lambda: facts_of_process(keys, access, config.limit_bytes()),
        histograms=lambda: {"applied_s": {"": daemon.status.applied}},
        is_guarded=is_guarded,
    )
    log_start("statestored", settings)
    serve(daemon, sources, address, access=access)
