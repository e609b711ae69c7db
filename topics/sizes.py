"""Sizes: a number of bytes in words, for people."""


def size(count: int) -> str:
    """Return a number of bytes in words: ``812 B``, ``48.9 KB``."""
    number, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            break
        number /= 1000
    return f"{count} B" if unit == "B" else f"{number:.1f} {unit}"
