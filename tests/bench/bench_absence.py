"""catalogd was away for 100,000 events: how fast it is current again, and in how much memory.

backlog  events of mixed kinds on 200 tables, there when catalogd starts: seconds until all are
         published; its memory at most, beside that before; calls that read objects, of so many

1,000 events are made by clients, and copied in the metastore's database, whose ids they then have:
so each tells of an object that was changed meanwhile, and what is held never proves what it says.
EVENTS=20000 for fewer.
Run: make bench ARGS=tests/bench/bench_absence.py
"""

import os
import time
from threading import Event, Thread
from typing import Final

import psutil
from hmsclient import HMSClient

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.tests.bench.bench import TIMEOUT_S, Bench
from topicast.tests.bench.bench_events import Writer, create_tables, facts_of, is_complete
from topicast.tests.bench.report import both_at_most, say
from topicast.tests.cli.processes import Running
from topicast.tests.waiting import until

EVENTS: Final = int(os.environ.get("EVENTS", "100000"))
MADE: Final = 1_000
SECONDS_MAX: Final = 60.0
GROWTH_MB_MAX: Final = 100.0  # 100,000 events of 3 KB would be 300 MB
LOG: Final = "EVENT_TIME, EVENT_TYPE, DB_NAME, TBL_NAME, MESSAGE, MESSAGE_FORMAT"
COPY: Final = f"""INSERT INTO APP.NOTIFICATION_LOG (NL_ID, EVENT_ID, {LOG})
    SELECT NL_ID + {{by}}, EVENT_ID + {{by}}, {LOG} FROM APP.NOTIFICATION_LOG
    WHERE EVENT_ID > {{after}} AND EVENT_ID <= {{last}}"""
NEXT: Final = "UPDATE APP.NOTIFICATION_SEQUENCE SET NEXT_EVENT_ID = {id}"
NEXT_KEY: Final = """UPDATE APP.SEQUENCE_TABLE SET NEXT_VAL = NEXT_VAL + {by}
    WHERE SEQUENCE_NAME = 'org.apache.hadoop.hive.metastore.model.MNotificationLog'"""


def newest(client: HMSClient) -> int:
    return int(client.get_current_notificationEventId().eventId)


def copy_events(hive: EmbeddedMetastore, client: HMSClient, *, after: int, wanted: int) -> None:
    """Let the events above the id ``after`` be there again and again, until there are so many."""
    made = newest(client) - after
    copies = wanted // made
    for number in range(1, copies):
        hive.sql(COPY.format(by=number * made, after=after, last=after + made))
    hive.sql(NEXT.format(id=after + copies * made + 1))
    hive.sql(NEXT_KEY.format(by=copies * made))


def watched(daemon: Running, over: Event, sizes: list[float]) -> None:
    process = psutil.Process(daemon.process.pid)
    while not over.wait(0.05):
        sizes.append(process.memory_info().rss / 1e6)


def main(bench: Bench) -> None:
    hive = bench.metastore()
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
    copy_events(hive, client, after=after, wanted=EVENTS)
    began = time.perf_counter()
    daemons.start("catalogd")
    daemon, over, sizes = daemons.of("catalogd"), Event(), list[float]()
    watching = Thread(target=watched, args=(daemon, over, sizes))
    watching.start()
    until(lambda: is_complete(daemon, client), timeout_s=TIMEOUT_S, interval_s=0.2)
    took = time.perf_counter() - began
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
        rss_mb=max(sizes),
        grew_mb=growth,
        calls=facts["reads_total"] / events,
    )
