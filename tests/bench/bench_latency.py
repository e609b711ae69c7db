"""From a commit in a real metastore to the eyes of ten subscribers, beside a client that polls.

visible            hmsclient's call returned -> the change is read in a subscriber's process
visible_partition  the same for one partition of a large table
poller             the same for a client that asks get_table every 0.2 s
table_again        table() the second time, beside get_table

Prints one JSON line a result; times are ms, on one clock.
Run: PYTHONPATH=.venv/tree .venv/bin/python tests/bench/bench_latency.py [PARTITIONS]
"""

import json
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.embedded import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.catalog.fake_metastore import make_partition, make_table
from topicast.tests.cli.processes import running
from topicast.tests.waiting import until

SEED = 3
SUBSCRIBERS = 10
CHANGES = 100
POLL_S = 0.2
PARTITIONS = 5_000  # of the large table; Derby takes 2 to 5 ms each
SPAWN = multiprocessing.get_context("spawn")


def say(name: str, **facts: object) -> None:
    print(json.dumps({"bench": "latency", "name": name, **facts}), flush=True)


def connect(uri: str) -> HMSClient:
    host, _, port = uri.removeprefix("thrift://").partition(":")
    return HMSClient(host=host, port=int(port))


def subscribe(hub: str, out: Connection) -> None:
    """Report when each revision of ``bench.t`` and each new partition of ``bench.p`` is read."""
    with Subscriber(hub, budget="64MB", timeout_s=60) as catalog:
        changes = catalog.watch("bench.*")
        known = len(catalog.partitions("bench.p"))
        out.send(("ready", known))
        for change in changes:
            if change.object == "bench.t":
                found = catalog.table("bench.t").parameters.get("rev")
            elif change.object == "bench.p":
                new = catalog.partitions("bench.p", 'ds >= "9"')
                found = f"p{len(new):03d}"
            else:
                return
            out.send((found, time.time_ns()))


def poll(uri: str, out: Connection) -> None:
    """Report when each revision is read by asking again and again."""
    last = None
    with connect(uri) as client:
        out.send(("ready", 0))
        while last != "end":
            asked = time.monotonic()
            found = client.get_table("bench", "t").parameters.get("rev")
            if found != last:
                last = found
                out.send((found, time.time_ns()))
            threading.Event().wait(max(0.0, asked + POLL_S - time.monotonic()))


def percentiles(values: list[float]) -> dict[str, float]:
    values.sort()
    return {
        "n": len(values),
        "p50_ms": round(values[len(values) // 2], 1),
        "p99_ms": round(values[min(len(values) - 1, len(values) * 99 // 100)], 1),
    }


class Watchers:
    """Processes that report; what they said is gathered by ``collect``."""

    def __init__(self, target: Any, argument: str, count: int) -> None:
        pipes = [SPAWN.Pipe(duplex=False) for _ in range(count)]
        self._ends = [receiver for receiver, _ in pipes]
        self._processes = [
            SPAWN.Process(target=target, args=(argument, sender), daemon=True)
            for _, sender in pipes
        ]
        self.seen: list[dict[str, int]] = [{} for _ in pipes]
        for process in self._processes:
            process.start()
        for end in self._ends:
            assert end.recv()[0] == "ready"

    def end(self) -> None:
        """Let the processes go."""
        for process in self._processes:
            process.terminate()
            process.join()

    def collect(self) -> None:
        """Take in everything that was reported by now."""
        for end, seen in zip(self._ends, self.seen, strict=True):
            while end.poll():
                name, at_ns = end.recv()
                seen.setdefault(name, at_ns)

    def delays_ms(self, committed: dict[str, int]) -> list[float]:
        """Return the time from each commit to each process that saw it."""
        return [
            (seen[name] - at_ns) / 1e6
            for seen in self.seen
            for name, at_ns in committed.items()
            if name in seen
        ]


@contextmanager
def stack(folder: Path) -> Iterator[tuple[EmbeddedMetastore, str]]:
    with (
        EmbeddedMetastore(folder / "hive", durable=False) as hive,
        running(folder / "s.log", "daemons", "statestored", *ANY) as hub,
        running(
            folder / "c.log",
            "daemons",
            "catalogd",
            *ANY[1:],
            "--catalog_service_port=0",
            f"--hive_metastore_uris={hive.uri}",
            f"--statestores={hub.ready['address']}",
            f"--state_dir={folder / 'state'}",
        ),
    ):
        yield hive, hub.ready["address"]


ANY = ["--state_store_port=0", "--webserver_port=0"]


def main() -> None:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    rng = random.Random(SEED)
    with (
        tempfile.TemporaryDirectory() as temporary,
        stack(Path(temporary)) as (hive, hub),
        connect(hive.uri) as client,
    ):
        location = f"file:{temporary}"
        client.create_database(Database("bench", "", location, {}))
        table = make_table("bench", "t", location=location)
        client.create_table(table)
        large = make_table("bench", "p", location=location, keys=["ds"])
        client.create_table(large)
        for start in range(0, partitions, 500):
            batch = [make_partition(large, [f"{n:08d}"]) for n in range(start, start + 500)]
            client.add_partitions(batch)
        readers = Watchers(subscribe, hub, SUBSCRIBERS)
        poller = Watchers(poll, hive.uri, 1)
        committed: dict[str, int] = {}
        for number in range(CHANGES):
            table.parameters = {"rev": f"r{number:03d}"}
            client.alter_table("bench", "t", table)
            committed[f"r{number:03d}"] = time.time_ns()
            threading.Event().wait(rng.uniform(0.3, 0.5))
            readers.collect()
            poller.collect()
        say(
            "visible",
            subscribers=SUBSCRIBERS,
            sent=len(committed),
            **percentiles(readers.delays_ms(committed)),
        )
        say("poller", every_s=POLL_S, **percentiles(poller.delays_ms(committed)))
        added: dict[str, int] = {}
        for number in range(CHANGES // 2):
            client.add_partitions([make_partition(large, [f"9{number:07d}"])])
            added[f"p{number + 1:03d}"] = time.time_ns()
            threading.Event().wait(rng.uniform(0.3, 0.5))
            readers.collect()
        say(
            "visible_partition",
            partitions=partitions,
            **percentiles(readers.delays_ms(added)),
        )
        readers.end()
        poller.end()
        _compare_reads(hub, client)


def _compare_reads(hub: str, client: HMSClient) -> None:
    with Subscriber(hub, budget="64MB", timeout_s=60) as catalog:
        until(lambda: catalog.table("bench.t").parameters.get("rev"), what="the table")
        begin = time.perf_counter()
        for _ in range(10_000):
            catalog.table("bench.t")
        ours = (time.perf_counter() - begin) / 10_000
        begin = time.perf_counter()
        for _ in range(200):
            client.get_table("bench", "t")
        theirs = (time.perf_counter() - begin) / 200
    say("table_again", us=round(ours * 1e6, 1), get_table_us=round(theirs * 1e6, 1))


if __name__ == "__main__":
    main()
