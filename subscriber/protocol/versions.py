"""Claims about tables, as a validation makes them, from the versions that an application holds."""

from collections.abc import Iterable

from ...topics.objects.versions import epoch_of
from ...topics.wire.messages import Claimed


def claims_of(
    known: Iterable[tuple[tuple[str, str], int]], *, whole: bool
) -> tuple[int, tuple[Claimed, ...]]:
    """Return what to ask about the tables ``known``, by name and version, and in which epoch.

    It is the newest of their epochs: what is of another is true no more, and asked as of version
    0, at which nothing is, to learn the version that it has now.
    """
    versions = tuple(known)
    epoch = max((epoch_of(version) for _, version in versions), default=0)
    return epoch, tuple(
        Claimed(
            db=db,
            table=table,
            version=int(version) if epoch_of(version) == epoch else 0,
            whole=whole,
        )
        for (db, table), version in versions
    )
