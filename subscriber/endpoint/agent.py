"""The agent: a process that belongs to one driver, with its subscriber and the endpoint on it.

    parent ──settings, requests──▶ stdin   agent   stdout ──{"port": …}, replies, changes──▶ parent
    readers in the driver's JVM ──Thrift──▶ port

All lines are objects of JSON. A request is ``{"id": 1, "do": "sync", …}``, its reply has the same
id and a ``result``, or an ``error``. Everything else it has to say goes to stderr. It ends within
END_S when stdin does, at SIGTERM, or when its parent is another process than at its start.

The subscriber is no driver of its own: it reports no writes, and takes no rules for drivers.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from math import isfinite
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, Final

from ...topics.errors import StaleMetadata, TopicastError, UsageError
from ...topics.keys.credential import read_credential
from ...topics.topic import epoch_of
from .. import arguments as checked
from ..client.subscriber import Subscriber
from ..engine.watch import Watch
from .server import Server
from .service import Service
from .settings import LINE_BYTES_MAX, NAME_SUFFIX, AgentSettings, read_settings

END_S: Final = 0.8  # for leaving; then the process ends as it is
PARENT_S: Final = 5.0  # between looks at who the parent is, in case a child of its holds stdin open
SWITCH_S: Final = 0.001  # at most, until a reader's request interrupts what another thread computes
SYNCS_MAX: Final = 100  # that wait for their turn; more are refused
RECV_BYTES: Final = 64 << 10
CHANGES_S: Final = 1.0  # between looks whether the agent ends
FAILED: Final = 1

LOG_FORMAT: Final = "%(levelname)s topicast agent: %(message)s"

Answer = Mapping[str, object]

log = logging.getLogger(__name__)


def main(line: bytes | None = None) -> int:
    """Run an agent on this process's standard input and output; return its exit code.

    ``line``: that of the settings, if it was read already.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT)
    sys.setswitchinterval(SWITCH_S)
    with _kept_output() as output:
        return Agent(0, output, line=line).run()


@contextmanager
def _kept_output() -> Iterator[BinaryIO]:
    """Give the standard output to the agent alone: what anything else prints goes to stderr."""
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        yield output


class Agent:
    """Reads lines from ``source``, a file descriptor, and writes lines to ``sink``.

    ``line``: the first one, if it was read already.
    """

    def __init__(self, source: int, sink: BinaryIO, *, line: bytes | None = None) -> None:
        self._source = source  # not a file: its lock would be held when the interpreter ends
        self._sink = sink
        self._lock = threading.Lock()  # of the sink
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()  # None: the end
        if line is not None:
            self._lines.put(line)
        self._syncs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended = threading.Event()

    def run(self) -> int:
        """Serve until the end; return the exit code."""
        previous = signal.signal(signal.SIGTERM, lambda *_: self._end())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's: it ends us
        threading.Thread(target=self._read_lines, name="topicast-stdin", daemon=True).start()
        try:
            line = self._lines.get()
            if line is None:
                return 0
            settings = read_settings(line)
            with _subscriber(settings) as subscriber:
                self._serve(subscriber, settings)
        except TopicastError as error:
            log.error("%s", error)
            self._write({"error": str(error)})
            return FAILED
        finally:
            signal.signal(signal.SIGTERM, previous)
        return 0

    def _serve(self, subscriber: Subscriber, settings: AgentSettings) -> None:
        at_once, patient = subscriber.contents(may_wait=False), subscriber.contents()
        service = Service(at_once, patient, token=settings.token)
        server = Server(service)
        server.start()
        requests = Requests(subscriber, service, server)
        helpers = [threading.Thread(target=self._sync_all, name="topicast-sync", daemon=True)]
        if settings.changes:
            report = partial(self._report_changes, subscriber.watch())
            helpers.append(threading.Thread(target=report, name="topicast-changes", daemon=True))
        try:
            self._write({"port": server.port, "pid": os.getpid()})
            for helper in helpers:
                helper.start()
            for line in self._until_the_end():
                self._answer(requests, line)
                if not server.alive:
                    raise UsageError("the endpoint does not listen any more")
        finally:
            self._ended.set()
            self._syncs.put(None)
            server.close()

    def _until_the_end(self) -> Iterator[bytes]:
        """Yield each line until there are no more, or the parent has died."""
        parent = os.getppid()
        while True:
            try:
                line = self._lines.get(timeout=PARENT_S)
            except Empty:
                if os.getppid() == parent:
                    continue
                line = None
            if line is None:
                return
            yield line

    def _answer(self, requests: "Requests", line: bytes) -> None:
        """Write the reply to a request, now or, if it may take long, from another thread."""
        number: object = None
        try:
            asked = json.loads(line)
            if not isinstance(asked, dict):
                raise UsageError("a request is an object of JSON")
            number = asked.pop("id", None)
            what = asked.pop("do", None)
            if what == "sync":
                if self._syncs.qsize() >= SYNCS_MAX:
                    raise UsageError(f"{SYNCS_MAX} syncs wait already")
                self._syncs.put(partial(self._reply, number, requests.sync, asked))
                return
            answer = requests.known.get(what)
            if answer is None:
                raise UsageError(f"no request {what!r}: sync, {', '.join(requests.known)}")
        except (ValueError, UsageError) as error:
            self._write({"id": number, "error": str(error), "retriable": False})
            return
        self._reply(number, answer, asked)

    def _reply(self, number: object, answer: Callable[..., Answer], asked: dict[str, Any]) -> None:
        try:
            self._write({"id": number, "result": answer(**asked)})
        except TopicastError as error:
            self._write({"id": number, "error": str(error), "retriable": error.retriable})
        except TypeError as error:  # an argument that the request does not have
            self._write({"id": number, "error": str(error), "retriable": False})

    def _sync_all(self) -> None:
        while (sync := self._syncs.get()) is not None:
            sync()

    def _report_changes(self, watch: Watch) -> None:
        """Write what changes, once the view answers with it."""
        while not self._ended.is_set():
            try:
                for change in watch.all_within(CHANGES_S):
                    self._write({"change": asdict(change) | {"epoch": epoch_of(change.version)}})
            except StaleMetadata:
                self._write({"lost": True})
            except TopicastError:
                return

    def _write(self, line: Mapping[str, object]) -> None:
        text = json.dumps(line, default=str).encode() + b"\n"
        try:
            with self._lock:
                self._sink.write(text)
                self._sink.flush()
        except (OSError, ValueError):  # nobody reads any more
            self._end()

    def _read_lines(self) -> None:
        half = b""
        while data := os.read(self._source, RECV_BYTES):
            *whole, half = (half + data).split(b"\n")
            for line in whole:
                self._lines.put(line)
            if len(half) > LINE_BYTES_MAX:
                log.error("a line is longer than %d bytes", LINE_BYTES_MAX)
                break
        self._end()

    def _end(self) -> None:
        """Begin to end, and make sure of it."""
        if not self._ended.is_set():
            self._ended.set()
            timer = threading.Timer(END_S, os._exit, [0])
            timer.daemon = True
            timer.start()
        self._lines.put(None)


