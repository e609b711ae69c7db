"""Packing: one document of plain values as the bytes of an entry, compressed where that pays.

    value == [0x00] + msgpack          value == [0x01] + zstd(msgpack)

``unpack`` is total: whatever the bytes, it returns a document or raises WireError, and takes
memory in proportion to DOCUMENT_BYTES_MAX at most.
"""

from typing import Final

import msgpack
import zstandard

from ..errors import UsageError, WireError

DOCUMENT_BYTES_MAX: Final = 16 << 20  # one table of 10,000 columns is 1 MB; 16 bounds a bomb
ITEMS_MAX: Final = 1100  # of any list: a block's columns (templates.HOLES_MAX) are the longest

_PLAIN: Final = b"\x00"
_ZSTD: Final = b"\x01"
_LEVEL: Final = 1  # at 1 KB, level 3 costs the same time and saves nothing
_COMPRESSED_FROM_BYTES: Final = 100  # a frame's own overhead is 10 to 20 bytes

# Idle contexts. One may not be used by two threads at once, and a new one costs 20 µs against
# 5 µs of work; they carry nothing from one call to the next, so this is no state.
_compressors: Final[list[zstandard.ZstdCompressor]] = []
_decompressors: Final[list[zstandard.ZstdDecompressor]] = []


def pack(document: object) -> bytes:
    """Return ``document`` (None, int, str, bytes, and lists of these) as an entry's value.

    Raises:
        UsageError: it is larger than DOCUMENT_BYTES_MAX.
    """
    raw: bytes = msgpack.packb(document)
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise UsageError(f"value of {len(raw)} bytes, {DOCUMENT_BYTES_MAX} allowed")
    if len(raw) >= _COMPRESSED_FROM_BYTES:
        compressed = _compress(raw)
        if len(compressed) < len(raw):
            return _ZSTD + compressed  # a copy: what zstandard returns keeps excess memory
    return _PLAIN + raw


def unpack(value: bytes) -> object:
    """Return the document in ``value``, lists as lists.

    Raises:
        WireError: ``value`` holds none, or one that is too large.
    """
    kind = value[:1]
    if kind not in (_PLAIN, _ZSTD):
        raise WireError(f"value begins with {kind!r}, not with a packing that is known here")
    raw = value[1:] if kind == _PLAIN else _decompress(value[1:])
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise WireError(f"value of {len(raw)} bytes, {DOCUMENT_BYTES_MAX} allowed")
    try:
        document: object = msgpack.unpackb(
            raw, max_array_len=ITEMS_MAX, max_map_len=0, max_ext_len=0
        )
    except (ValueError, msgpack.UnpackException) as exc:
        raise WireError("value is not msgpack, or a list in it is too long") from exc
    return document


def _compress(raw: bytes) -> bytes:
    try:
        compressor = _compressors.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=_LEVEL)
    compressed = compressor.compress(raw)
    _compressors.append(compressor)
    return compressed


def _decompress(frame: bytes) -> bytes:
    try:
        if not 0 <= zstandard.frame_content_size(frame) <= DOCUMENT_BYTES_MAX:
            raise WireError("compressed value does not say its size, or is too large")
        try:
            decompressor = _decompressors.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor()
        raw = decompressor.decompress(frame)
    except zstandard.ZstdError as exc:
        raise WireError("compressed value is damaged") from exc
    _decompressors.append(decompressor)
    return raw
