"""Access: the passwords or tokens for the pages, and the certificate that serves them.

    password file    a line ``name:password`` for each person     Authorization: Basic …
    token file       a line for each token                        Authorization: Bearer …

Empty lines and lines that begin with ``#`` are ignored. Only the owner may read these files and the
private key. The secrets in them are not hashed: a hash that is slow enough to protect a leaked
password would let any stranger's requests take the daemon's processor time.
"""

import ssl
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from hmac import compare_digest
from os import geteuid
from pathlib import Path
from typing import Final

from ...topics.errors import ConfigError
from ...topics.keys.files import read_secret, secret_fault
from .certificate import valid_until
from .config import PagesConfig

CHALLENGES: Final = {"basic": 'Basic realm="topicast", charset="UTF-8"', "bearer": "Bearer"}
TOKEN_LENGTH_MIN: Final = 16  # characters: nobody types a token, so it may be long
Digests = Mapping[str, tuple[bytes, ...]]  # of secrets, by the scheme of ``Authorization``


class Access:
    """The secrets and the certificate of ``config``, as its files were when they were last read."""

    def __init__(self, config: PagesConfig) -> None:
        """Read the files.

        Raises:
            ConfigError: a file is missing, or cannot be used; says how to mend that.
        """
        self.config = config
        self._seen = self._states()  # of each file, before it was last read
        self._digests = _digests(config)
        self.tls = _tls(config)  # for HTTPS; None: the pages are served by HTTP
        self.valid_until = _valid_until(config)  # the certificate, in seconds since 1970

    @property
    def challenges(self) -> tuple[str, ...]:
        """The secrets that a reader has to send, as values of ``WWW-Authenticate``."""
        return tuple(CHALLENGES[scheme] for scheme in self._digests)

    def admits(self, authorization: str) -> bool:
        """Return whether a request with this ``Authorization``, or none, may read the pages."""
        if not self.config.needs_secret:
            return True
        scheme, _, given = authorization.partition(" ")
        scheme = scheme.lower()
        digest = sha256(_secret(scheme, given.strip())).digest()
        # Compare all, even after a match: the time must not show which secret matched.
        return sum(compare_digest(digest, one) for one in self._digests.get(scheme, ())) > 0

    def certificate_left_s(self, *, now_s: float) -> float | None:
        """Return how long the certificate is valid; below 0: it has expired; None: no HTTPS."""
        if self.tls is None or self.valid_until is None:
            return None
        return self.valid_until - now_s

    def refresh(self) -> bool:
        """Read the files again if a file has changed; return whether it has.

        Raises:
            ConfigError: a file cannot be used, so the contents of all files stay as they were read
                before. It is raised once for each change.
        """
        states = self._states()
        if states == self._seen:
            return False
        self._seen = states
        self._digests, self.tls = _digests(self.config), _tls(self.config)
        self.valid_until = _valid_until(self.config)
        return True

    def _states(self) -> tuple[tuple[int, ...], ...]:
        config = self.config
        files = (
            *(config.webserver_password_file, config.webserver_token_file),
            *(config.webserver_certificate_file, config.webserver_private_key_file),
        )
        return tuple(_state(file) for file in files if file)


def _state(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _secret(scheme: str, given: str) -> bytes:
    """Return the secret that a client has sent: the scheme ``basic`` has it in base 64."""
    if scheme != "basic":
        return given.encode()
    try:
        return b64decode(given, validate=True)
    except ValueError:
        return b""


def _digests(config: PagesConfig) -> Digests:
    found = {
        "basic": _lines("webserver_password_file", config.webserver_password_file, _password),
        "bearer": _lines("webserver_token_file", config.webserver_token_file, _token),
    }
    return {
        scheme: tuple(sha256(line.encode()).digest() for line in lines)
        for scheme, lines in found.items()
        if lines
    }


def _lines(setting: str, file: Path | None, fault: Callable[[str], str]) -> tuple[str, ...]:
    """Return the lines of the secret ``file``; ``fault`` returns what is wrong with a line."""
    if file is None:
        return ()
    try:
        text = read_secret(file, setting=setting)
    except FileNotFoundError as exc:
        raise ConfigError(setting, str(file), "it does not exist") from exc
    found = tuple(_contents(text))
    if not found:
        raise ConfigError(setting, str(file), "it is empty")
    for number, line in found:
        if wrong := fault(line):
            raise ConfigError(setting, str(file), f"line {number} {wrong}")
    return tuple(line for _, line in found)


def _contents(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if content and not content.startswith("#"):
            yield number, content


def _password(line: str) -> str:
    name, _, password = line.partition(":")
    return "" if name and password else "is not name:password"


def _token(line: str) -> str:
    if len(line) < TOKEN_LENGTH_MIN or not line.isascii() or " " in line:
        return f"is not a token: at least {TOKEN_LENGTH_MIN} ASCII characters without spaces"
    return ""


def _valid_until(config: PagesConfig) -> float | None:
    file = config.webserver_certificate_file
    return valid_until(file) if file else None


def _tls(config: PagesConfig) -> ssl.SSLContext | None:
    certificate, key = config.webserver_certificate_file, config.webserver_private_key_file
    if not (certificate and key):
        return None
    try:
        if fault := secret_fault(key.stat(), key, user=geteuid()):
            raise ConfigError("webserver_private_key_file", str(key), fault)
    except OSError as exc:
        allowed = f"it cannot be read ({exc.strerror})"
        raise ConfigError("webserver_private_key_file", str(key), allowed) from exc
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without this argument OpenSSL asks on the terminal for the password of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
    except OSError as exc:  # ssl.SSLError is an OSError, too
        allowed = (
            f"a certificate and what it was signed with, in PEM, for the unencrypted key {key} "
            f"({exc.strerror})"
        )
        raise ConfigError("webserver_certificate_file", str(certificate), allowed) from exc
    return context
