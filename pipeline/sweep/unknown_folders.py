"""Unknown folders: folders below a table that are not partitions of it."""

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final

from ...topics.errors import UsageError
from ...topics.objects.names import partition_keys, partition_name, partition_values
from ...topics.objects.tables import Column
from .listing import FolderEntry, ListedFolder, Lister, is_hidden

WHOLE_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")


def unknown_folders(
    lister: Lister,
    location: str,
    columns: Sequence[Column],
    *,
    known: Set[str],
    batch_max: int,
    times: dict[str, int],
) -> Iterator[list[tuple[str, str]]]:
    """Yield folders below ``location`` that are not partitions, with the partition each would be.

    The partition is empty if the folder's name cannot be that of a partition. There is a list for
    each batch of folders that is listed; it may be empty.

    Args:
        lister: Lists the folders above the partitions.
        location: The folder of a table.
        columns: The partition columns of the table.
        known: The names of its partitions.
        batch_max: How many folders are listed together.
        times: Is filled with when the folder of each partition last got or lost an entry, in ms;
            if several folders are one partition, as ``n=7`` and ``n=007``, the newest time.
    """
    above = [(location, "")]
    for level in range(1, len(columns) + 1):
        named: list[tuple[str, str]] = []
        for at in range(0, len(above), batch_max):
            batch = above[at : at + batch_max]
            below = list(_below(batch, lister.folders([path for path, _ in batch])))
            found: list[tuple[str, str]] = [(one.path, "") for one, name in below if not name]
            if level < len(columns):
                named += [(one.path, name) for one, name in below if name]
            else:
                written = [
                    (one, _partition_of(name, columns, known)) for one, name in below if name
                ]
                found += [(one.path, name) for one, name in written if name not in known]
                _note_times(times, [(one, name) for one, name in written if name in known])
            yield found
        above = named


def folders_above(partitions: Iterable[str]) -> int:
    """Return how many folders are above ``partitions``: the table's, and those in between."""
    between: set[str] = set()
    for name in partitions:
        above = name.rpartition("/")[0]
        while above and above not in between:  # all folders above a counted folder were counted
            between.add(above)
            above = above.rpartition("/")[0]
    return 1 + len(between)


def as_written(name: str, columns: Sequence[Column]) -> str:
    """Return the metastore's name of the partition in a folder, ``name`` relative to the table's.

    Empty: by ``columns``, the table's partition columns, it is not the folder of a partition.
    """
    keys = partition_keys(name)
    if [one.lower() for one in keys] != [one.name.lower() for one in columns]:
        return ""
    try:
        return partition_name(keys, partition_values(name))
    except UsageError:
        return ""


def _partition_of(name: str, columns: Sequence[Column], known: Set[str]) -> str:
    """Return the partition of a folder ``name``: one of ``known``, else as ``as_written``.

    Spark removes the leading zeros of a whole number, and Hive keeps them.
    """
    if name in known:
        return name
    written = as_written(name, columns)
    if not written or written in known:
        return written
    values = [
        str(int(value)) if one.type in WHOLE_NUMBERS and _is_number(value) else value
        for one, value in zip(columns, partition_values(name), strict=True)
    ]
    return partition_name([one.name for one in columns], values)


def _note_times(times: dict[str, int], folders: Iterable[tuple[FolderEntry, str]]) -> None:
    for one, name in folders:
        times[name] = max(one.modified_ms, times.get(name, 0))


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit()


def _below(
    batch: Sequence[tuple[str, str]], listed: Sequence[ListedFolder]
) -> Iterator[tuple[FolderEntry, str]]:
    """Yield the folders in the folders of ``batch``, each with the partition it would be."""
    for (_, name), folder in zip(batch, listed, strict=True):
        above = f"{name}/" if name else ""
        for one in folder.entries:
            last = one.name
            if not is_hidden(last):
                yield one, above + last if "=" in last else ""
