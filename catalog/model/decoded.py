"""Decoded: values of entries and Thrift structs, decoded once for all parts that read them.

bytes ──small──▶ decoded, and kept until memory is short
      ──large──▶ decoded each time
"""

from functools import lru_cache
from typing import Final

from ...topics.errors import WireError
from ...topics.objects.encoding.templates import SlotValues, Templates
from ...topics.objects.encoding.thrift import fields, read_int
from ...topics.objects.encoding.values import (
    TableValue,
    decode_database_value,
    decode_names,
    decode_table_value,
    document_bytes,
)
from ...topics.objects.tables import Table, read_data_location, read_table

CREATE_TIME: Final = 4  # its field in the Thrift struct of a table
CACHED_BYTES_MAX: Final = 64 << 10  # of what is kept decoded; what is larger is decoded each time
CACHED_MAX: Final = 1_024  # of each kind, 2 KB as a rule: those of the last 20 s of a busy hour

names_of = lru_cache(maxsize=CACHED_MAX)(decode_names)
database_of = lru_cache(maxsize=CACHED_MAX)(decode_database_value)
_cached_value = lru_cache(maxsize=CACHED_MAX)(decode_table_value)


def read_struct(thrift: bytes) -> Table:
    """Return the table in ``thrift``; a small struct is decoded once, and then remembered."""
    return _cached_table(thrift) if len(thrift) <= CACHED_BYTES_MAX else read_table(thrift, 0)


def data_location(thrift: bytes) -> str:
    """Return where the data of the table in ``thrift`` lies."""
    small = len(thrift) <= CACHED_BYTES_MAX
    return _cached_table(thrift).data_location if small else read_data_location(thrift)


def location(templates: Templates, number: int, slots: SlotValues, *, name: str) -> str:
    """Return where the partition ``name`` lies; empty: nowhere, or where no file can be named."""
    try:
        return templates.location(number, slots, name)
    except WireError:
        return ""  # it is not UTF-8


@lru_cache(maxsize=CACHED_MAX)
def _cached_table(thrift: bytes) -> Table:
    return read_table(thrift, 0)


def read_value(value: bytes) -> TableValue:
    """Return what is in a table's entry, decoded once unless it is large."""
    small = document_bytes(value) <= CACHED_BYTES_MAX
    return _cached_value(value) if small else decode_table_value(value)


def forget_decoded() -> None:
    """Forget all decoded values, because memory is short; a later read decodes its value again."""
    for cache in (names_of, database_of, _cached_value, _cached_table):
        cache.cache_clear()


def created_at(thrift: bytes) -> int | None:
    """Return when the table in ``thrift`` was created, s since 1970; None if it does not say."""
    found = (read_int(thrift, one) for one in fields(thrift) if one.id == CREATE_TIME)
    return next(found, None)
