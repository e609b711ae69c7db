"""Contents: a subscriber's objects, for parts of Topicast that pass their bytes on.

    at once    from memory alone, and quickly; raises NotAtOnce if that is not possible
    may wait   pulls objects from catalogd that memory may not answer with, as ``Subscriber`` does

Each result is of one version, and does not change when deltas arrive.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from ...topics.errors import LinkError, NoSuchObject, NotVisible
from ...topics.objects.encoding.values import NameRecord
from ...topics.objects.selector import Selector
from ...topics.objects.tables import Database
from ...topics.topic import Version
from ..fetch.fetcher import PartitionRequest, Result, selected_names
from ..store.table_snapshot import Head, TableSnapshot
from ..store.view import View

ENTRIES_AT_ONCE_MAX: Final = 512  # 16,000 partitions: finding those that match takes 20 ms
PULLED_SHARE: Final = 0.25  # one pull may bring bytes up to this share of the budget, beside it

T = TypeVar("T")


class NotAtOnce(LinkError):
    """Memory may not answer, or would take long: the caller needs a thread that may wait."""


class ContentReader(Protocol):
    """The reads of a subscriber's reader that contents use."""

    def view(self) -> View:
        """Return what is held."""

    def table(self, db: str, table: str) -> TableSnapshot:
        """Get a table's own entry, from memory or from catalogd."""

    def select(self, request: PartitionRequest, *, bytes_max: float) -> Result:
        """Get partitions, from memory or, if they are no larger, from catalogd."""

    def names(self, read: Callable[[View], T | None]) -> T:
        """Read the namespace, as soon as it answers."""

    def note_read(self, db: str, table: str, *, whole: bool) -> None:
        """Count a read of a table; ``whole``: of its partitions, too."""


class Contents:
    """Reads of a catalog, for any thread.

    Each method raises NoSuchObject if the view has no object of the name, and LinkError or
    SourceError as the methods of ``Subscriber``; with a selector also UsageError, if it does not
    fit the table, and OverBudget, if the selected partitions are too large for one pull.
    """

    def __init__(self, source: ContentReader, *, may_wait: bool, budget_bytes: int) -> None:
        self._source = source
        self._may_wait = may_wait
        self._pulled_bytes_max = PULLED_SHARE * budget_bytes

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases, sorted.

        Raises:
            NotVisible: our key sees some of them only.
        """
        return self._names(_all_databases)

    def database(self, db: str) -> Database:
        """Return a database."""
        return self._names(lambda view: view.database(db))

    def records(self, db: str) -> tuple[NameRecord, ...]:
        """Return name and type of each table of ``db``, sorted by name."""
        return self._names(lambda view: view.records(db))

    def head(self, db: str, table: str) -> Head:
        """Return a table's own entry, decoded."""
        found = self._source.view().table(db, table)
        if found is not None:
            self._source.note_read(db, table, whole=False)
        elif not self._may_wait:
            raise NotAtOnce(f"{db}.{table} is not held")
        else:
            found = self._source.table(db, table)
        return found.head_of(db, table)

    def version(self, db: str, table: str) -> Version | None:
        """Return the version of a table in memory; None: memory does not hold it.

        The call counts as no read, and pulls nothing.
        """
        try:
            found = self._source.view().table(db, table)
        except NoSuchObject:
            return None
        if found is None:
            return None
        return Version(found.head_of(db, table).table.version, found.epoch)

    def partitions(self, db: str, table: str, selector: Selector) -> TableSnapshot:
        """Return a snapshot with the table and the partitions that ``selector`` selects."""
        found = self._select(PartitionRequest(db, table, selector))
        assert isinstance(found, TableSnapshot)
        return found

    def partition_names(self, db: str, table: str, selector: Selector) -> tuple[str, ...]:
        """Return the names of the selected partitions, sorted."""
        request = PartitionRequest(db, table, selector, names_only=True)
        found = self._select(request)
        return selected_names(request, found, lambda: self.head(db, table).table.partition_columns)

    def _select(self, request: PartitionRequest) -> Result:
        db, table = request.db, request.table
        held = self._source.view().partitions(db, table, request.selector)
        if not self._may_wait and (held is None or len(held) > ENTRIES_AT_ONCE_MAX):
            raise NotAtOnce(f"the partitions of {db}.{table} are not held, or are many")
        if held is None:
            return self._source.select(request, bytes_max=self._pulled_bytes_max)
        self._source.note_read(db, table, whole=True)
        return held

    def _names(self, read: Callable[[View], T | None]) -> T:
        if self._may_wait:
            return self._source.names(read)
        found = read(self._source.view())
        if found is None:
            raise NotAtOnce("the namespace is not held")
        return found


def _all_databases(view: View) -> tuple[str, ...] | None:
    if view.policy is not None:
        raise NotVisible("*", f"this key sees {view.policy} only, and not all databases")
    return view.databases()
