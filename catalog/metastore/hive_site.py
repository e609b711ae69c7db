"""HiveSite: how Hive's own clients reach the metastore, read from their hive-site.xml.

hive-site.xml ──▶ properties ──▶ MetastoreClient ◀── flags, which come first
"""

import random
import re
import ssl
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...topics.errors import ConfigError
from .truststore import load_truststore

URIS_DEFAULT: Final = "thrift://127.0.0.1:9083"
TIMEOUT_S_DEFAULT: Final = (
    60.0  # a read of 1,000 partitions takes 0.2 s; a call that hangs must end
)
FILE_BYTES_MAX: Final = 4 << 20  # a real one has 10 to 200 KB
SUBSTITUTIONS_MAX: Final = 20  # as in Hadoop, so that a circle ends
UNITS_S: Final[Mapping[str, float]] = {  # Hive's, each also in short: m is a minute
    "days": 86_400.0,
    "hours": 3600.0,
    "minutes": 60.0,
    "seconds": 1.0,
    "msec": 0.001,
    "usec": 1e-6,
}
SHORT: Final = {"d": "days", "h": "hours", "m": "minutes", "": "seconds", "ms": "msec"}
_VARIABLE: Final = re.compile(r"\$\{([^}$\s]+)\}")
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")
_TRUE: Final = frozenset({"true"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreClient:
    """How to connect to the metastore. ``tls``: None where connections are plain."""

    uris: str = URIS_DEFAULT
    timeout_s: float = TIMEOUT_S_DEFAULT
    tls: ssl.SSLContext | None = None


def read_hive_site(path: Path) -> dict[str, str]:
    """Return the properties of a Hadoop configuration file, with variables replaced.

    Raises:
        ConfigError: it cannot be read, or is no such file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as exc:
        raise ConfigError("hive_site", str(path), f"a readable file ({exc.strerror})") from exc
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError("hive_site", str(path), f"a file of at most {FILE_BYTES_MAX >> 20} MB")
    try:
        root = ET.fromstring(content)
    except ET.ParseError as exc:
        raise ConfigError("hive_site", str(path), f"XML ({exc})") from exc
    if root.tag != "configuration":
        raise ConfigError("hive_site", str(path), f"<configuration> at its top, not <{root.tag}>")
    found: dict[str, str] = {}
    for one in root.iter("property"):
        name, value = one.findtext("name"), one.findtext("value")
        if name and value is not None:
            found[name.strip()] = value.strip()
    return {name: _substituted(value, found) for name, value in found.items()}


def metastore_client(
    *,
    uris: str | None,
    hive_site: Path | None,
    use_ssl: bool | None,
    truststore: Path | None,
    truststore_password_file: Path | None,
) -> MetastoreClient:
    """Return what flags and ``hive_site`` set; a flag comes before the file, None sets nothing.

    Raises:
        ConfigError: a file cannot be read, or demands what is not supported.
    """
    site = {} if hive_site is None else read_hive_site(hive_site)
    _demand_supported(site, hive_site)
    if uris is None:
        uris = _either(site, "metastore.thrift.uris", "hive.metastore.uris") or URIS_DEFAULT
        if _either(site, "metastore.thrift.uri.selection", "hive.metastore.uri.selection") in (
            "RANDOM",
            "random",
        ):
            several = uris.split(",")
            random.shuffle(several)
            uris = ",".join(several)
    wanted = _either(site, "metastore.use.SSL", "hive.metastore.use.SSL").lower() in _TRUE
    timeout = _either(
        site, "metastore.client.socket.timeout", "hive.metastore.client.socket.timeout"
    )
    tls = None
    if wanted if use_ssl is None else use_ssl:
        tls = _tls(site, truststore, truststore_password_file)
    timeout_s = _seconds(timeout) if timeout else TIMEOUT_S_DEFAULT
    return MetastoreClient(uris=uris, timeout_s=timeout_s, tls=tls)


def _demand_supported(site: Mapping[str, str], path: Path | None) -> None:
    if _either(site, "metastore.sasl.enabled", "hive.metastore.sasl.enabled").lower() in _TRUE:
        text = "a metastore without Kerberos: hive.metastore.sasl.enabled is not supported yet"
        raise ConfigError("hive_site", str(path), text)
    mode = _either(site, "metastore.client.auth.mode", "hive.metastore.client.auth.mode")
    if mode.upper() not in ("", "NOSASL"):
        text = f"hive.metastore.client.auth.mode=NOSASL; {mode} is not supported yet"
        raise ConfigError("hive_site", str(path), text)


def _tls(
    site: Mapping[str, str], truststore: Path | None, password_file: Path | None
) -> ssl.SSLContext:
    password = _either(site, "metastore.truststore.password", "hive.metastore.truststore.password")
    if truststore is None:
        named = _either(site, "metastore.truststore.path", "hive.metastore.truststore.path")
        truststore = Path(named) if named else None
    if password_file is not None:
        try:
            password = password_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            setting = "hive_metastore_truststore_password_file"
            raise ConfigError(setting, str(password_file), f"a readable file ({exc})") from exc
    context = ssl.create_default_context()
    if truststore is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody else
        context.load_verify_locations(cadata=load_truststore(truststore, password))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _either(site: Mapping[str, str], *names: str) -> str:
    """Return the value of the first of ``names`` that is set, else the empty text."""
    return next((site[name] for name in names if site.get(name)), "")


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text.strip().lower())
    count, unit = (int(found[1]), SHORT.get(found[2], found[2])) if found else (0, "")
    units = [seconds for name, seconds in UNITS_S.items() if name.startswith(unit)]
    if not count or not units:
        allowed = "a time as Hive writes it, such as 600s, for hive.metastore.client.socket.timeout"
        raise ConfigError("hive_site", text, allowed)
    return count * units[0]


def _substituted(value: str, found: Mapping[str, str]) -> str:
    for _ in range(SUBSTITUTIONS_MAX):
        match = _VARIABLE.search(value)
        if match is None or match[1] not in found:
            return value
        value = value[: match.start()] + found[match[1]] + value[match.end() :]
    return value
