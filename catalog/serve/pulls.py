"""Pulls: a table, or what is selected of its blocks, for whoever does not hold them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...topics.bulk import Part, pulled_cost
from ...topics.objects.values import LOADING
from ...topics.wire.messages import SELECT_TABLE, Claimed, Pull, Pulled, Validate
from ..model.namespace import Namespace
from ..model.tables import Tables
from .paginate import blocks, listed
from .select import select
from .validation import stale


class Pulls:
    """Answers pulls from what is held."""

    def __init__(
        self, namespace: Namespace, tables: Tables, place: Callable[[], tuple[int, int]]
    ) -> None:
        """``place`` gives (epoch, start)."""
        self._namespace = namespace
        self._tables = tables
        self._place = place

    def ready(self, pull: Pull) -> bool:
        """Whether ``pull`` can be answered from what is held."""
        table = (pull.db, pull.table)
        record = self._namespace.find(table)
        if record is None:
            return True
        value = self._tables.value(table)
        if value is None or value.incarnation != record.incarnation:
            return False
        return pull.selector == SELECT_TABLE or value.partitions != LOADING

    def unfit(self, pull: Pull) -> str:
        """Return why no value can hold the table of ``pull``; empty if one can."""
        return self._tables.unfit_why.get((pull.db, pull.table), "")

    def parts(self, pull: Pull) -> Iterator[Part]:
        """Cut the answer to ``pull`` as of now; all parts are of one topic version.

        Raises:
            UsageError: what it selects is nothing, or not for this table.
        """
        table = (pull.db, pull.table)
        number, topic = self._tables.topic_of(table)
        record = self._namespace.find(table)
        epoch, start = self._place()
        like = Pulled(
            request=pull.request,
            sequence=0,
            last=True,
            found=record is not None,
            epoch=epoch,
            start=start,
            topic=number,
            topic_version=topic.version,
            namespace_version=self._namespace.version,
            incarnation=record.incarnation if record else 0,
            gone=(),
            entries=(),
            stale=self._stale_beside(pull, epoch),
        )
        if record is None:
            return iter([(pulled_cost(like), like)])
        if pull.version and not self._stands(pull, epoch):
            return iter([(pulled_cost(like), replace(like, moved=True))])
        selection = select(self._tables, pull)
        cut = listed if pull.names_only else blocks
        return cut(selection, like, bytes_max=pull.bytes_max)

    def stale(self, asked: Validate) -> tuple[tuple[int, int], ...]:
        """Return the places of the claims that are true no more, and of what version they were."""
        return stale(self._namespace, self._tables, asked, epoch=self._place()[0])

    def _stale_beside(self, pull: Pull, epoch: int) -> tuple[int, ...]:
        if not pull.beside:
            return ()
        asked = Validate(request=0, epoch=pull.epoch, claims=pull.beside)
        found = stale(self._namespace, self._tables, asked, epoch=epoch)
        return tuple([place for place, _ in found])

    def _stands(self, pull: Pull, epoch: int) -> bool:
        """Tell whether nothing of the table has changed since the version that is asked for."""
        claim = Claimed(db=pull.db, table=pull.table, version=pull.version, whole=True)
        asked = Validate(request=0, epoch=pull.epoch, claims=(claim,))
        return not stale(self._namespace, self._tables, asked, epoch=epoch)
