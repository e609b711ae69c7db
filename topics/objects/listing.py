"""Listing: the names of partitions without their content, packed: a few bytes a name."""

from collections.abc import Sequence

from .columns import read_names, write_names
from .packing import DOCUMENT_BYTES_MAX, pack, unpack


def encode_listing(names: Sequence[str]) -> bytes:
    """Return ``names``, sorted and distinct, as bytes; none as no bytes.

    Raises:
        UsageError: they are longer than a document may be.
    """
    return pack(write_names(names)) if names else b""


def decode_listing(value: bytes) -> tuple[str, ...]:
    """Read names that are sorted and distinct.

    Raises:
        WireError: ``value`` holds none.
    """
    return read_names(unpack(value), records_max=DOCUMENT_BYTES_MAX) if value else ()
