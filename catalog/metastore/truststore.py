"""Truststores: the certificates that a client trusts, as PEM, PKCS 12, or Java's own JKS."""

import hashlib
import hmac
import ssl
import struct
from io import BytesIO
from pathlib import Path
from typing import Final

from ...topics.errors import ConfigError

SETTING: Final = "hive_metastore_truststore"
FILE_BYTES_MAX: Final = 16 << 20  # the largest in use, of a whole operating system, has 0.2 MB
PEM: Final = b"-----BEGIN CERTIFICATE-----"
JKS: Final = 0xFEEDFEED  # the first four bytes of a file of Java's own
JKS_VERSION: Final = 2
TRUSTED: Final = 2  # the tag of a certificate; a private key has 1
SALT: Final = b"Mighty Aphrodite"  # of the digest at the end of a file of Java's own
DIGEST_BYTES: Final = 20


def load_truststore(path: Path, password: str) -> bytes | str:
    """Return the certificates in ``path``: as DER, one after the other, or as PEM.

    ``password`` is that of a PKCS 12 or JKS file; a PEM file has none.

    Raises:
        ConfigError: the file cannot be read, is of another kind, or has another password.
    """
    try:
        content = path.read_bytes() if path.stat().st_size <= FILE_BYTES_MAX else b""
    except OSError as exc:
        raise ConfigError(SETTING, str(path), f"a readable file ({exc.strerror})") from exc
    try:
        if PEM in content:
            return _checked(content.decode("ascii", "ignore"))
        java = content[:4] == JKS.to_bytes(4, "big")
        found = _of_java(content, password) if java else _of_pkcs12(content, password)
    except (ValueError, struct.error, ssl.SSLError) as exc:
        allowed = f"a PEM, PKCS 12 or JKS file, and its password ({exc})"
        raise ConfigError(SETTING, str(path), allowed) from exc
    if not found:
        raise ConfigError(SETTING, str(path), "a file with at least one trusted certificate")
    return found


def _checked(pem: str) -> str:
    ssl.create_default_context(cadata=pem)
    return pem


def _of_pkcs12(content: bytes, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # takes 0.1 s and 15 MB
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    store = load_pkcs12(content, password.encode() or None)
    return b"".join(one.certificate.public_bytes(Encoding.DER) for one in store.additional_certs)


def _of_java(content: bytes, password: str) -> bytes:
    """Read Java's own format; no library that is kept reads it."""
    body, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    known = hashlib.sha1(password.encode("utf-16-be") + SALT + body, usedforsecurity=False)
    if not hmac.compare_digest(known.digest(), digest):
        raise ValueError("the password is wrong, or the file damaged")
    file = BytesIO(body)
    _, version, count = struct.unpack(">III", file.read(12))
    if version != JKS_VERSION:
        raise ValueError(f"JKS of version {version}")
    found = b""
    for _ in range(count):
        (tag,) = struct.unpack(">I", file.read(4))
        if tag != TRUSTED:
            raise ValueError("it holds a private key: name a truststore, not a keystore")
        _read(file, ">H")  # the alias
        file.read(8)  # when it was made
        _read(file, ">H")  # the type, X.509
        found += _read(file, ">I")
    return found


def _read(file: BytesIO, size: str) -> bytes:
    (length,) = struct.unpack(size, file.read(2 if size == ">H" else 4))
    content = file.read(length)
    if len(content) != length:
        raise ValueError("the file ends in the middle of a certificate")
    return content
