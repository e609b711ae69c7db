"""Config: the operator's settings of the pages, checked before anything starts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...topics.errors import ConfigError
from ...topics.settings import PORT_MAX, Address, listen_address

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesConfig:
    """Settings of the pages; names are the flags. The files are read by ``Access``.

    Raises:
        ConfigError: a value is not allowed; names it, and the allowed values.
    """

    webserver_interface: str = LOOPBACK
    webserver_port: int = 0
    webserver_password_file: Path | None = None
    webserver_token_file: Path | None = None
    webserver_certificate_file: Path | None = None
    webserver_private_key_file: Path | None = None

    def __post_init__(self) -> None:
        """Check values, and that other hosts cannot read pages without a password or a token."""
        if not 0 <= self.webserver_port <= PORT_MAX:
            raise ConfigError("webserver_port", self.webserver_port, f"from 0 to {PORT_MAX}")
        if not (self.address.is_loopback or self.needs_secret):
            allowed = (
                "other hosts reach this address, so the pages need --webserver_password_file or "
                f"--webserver_token_file; without, they are served on {LOOPBACK} only"
            )
            raise ConfigError("webserver_interface", self.webserver_interface, allowed)
        certificate, key = self.webserver_certificate_file, self.webserver_private_key_file
        if certificate and not key:
            allowed = "it needs --webserver_private_key_file, which may be the same file"
            raise ConfigError("webserver_certificate_file", str(certificate), allowed)
        if key and not certificate:
            allowed = "it needs --webserver_certificate_file"
            raise ConfigError("webserver_private_key_file", str(key), allowed)

    @property
    def address(self) -> Address:
        """Where to listen."""
        return listen_address(
            self.webserver_interface, self.webserver_port, setting="webserver_interface"
        )

    @property
    def needs_secret(self) -> bool:
        """Whether a reader has to give a password or a token."""
        return bool(self.webserver_password_file or self.webserver_token_file)

    @property
    def sends_secrets_in_the_clear(self) -> bool:
        """Whether passwords and tokens cross a network without TLS."""
        return not (self.address.is_loopback or self.webserver_certificate_file)
