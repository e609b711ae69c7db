"""Certificate: until when the first certificate of a PEM file is valid.

    Certificate ::= SEQUENCE { tbsCertificate, … }
    tbsCertificate ::= SEQUENCE { [0] version, serialNumber, signature, issuer, validity, … }
    validity ::= SEQUENCE { notBefore, notAfter }

Authority: RFC 5280, 4.1. Python's ``ssl`` returns it only for a peer's certificate.
"""

import ssl
from calendar import timegm
from collections.abc import Iterator
from pathlib import Path
from time import strptime
from typing import Final

BYTES_MAX: Final = 1 << 20  # of a file: a chain has some KB
END: Final = "-----END CERTIFICATE-----"
BEGIN: Final = "-----BEGIN CERTIFICATE-----"
VERSION, UTC_TIME, LONG_LENGTH = 0xA0, 0x17, 0x80
VALIDITY: Final = 3  # its index in the fields after the version


def valid_until(path: Path) -> float | None:
    """Return the end of the first certificate in ``path``, in seconds since 1970.

    None: the file cannot be read, or has no certificate.
    """
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(BYTES_MAX)
        pem = BEGIN + text.partition(BEGIN)[2].partition(END)[0] + END
        return _not_after(ssl.PEM_cert_to_DER_cert(pem))
    except (OSError, ValueError, IndexError):
        return None


def _not_after(certificate: bytes) -> float:
    ((_, whole),) = _values(certificate)
    _, signed = next(_values(whole))
    fields = [value for kind, value in _values(signed) if kind != VERSION]
    kind, text = list(_values(fields[VALIDITY]))[1]
    year = "%y" if kind == UTC_TIME else "%Y"  # with two digits, 69 is 1969
    return float(timegm(strptime(text.decode("ascii"), f"{year}%m%d%H%M%SZ")))


def _values(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each DER value in ``encoded``.

    Raises:
        IndexError: ``encoded`` ends in the middle of a value.
    """
    at = 0
    while at < len(encoded):
        kind, length = encoded[at], encoded[at + 1]
        at += 2
        if length & LONG_LENGTH:
            digits = length & ~LONG_LENGTH
            length, at = int.from_bytes(encoded[at : at + digits], "big"), at + digits
        if at + length > len(encoded):
            raise IndexError(at)
        yield kind, encoded[at : at + length]
        at += length
