"""Values: the contents of entries, as bytes and back.

    value == [0x00] + msgpack          value == [0x01] + zstd(msgpack)

    table       pack([incarnation, partitions, Thrift struct, [template, …]])
    database    pack([Thrift struct])
    names       pack([names, [types], incarnations, versions])     a block of tables' names
    partitions  pack([names, ages, numbers, groups])               a block of a table's partitions
    problem     pack([kind, text])                                 why changes do not arrive
    pause       pack([who, since, start])                          who has paused events

A table's incarnation is the version of the namespace topic at which its name appeared. A table is
answered only while its block of names and its own value have the same incarnation.

Names are sorted, with a NUL between them. The other parts of a block are columns: one item for each
record, or the one value on which all records agree. ``ages`` are how many versions before the
block's own each partition last changed, ``numbers`` which of the table's templates it has (RAW:
none). ``groups`` holds, by ascending number, a column for each slot of the partitions with that
number. Whether a record fits its template is checked when the two are joined.
Source: docs/design/0002-representation.md.

``unpack`` and every ``decode`` is total: bytes in, a value or WireError out, in memory in
proportion to DOCUMENT_BYTES_MAX at most.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, repeat
from typing import Final, NamedTuple

import msgpack
import zstandard

from ...errors import UsageError, WireError
from ..names import check_partition_name
from ..source_problem import ProblemKind, SourceProblem
from .edits import Edited, Leaves, edit
from .templates import RAW, TEMPLATES_MAX, Pieces, SlotColumn, SlotValue, SlotValues, Templates

ABSENT: Final = 0  # of a table's partitions none are held
LOADING: Final = 1  # some are: a selection is answered if all that it selects is published
COMPLETE: Final = 2  # all are

# Partitions of a block: 8 cost twice the memory, 128 three times the rewrite.
RECORDS_MAX: Final = 32
PROBLEM_CHARS_MAX: Final = 1000  # a few sentences, which a delta holds
NAMES_MAX: Final = 64  # of a block of names: about 1 KB

# Hive accepts no message over 100 MB (hive.metastore.server.max.message.size), so no struct is
# larger; the rest is for templates.
DOCUMENT_BYTES_MAX: Final = 104 << 20
ITEMS_MAX: Final = 1100  # of any list: a block's columns (templates.SLOTS_MAX) are the longest

_KINDS: Final = frozenset(map(int, ProblemKind))
_PLAIN: Final = b"\x00"
_ZSTD: Final = b"\x01"
_LEVEL: Final = 1  # at 1 KB, level 3 costs the same time and saves nothing
_COMPRESSED_FROM_BYTES: Final = 100  # a frame's own overhead is 10 to 20 bytes
_FRAME_HEADER_BYTES_MAX: Final = 19  # the packing's byte, and what zstandard writes first

# msgpack, where a value is not read whole: an array of four, and how a text begins
_BLOCK_LEAD: Final = b"\x94"
_SHORT_TEXT: Final = 0xA0  # with its length in the other five bits
_SHORT_TEXT_MASK: Final = 0xE0
_TEXT_SIZES: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}  # bytes of the length that follows

# Idle contexts. No two threads may use a context at once, and a new context costs 20 µs against
# 5 µs of work; they carry nothing from one call to the next, so this is not state.
_compressors: Final[list[zstandard.ZstdCompressor]] = []
_decompressors: Final[list[zstandard.ZstdDecompressor]] = []


def pack(document: object) -> bytes:
    """Return ``document`` (None, int, str, bytes, and lists of these) as an entry's value.

    Raises:
        UsageError: it is larger than DOCUMENT_BYTES_MAX.
    """
    raw: bytes = msgpack.packb(document)
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise UsageError(f"value of {len(raw)} bytes, {DOCUMENT_BYTES_MAX} allowed")
    return _packed(raw)


def unpack(value: bytes) -> object:
    """Return the document in ``value``, lists as lists.

    Raises:
        WireError: ``value`` holds none, or a number that is too large.
    """
    raw = _unpacked(value)
    try:
        document: object = msgpack.unpackb(
            raw, max_array_len=ITEMS_MAX, max_map_len=0, max_ext_len=0
        )
    except (ValueError, msgpack.UnpackException) as exc:
        raise WireError("value is not msgpack, or a list in it is too long") from exc
    return document


def document_bytes(value: bytes) -> int:
    """Return how many bytes ``unpack`` reads of ``value``; 0 if it refuses it. Cost: O(1)."""
    if value[:1] != _ZSTD:
        return max(len(value) - 1, 0)
    try:
        return max(zstandard.frame_content_size(value[1:_FRAME_HEADER_BYTES_MAX]), 0)
    except zstandard.ZstdError:
        return 0


class Pause(NamedTuple):
    """The orders of operators about the metastore's events that are not over.

    ``who``: the sender of the order to pause them, ``since_us``; empty: they are not paused.
    ``start_at``: the event to go on from, as ordered and not done yet; None: the next event.
    """

    who: str = ""
    since_us: int = 0
    start_at: int | None = None


def encode_pause(pause: Pause) -> bytes:
    """Return the value of what is ordered of events."""
    return pack([*pause])


def decode_pause(value: bytes) -> Pause:
    """Read what ``encode_pause`` wrote.

    Raises:
        WireError: ``value`` holds something else.
    """
    match unpack(value):
        case [str(who), int(since_us), int() | None as start_at]:
            return Pause(who, since_us, start_at)
        case _:
            raise WireError("value is not that of a pause")


def encode_problem(problem: SourceProblem) -> bytes:
    """Return the value that says why changes of the metastore do not arrive."""
    return pack([int(problem.kind), problem.text[:PROBLEM_CHARS_MAX]])


def decode_problem(value: bytes) -> SourceProblem:
    """Read what ``encode_problem`` wrote.

    Raises:
        WireError: ``value`` holds something else.
    """
    match unpack(value):
        case [int(kind), str(text)] if kind in _KINDS and len(text) <= PROBLEM_CHARS_MAX:
            return SourceProblem(ProblemKind(kind), text)
    raise WireError("value is not that of a problem")


def _unpacked(value: bytes) -> bytes:
    """Return the document in ``value`` as it was packed."""
    kind = value[:1]
    if kind not in (_PLAIN, _ZSTD):
        raise WireError(f"value begins with {kind!r}, not with a packing that is known here")
    raw = value[1:] if kind == _PLAIN else _decompress(value[1:])
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise WireError(f"value of {len(raw)} bytes, {DOCUMENT_BYTES_MAX} allowed")
    return raw


def _packed(raw: bytes) -> bytes:
    """Return ``raw`` with its packing's byte, compressed if that makes it smaller."""
    if len(raw) >= _COMPRESSED_FROM_BYTES:
        compressed = _compress(raw)
        if len(compressed) < len(raw):
            return _ZSTD + compressed  # a copy: what zstandard returns keeps excess memory
    return _PLAIN + raw


