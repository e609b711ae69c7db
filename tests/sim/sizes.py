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

# A row of a table is about 180 bytes, of a block 80, of names 60, a stub 40.
SIZES = (
    (reading, "WHOLE_PARTITIONS_MAX", 2),  # larger tables are LOADING for a while
    (pieces, "PARTITIONS_PER_READ_MAX", 2),
    (bulk, "CHUNK_BYTES_MAX", 200),  # a catch-up has several chunks,
    (asking, "CREDIT_DEFAULT", 500),  # of which one or two are on their way
    (streams, "CREDIT_DEFAULT", 500),
    (catalog_pulls, "CHUNK_BYTES_MAX", 200),
    (subscriber_pulls, "CREDIT_DEFAULT", 500),
    (deltas, "DELTA_BYTES_MAX", 300),  # a larger transaction goes out as stubs,
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
