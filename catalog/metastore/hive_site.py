"""hive-site.xml: reads from this file of Hive's clients how they reach the metastore.

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

from ...topics.backports import StrEnum
from ...topics.errors import ConfigError
from ...topics.flags import flag
from ...topics.keys.files import read_secret
from .sasl import Kerberos, Login, Plain, load_gssapi
from .truststore import load_truststore

URIS_DEFAULT: Final = "thrift://127.0.0.1:9083"
# A read of 1,000 partitions takes 0.2 s; a call that hangs must end.
TIMEOUT_S_DEFAULT: Final = 60.0
FILE_BYTES_MAX: Final = 4 << 20  # a real file has 10 to 200 KB
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
SELECTIONS: Final = ("SEQUENTIAL", "RANDOM")  # SEQUENTIAL if it is not set, unlike Hive's own
_VARIABLE: Final = re.compile(r"\$\{([^}$\s]+)\}")
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")
_PRINCIPAL: Final = re.compile(r"[^/@\s]+/[^/@\s]+@[^/@\s]+")


class MetastoreAuth(StrEnum):
    """How a client proves to the metastore who it is."""

    NONE = "none"  # it says a name, and is believed
    PLAIN = "plain"  # by a password
    KERBEROS = "kerberos"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreFlags:
    """The operator's flags, which come before ``hive_site``; None: the flag is not set.

    The names are those of the flags.
    """

    hive_metastore_uris: str | None = flag(
        "Metastores as in Hive, separated by commas: thrift://host:port,…",
        default=None,
        shown=f"those of --hive_site, else {URIS_DEFAULT}",
    )
    hive_site: Path | None = flag(
        "Hive's own settings of the metastore's clients, hive-site.xml; flags come first.",
        default=None,
    )
    hive_metastore_use_ssl: bool | None = flag(
        "Connect to the metastore by TLS.", default=None, shown="as --hive_site says, else false"
    )
    hive_metastore_truststore: Path | None = flag(
        "Certificates that are trusted: PEM, PKCS 12 or JKS.",
        default=None,
        shown="that of --hive_site, else those of the system",
    )
    hive_metastore_truststore_password_file: Path | None = flag(
        "File with the password of the truststore.", default=None
    )
    hive_metastore_auth: str | None = flag(
        "How to log in to the metastore: none, plain (a password) or kerberos.",
        default=None,
        shown="as --hive_site says, else none",
    )
    hive_metastore_user: str | None = flag(
        "User for plain.", default=None, shown="that of --hive_site"
    )
    hive_metastore_password_file: Path | None = flag(
        "File with the password for plain; only its owner may read it.", default=None
    )
    hive_metastore_kerberos_principal: str | None = flag(
        "The metastore's principal, as hive/_HOST@EXAMPLE.COM.",
        default=None,
        shown="that of --hive_site",
    )
    principal: str | None = flag(
        "Catalogd's own Kerberos principal.",
        default=None,
        shown="the first in the keytab, or in the ticket cache",
    )
    keytab_file: Path | None = flag(
        "File with the keys of catalogd's principal.",
        default=None,
        shown="none: the user's ticket cache, KRB5CCNAME",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreClient:
    """How to connect to the metastore.

    ``tls``: None where connections are plain. ``login``: None where the metastore believes a name.
    """

    uris: str = URIS_DEFAULT
    timeout_s: float = TIMEOUT_S_DEFAULT
    tls: ssl.SSLContext | None = None
    login: Login | None = None


def read_hive_site(path: Path) -> dict[str, str]:
    """Return the properties of a Hadoop configuration file, with variables replaced.

    Raises:
        ConfigError: it cannot be read, or is not such a file.
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


def metastore_client(flags: MetastoreFlags) -> MetastoreClient:
    """Return what ``flags``, and the file that they name, set.

    Raises:
        ConfigError: a file cannot be read, or demands what is not supported.
    """
    site = {} if flags.hive_site is None else read_hive_site(flags.hive_site)
    timeout = _of(site, "client.socket.timeout")
    return MetastoreClient(
        uris=_uris(site) if flags.hive_metastore_uris is None else flags.hive_metastore_uris,
        timeout_s=_seconds(timeout) if timeout else TIMEOUT_S_DEFAULT,
        tls=_tls(site, flags),
        login=_login(site, flags),
    )


