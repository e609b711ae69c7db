"""What 500 clients that connect at once wait for, and what a reader notices meanwhile.

handshakes  from the word, which all get at once, until the last key is admitted
change      a change every EVERY_S beside them: committed -> notified to a reader's watch

A real statestored and catalogd's cores; the clients are sockets of one process, each with a
handshake of its own, which costs both sides alike. Targets are for two cores, which both share.
"""

import os
import time
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Final

from topicast.tests.bench.bench import DB, Bench
from topicast.tests.bench.catalogd import Reader, leading
from topicast.tests.bench.crowds import Crowd
from topicast.tests.bench.report import at_most, percentiles, say
from topicast.tests.bench.source import Catalog
from topicast.tests.keys import user_keys
from topicast.topics.keys.folder import DRIVER
from topicast.topics.link import Handshake, Link
from topicast.topics.topic import NUM_TOPICS_DEFAULT

CLIENTS: Final = 500
TABLE: Final = "near"  # a table that readers watch
EVERY_S: Final = 0.05
CHANGES_MIN: Final = 20  # beside handshakes that are done sooner, too few to say anything
TIMEOUT_S: Final = 120.0
ALL_S_MAX: Final = 10.0
CHANGE_MS_MAX: Final = 1000.0


def connect(hub: str, clients: int, pipe: Connection) -> None:
    """Connect all ``clients`` when the pipe says so; answer when the last handshake was done."""
    own = user_keys(DRIVER).credential
    with closing(Link(own.pair)) as link:
        pipe.send("made")
        pipe.recv()
        waiting = {str(number) for number in range(clients)}
        for name in waiting:
            link.connect_dealer(name, hub, own.hub_key(hub))
        while waiting:
            link.poll(0.01)
            waiting = {name for name in waiting if link.handshake(name) is not Handshake.DONE}
        pipe.send(time.monotonic())
        pipe.recv()  # they stay connected until the process is ended


def main(bench: Bench) -> None:
    """Print a line for the clients, and a line for the reader."""
    catalog = Catalog(NUM_TOPICS_DEFAULT)
    catalog.create_database(DB)
    catalog.create_table(DB, TABLE)
    topic = catalog.topic(DB, TABLE)
    hub, catalogd = leading(bench, catalog)
    reader = bench.enter_context(Reader(hub.address, [topic]))
    crowd = bench.enter_context(Crowd(connect, hub.address, CLIENTS))
    catalogd.wait_for(reader)
    crowd.answer()
    began = time.monotonic()
    crowd.order("connect")
    versions: list[int] = []
    while not crowd.answered or len(versions) < CHANGES_MIN:
        assert time.monotonic() < began + TIMEOUT_S, "the handshakes do not end"
        delta = catalog.put_table(DB, TABLE, columns=(f"c{len(versions)}",))
        versions.append(delta.to_version)
        catalogd.commit(delta)
        catalogd.turn(EVERY_S)
    took_s = crowd.answer() - began
    while not reader.seen or reader.seen[-1].version < versions[-1]:
        assert time.monotonic() < began + TIMEOUT_S, "the reader has missed a change"
        catalogd.turn(EVERY_S)
        reader.collect()
    facts = {"clients": CLIENTS, "cores": os.cpu_count()}
    say("all", facts, at_most(took_s, ALL_S_MAX), took_s=took_s)
    changes = percentiles(
        (min(one.at for one in reader.seen if one.version >= version) - catalogd.at[topic, version])
        * 1000  # of several changes that a busy reader is notified of at once, to the last
        for version in versions
    )
    reached = at_most(changes["p99_ms"], CHANGE_MS_MAX)
    say("a reader's changes meanwhile", facts, changes, reached)
