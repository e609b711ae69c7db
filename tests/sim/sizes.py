"""Sizes: limits of the cores, so small that what is rare becomes an everyday thing."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from topicast.catalog import deltas
from topicast.catalog.service import pulls as catalog_pulls
from topicast.catalog.sources import pieces, reading
from topicast.statestore import asking, derived
from topicast.subscriber import pulls as subscriber_pulls
from topicast.subscriber import streams
from topicast.topics import bulk

# A table's own entry is about 300 bytes, a block of six partitions as much, a stub 60.
SIZES = (
    (reading, "WHOLE_PARTITIONS_MAX", 2),  # larger tables are LOADING for a while
    (pieces, "PARTITIONS_PER_READ_MAX", 2),
    (bulk, "CHUNK_BYTES_MAX", 500),  # a catch-up has several chunks,
    (asking, "CREDIT_DEFAULT", 700),  # of which one or two are on their way
    (streams, "CREDIT_DEFAULT", 700),
    (catalog_pulls, "CHUNK_BYTES_MAX", 500),
    (subscriber_pulls, "CREDIT_DEFAULT", 700),
    (deltas, "DELTA_BYTES_MAX", 900),  # a larger transaction goes out as stubs,
    (deltas, "STUBS_BYTES_MAX", 200),  # or as a horizon
    (bulk, "STUBS_BYTES_MAX", 400),
    (derived, "STUBS_BYTES_MAX", 400),
)


@contextmanager
def small() -> Iterator[None]:
    """Run with SIZES."""
    with ExitStack() as stack:
        for module, name, size in SIZES:
            stack.enter_context(patch.object(module, name, size))
        yield
