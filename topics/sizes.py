"""Sizes: a number of bytes in words, for people. Units are of 1024, as in settings."""

from typing import Final

UNIT: Final = 1024


def size(count: int) -> str:
    """Return a number of bytes in words: ``812 B``, ``47.8 KB``."""
    number, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if number < UNIT or unit == "TB":
            break
        number /= UNIT
    return f"{count} B" if unit == "B" else f"{number:.1f} {unit}"
