"""Tables: databases, tables and partitions as a user reads them, made of Thrift bytes.

Objects are frozen and compare by value; the bytes they were read from ride along and come back
from ``thrift()``, every field known or not. Two objects may be equal and differ in fields that
have no attribute here. Text that Thrift leaves out is empty, as is a list or map.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from ..errors import WireError
from ..notebook import shown
from .encoding.templates import RAW, SlotValues, Template, Templates, slot_text, template_of
from .encoding.thrift import (
    STRUCT,
    Field,
    check_struct,
    fields,
    fields_and_inner,
    read_bool,
    read_int,
    read_structs,
    read_text,
    read_text_map,
    read_texts,
)
from .encoding.values import PartitionRecord
from .names import partition_keys, partition_name, table_name
from .spark_schema import RESPECTED, columns_of_spark, is_same_schema

Parameters: TypeAlias = Mapping[str, str]
_T = TypeVar("_T")

PROVIDER: Final = "spark.sql.sources.provider"  # a parameter of tables of Spark's sources
PATH: Final = "path"  # an option of these
VIEW: Final = "VIRTUAL_VIEW"  # the type of a view

_NONE: Final[Parameters] = MappingProxyType({})


def _none() -> Parameters:
    return _NONE


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, or a key of its partitions."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The format and the buckets of files; ``sort_columns``: names with "asc" or "desc"."""

    input_format: str = ""
    output_format: str = ""
    serde: str = ""
    serde_parameters: Parameters = field(default_factory=_none)
    bucket_columns: tuple[str, ...] = ()
    num_buckets: int = 0
    sort_columns: tuple[tuple[str, str], ...] = ()
    compressed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database."""

    name: str
    description: str = ""
    location: str = ""
    parameters: Parameters = field(default_factory=_none)
    owner: str = ""
    version: int
    _thrift: bytes = field(default=b"", compare=False, repr=False)

    def thrift(self) -> bytes:
        """Return the whole Thrift struct, as HMS sent it."""
        return self._thrift

    def __reduce__(self) -> tuple[object, ...]:
        return read_database, (self._thrift, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or a view; ``type`` is HMS's, as MANAGED_TABLE or VIRTUAL_VIEW.

    ``columns`` and ``partition_columns`` are those that Spark sees: Spark's own schema in the
    properties of the table, if Spark goes by them, else the metastore's columns. The
    metastore's are also in ``metastore_columns`` and ``metastore_partition_columns``. A column by
    which the table is partitioned for Spark, and not in the metastore, is in ``columns``.
    """

    db: str
    name: str
    type: str = ""
    owner: str = ""
    location: str = ""
    columns: tuple[Column, ...] = ()
    partition_columns: tuple[Column, ...] = ()
    metastore_columns: tuple[Column, ...] = ()
    metastore_partition_columns: tuple[Column, ...] = ()
    parameters: Parameters = field(default_factory=_none)
    view_text: str = ""
    storage: Storage = Storage()
    version: int
    _thrift: bytes = field(default=b"", compare=False, repr=False)

    def _repr_html_(self) -> str:
        parts = ", ".join(one.name for one in self.partition_columns)
        facts = (
            *(("type", self.type), ("owner", self.owner), ("location", self.location)),
            *(("partitioned_by", parts), ("view", self.view_text), ("version", self.version)),
        )
        columns = (*self.columns, *self.partition_columns)
        rows = [(one.name, one.type, one.comment) for one in columns]
        return shown(self.full_name, facts, head=("column", "type", "comment"), rows=rows)

    @property
    def full_name(self) -> str:
        """``db.table``."""
        return table_name(self.db, self.name)

    @property
    def data_location(self) -> str:
        """The folder of its files; ``location`` is the metastore's word for that.

        These differ for a table of a source of Spark's that Hive cannot read, such as CSV at a
        LOCATION: Spark keeps a placeholder in the metastore, and reads from the option ``path``.
        """
        if PROVIDER in self.parameters:
            return self.storage.serde_parameters.get(PATH) or self.location
        return self.location

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The names of the partition columns, as the names of partitions have them."""
        return tuple([column.name for column in self.metastore_partition_columns])

    def thrift(self) -> bytes:
        """Return the whole Thrift struct, as HMS sent it."""
        return self._thrift

    def __reduce__(self) -> tuple[object, ...]:
        return read_table, (self._thrift, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of a table."""

    values: tuple[str, ...]
    name: str
    location: str = ""
    parameters: Parameters = field(default_factory=_none)
    columns: tuple[Column, ...] = ()
    storage: Storage = Storage()
    version: int
    _template: Template = field(compare=False, repr=False)
    _slots: SlotValues = field(compare=False, repr=False)

    def thrift(self) -> bytes:
        """Return the whole Thrift struct, as HMS sent it. Cost: O(its bytes), it is spliced."""
        return self._template.fill(self._slots, self.name)

    def __reduce__(self) -> tuple[object, ...]:
        return read_partition, (self.thrift(), partition_keys(self.name), self.version)


