"""Config: the operator's settings of statestored, checked before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..topics.errors import ConfigError
from ..topics.flags import check_flags, flag
from ..topics.keys.folder import STATESTORED, DaemonKeys, daemon_keys
from ..topics.link import new_pair
from ..topics.liveness import HEARTBEAT_MS
from ..topics.memory.system_memory import limit_of
from ..topics.settings import (
    Address,
    advertised_address,
    listen_address,
    port_of,
)
from .hub import MISSED_MAX

PORT_DEFAULT: Final = 24_000
PORT_MAX: Final = 65_534  # data goes out on the next port
HEARTBEAT_MS_MIN: Final = 10  # below, heartbeats are most of the traffic
HEARTBEAT_MS_MAX: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatestoredConfig:
    """Settings of statestored; names are the flags.

    Raises:
        ConfigError: a value is not allowed; names it, and the allowed values.
    """

    state_store_host: str = flag(
        "Address to listen on: a host name, a number, 0.0.0.0 or ::.", default="127.0.0.1"
    )
    state_store_port: int = flag(
        "Port for requests; data goes out on the next one. 0 takes any free ones.",
        default=PORT_DEFAULT,
        bounds=(0, PORT_MAX),
    )
    advertise_address: str | None = flag(
        "Where peers reach it, host or host:port, if not there; data at the next port.",
        default=None,
        shown="where it listens",
    )
    statestore_heartbeat_frequency_ms: int = flag(
        "Time between two heartbeats.",
        default=HEARTBEAT_MS,
        bounds=(HEARTBEAT_MS_MIN, HEARTBEAT_MS_MAX),
    )
    statestore_max_missed_heartbeats: int = flag(
        "Heartbeat times of silence after which a member is LOST.",
        default=MISSED_MAX,
        bounds=(2, 100_000),
    )
    keys_dir: str | None = flag(
        "Folder with statestored.key; the default one is filled at the first start.",
        default=None,
        shown="~/.local/state/topicast/keys",
    )
    mem_limit: str | None = flag(
        "Memory that it takes at most, such as 4GB or 60%: of content that changed long ago "
        "readers get stubs, and pull what they need.",
        default=None,
        shown="none",
    )

    def __post_init__(self) -> None:
        """Check values and their bounds."""
        check_flags(self)
        self._address(self.state_store_port)
        self.limit_bytes()
        if self._advertised.port > PORT_MAX:
            allowed = f"a port up to {PORT_MAX}, as data is at the next one"
            raise ConfigError("advertise_address", self.advertise_address, allowed)

    def limit_bytes(self) -> int | None:
        """Return what the process may take; None: as much as the system lets it."""
        return limit_of(self.mem_limit)

    @property
    def request_address(self) -> str:
        """The address of the ROUTER."""
        return str(self._address(self.state_store_port))

    @property
    def data_address(self) -> str:
        """The address of the XPUB: the next port, any if the first may be any."""
        return str(self._address(self.state_store_port + 1 if self.state_store_port else 0))

    def listens(self) -> Mapping[Address, str]:
        """Return what is at each address at which peers are served; not the ports that are 0."""
        port = self.state_store_port
        served = {
            port: "requests (--state_store_port)",
            port + 1: "data (--state_store_port, plus 1)",
        }
        return {self._address(one): what for one, what in served.items() if port}

    def advertised(self, bound: str) -> str:
        """Return where peers reach the ROUTER, which is ``bound`` there."""
        found = self._advertised
        return str(found.with_port(found.port or port_of(bound)))

    def advertised_data(self, bound: str) -> str:
        """Return where readers reach the XPUB, which is ``bound`` there."""
        port = self._advertised.port if self.advertise_address else 0
        return str(self._advertised.with_port(port + 1 if port else port_of(bound)))

    @property
    def _advertised(self) -> Address:
        return advertised_address(self._address(self.state_store_port), self.advertise_address)

    def keys(self, environ: Mapping[str, str]) -> DaemonKeys:
        """Return this hub's keys; see ``daemon_keys``."""
        listens = self._address(self.state_store_port)
        return daemon_keys(
            STATESTORED, self.keys_dir, listens=listens, new_pair=new_pair, environ=environ
        )

    def _address(self, port: int) -> Address:
        return listen_address(self.state_store_host, port, setting="state_store_host")
