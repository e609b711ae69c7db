"""Counting: a port that leads to a metastore, counts the calls, and may delay each of them.

A client of the metastore has one call on a connection at a time, so the first bytes after an answer
begin the next call. The name of its method is in them.
"""

import asyncio
import threading
from collections import Counter
from typing import Final

from ....topics.backports import Self
from ....topics.settings import Address

CHUNK_BYTES: Final = 1 << 16
NAME_AT: Final = 8  # bytes of a strict binary message before the name of its method
NAME_MAX: Final = 100
END_S: Final = 20.0


class Counting:
    """Stands before the metastore at ``uri`` from ``with`` to its end; clients use its own ``uri``.

    ``delay_s``: how much later each call arrives; it may be set at any time.
    """

    def __init__(self, uri: str, *, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.is_open = True  # False: connections end at once
        self._calls: Counter[str] = Counter()
        self._to = uri.removeprefix("thrift://").rsplit(":", 1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.uri = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._on_client, "127.0.0.1", 0), self._loop
        ).result(END_S)
        self.uri = str(Address("thrift", "127.0.0.1", self._server.sockets[0].getsockname()[1]))
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S)
        self._loop.close()

    def take(self) -> "Counter[str]":
        """Return the calls since the last time, by the name of the method."""
        calls, self._calls = self._calls, Counter()
        return calls

    def close(self) -> None:
        """End all connections, and new connections until ``is_open`` is set again."""
        self.is_open = False
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(END_S)

    async def _cut(self) -> None:
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut()

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.is_open:
                await self._pass_on(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._to[0], int(self._to[1]))
        answered = asyncio.Event()
        answered.set()

        async def answers() -> None:
            while chunk := await far_reader.read(CHUNK_BYTES):
                answered.set()
                writer.write(chunk)
                await writer.drain()
            writer.close()

        back = asyncio.ensure_future(answers())
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                if answered.is_set():
                    answered.clear()
                    await self._count(chunk)
                far_writer.write(chunk)
                await far_writer.drain()
        finally:
            back.cancel()
            far_writer.close()

    async def _count(self, begin: bytes) -> None:
        self._calls[_name_in(begin)] += 1
        if self.delay_s:
            late = self._loop.create_future()
            self._loop.call_later(self.delay_s, late.set_result, None)
            await late


def _name_in(message: bytes) -> str:
    size = int.from_bytes(message[4:NAME_AT], "big")
    return message[NAME_AT : NAME_AT + min(size, NAME_MAX)].decode("ascii", "replace")
