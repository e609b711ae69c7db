"""Strays: folders below a table that are no partition of it."""

from collections.abc import Iterable, Iterator, Set

from ....topics.objects.names import partition_keys, partition_name, partition_values
from .listing import Entry, Folder, Lister


def strays(
    lister: Lister,
    location: str,
    depth: int,
    *,
    known: Set[str],
    batch_max: int,
    times: dict[str, int],
) -> Iterator[list[tuple[str, str]]]:
    """Yield the folders below ``location`` that are no partitions, and which they would be.

    The second is empty for a folder that is not named as a partition is. After each batch of
    folders that is listed comes a list, which may be empty.

    Args:
        lister: Lists the folders above the partitions.
        location: Of a table.
        depth: How many partition columns the table has.
        known: The names of its partitions.
        batch_max: How many folders are listed together.
        times: Gets when the folder of each partition last got or lost an entry, in ms.
    """
    above = [(location, "")]
    for level in range(1, depth + 1):
        named: list[tuple[str, str]] = []
        for at in range(0, len(above), batch_max):
            batch = above[at : at + batch_max]
            listed = lister.entries([path for path, _ in batch])
            below = [
                one
                for (_, name), folder in zip(batch, listed, strict=True)
                for one in _in(folder, name)
            ]
            found: list[tuple[str, str]] = [(one.path, "") for one, name in below if not name]
            some = [(one, name) for one, name in below if name]
            if level == depth:
                written = [(one, as_written(name)) for one, name in some]
                found += [(one.path, name) for one, name in written if name not in known]
                times |= {name: one.modified_ms for one, name in written if name in known}
            else:
                named += [(one.path, name) for one, name in some]
            yield found
        above = named


def folders_above(partitions: Iterable[str]) -> int:
    """Return how many folders hold ``partitions`` of one table: its own, and those between."""
    between = {name[:at] for name in partitions for at, char in enumerate(name) if char == "/"}
    return 1 + len(between)


def as_written(name: str) -> str:
    """Return the name that the metastore gives the partition whose folder has this ``name``."""
    return partition_name(partition_keys(name), partition_values(name))


def _in(folder: Folder, name: str) -> Iterator[tuple[Entry, str]]:
    """Yield the folders in ``folder``, each with the name of the partition that it would be."""
    for one in folder.entries:
        if one.is_folder and not one.hidden:
            yield one, _below(name, one)


def _below(name: str, folder: Entry) -> str:
    if "=" not in folder.name:
        return ""
    return f"{name}/{folder.name}" if name else folder.name
