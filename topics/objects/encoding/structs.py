"""Structs: the structs of the many partitions of one read, most of them compressed.

    reply ──add──▶ the newest structs, as they came ──KEPT_BYTES_MAX──▶ groups, compressed

The structs of one table's partitions are nearly equal, and some have 30 KB. A read of thousands is
published at once, so catalogd keeps all of their structs until the last has come.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import zstandard

KEPT_BYTES_MAX: Final = 8 << 20  # as they came: 10,000 usual partitions
GROUP_BYTES: Final = 1 << 20  # of structs that are compressed together: 1 ms to read


class Structs(Mapping[str, bytes]):
    """Thrift structs by partition; those of neighbours in the order of names are read fastest."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}  # as they came
        self._kept_bytes = 0
        self._places: dict[str, tuple[int, int, int]] = {}  # group, begin and end in it
        self._groups: list[bytes] = []  # compressed
        self._open = -1, b""  # the group that was read last

    def __getitem__(self, name: str) -> bytes:
        if name in self._kept:
            return self._kept[name]
        group, begin, end = self._places[name]
        if self._open[0] != group:
            self._open = group, zstandard.ZstdDecompressor().decompress(self._groups[group])
        return self._open[1][begin:end]

    def __iter__(self) -> Iterator[str]:
        yield from self._places
        yield from self._kept

    def __len__(self) -> int:
        return len(self._places) + len(self._kept)

    def add(self, found: Mapping[str, bytes]) -> None:
        """Add the structs of one reply, of other names than those before."""
        self._kept.update(found)
        self._kept_bytes += sum(map(len, found.values()))
        if self._kept_bytes > KEPT_BYTES_MAX:
            self._compress()

    def _compress(self) -> None:
        compressor = zstandard.ZstdCompressor(level=1)
        some, size = list[bytes](), 0
        for name in sorted(self._kept):
            struct = self._kept.pop(name)
            self._places[name] = len(self._groups), size, size + len(struct)
            some.append(struct)
            size += len(struct)
            if size >= GROUP_BYTES or not self._kept:
                compressed = compressor.compress(b"".join(some))
                self._groups.append(bytes(memoryview(compressed)))  # which has no excess memory
                some, size = [], 0
        self._kept_bytes = 0


@dataclass(frozen=True, slots=True)
class RequestedStructs(Mapping[str, bytes | None]):
    """The structs of ``names``; None of a partition that does not exist."""

    names: Collection[str]
    found: Mapping[str, bytes]

    def __getitem__(self, name: str) -> bytes | None:
        if name not in self.names:
            raise KeyError(name)
        return self.found.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