class PartitionReader:
    """Makes partitions of one table's records; what a template says is read once."""

    def __init__(self, templates: Sequence[bytes]) -> None:
        self._templates = Templates(templates, "")
        self._shapes: dict[int, tuple[Template, _Descriptor]] = {}

    def read(self, record: PartitionRecord) -> Partition:
        """Return the partition in ``record``.

        Raises:
            WireError: ``record`` names no template, or does not fit it.
        """
        name, version, number, slots = record
        if number == RAW:
            template = template_of(self.thrift(record), name)
            slots = template.match(self.thrift(record), name) or ()
            descriptor = _partition_descriptor(template)
        else:
            template, descriptor = self._shape(number)
        if len(slots) != template.slot_count:
            raise WireError(f"partition {name!r} does not fit its template")
        parameters = {key: slot_text(slots[at]) for key, at in template.parameters}
        return Partition(
            values=template.values(slots, name),
            name=name,
            location=template.location(slots, name),
            parameters=MappingProxyType(parameters),
            columns=descriptor.columns,
            storage=descriptor.storage,
            version=version,
            _template=template,
            _slots=slots,
        )

    def thrift(self, record: PartitionRecord) -> bytes:
        """Return the Thrift struct of ``record``; raises as ``read`` does."""
        return self._templates.join(record.template, record.slots, record.name)

    def _shape(self, number: int) -> tuple[Template, "_Descriptor"]:
        shape = self._shapes.get(number)
        if shape is None:
            template = self._templates.template(number)
            shape = self._shapes[number] = (template, _partition_descriptor(template))
        return shape


def read_database(thrift: bytes, version: int) -> Database:
    """Return the database in ``thrift``, as of ``version``.

    Raises:
        WireError: it is not a Database struct.
    """
    check_struct(thrift)
    found = _Fields(thrift, fields(thrift))
    return Database(
        name=found.name(1),
        description=found.text(2),
        location=found.text(3),
        parameters=found.parameters(4),
        owner=found.text(6),
        version=version,
        _thrift=thrift,
    )


def read_table(thrift: bytes, version: int) -> Table:
    """Return the table in ``thrift``, as of ``version``.

    Raises:
        WireError: it is not a Table struct.
    """
    check_struct(thrift)
    found = _Fields(thrift, fields(thrift))
    descriptor, keys = found.descriptor(7), found.columns(8)
    kind, parameters = found.text(12), found.parameters(9)
    columns, partition_columns = _as_spark_sees(kind, parameters, descriptor, keys=keys)
    return Table(
        db=found.name(2),
        name=found.name(1),
        type=kind,
        owner=found.text(3),
        location=descriptor.location,
        columns=columns,
        partition_columns=partition_columns,
        metastore_columns=descriptor.columns,
        metastore_partition_columns=keys,
        parameters=parameters,
        view_text=found.text(11) or found.text(10),
        storage=descriptor.storage,
        version=version,
        _thrift=thrift,
    )


def read_data_location(thrift: bytes) -> str:
    """Return ``data_location`` of the table in ``thrift``, for a sixth of what reading it costs.

    Raises:
        WireError: it is not a Table struct.
    """
    outer, inner = fields_and_inner(thrift, 7)
    found, descriptor = _Fields(thrift, outer), _Fields(thrift, inner)
    path = ""
    if PROVIDER in found.parameters(9):
        path = descriptor.struct(7).parameters(3).get(PATH, "")
    return path or descriptor.text(2)