def _compress(raw: bytes) -> bytes:
    try:
        compressor = _compressors.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=_LEVEL)
    compressed = compressor.compress(raw)
    _compressors.append(compressor)
    return compressed


def _decompress(frame: bytes) -> bytes:
    try:
        if not 0 <= zstandard.frame_content_size(frame) <= DOCUMENT_BYTES_MAX:
            raise WireError("compressed value does not say its size, or is too large")
        try:
            decompressor = _decompressors.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor()
        raw = decompressor.decompress(frame)
    except zstandard.ZstdError as exc:
        raise WireError("compressed value is damaged") from exc
    _decompressors.append(decompressor)
    return raw


def column(values: Sequence[object]) -> object:
    """Return ``values`` as a column; a tuple among them is kept as a list's item."""
    if not values:
        return []
    first = values[0]
    if type(first) is not tuple and values.count(first) == len(values):
        return first
    return list(values)


def _read_column(found: object, count: int) -> Iterable[int | bytes | tuple[bytes, ...]]:
    """Return the ``count`` integers, strings and lists of strings of a column."""
    if type(found) is not list:
        return repeat(_read_item(found), count)
    if len(found) != count:
        raise WireError(f"a column has {len(found)} items for {count} records")
    if {int, bytes}.issuperset(map(type, found)):
        return found
    return [_read_item(item) for item in found]


def _column_of(found: object, count: int) -> SlotColumn:
    """Return a column of ``count`` integers, strings and lists of strings, or their one value."""
    if type(found) is not list:
        return _read_item(found)
    column: list[SlotValue] = list(_read_column(found, count))
    return column


def _read_ints(found: object, count: int, *, least: int = 0) -> tuple[int, ...]:
    """Return the ``count`` integers of a column, none below ``least``."""
    ints = tuple(found) if type(found) is list else (found,)
    if not all(type(item) is int and item >= least for item in ints):
        raise WireError(f"a column of integers holds none, or one below {least}")
    if type(found) is not list:
        return ints * count
    if len(ints) != count:
        raise WireError(f"a column has {len(ints)} items for {count} records")
    return ints


