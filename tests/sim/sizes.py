"""Sizes: limits and times of the cores, so small that what is rare becomes an everyday thing."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from math import log
from types import SimpleNamespace
from unittest.mock import patch

from topicast.catalog.ingest.loads import chunked_comparison, chunked_load, read_threads
from topicast.catalog.ingest.writes import reports
from topicast.catalog.model import decoded
from topicast.catalog.publish import publisher
from topicast.catalog.serve import pull_server
from topicast.statestore.content import stub_deltas
from topicast.subscriber.client import read_view, subscriber
from topicast.subscriber.engine import write_outbox
from topicast.subscriber.fetch import fetcher
from topicast.subscriber.placement import controller, planner, prefetch, usage
from topicast.subscriber.replication import replicas
from topicast.tests.sim import checkers
from topicast.topics.objects.encoding.values import PartitionKind
from topicast.topics.objects.tables import read_table
from topicast.topics.streams import followers, sender
from topicast.topics.wire import codec, shapes

LARGE_FROM_BYTES = 110

# A row of a table is about 180 bytes, of a block 80, of names 60, a stub 40.
SIZES = (
    (read_threads, "WHOLE_PARTITIONS_MAX", 2),  # larger tables are LOADING for a while
    (chunked_load, "PARTITIONS_PER_READ_MAX", 2),
    (chunked_load, "SLICE_MAX", 1),
    (chunked_comparison, "PARTITIONS_PER_CALL_MAX", 2),  # after lost events they are compared so
    (chunked_comparison, "SLICE_MAX", 1),
    (chunked_comparison, "DIFFERING_MAX", 2),
    (sender, "CHUNK_BYTES_MAX", 200),  # a catch-up has several chunks,
    (followers, "CREDIT_DEFAULT", 500),  # of which one or two are on their way
    (replicas, "CREDIT_DEFAULT", 500),
    (replicas, "CREDIT_STEP", 60),
    (PartitionKind, "records_max", 3),  # a table has some blocks, which split
    (pull_server, "CHUNK_BYTES_MAX", 200),
    (pull_server, "ANSWER_BYTES_MAX", 300),  # a large table comes in pages
    (pull_server, "LOOKED_MAX", 1),
    (fetcher, "CREDIT_DEFAULT", 500),
    (publisher, "DELTA_BYTES_MAX", 300),  # a larger transaction goes out as stubs,
    (publisher, "STUBS_BYTES_MAX", 200),  # or as an invalidate-all marker
    (sender, "STUBS_BYTES_MAX", 400),
    (stub_deltas, "STUBS_BYTES_MAX", 400),
    (replicas, "STUBS_BYTES_MAX", 400),
)
# In some runs half of the tables and some blocks have values that are large, in pieces of 40 bytes.
LARGE = (
    (codec, "VALUE_BYTES_MAX", LARGE_FROM_BYTES),
    (shapes, "VALUE_BYTES_MAX", LARGE_FROM_BYTES),
    (shapes, "PIECE_BYTES_MAX", 40),
    (pull_server, "PIECE_BYTES_MAX", 40),
)
# A run takes some seconds: an hour of a driver, and its planner, pass in one of them.
TIMES = (
    (publisher, "CLIENTS_AGAIN_S", 0.5),
    (prefetch, "INTERVAL_S", 0.05),
    (prefetch, "RETRY_S", 0.2),
    (prefetch, "TIMEOUT_S", 1.0),
    (prefetch, "SWEEP_S", 0.05),
    (controller, "PLAN_S", 0.15),
    (controller, "DRAIN_S", 0.1),
    (planner, "IDLE_S", 0.8),
    (planner, "DWELL_S", 0.2),
    (planner, "PACE_S", 0.1),
    (planner, "PAUSE_S", 0.15),
    (planner, "PAUSE_S_MAX", 0.5),
    (usage, "HALF_LIFE_S", 0.5),
    (usage, "_PER_S", log(2) / 0.5),
    (usage, "WINDOW_S", 0.8),
    (write_outbox, "RENEW_S", 0.15),
    (reports, "INTENT_LAPSES_S", 0.5),
)

# One table is read from the same bytes by many, again and again: a tenth of a run.
READERS = (checkers, decoded)


@contextmanager
def small(clock: Callable[[], float], *, large_values: bool = False) -> Iterator[None]:
    """Run with SIZES and TIMES, and let those who wait look at ``clock``.

    ``large_values``: with LARGE, too, so that no hub gets the values of many entries.
    """
    with ExitStack() as stack:
        for waiting in (subscriber, read_view):
            stack.enter_context(patch.object(waiting, "time", SimpleNamespace(monotonic=clock)))
        for module, name, size in (*SIZES, *TIMES, *(LARGE if large_values else ())):
            stack.enter_context(patch.object(module, name, size))
        read_once = lru_cache(1000)(read_table)
        for module in READERS:
            stack.enter_context(patch.object(module, "read_table", read_once))
        yield
