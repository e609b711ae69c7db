"""AuditReport: the results of a comparison with catalogd's store, on each side."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ..progress import RunReport
from .verdict import HUB, METASTORE, SUBSCRIBER, PropertyDifference, SideResult

NAMED_MAX: Final = 1000  # differences, and tables of each other kind, that a report names
SHOWN_MAX: Final = 10  # of what is mended, in the summary


@dataclass(slots=True, kw_only=True)
class AuditReport(RunReport):
    """The result of a comparison, or with ``dry_run`` how much it would compare.

    ``databases``, ``tables`` and ``partitions`` count the objects that were compared with the
    metastore, in the first round. ``copies`` counts, for each other side, the ``tables`` that were
    compared, and the ``withheld`` tables among them, of which a hub gets only the versions.
    """

    pattern: str
    sides: tuple[str, ...]  # that the run compares: metastore, hub, subscriber
    dry_run: bool = False
    snapshot_version: str = ""  # of catalogd's store, before anything was compared
    limited_to: str = ""  # the databases of the key, as patterns; empty: it sees all
    databases: int = 0
    tables: int = 0
    partitions: int = 0
    not_loaded: int = 0  # tables of which catalogd holds the name only
    copies: list[dict[str, str | int]] = field(default_factory=list)
    differing: int = 0  # databases and tables
    differences: list[PropertyDifference] = field(default_factory=list)  # the first of each
    mended: list[str] = field(default_factory=list)  # databases and tables that differ no more
    repaired: bool = False  # whether the run has ordered repairs
    unread: dict[str, str] = field(default_factory=dict)  # why objects were not compared
    seconds: float = 0.0

    def add(self, found: SideResult) -> None:
        """Count the objects that were compared on a side."""
        if found.side == METASTORE:
            self.databases, self.tables = found.databases, found.tables
            self.partitions, self.not_loaded = found.partitions, found.not_loaded
        else:
            counts = {"tables": found.tables, "withheld": found.withheld}
            self.copies.append({"side": found.side, **counts})

    def note(self, sides: Iterable[SideResult]) -> None:
        """Name the differences, and the objects that were not compared."""
        verdicts = []
        for found in sides:
            verdicts += found.verdicts
            where = "" if found.side == METASTORE else f"{found.side}, "
            unread = found.unread | found.unreadable
            self.unread |= {f"{where}{what}": why for what, why in unread.items()}
        unequal = sorted((one for one in verdicts if one.differences), key=lambda one: one.name)
        self.differing = len({one.name for one in unequal})
        self.differences = [one for each in unequal for one in each.differences][:NAMED_MAX]

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for each difference that is left, and for each object that was not compared."""
        return (
            *map(str, self.differences),
            *(f"{what}: {why}" for what, why in self.unread.items()),
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about the differences that are left, a line for each kind of side."""
        sides = dict.fromkeys(one.side for one in self.differences)
        hubs = [side for side in sides if side.startswith(HUB)]
        if not self.repaired:
            return ("run it with --repair: catalogd mends what it can",) if sides else ()
        lines = [f"restart the {hub}: it takes everything from catalogd anew" for hub in hubs]
        if SUBSCRIBER in sides and not hubs:
            lines.append("start attached applications again: each takes everything from its hub")
        return tuple(lines)

    def summary(self) -> str:
        """Return the result for people."""
        counts = f"{self.databases} databases, {self.tables} tables"
        if self.dry_run:
            return f"would compare {counts}, of {', '.join(self.sides)}"
        lines = [f"compared in {self.seconds:.1f} s"]
        if METASTORE in self.sides:
            lines = [f"{counts}, {self.partitions} partitions {lines[0]}"]
        for one in self.copies:
            withheld = f", {one['withheld']} of them by version only" if one["withheld"] else ""
            lines.append(f"{one['side']}: {one['tables']} tables{withheld}")
        if self.limited_to:
            lines.append(f"only databases that the key sees: {self.limited_to}")
        if self.not_loaded:
            lines.append(f"{self.not_loaded} tables by name only: catalogd has not loaded them")
        if self.mended:
            shown = ", ".join(self.mended[:SHOWN_MAX])
            lines.append(f"{len(self.mended)} mended: {shown}")
        return "\n".join([*lines, self._result(), *self.advice])

    def _result(self) -> str:
        if not self.differing and not self.unread:
            first = [METASTORE] if METASTORE in self.sides else []
            *others, last = (f"the {one}" for one in (*first, *(c["side"] for c in self.copies)))
            sides = f"{', '.join(others)} and {last} have" if others else f"{last} has"
            return f"{sides} what catalogd's store has"
        missed = f"; {len(self.unread)} could not be compared" if self.unread else ""
        return f"{self.differing} differ{missed}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return asdict(self) | {"differences": [one._asdict() for one in self.differences]}