def _read_names(found: object, *, records_max: int) -> tuple[str, ...]:
    """Return the names of a block's records, sorted and distinct."""
    if type(found) is not str:
        raise WireError("a block begins with its names")
    names = tuple(found.split("\0")) if found else ()
    if len(names) > records_max:
        raise WireError(f"a block has {len(names)} records, {records_max} allowed")
    if (names and not names[0]) or sorted(set(names)) != list(names):
        raise WireError("the names of a block are not sorted")
    return names


def _read_item(item: object) -> int | bytes | tuple[bytes, ...]:
    if type(item) is int or type(item) is bytes:
        return item
    if type(item) is list and all(type(part) is bytes for part in item):
        return tuple(item)
    raise WireError(f"a column holds a {type(item).__name__}")


def encode_listing(names: Sequence[str]) -> bytes:
    """Return ``names``, sorted and distinct, as bytes; none as no bytes.

    Raises:
        UsageError: they are longer than a document may be.
    """
    return pack("\0".join(names)) if names else b""


def decode_listing(value: bytes) -> tuple[str, ...]:
    """Read names that are sorted and distinct.

    Raises:
        WireError: ``value`` holds none.
    """
    return _read_names(unpack(value), records_max=DOCUMENT_BYTES_MAX) if value else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableValue:
    """A table's entry: the struct that HMS returned, and the templates of its partitions."""

    incarnation: int
    partitions: int
    thrift: bytes
    templates: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class NameRecord:
    """That a table exists: its name, its type as HMS says it, and of which incarnation it is."""

    name: str
    type: str
    incarnation: int
    version: int


def encode_table_value(value: TableValue) -> bytes:
    """Return the bytes of a table's entry.

    Raises:
        UsageError: it is too large for a value.
    """
    assert value.partitions in (ABSENT, LOADING, COMPLETE)
    return pack([value.incarnation, value.partitions, value.thrift, value.templates])


def decode_table_value(value: bytes) -> TableValue:
    """Read a table's entry.

    Raises:
        WireError: ``value`` is not a table's.
    """
    match unpack(value):
        case [int(incarnation), int(partitions), bytes(thrift), list(templates)] if (
            incarnation >= 0
            and partitions in (ABSENT, LOADING, COMPLETE)
            and len(templates) <= TEMPLATES_MAX
            and all(type(template) is bytes for template in templates)
        ):
            return TableValue(
                incarnation=int(incarnation),
                partitions=int(partitions),
                thrift=thrift,
                templates=tuple(templates),
            )
        case _:
            raise WireError("value is not a table's")


def encode_database_value(thrift: bytes) -> bytes:
    """Return the bytes of a database's entry."""
    return pack([thrift])


def decode_database_value(value: bytes) -> bytes:
    """Return the Thrift struct in a database's entry.

    Raises:
        WireError: ``value`` is not a database's.
    """
    match unpack(value):
        case [bytes(thrift)]:
            return thrift
        case _:
            raise WireError("value is not a database's")


def encode_names(records: Sequence[NameRecord]) -> bytes:
    """Return the value of the block of names ``records``, sorted by name."""
    assert len(records) <= NAMES_MAX
    return pack(
        [
            "\0".join([record.name for record in records]),
            column([record.type for record in records]),
            column([record.incarnation for record in records]),
            column([record.version for record in records]),
        ]
    )


def decode_names(value: bytes) -> tuple[NameRecord, ...]:
    """Read a block of names.

    Raises:
        WireError: ``value`` is not a block of names.
    """
    document = unpack(value)
    if type(document) is not list or len(document) != 4:
        raise WireError("a block of names has four parts")
    names = _read_names(document[0], records_max=NAMES_MAX)
    types = document[1] if type(document[1]) is list else [document[1]] * len(names)
    if len(types) != len(names) or not all(type(item) is str for item in types):
        raise WireError("the types in a block of names are not one text for each")
    incarnations = _read_ints(document[2], len(names))
    versions = _read_ints(document[3], len(names))
    return tuple(map(NameRecord, names, types, incarnations, versions))


