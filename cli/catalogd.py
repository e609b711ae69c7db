"""The command ``catalogd``, and its flags."""

import os
import socket
from typing import Any, Final

import click

from ..catalog.config import CatalogdConfig
from ..catalog.metastore.hive_site import URIS_DEFAULT
from ..topics.settings import state_folder
from .daemons import (
    DEFAULTS,
    EXIT_CODES,
    access_to_pages,
    collect_old_rarely,
    log_start,
    pages_flags,
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
    "reconcile_calls_per_s": "Calls of the metastore a second that compare what is held with it; "
    "0 is off.",
    "load_catalog_in_background": "Read every table after the start, not only on request.",
    "num_metadata_loading_threads": "Connections to the metastore, besides that for events. Keep "
    "them below its own to its database (datanucleus.connectionPool.maxPoolSize, 10): where all of "
    "these are taken, Hive 4.0 waits for itself.",
    "blacklisted_dbs": "Databases that are left out, separated by commas.",
    "disable_hms_sync_by_default": "Do not follow tables, unless they, or their database, have "
    "impala.disableHmsSync=false: what is held of them is as of the start, or the last refresh.",
    "change_history_mb": "Megabytes of former content that are kept for the change history.",
    "change_history_hours": "Hours for which they are kept.",
    "keys_dir": "Folder with catalogd.key and the list of clients; the default one is filled at "
    "the first start.",
    "mem_limit": "Memory that it takes at most, such as 4GB or 60%: content stays in the store "
    "until it is used. Below what the keys of all entries take it does not start.",
    "invalidate_tables_timeout_s": "Unload tables that nobody has used for so long; 0 is off.",
    "invalidate_tables_on_memory_pressure": "Unload the tables that were used least recently while "
    "memory is short; with --mem_limit.",
    "invalidate_tables_memory_pressure": "The share of --mem_limit above which memory is short.",
}


@click.command("catalogd", cls=SettingsCommand, context_settings=settings(), epilog=EXIT_CODES)
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
        "mem_limit": (None, "none"),
        "catalog_topic_mode": (None, "the stored one, at first mixed"),
        "catalog_topic_mode_overrides": (None, "the stored ones, at first none"),
    },
)
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
