"""Flights: reads that were ordered, and what overtook them before they could be published."""

from dataclasses import dataclass, field

from ...topics.objects.names import TableId
from .chunked_load import ChunkedLoad
from .reads import Need, Read, ReadDone, TableRequest


@dataclass(slots=True)
class InFlightRead:
    """One read: for ``needs``, or a piece of ``load``. ``fence``: the poll that may release it."""

    effect: Read
    needs: dict[TableId, Need]
    load: ChunkedLoad | None = None
    done: ReadDone | None = None
    fence: int = 0
    touched: dict[TableId, None] = field(default_factory=dict)

    @property
    def table(self) -> TableId:
        """The one table of a piece."""
        want = self.effect.wants[0]
        return want.db, want.table

    def touch(self, table: TableId, names: tuple[str, ...] | None) -> None:
        """Learn that an event says something of ``table``; ``names`` None: of it as a whole."""
        need = self.needs.get(table)
        if need is None and (self.load is None or self.table != table):
            return
        whole = need.whole if need else self.effect.wants[0].whole
        asked = need.names if need else self.effect.wants[0].names
        if names is None or whole or any(name in asked for name in names):
            self.touched[table] = None


def read_of(number: int, needs: dict[TableId, Need], *, few: bool) -> Read:
    """Return the read for ``needs``; if they are not ``few``, without partitions."""
    wants = []
    for (db, name), need in needs.items():
        if name:
            names = () if need.whole else tuple(need.names)
            whole = need.whole and few
            wants.append(TableRequest(db=db, table=name, obj=need.obj, whole=whole, names=names))
    databases = tuple(db for db, name in needs if not name)
    return Read(read=number, databases=databases, wants=tuple(wants))
