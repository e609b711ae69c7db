"""What readers with a policy cost a hub, beside as many that see everything.

CPU time of the hub's core and of its data socket, for each delta of 1 KB that all READERS follow: a
real core and real sockets with keys, the readers in another process.
"""

import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Final

from topicast.statestore.effects import Subscription
from topicast.tests.bench.processes import Process
from topicast.tests.bench.report import beside, reference, say
from topicast.tests.keys import PAIR, client
from topicast.tests.statestore.hub_driver import BULK, seeded
from topicast.tests.waiting import until
from topicast.topics.keys.clients import Client, Clients
from topicast.topics.keys.credential import KeyPair
from topicast.topics.link import Link, new_pair
from topicast.topics.objects.names import table_key
from topicast.topics.policy import Policy
from topicast.topics.topic import FULL
from topicast.topics.wire import encode
from topicast.topics.wire.header import prefix

READERS: Final = 100
DELTAS: Final = 2_000
VALUE: Final = b"x" * 1024
PAUSE_S: Final = 0.002  # between two deltas: below what 2 cores deliver, so that nothing is lost
RATIO_MAX: Final = 2.0
MANY_RATIO_MAX: Final = 4.0  # of 50: each takes a delta of its own


def read(hub: tuple[str, str], pairs: list[KeyPair], pipe: Connection) -> None:
    """Follow topic 1 by READERS connections with these keys; discard what comes.

    ``hub``: its address and public key.
    """
    links = [Link(pair) for pair in pairs]
    for number in range(READERS):
        link = links[number % len(links)]
        link.connect_xsub(str(number), *hub)
        link.subscribe(str(number), prefix(1, FULL))
    frames = 0
    while not pipe.poll():
        frames += sum(len(link.poll(0.001)) for link in links)
    pipe.send(frames)
    for link in links:
        link.close()


def delta_cpu_us(policies: int) -> tuple[float, float]:
    """Return the CPU time of a delta, and the part of all frames that arrived."""
    driver, publisher = seeded()
    link = Link(PAIR)
    pairs = [new_pair() for _ in range(max(policies, 1))]
    clients = [_client(n, pair, policies) for n, pair in enumerate(pairs)]
    known = {one.public: one for one in (*driver.clients.values(), *clients)}
    driver.hub.admit(Clients(known.values()))
    link.admit("data", {pair.public for pair in pairs})
    address = link.bind_xpub("data", "tcp://127.0.0.1:0")
    link.limit("data", driver.hub.prefixes_for)
    readers = Process(read, (address, PAIR.public), pairs)
    by_key = {one.public: one.policy for one in clients}
    subscribed = 0

    def all_are_here() -> bool:
        nonlocal subscribed
        for one in link.poll(0.01):
            driver.hub.handle(Subscription(one.frame, by_key[one.public]), now=driver.now)
            subscribed += 1
        return subscribed == READERS

    until(all_are_here, timeout_s=60, what="the readers")
    entry = table_key("sales", "orders")
    frames = [encode(publisher.change(1, entry, VALUE)) for _ in range(DELTAS)]
    begin = time.process_time()
    for frame in frames:
        link.send_all("data", driver.hub.take_delta(BULK, frame, now=driver.now))
        link.poll(PAUSE_S)  # nothing arrives
    took_s = time.process_time() - begin
    link.poll(1.0)  # until the last has arrived
    readers.order("stop")
    arrived = readers.answer()
    readers.end()
    link.close()
    return took_s / DELTAS * 1e6, arrived / (DELTAS * READERS)


def _client(number: int, pair: KeyPair, policies: int) -> Client:
    policy = Policy(tuple(sorted(("sales", f"p{number}")))) if policies else None
    return replace(client(), name=f"reader-{number}", public=pair.public, policy=policy)


def main() -> None:
    """Print a line for everybody, for one policy, and for 50."""
    whole_us, arrived = delta_cpu_us(0)
    why = reference("what policies cost beyond it")
    say("100 readers that see everything", why, us=whole_us, arrived=arrived)
    for policies, name, most in ((1, "one policy", RATIO_MAX), (50, "50 policies", MANY_RATIO_MAX)):
        us, arrived = delta_cpu_us(policies)
        against = beside("as many that see everything", us, whole_us, most=most)
        say(f"100 readers of {name}", against, us=us, arrived=arrived)