def edit_names(leaves: Leaves, changes: Mapping[str, NameRecord | None]) -> Edited:
    """Change table names of one database; None deletes.

    A record that differs from the last record in its version only changes nothing.

    Cost: O(touched blocks + changes). Raises WireError if a stored block is damaged.
    """
    return edit(leaves, changes, NamesKind())


class NamesKind:
    """Blocks of names, as an edit sees them."""

    records_max = NAMES_MAX

    def decode(self, value: bytes, _version: int) -> list[NameRecord]:
        """Return the records of a block, sorted by name."""
        return list(decode_names(value))

    def encode(self, records: Sequence[NameRecord]) -> bytes:
        """Return the value of a block of ``records``."""
        return encode_names(records)

    def merge(self, name: str, old: NameRecord | None, change: NameRecord) -> NameRecord:
        """Return ``change``, or ``old`` if it says the same."""
        assert name == change.name
        same = old is not None and (old.type, old.incarnation) == (change.type, change.incarnation)
        return old if old is not None and same else change


class PartitionRecord(NamedTuple):
    """One partition in a block; ``templates.join`` makes its Thrift struct of it.

    A NamedTuple, for a block's worth of them is built at each edit and each read.
    """

    name: str
    version: int
    template: int
    slots: SlotValues


@dataclass(frozen=True, slots=True)
class PartitionBlock:
    """A decoded block: the names at once, the records on request."""

    names: tuple[str, ...]
    _version: int
    _ages: tuple[int, ...]
    _numbers: tuple[int, ...]
    _groups: tuple[tuple[int, list[object]], ...]

    @property
    def templates(self) -> frozenset[int]:
        """The numbers of its records' templates, RAW among them."""
        return frozenset(self._numbers)

    def structs(self, templates: Templates, chosen: Sequence[bool] | None = None) -> bytes:
        """Return the Thrift structs of its partitions, or of those ``chosen``, sorted by name.

        Raises:
            WireError: as ``records``, or the records do not fit ``templates``.
        """
        pieces: dict[int, Iterator[Pieces]] = {}
        for number, columns in self._groups:
            mine = [at for at, one in enumerate(self._numbers) if one == number]
            names = [self.names[at] for at in mine if chosen is None or chosen[at]]
            read = [_column_of(one, len(mine)) for one in columns]
            if not names:
                continue
            if len(names) < len(mine):
                kept = [chosen is not None and chosen[at] for at in mine]
                read = [list(compress(one, kept)) if type(one) is list else one for one in read]
            pieces[number] = templates.join_all(number, names, read)
        if len(pieces) == 1:
            (rows,) = pieces.values()
        else:
            numbers = self._numbers if chosen is None else compress(self._numbers, chosen)
            rows = (next(pieces[number]) for number in numbers)
        return b"".join(chain.from_iterable(rows))

    def records(self) -> list[PartitionRecord]:
        """Return the block's records, sorted by name.

        Raises:
            WireError: a column is not as long as its group, or holds what fills no slot.
        """
        filling = {
            number: _rows(columns, self._numbers.count(number)) for number, columns in self._groups
        }
        slots = [next(filling[number]) for number in self._numbers]
        versions = [self._version - age for age in self._ages]
        rows = zip(self.names, versions, self._numbers, slots, strict=True)
        return list(map(PartitionRecord._make, rows))


@dataclass(frozen=True, slots=True)
class EditedPartitions:
    """Changed blocks by bound (None: removed), the names changed, and all templates, by number."""

    blocks: tuple[tuple[str, bytes | None], ...]
    names: tuple[str, ...]
    templates: tuple[bytes, ...]


def encode_block(records: Sequence[PartitionRecord], version: int) -> bytes:
    """Return the value of the block of ``records``, sorted by name, that gets ``version``.

    Raises:
        UsageError: it is too large for a value.
    """
    assert len(records) <= RECORDS_MAX
    groups: dict[int, list[SlotValues]] = {}
    for record in records:
        groups.setdefault(record.template, []).append(record.slots)
    return pack(
        [
            "\0".join([record.name for record in records]),
            column([version - record.version for record in records]),
            column([record.template for record in records]),
            [
                [column(filling) for filling in zip(*groups[number], strict=True)]
                for number in sorted(groups)
            ],
        ]
    )


