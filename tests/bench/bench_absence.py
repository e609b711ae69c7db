"""catalogd was away for 100,000 events: how fast it is current again, and in how much memory.

backlog  events of mixed kinds on 200 tables, there when catalogd starts: seconds until all are
         published; its memory at most, beside that before; calls that read objects, of so many;
         the processor's seconds of the metastore and of catalogd meanwhile

1,000 events are made by clients, and copied in the metastore's database, whose ids they then have:
so each tells of an object that was changed meanwhile, and what is held never proves what it says.
EVENTS=20000 for fewer. TOPICAST_TEST_HIVE=.venv/hive-3.1.3 on another release than 2.3, which
``make .venv/hive-3.1.3/installed`` installs; then DATABASE=postgres with PostgreSQL below it, for
which Debian's package is needed.
Run: make bench ARGS=tests/bench/bench_absence.py
"""

import os
import time
from threading import Event, Thread
from typing import Final

import psutil
from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.bench.bench import TIMEOUT_S, Bench
from topicast.tests.bench.bench_events import Writer, create_tables, facts_of, is_complete
from topicast.tests.bench.processes import used_s
from topicast.tests.bench.report import both_at_most, say
from topicast.tests.cli.processes import Running
from topicast.tests.hive.releases import RealMetastore
from topicast.tests.waiting import until

EVENTS: Final = int(os.environ.get("EVENTS", "100000"))
MADE: Final = 1_000
SECONDS_MAX: Final = 60.0
GROWTH_MB_MAX: Final = 100.0  # 100,000 events of 3 KB would be 300 MB
LOG: Final = ("EVENT_TIME", "EVENT_TYPE", "DB_NAME", "TBL_NAME", "MESSAGE", "MESSAGE_FORMAT")
COPY: Final = """INSERT INTO "NOTIFICATION_LOG" ("NL_ID", "EVENT_ID", {log})
    SELECT "NL_ID" + {by}, "EVENT_ID" + {by}, {log} FROM "NOTIFICATION_LOG"
    WHERE "EVENT_ID" > {after} AND "EVENT_ID" <= {last}"""
NEXT: Final = 'UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = {id}'
NEXT_KEY: Final = """UPDATE "SEQUENCE_TABLE" SET "NEXT_VAL" = "NEXT_VAL" + {by}
    WHERE "SEQUENCE_NAME" = 'org.apache.hadoop.hive.metastore.model.MNotificationLog'"""


def newest(client: HMSClient) -> int:
    return int(client.get_current_notificationEventId().eventId)


def copy_events(hive: RealMetastore, *, after: int, last: int, wanted: int) -> None:
    """Let the events above ``after``, up to ``last``, be there again until they are so many."""
    made = last - after
    copies = wanted // made
    columns = LOG if isinstance(hive, EmbeddedMetastore) else (*LOG, "CAT_NAME")
    log = ", ".join(f'"{one}"' for one in columns)
    hive.sql(
        *(
            COPY.format(log=log, by=number * made, after=after, last=last)
            for number in range(1, copies)
        ),
        NEXT.format(id=after + copies * made + 1),
        NEXT_KEY.format(by=copies * made),
    )


def watched(daemon: Running, over: Event, sizes: list[float]) -> None:
    process = psutil.Process(daemon.process.pid)
    while not over.wait(0.05):
        sizes.append(process.memory_info().rss / 1e6)


def main(bench: Bench) -> None:
    hive = bench.released()
    client = bench.client(hive)
    create_tables(client, bench.folder)
    daemons = bench.daemons(hive)
    daemon = daemons.of("catalogd")
    until(lambda: is_complete(daemon, client), timeout_s=TIMEOUT_S)
    writer = Writer(client)
    writer.change(MADE // 10)
    until(lambda: is_complete(daemon, client), timeout_s=TIMEOUT_S)
    before_mb = psutil.Process(daemon.process.pid).memory_info().rss / 1e6
    daemons.kill("catalogd")
    after = newest(client)
    writer.change(MADE)
    copy_events(hive, after=after, last=newest(client), wanted=EVENTS)
    client.close()
    client.open()  # on Derby the metastore was restarted
    assert hive.pid is not None
    server_s = used_s(hive.pid)
    began = time.perf_counter()
    daemons.start("catalogd")
    daemon, over, sizes = daemons.of("catalogd"), Event(), list[float]()
    watching = Thread(target=watched, args=(daemon, over, sizes))
    watching.start()
    until(lambda: is_complete(daemon, client), timeout_s=TIMEOUT_S, interval_s=0.2)
    took = time.perf_counter() - began
    server_s, catalogd_s = used_s(hive.pid) - server_s, used_s(daemon.process.pid)
    over.set()
    watching.join()
    events, facts = newest(client) - after, facts_of(daemon)
    growth = max(sizes) - before_mb
    say(
        "backlog",
        both_at_most((took, SECONDS_MAX), (growth, GROWTH_MB_MAX)),
        events=events,
        seconds=took,
        per_s=events / took,
        metastore_s=server_s,
        catalogd_s=catalogd_s,
        rss_mb=max(sizes),
        grew_mb=growth,
        calls=facts["reads_total"] / events,
    )
