"""Forwarder: a NAT in user space: what comes to a port goes on to a server; slow if it is ordered.

Arguments: PORT=HOST:PORT …      Standard input: ``delay SECONDS``, ``close PORT``, ``open PORT``

A name is resolved for each connection, so a server may move. The delay is of each way.
"""

import asyncio
import sys
from contextlib import suppress

CHUNK_BYTES = 1 << 16
HELD_MAX = 1000  # chunks under way in one direction


class Forwarder:
    """The ports of one gate."""

    def __init__(self, servers: dict[int, tuple[str, int]]) -> None:
        self._servers = servers
        self._delay_s = 0.0
        self._listening: dict[int, asyncio.Server] = {}
        self._connections: dict[int, set[asyncio.StreamWriter]] = {port: set() for port in servers}

    async def open(self, port: int) -> None:
        async def pass_on(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            await self._pass_on(port, near, back)

        self._listening[port] = await asyncio.start_server(pass_on, "0.0.0.0", port)

    def close(self, port: int) -> None:
        self._listening.pop(port).close()
        for one in self._connections[port]:
            one.transport.abort()

    async def obey(self, line: str) -> None:
        word, _, value = line.strip().partition(" ")
        if word == "delay":
            self._delay_s = float(value)
        elif word == "open":
            await self.open(int(value))
        else:
            self.close(int(value))

    async def _pass_on(
        self, port: int, near: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        both = {back}
        try:
            far, on = await asyncio.open_connection(*self._servers[port])
            both.add(on)
            self._connections[port] |= both
            await asyncio.gather(self._one_way(near, on), self._one_way(far, back))
        except OSError:
            pass
        finally:
            self._connections[port] -= both
            for one in both:
                one.transport.abort()

    async def _one_way(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(HELD_MAX)

        async def deliver() -> None:
            while True:
                at, chunk = await under_way.get()
                due = asyncio.Event()
                loop.call_at(at, due.set)
                await due.wait()
                sink.write(chunk)
                await sink.drain()
                if not chunk:
                    raise ConnectionResetError

        async def take() -> None:
            while chunk := await source.read(CHUNK_BYTES):
                await under_way.put((loop.time() + self._delay_s, chunk))
            await under_way.put((loop.time() + self._delay_s, b""))

        await asyncio.gather(take(), deliver())


async def main() -> None:
    words = (word.partition("=") for word in sys.argv[1:])
    to = {int(port): server.rpartition(":") for port, _, server in words}
    forwarder = Forwarder({port: (host, int(there)) for port, (host, _, there) in to.items()})
    for port in to:
        await forwarder.open(port)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        await forwarder.obey(line)
        print("done", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
