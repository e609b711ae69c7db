"""Config: what an operator may set of statestored, checked before anything starts."""

from dataclasses import dataclass
from typing import Final

from ..topics.errors import ConfigError
from .hub import HEARTBEAT_MS, MISSED_MAX

PORT_DEFAULT: Final = 24_000
PORT_MAX: Final = 65_534  # data goes out on the next one
HEARTBEAT_MS_MIN: Final = 10  # below, heartbeats are most of the traffic
HEARTBEAT_MS_MAX: Final = 60_000
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatestoredConfig:
    """Settings of statestored; names are the flags.

    Raises:
        ConfigError: a value is not allowed; says which, and what is.
    """

    state_store_host: str = "127.0.0.1"
    state_store_port: int = PORT_DEFAULT
    statestore_heartbeat_frequency_ms: int = HEARTBEAT_MS
    statestore_max_missed_heartbeats: int = MISSED_MAX

    def __post_init__(self) -> None:
        """Check what no single type says."""
        if self.state_store_host not in LOOPBACK:
            raise ConfigError(
                "state_store_host",
                self.state_store_host,
                "without keys only loopback is served: 127.0.0.1, localhost or ::1",
            )
        _check("state_store_port", self.state_store_port, low=0, high=PORT_MAX)
        _check(
            "statestore_heartbeat_frequency_ms",
            self.statestore_heartbeat_frequency_ms,
            low=HEARTBEAT_MS_MIN,
            high=HEARTBEAT_MS_MAX,
        )
        _check(
            "statestore_max_missed_heartbeats",
            self.statestore_max_missed_heartbeats,
            low=2,
            high=100_000,
        )

    @property
    def request_address(self) -> str:
        """Where the ROUTER is bound."""
        return f"tcp://{self._host()}:{self.state_store_port}"

    @property
    def data_address(self) -> str:
        """Where the XPUB is bound: the next port, any if the first may be any."""
        port = self.state_store_port + 1 if self.state_store_port else 0
        return f"tcp://{self._host()}:{port}"

    def _host(self) -> str:
        return (
            f"[{self.state_store_host}]"
            if ":" in self.state_store_host
            else (self.state_store_host)
        )


def _check(setting: str, value: int, *, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(setting, value, f"from {low} to {high}")
