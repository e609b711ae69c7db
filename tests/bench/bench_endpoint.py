"""What an endpoint takes to answer a driver's reads, beside the metastore that it saves.

table         get_table
one           a partition of 10,000, by a filter
ten_thousand  all of them: until the last byte has come
half          5,000 of them, by a filter

Both are asked over a socket on loopback by the same bytes, and nobody reads what comes; the
metastore is a real one (Derby).
"""

import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlsplit

from topicast.tests.bench.bench import Bench
from topicast.tests.bench.bench_latency import stack
from topicast.tests.bench.report import at_most, beside, percentiles, quantile, reference, say
from topicast.tests.integration import endpoint_process
from topicast.tests.subscriber.endpoint.messages import call
from topicast.tests.subscriber.endpoint.test_server import Client

SEED = 6
TOKEN = "b" * 24
PARTITIONS, HALF = 10_000, 5_000
BUDGET_BYTES = 64 << 20
TABLE_MS_MAX, ALL_MS_MAX = 0.1, 15.0
WARM_S = 5


class Socket:
    """A connection that asks, and counts what comes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def reply_bytes(self, request: bytes) -> int:
        """Return how long the reply is: what comes until nothing comes for a second."""
        self._client.send(request)
        total = self._receive()
        self._client.sock.settimeout(1.0)
        try:
            while True:
                total += self._receive()
        except TimeoutError:
            return total
        finally:
            self._client.sock.settimeout(60.0)

    def ask_ms(self, request: bytes, reply_bytes: int) -> float:
        """Return how long it takes until so many bytes have come."""
        begun = perf_counter()
        self._client.send(request)
        left = reply_bytes
        while left > 0:
            left -= self._receive()
        return (perf_counter() - begun) * 1000

    def _receive(self) -> int:
        size = len(self._client.sock.recv(1 << 20))
        if not size:
            raise ConnectionError("whoever was asked has closed the connection")
        return size


class Both(NamedTuple):
    """Connections to an endpoint of ours, and to the metastore."""

    ours: Socket
    its: Socket


def answer(
    name: str,
    ask: Callable[[], bytes],
    both: Both,
    *,
    calls: tuple[int, int],
    ms_max: float | None = None,
) -> None:
    """Say how long both take to answer the requests of ``ask``, whose replies have one length."""
    request = ask()
    sizes = [one.reply_bytes(request) for one in both]
    warm_until = perf_counter() + WARM_S
    while perf_counter() < warm_until:  # the first reads are pulls; what is read is followed then
        both.ours.ask_ms(request, sizes[0])
    ours, its = (
        [one.ask_ms(ask(), size) for _ in range(number)]
        for one, size, number in zip(both, sizes, calls, strict=True)
    )
    p50 = quantile(ours, 0.5)
    against = beside("the metastore p50_ms", p50, quantile(its, 0.5))
    reached = reference("by a filter") if ms_max is None else at_most(p50, ms_max)
    say(name, percentiles(ours), against, reached, bytes=sizes[0])


def main(bench: Bench) -> None:
    rng = random.Random(SEED)
    table = call("get_table", "bench", "t")
    everything = call("get_partitions", "bench", "p", -1)

    def by_filter(count: int) -> bytes:
        first = rng.randrange(PARTITIONS - count)
        text = f"ds >= '{first:08d}' and ds < '{first + count:08d}'"
        return call("get_partitions_by_filter", "bench", "p", text, -1)

    hive, _, hub = stack(bench, partitions=PARTITIONS)
    words = [sys.executable, endpoint_process.__file__, hub, str(BUDGET_BYTES), TOKEN]
    pipe = subprocess.PIPE
    process = bench.enter_context(subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True))
    assert process.stdin is not None
    assert process.stdout is not None
    bench.callback(process.stdin.close)
    port = int(process.stdout.readline())
    ours = Socket(bench.enter_context(closing(Client(port, token=TOKEN))))
    at = urlsplit(hive.uri).port
    assert at is not None
    both = Both(ours, Socket(bench.enter_context(closing(Client(at, admitted=False)))))
    answer("table", lambda: table, both, calls=(2000, 200), ms_max=TABLE_MS_MAX)
    answer("one", lambda: by_filter(1), both, calls=(1000, 100))
    answer("ten_thousand", lambda: everything, both, calls=(50, 5), ms_max=ALL_MS_MAX)
    answer("half", lambda: by_filter(HALF), both, calls=(50, 5))