class Requests:
    """What a parent may ask of an agent."""

    def __init__(self, subscriber: Subscriber, service: Service, server: Server) -> None:
        self._subscriber = subscriber
        self._service = service
        self._server = server
        self.known: Mapping[str, Callable[..., Answer]] = {
            "status": self.status,
            "versions": self.versions,
            "uses": self.uses,
        }

    def sync(self, timeout_s: float | None = None) -> Answer:
        """Return once the endpoint answers with all that the metastore had committed before."""
        self._subscriber.sync(timeout_s)
        return {}

    def status(self) -> Answer:
        """Return counts, and the state of subscriber and process; what is infinite is None."""
        stats = asdict(self._subscriber.stats())
        plain = {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in stats.items()
        }
        return {
            "pid": os.getpid(),
            "port": self._server.port,
            "connections": self._server.connections,
            "rss_bytes": rss_bytes(),
            "subscriber": plain,
            **self._service.counts.facts(),
        }

    def versions(self, tables: list[str]) -> Answer:
        """Return version and epoch at which each of ``tables`` is answered; None: not held."""
        names = checked.several(tables, "tables", such_as="['shop.orders']")
        held = self._subscriber.contents(may_wait=False)
        found = {name: held.version(*checked.table(name)) for name in names}
        pairs = {name: one and [int(one), one.epoch] for name, one in found.items()}
        return {"versions": pairs}

    def uses(self, tables: object) -> Answer:
        """Count reads that a cache in front of the endpoint answered.

        ``tables``: by name, how many reads of the table alone, and of its partitions, too.
        """
        if not isinstance(tables, dict):
            raise UsageError("tables is not an object: it has to be {'shop.orders': [1, 0]}")
        for name, counts in tables.items():
            if not isinstance(counts, list) or len(counts) != 2:
                raise UsageError(f"the uses of {name} are not two numbers")
            for times, whole in zip(counts, (False, True), strict=True):
                if times != 0:
                    self._subscriber.note_reads(name, times=times, whole=whole)
        return {}


def rss_bytes() -> int | None:
    """Return the resident memory of this process; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _subscriber(settings: AgentSettings) -> Subscriber:
    """Return the subscriber of an agent, not open.

    Raises:
        ConfigError: a setting is not valid.
    """
    source = "the key of the settings"
    return Subscriber(
        settings.statestores,
        budget=settings.budget,
        timeout_s=settings.timeout_s,
        name=None if settings.name is None else settings.name + NAME_SUFFIX,
        max_staleness_s=settings.max_staleness_s,
        levels=settings.levels,
        always=settings.always,
        never=settings.never,
        metastore=settings.metastore,
        key_file=settings.key_file,
        credential=None if settings.key is None else read_credential(settings.key, source=source),
    )


if __name__ == "__main__":  # as ``topicast agent``, without loading the other commands
    sys.exit(main())
