"""Config: the operator's settings of catalogd, checked before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..topics.errors import ConfigError
from ..topics.flags import ABOVE_0, check_flags, flag
from ..topics.keys.folder import CATALOGD, DaemonKeys, daemon_keys
from ..topics.link import new_pair
from ..topics.memory.system_memory import limit_of
from ..topics.settings import (
    BLACKLISTED_DBS_DEFAULT,
    PORT_MAX,
    STATESTORES_DEFAULT,
    Address,
    advertised_address,
    listen_address,
    parse_addresses,
    parse_names,
    port_of,
)
from ..topics.topic import NUM_TOPICS_DEFAULT, check_num_topics
from .content.unloading import UnloadSettings
from .core import POLLING_INTERVAL_S_DEFAULT, CatalogSettings
from .ingest.loads.loader import READS_KEPT, READS_MAX_DEFAULT
from .metastore.hive_site import MetastoreClient, MetastoreFlags, metastore_client
from .model.modes import MODE_DEFAULT, Mode, overrides_text, parse_mode
from .reconcile.reconciliation import CALLS_PER_S_DEFAULT
from .storage.history import AGE_MAX_US_DEFAULT, BYTES_MAX_DEFAULT

HOUR_US: Final = 3600 * 1_000_000
PORT_DEFAULT: Final = 26_000
THREADS_MAX: Final = 256
RECONCILE_CALLS_PER_S_MAX: Final = 100
PRESSURE_DEFAULT: Final = 0.6  # of the limit of memory; Impala's
UNLOAD_S_MIN: Final = 120.0  # two reports of what subscribers use
UNLOAD_S_MAX: Final = 366 * 24 * 3600.0
HISTORY_MB_DEFAULT: Final = BYTES_MAX_DEFAULT >> 20
HISTORY_MB_MAX: Final = 1 << 20  # a terabyte
HISTORY_HOURS_DEFAULT: Final = AGE_MAX_US_DEFAULT / HOUR_US
HISTORY_HOURS_MAX: Final = 24 * 366 * 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogdConfig(MetastoreFlags):
    """Settings of catalogd; the names are those of the flags.

    Raises:
        ConfigError: a value is not allowed; names it, and the allowed values.
    """

    statestores: str = flag(
        "Every statestored to publish to, separated by commas: tcp://host:port,…",
        default=STATESTORES_DEFAULT,
    )
    catalog_service_host: str = flag(
        "Address to serve pulls and syncs on: a host name, a number, 0.0.0.0 or ::.",
        default="127.0.0.1",
    )
    catalog_service_port: int = flag(
        "Port to serve pulls and syncs on. 0 takes any free one.",
        default=PORT_DEFAULT,
        bounds=(0, PORT_MAX),
    )
    advertise_address: str | None = flag(
        "Where peers reach it, host or host:port, if not there.",
        default=None,
        shown="where it listens",
    )
    state_dir: Path = flag(
        "Folder of the store, from which a restart continues.",
        default=Path(),
        shown="~/.local/state/topicast/catalogd",
    )
    num_topics: int = flag(
        "Table topics, a power of two; fixed for the life of the store.", default=NUM_TOPICS_DEFAULT
    )
    catalog_topic_mode: str | None = flag(
        "What readers may join: full, minimal, or mixed, which is both.",
        default=None,
        shown="the stored one, at first mixed",
    )
    catalog_topic_mode_overrides: str | None = flag(
        "Tables with another mode: PATTERN=full or PATTERN=minimal, …",
        default=None,
        shown="the stored ones, at first none",
    )
    hms_event_polling_interval_s: float = flag(
        "Time between two polls of the notification log.",
        default=POLLING_INTERVAL_S_DEFAULT,
        bounds=(0, 3600),
        allowed="seconds from 0 (events off) to 3600",
    )
    reconcile_calls_per_s: float = flag(
        "Calls of the metastore a second that compare what is held with it.",
        default=CALLS_PER_S_DEFAULT,
        bounds=(0, RECONCILE_CALLS_PER_S_MAX),
        allowed=f"from 0 (nothing is compared) to {RECONCILE_CALLS_PER_S_MAX}",
    )
    load_catalog_in_background: bool = flag(
        "Read every table after the start, not only on request.", default=True
    )
    num_metadata_loading_threads: int = flag(
        "Connections to the metastore, besides that for events. Keep them below its own to "
        "its database (datanucleus.connectionPool.maxPoolSize, 10): where all of these are "
        "taken, Hive 4.0 waits for itself.",
        default=READS_MAX_DEFAULT,
        bounds=(READS_KEPT + 1, THREADS_MAX),
        allowed=f"from {READS_KEPT + 1} ({READS_KEPT} are kept for events) to {THREADS_MAX}",
    )
    blacklisted_dbs: str = flag(
        "Databases that are left out, separated by commas; the store drops those that it has.",
        default=BLACKLISTED_DBS_DEFAULT,
    )
    disable_hms_sync_by_default: bool = flag(
        "Do not follow tables, unless they, or their database, have "
        "impala.disableHmsSync=false: what is held of them is as of the start, or the last "
        "refresh.",
        default=False,
    )
    change_history_mb: int = flag(
        "Megabytes of former content that are kept for the change history.",
        default=HISTORY_MB_DEFAULT,
        bounds=(1, HISTORY_MB_MAX),
    )
    change_history_hours: float = flag(
        "Hours for which they are kept.",
        default=HISTORY_HOURS_DEFAULT,
        bounds=(ABOVE_0, HISTORY_HOURS_MAX),
    )
    keys_dir: str | None = flag(
        "Folder with catalogd.key and the list of clients; the default one is filled at the "
        "first start.",
        default=None,
        shown="~/.local/state/topicast/keys",
    )
    mem_limit: str | None = flag(
        "Memory that it takes at most, such as 4GB or 60%: content stays in the store until "
        "it is used. Below what the keys of all entries take it does not start.",
        default=None,
        shown="none",
    )
    invalidate_tables_timeout_s: float = flag(
        "Unload tables that nobody has used for so long; 0 is off.", default=0.0
    )
    invalidate_tables_on_memory_pressure: bool = flag(
        "Unload the tables that were used least recently while memory is short; with --mem_limit.",
        default=False,
    )
    invalidate_tables_memory_pressure: float = flag(
        "The share of --mem_limit above which memory is short.",
        default=PRESSURE_DEFAULT,
        bounds=(ABOVE_0, 1),
    )

    def __post_init__(self) -> None:
        """Check values and their bounds."""
        check_flags(self)
        check_num_topics(self.num_topics)
        self._check_unloading(has_limit=self.limit_bytes() is not None)
        self.hubs()
        self.mode(MODE_DEFAULT)
        advertised_address(self.service_address(), self.advertise_address)

    def limit_bytes(self) -> int | None:
        """Return what the process may take; None: as much as the system lets it."""
        return limit_of(self.mem_limit)

    def _check_unloading(self, *, has_limit: bool) -> None:
        """Check when tables are unloaded; ``has_limit``: whether memory is limited."""
        timeout_s = self.invalidate_tables_timeout_s
        if timeout_s and not UNLOAD_S_MIN <= timeout_s <= UNLOAD_S_MAX:
            allowed = f"0 (off), or from {UNLOAD_S_MIN:.0f}: subscribers report use once a minute"
            raise ConfigError("invalidate_tables_timeout_s", timeout_s, allowed)
        if self.invalidate_tables_on_memory_pressure and not has_limit:
            allowed = "only with --mem_limit, of which the pressure is a share"
            raise ConfigError("invalidate_tables_on_memory_pressure", "true", allowed)

    def service_address(self) -> Address:
        """Return where to serve pulls and syncs."""
        host, port = self.catalog_service_host, self.catalog_service_port
        return listen_address(host, port, setting="catalog_service_host")

    def listens(self) -> Mapping[Address, str]:
        """Return what is at the address at which clients are served; not a port that is 0."""
        if not self.catalog_service_port:
            return {}
        return {self.service_address(): "requests (--catalog_service_port)"}

    def advertised(self, bound: str) -> str:
        """Return where peers reach the service, which is ``bound`` there."""
        found = advertised_address(self.service_address(), self.advertise_address)
        return str(found.with_port(found.port or port_of(bound)))

    def keys(self, environ: Mapping[str, str]) -> DaemonKeys:
        """Return catalogd's keys; see ``daemon_keys``."""
        listens = self.service_address()
        return daemon_keys(
            CATALOGD, self.keys_dir, listens=listens, new_pair=new_pair, environ=environ
        )

    def hubs(self) -> tuple[Address, ...]:
        """Return the hubs to publish to."""
        return parse_addresses(self.statestores, setting="statestores")

    def mode(self, stored: Mode) -> Mode:
        """Return the mode to begin with: ``stored``, unless a flag sets name or overrides."""
        name, overrides = self.catalog_topic_mode, self.catalog_topic_mode_overrides
        return parse_mode(
            stored.name if name is None else name,
            overrides_text(stored) if overrides is None else overrides,
        )

    def metastore_client(self) -> MetastoreClient:
        """Return how to connect to the metastore; reads the files that are named."""
        return metastore_client(self)

    def core(self, metastore: str) -> CatalogSettings:
        """Return the settings of the core; ``metastore`` is what operators know it by."""
        return CatalogSettings(
            polling_interval_s=self.hms_event_polling_interval_s,
            reconcile_calls_per_s=self.reconcile_calls_per_s,
            load_in_background=self.load_catalog_in_background,
            reads_max=self.num_metadata_loading_threads,
            blacklisted_dbs=parse_names(self.blacklisted_dbs),
            sync_off_by_default=self.disable_hms_sync_by_default,
            unload=UnloadSettings(
                timeout_s=self.invalidate_tables_timeout_s,
                pressure=self.invalidate_tables_memory_pressure
                if self.invalidate_tables_on_memory_pressure
                else None,
            ),
            metastore=metastore,
        )
