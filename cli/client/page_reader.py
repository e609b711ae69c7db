"""Page reader: every page of a daemon, as documents, by HTTP.

/ ?json ──names of pages──▶ each of them ?json, and /metrics ──▶ documents by name, or why not
"""

import json
import ssl
from base64 import b64encode
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlsplit

from ...topics.errors import ConfigError
from ...topics.keys.files import read_secret

FRONT: Final = "front"
METRICS: Final = "metrics"
PAGE_BYTES_MAX: Final = 32 << 20  # a page with 10,000 partitions has 5 MB
SAID_BYTES_MAX: Final = 1024  # of an error page, whose text is shown
ANSWER_S: Final = 5.0  # a page is made within 0.2 s


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The secrets of a reader of pages: the first line of a file, and the servers it trusts."""

    token_file: Path | None = None
    password_file: Path | None = None
    certificate_file: Path | None = None

    def authorization(self) -> str:
        """Return the value of the header; empty if there is no secret.

        Raises:
            ConfigError: a file cannot be used; says how to mend that.
        """
        if self.token_file is not None:
            return f"Bearer {_first_line('webserver_token_file', self.token_file)}"
        if self.password_file is not None:
            given = _first_line("webserver_password_file", self.password_file)
            return f"Basic {b64encode(given.encode()).decode()}"
        return ""

    def trusted(self) -> ssl.SSLContext:
        """Return the trusted servers; raises ConfigError if the certificates cannot be used."""
        try:
            return ssl.create_default_context(cafile=self.certificate_file)
        except OSError as error:
            allowed = f"certificates in PEM ({error.strerror or error})"
            name = "webserver_certificate_file"
            raise ConfigError(name, str(self.certificate_file), allowed) from error


class PageReader:
    """Reads pages with the same secret; it follows no redirection."""

    def __init__(self, secrets: Secrets) -> None:
        """Raise ConfigError if a file of ``secrets`` cannot be used."""
        authorization = secrets.authorization()
        self._headers = {"Authorization": authorization} if authorization else {}
        self._trusted = secrets.trusted()

    def read(self, url: str) -> tuple[dict[str, Any], list[str]]:
        """Return the pages of the daemon at ``url`` by their names, and why others are missing."""
        problems: list[str] = []
        front = self._document(f"{url}/?json", problems)
        if not isinstance(front, dict):
            return {}, problems
        found = {FRONT: front, METRICS: self._text(f"{url}/metrics", problems)}
        for name in map(str, front.get("pages", ())):
            found[name] = self._document(f"{url}/{quote(name)}?json", problems)
        return {name: one for name, one in found.items() if one is not None}, problems

    def _document(self, url: str, problems: list[str]) -> Any:
        text = self._text(url, problems)
        try:
            return None if text is None else json.loads(text)
        except ValueError:
            problems.append(f"{url}: this is not a page of a daemon")
            return None

    def _text(self, url: str, problems: list[str]) -> str | None:
        """Return the page; None: there is none, and the reason was added to ``problems``."""
        at = urlsplit(url)
        try:
            with closing(self._connection(at)) as connection:
                connection.request("GET", f"{at.path}?{at.query}", headers=self._headers)
                answer = connection.getresponse()
                content = answer.read(PAGE_BYTES_MAX + 1)
        except (OSError, HTTPException) as error:
            problems.append(f"{url}: {error}")
            return None
        text = content.decode(errors="replace")
        if answer.status != HTTPStatus.OK or len(content) > PAGE_BYTES_MAX:
            why = text.strip() if len(content) <= SAID_BYTES_MAX else f"{len(content)} bytes"
            problems.append(f"{url}: {answer.status} {answer.reason}: {why}")
            return None
        return text

    def _connection(self, at: SplitResult) -> HTTPConnection:
        host = str(at.hostname)
        if at.scheme == "https":
            return HTTPSConnection(host, at.port, timeout=ANSWER_S, context=self._trusted)
        return HTTPConnection(host, at.port, timeout=ANSWER_S)


def _first_line(setting: str, file: Path) -> str:
    try:
        text = read_secret(file, setting=setting)
    except FileNotFoundError as error:
        raise ConfigError(setting, str(file), "it does not exist") from error
    lines = (line.strip() for line in text.splitlines())
    found = next((line for line in lines if line and not line.startswith("#")), "")
    if not found:
        raise ConfigError(setting, str(file), "it is empty")
    return found
