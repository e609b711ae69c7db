"""Config: the operator's settings of the pages, checked before anything starts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...topics.errors import ConfigError
from ...topics.flags import check_flags, flag
from ...topics.settings import PORT_MAX, Address, listen_address

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesConfig:
    """Settings of the pages; names are the flags. The files are read by ``Access``.

    Raises:
        ConfigError: a value is not allowed; names it, and the allowed values.
    """

    webserver_interface: str = flag(
        "Address of the pages, /healthz and /metrics; on any address but loopback they need a "
        "password or a token.",
        default=LOOPBACK,
    )
    webserver_port: int = flag(
        "Port of the pages. 0 takes any free one.", default=0, bounds=(0, PORT_MAX)
    )
    webserver_password_file: Path | None = flag(
        "File with a line name:password for each person who may read the pages.", default=None
    )
    webserver_token_file: Path | None = flag(
        "File with a line for each token (bearer) that opens the pages.", default=None
    )
    webserver_certificate_file: Path | None = flag(
        "Certificate chain in PEM; with it the pages are served by HTTPS.", default=None
    )
    webserver_private_key_file: Path | None = flag(
        "Private key of the certificate in PEM, unencrypted.", default=None
    )

    def __post_init__(self) -> None:
        """Check values, and that other hosts cannot read pages without a password or a token."""
        check_flags(self)
        if not (self.address.is_loopback or self.needs_secret):
            allowed = (
                "other hosts reach this address, so the pages need --webserver_password_file or "
                f"--webserver_token_file; without these, use {LOOPBACK}"
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
        """The address to listen at."""
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
