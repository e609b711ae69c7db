"""An endpoint in a process of its own, so that a test can measure what it takes: run by its path.

It prints its port, and at each line that it reads its resident bytes and its connections.
"""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

from topicast.subscriber import Subscriber
from topicast.subscriber.endpoint.server import Server
from topicast.subscriber.endpoint.service import Service


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(statestores: str, budget: str, token: str) -> None:
    with Subscriber(statestores, budget=int(budget), timeout_s=60) as subscriber:
        service = Service(subscriber.contents(may_wait=False), subscriber.contents(), token=token)
        with closing(Server(service)) as server:
            server.start()
            print(server.port, flush=True)
            for _ in sys.stdin:
                print(json.dumps([rss_bytes(), server.connections]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