def read_partition(thrift: bytes, keys: Sequence[str], version: int) -> Partition:
    """Return the partition in ``thrift``, of a table with partition ``keys``, as of ``version``.

    Raises:
        WireError: it is not a Partition struct.
        UsageError: it has not one value for each key.
    """
    check_struct(thrift)
    name = partition_name(keys, _Fields(thrift, fields(thrift)).texts(1))
    return PartitionReader(()).read(PartitionRecord(name, version, RAW, (thrift,)))


@dataclass(frozen=True, slots=True)
class _Descriptor:
    """The content of a StorageDescriptor struct."""

    columns: tuple[Column, ...] = ()
    location: str = ""
    storage: Storage = Storage()


class _Fields:
    """The fields of one struct by their ids in hive_metastore.thrift; an absent field is empty."""

    def __init__(self, data: bytes, found: Iterable[Field]) -> None:
        self._data = data
        self._found = {one.id: one for one in found}

    def text(self, at: int) -> str:
        return self._read(at, read_text, "")

    def name(self, at: int) -> str:
        if at not in self._found:
            raise WireError(f"a Thrift struct has no field {at}, its name")
        return self.text(at)

    def texts(self, at: int) -> tuple[str, ...]:
        none: tuple[str, ...] = ()
        return self._read(at, read_texts, none)

    def parameters(self, at: int) -> Parameters:
        return MappingProxyType(self._read(at, read_text_map, {}))

    def flag(self, at: int) -> bool:
        found = self._found.get(at)
        return found is not None and read_bool(self._data, found)

    def integer(self, at: int) -> int:
        return self._read(at, read_int, 0)

    def structs(self, at: int) -> "list[_Fields]":
        none: tuple[int, ...] = ()
        starts = self._read(at, read_structs, none)
        return [_Fields(self._data, fields(self._data, start)) for start in starts]

    def columns(self, at: int) -> tuple[Column, ...]:
        return tuple([Column(c.text(1), c.text(2), c.text(3)) for c in self.structs(at)])

    def descriptor(self, at: int) -> _Descriptor:
        if at not in self._found:
            return _Descriptor()
        sd = self.struct(at)
        serde = sd.struct(7)
        return _Descriptor(
            columns=sd.columns(1),
            location=sd.text(2),
            storage=Storage(
                input_format=sd.text(3),
                output_format=sd.text(4),
                compressed=sd.flag(5),
                num_buckets=sd.integer(6),
                serde=serde.text(2),
                serde_parameters=serde.parameters(3),
                bucket_columns=sd.texts(8),
                sort_columns=tuple(
                    [(c.text(1), "asc" if c.integer(2) else "desc") for c in sd.structs(9)]
                ),
            ),
        )

    def struct(self, at: int) -> "_Fields":
        found = self._found.get(at)
        if found is None:
            return _Fields(b"", ())
        if found.type != STRUCT:
            raise WireError(f"Thrift field {at} has type {found.type} where a struct belongs")
        return _Fields(self._data, fields(self._data, found.start))

    def _read(self, at: int, read: Callable[[bytes, Field], _T], default: _T) -> _T:
        found = self._found.get(at)
        return default if found is None else read(self._data, found)


def _as_spark_sees(
    kind: str, parameters: Parameters, descriptor: _Descriptor, *, keys: tuple[Column, ...]
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the columns and the partition columns by the rules of Spark's HiveExternalCatalog."""
    hive = (*descriptor.columns, *keys)
    found = columns_of_spark(parameters)
    split = len(found) - len(keys)
    stands = PROVIDER in parameters or kind == VIEW or _is_respected(descriptor)
    if not found or not (stands or is_same_schema(found, [(c.name, c.type) for c in hive])):
        return descriptor.columns, keys
    if [one.name.lower() for one in found[split:]] != [key.name.lower() for key in keys]:
        return descriptor.columns, keys  # the properties contradict the partitions
    columns = tuple([Column(*one) for one in found])
    if columns == hive:
        return descriptor.columns, keys  # held once
    return columns[:split], columns[split:]


def _is_respected(descriptor: _Descriptor) -> bool:
    options = descriptor.storage.serde_parameters.items()
    return any(name.lower() == RESPECTED and text.lower() == "true" for name, text in options)


def _partition_descriptor(template: Template) -> _Descriptor:
    return _Fields(template.skeleton, fields(template.skeleton, 1)).descriptor(6)
