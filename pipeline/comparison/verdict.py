"""TableVerdict: how a database or table differs between a side and catalogd's store. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from ...topics.comparison import Shape, differences

METASTORE: Final = "metastore"
HUB: Final = "hub"  # in the name of a side, a blank and the hub's address follow
SUBSCRIBER: Final = "subscriber"
SIDES: Final = (METASTORE, HUB, SUBSCRIBER)
DETAILS_MAX: Final = 20  # differences of one database or table that are named; all are counted
VALUE_CHARS_MAX: Final = 200  # of each value
EXISTS: Final = "exists"


class PropertyDifference(NamedTuple):
    """A property on a side, and in catalogd's store; None: the object has no such property."""

    side: str  # metastore, hub with its address, or subscriber
    object: str  # db, db.table or db.table/partition
    property: str
    value: str | None  # on that side
    catalogd: str | None

    def __str__(self) -> str:
        sides = (f"the {self.side}", self.value), ("catalogd", self.catalogd)
        if self.property == EXISTS:
            (have, _), (lack, _) = sides if self.value is not None else sides[::-1]
            return f"{self.object}: {have} has it, {lack} does not"
        said = (f"{side} has {'none' if value is None else repr(value)}" for side, value in sides)
        return f"{self.object}: {self.property}: {', '.join(said)}"


@dataclass(slots=True)
class TableVerdict:
    """The result for the database or table ``name`` on ``side``.

    ``digest``: of all differences, with the values of the side. If two comparisons have the same
    digest, the side has not changed in between where it differs.
    """

    name: str
    side: str = METASTORE
    partitions: int = 0
    not_loaded: bool = False
    unreadable: str = ""
    differences: list[PropertyDifference] = field(default_factory=list)
    digest: bytes = b""

    def note_existence(self, name: str, *, there: bool) -> None:
        """Note that the object ``name`` is only ``there``, on the side, or only in the store."""
        yes, none = "yes", None
        there_has, stored_has = (yes, none) if there else (none, yes)
        self.note(name, EXISTS, there=there_has, stored=stored_has)

    def compare(self, name: str, there: bytes, stored: bytes, *, shape: Shape) -> None:
        """Compare the Thrift structs of the object ``name``: the side's, and catalogd's."""
        for of, here, kept in differences(there, stored, shape):
            self.note(name, of, there=here, stored=kept)

    def compare_values(
        self, name: str, there: Mapping[str, str], stored: Mapping[str, str]
    ) -> None:
        """Compare the values, by property, of the object ``name``: the side's, and catalogd's."""
        for key in sorted(there.keys() | stored.keys()):
            if there.get(key) != stored.get(key):
                self.note(name, key, there=there.get(key), stored=stored.get(key))

    def note(self, name: str, of: str, *, there: str | None, stored: str | None) -> None:
        """Note that the side has the value ``there`` for a property ``of`` the object ``name``."""
        seen = repr((self.digest, name, of, there)).encode(errors="backslashreplace")
        self.digest = blake2b(seen, digest_size=16).digest()
        if len(self.differences) < DETAILS_MAX:
            short = (None if one is None else one[:VALUE_CHARS_MAX] for one in (there, stored))
            self.differences.append(PropertyDifference(self.side, name, of, *short))


@dataclass(slots=True, kw_only=True)
class SideResult:
    """The result for one side.

    ``not_loaded``: tables of which catalogd holds the name only. ``withheld``: tables whose content
    a hub does not get, because of catalogd's mode or because it is too large, so that only their
    versions were compared. ``unread``: by object, why it could not be compared.
    """

    side: str
    databases: int = 0
    tables: int = 0
    partitions: int = 0
    not_loaded: int = 0
    withheld: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    verdicts: list[TableVerdict] = field(default_factory=list)

    def add(self, verdict: TableVerdict) -> None:
        """Count the table of ``verdict``; keep the verdict if the table is not equal."""
        self.tables += 1
        self.partitions += verdict.partitions
        self.not_loaded += verdict.not_loaded
        if verdict.differences or verdict.unreadable:
            self.verdicts.append(verdict)

    @property
    def differing(self) -> dict[str, TableVerdict]:
        """The objects that differ, by name."""
        return {one.name: one for one in self.verdicts if one.differences}

    @property
    def unreadable(self) -> dict[str, str]:
        """Why objects could not be read, by name."""
        return {one.name: one.unreadable for one in self.verdicts if one.unreadable}