def decode_block(value: bytes, version: int) -> PartitionBlock:
    """Read the block that has ``version``.

    Raises:
        WireError: ``value`` is not a block of partitions.
    """
    document = unpack(value)
    if type(document) is not list or len(document) != 4:
        raise WireError("a block of partitions has four parts")
    names = _read_names(document[0], records_max=RECORDS_MAX)
    ages = _read_ints(document[1], len(names))
    numbers = _read_ints(document[2], len(names), least=RAW)
    groups = document[3]
    present = sorted(set(numbers))
    if type(groups) is not list or [type(group) for group in groups] != [list] * len(present):
        raise WireError("a block of partitions has one group of columns for each template")
    return PartitionBlock(names, version, ages, numbers, tuple(zip(present, groups, strict=True)))


def names_in_block(value: bytes) -> tuple[str, ...]:
    """Return the names of a block's partitions, as ``decode_block`` does, and read no further.

    Raises:
        WireError: ``value`` does not begin as a block of partitions does.
    """
    raw = _unpacked(value)
    kind = raw[1] if len(raw) > 1 else 0
    size_bytes = _TEXT_SIZES.get(kind, 0)
    start = 2 + size_bytes
    is_short = kind & _SHORT_TEXT_MASK == _SHORT_TEXT
    if raw[:1] != _BLOCK_LEAD or not (is_short or size_bytes):
        raise WireError("a block of partitions has four parts, and begins with its names")
    length = int.from_bytes(raw[2:start], "big") if size_bytes else kind & ~_SHORT_TEXT_MASK
    found = raw[start : start + length]
    if len(found) != length:
        raise WireError("the names of a block are cut")
    try:
        return _read_names(found.decode(), records_max=RECORDS_MAX)
    except UnicodeDecodeError as exc:
        raise WireError("the names of a block are not UTF-8") from exc


def restamp_block(value: bytes, old: int, new: int) -> bytes:
    """Return the block of version ``old`` with version ``new``; its records keep their versions.

    Raises:
        WireError: ``value`` is not a block of partitions.
        UsageError: it becomes too large for a value.
    """
    assert new >= old
    names = decode_block(value, old).names
    parts = unpack(value)
    assert type(parts) is list
    parts[1] = column([age + new - old for age in _read_ints(parts[1], len(names))])
    return pack(parts)


def edit_partitions(
    leaves: Leaves,
    changes: Mapping[str, bytes | None],
    *,
    templates: Sequence[bytes],
    location: str,
    version: int,
) -> EditedPartitions:
    """Change partitions of a table that has ``templates`` and lies at ``location``.

    Args:
        leaves: The table's blocks as they are.
        changes: By partition name, its Thrift struct; None deletes.
        templates: As they stand in the table's value.
        location: The table's own; empty if it has none.
        version: Of the transaction: of every changed block and record.

    Returns:
        What is to be written with ``version``. The templates are those given, and new templates
        after them. A struct that is what it was changes nothing and keeps its version.

    Raises:
        UsageError: a name is not a partition's, or one struct is too large for a value.
        WireError: a struct cannot be read, or a stored block is damaged.

    Cost: O(touched blocks + changes + templates).
    """
    for name in changes:
        check_partition_name(name)
    kind = PartitionKind(Templates(templates, location), version)
    edited = edit(leaves, changes, kind)
    return EditedPartitions(edited.blocks, edited.names, tuple(kind.templates.skeletons))


class PartitionKind:
    """Blocks of partitions, as an edit to ``version`` sees them."""

    records_max = RECORDS_MAX

    def __init__(self, templates: Templates, version: int) -> None:
        self.templates = templates
        self._version = version
        self._likely = RAW  # the template of the last record, which a new record may have, too

    def decode(self, value: bytes, version: int) -> list[PartitionRecord]:
        """Return the records of a block, sorted by name."""
        return decode_block(value, version).records()

    def encode(self, records: Sequence[PartitionRecord]) -> bytes:
        """Return the value of a block of ``records``."""
        return encode_block(records, self._version)

    def merge(self, name: str, old: PartitionRecord | None, change: bytes) -> PartitionRecord:
        """Return the record ``name`` with the Thrift struct ``change``; ``old`` if it had that."""
        likely = self._likely if old is None else old.template
        number, slots = self.templates.split(change, name, likely=likely)
        self._likely = number
        if old is not None:
            if number == old.template and slots == old.slots:
                return old
            if self.templates.join(old.template, old.slots, name) == change:
                return old  # a template that came later says the same
        return PartitionRecord(name, self._version, number, slots)


def _rows(columns: list[object], count: int) -> Iterator[SlotValues]:
    if not columns:
        return repeat((), count)
    return zip(*[_read_column(found, count) for found in columns], strict=True)