def _uris(site: Mapping[str, str]) -> str:
    uris = site.get("metastore.thrift.uris") or site.get("hive.metastore.uris") or URIS_DEFAULT
    selection = site.get("metastore.thrift.uri.selection") or _of(site, "uri.selection")
    if selection.upper() not in ("", *SELECTIONS):
        allowed = f"hive.metastore.uri.selection={' or '.join(SELECTIONS)}"
        raise ConfigError("hive_site", selection, allowed)
    if selection.upper() != "RANDOM":
        return uris
    several = uris.split(",")
    random.shuffle(several)
    return ",".join(several)


def _login(site: Mapping[str, str], flags: MetastoreFlags) -> Login | None:
    auth = _auth(site, flags)
    if auth is MetastoreAuth.KERBEROS:
        return _kerberos(site, flags)
    if auth is MetastoreAuth.NONE:
        return None
    user = flags.hive_metastore_user or _of(site, "client.plain.username")
    file = flags.hive_metastore_password_file
    if not user or file is None:
        allowed = "with plain, a user and --hive_metastore_password_file"
        raise ConfigError("hive_metastore_user", user, allowed)
    setting = "hive_metastore_password_file"
    try:
        password = read_secret(file, setting=setting).rstrip("\r\n")
    except FileNotFoundError:
        raise ConfigError(setting, str(file), "a file that exists") from None
    if not password or "\0" in user + password:
        raise ConfigError(setting, str(file), "a file with a password")
    return Plain(user, password)


def _auth(site: Mapping[str, str], flags: MetastoreFlags) -> MetastoreAuth:
    named = flags.hive_metastore_auth
    if named is not None:
        try:
            return MetastoreAuth(named.lower())
        except ValueError:
            raise ConfigError("hive_metastore_auth", named, ", ".join(MetastoreAuth)) from None
    if _is_true(_of(site, "sasl.enabled")):
        return MetastoreAuth.KERBEROS
    mode = _of(site, "client.auth.mode").upper()
    if mode not in ("", "NOSASL", "PLAIN"):
        allowed = f"hive.metastore.client.auth.mode=NOSASL or PLAIN, not {mode}"
        raise ConfigError("hive_site", str(flags.hive_site), allowed)
    return MetastoreAuth.PLAIN if mode == "PLAIN" else MetastoreAuth.NONE


def _kerberos(site: Mapping[str, str], flags: MetastoreFlags) -> Kerberos:
    server = flags.hive_metastore_kerberos_principal or _of(site, "kerberos.principal")
    if not _PRINCIPAL.fullmatch(server):
        allowed = "with kerberos, the metastore's own, such as hive/_HOST@EXAMPLE.COM"
        raise ConfigError("hive_metastore_kerberos_principal", server, allowed)
    keytab = flags.keytab_file
    if keytab is not None:
        try:
            keytab.open("rb").close()
        except OSError as exc:
            allowed = f"a readable file ({exc.strerror})"
            raise ConfigError("keytab_file", str(keytab), allowed) from exc
    load_gssapi()
    return Kerberos(server=server, principal=flags.principal or "", keytab=keytab)


def _tls(site: Mapping[str, str], flags: MetastoreFlags) -> ssl.SSLContext | None:
    is_wanted = flags.hive_metastore_use_ssl
    if is_wanted is None:
        is_wanted = _is_true(_of(site, "use.SSL"))
    if not is_wanted:
        return None
    truststore, password = flags.hive_metastore_truststore, _of(site, "truststore.password")
    if truststore is None:
        named = _of(site, "truststore.path")
        truststore = Path(named) if named else None
    file = flags.hive_metastore_truststore_password_file
    if file is not None:
        try:
            password = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            setting = "hive_metastore_truststore_password_file"
            raise ConfigError(setting, str(file), f"a readable file ({exc})") from exc
    context = ssl.create_default_context()
    if truststore is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody else
        context.load_verify_locations(cadata=load_truststore(truststore, password))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _of(site: Mapping[str, str], name: str) -> str:
    """Return a setting of the metastore by its new or old name; empty if neither is set."""
    return site.get(f"metastore.{name}") or site.get(f"hive.metastore.{name}") or ""


def _is_true(text: str) -> bool:
    return text.lower() == "true"


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
