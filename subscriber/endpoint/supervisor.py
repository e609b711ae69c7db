"""Supervisor: keeps an agent running beside a driver, and asks it through its pipes.

    stopped ──start──▶ starting ──line with the port──▶ serving ──it ended, or is silent──┐
                          ▲                                                               │
                          └──────────────── pause, longer each time ◀─────────────────────┘

Each agent has its own port and token. Nothing of this is needed for the driver to work: while no
agent serves, the driver asks the metastore itself.
"""

import json
import logging
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final

from ...topics.backports import Self
from ...topics.errors import LinkError, NotReady, UsageError, WireError
from ...topics.topic import Version
from .settings import LINE_BYTES_MAX, AgentSettings

START_S: Final = 30.0  # from the process to its port; 10 s of it for the subscriber to be ready
PAUSE_S: Final = 0.5  # before the second start; doubled each time
PAUSE_S_MAX: Final = 60.0
STEADY_S: Final = 60.0  # an agent that served for so long: the next pause is the first one again
PROBE_S: Final = 5.0  # between looks whether an agent answers
SILENT_S: Final = 15.0  # without a line from it: it is stopped, and ends
STOP_S: Final = 2.0  # for an agent to end by itself; it takes one at most
ANSWER_S: Final = 5.0  # for what an agent answers at once
RECV_BYTES: Final = 64 << 10
AGENT: Final = f"{__name__.rpartition('.')[0]}.agent"  # the module that Python runs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where an agent's endpoint listens, and what a reader has to present."""

    port: int
    token: str = field(repr=False)

    @property
    def uri(self) -> str:
        """The address for ``hive.metastore.uris``."""
        return f"thrift://127.0.0.1:{self.port}"


Line = Mapping[str, Any]


class _Agent:
    """One process and its pipes."""

    def __init__(self, command: tuple[str, ...], settings: AgentSettings) -> None:
        self.token = settings.token
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",  # which -m puts in front of the path
            env=_environment(),
            start_new_session=True,  # Ctrl-C is the driver's
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in: IO[bytes] = self.process.stdin
        self._out: IO[bytes] = self.process.stdout
        os.set_blocking(self._in.fileno(), False)
        os.set_blocking(self._out.fileno(), False)
        self._lock = threading.Lock()  # of writing
        self._half = b""
        self.send(settings.line(), timeout_s=ANSWER_S)

    def send(self, line: bytes, *, timeout_s: float) -> None:
        """Write a line.

        Raises:
            LinkError: the agent has ended, or does not read; it is of no use any more.
        """
        deadline = time.monotonic() + timeout_s
        view = memoryview(line)
        with self._lock:
            while view:
                view = view[self._write(view) :]
                left_s = deadline - time.monotonic()
                if view and left_s <= 0:
                    self.process.kill()  # it has a half line
                    raise LinkError("the endpoint's agent does not read")
                if view:
                    select.select([], [self._in], [], left_s)

    def _write(self, view: memoryview) -> int:
        """Write what fits; return how many bytes that is."""
        try:
            return os.write(self._in.fileno(), view)
        except BlockingIOError:
            return 0
        except (OSError, ValueError) as exc:
            raise LinkError("the endpoint's agent has ended") from exc

    def lines(self, *, timeout_s: float) -> list[bytes] | None:
        """Return the whole lines that have come, after waiting for some; None: there is an end."""
        ready, _, _ = select.select([self._out], [], [], timeout_s)
        if not ready:
            return []
        data = os.read(self._out.fileno(), RECV_BYTES)
        *whole, self._half = (self._half + data).split(b"\n")
        if not data or len(self._half) > LINE_BYTES_MAX:
            return None
        return whole

    def end(self) -> None:
        """End the process; it is gone when this returns. Any thread may call it."""
        with self._lock:
            self._in.close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """End the process; nothing is read of it any more."""
        self.end()
        self._out.close()


class Supervisor:
    """Keeps an agent running from ``start`` to ``stop``. Any thread may call it.

    ``on_address`` is called, in a thread of ours, with the address of a new agent, and with None
    when it has ended. ``on_change`` is called with each change once the agent answers with it, and
    with None if changes were lost: whatever was read of the agent may be old then.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        on_address: Callable[[Address | None], None] = lambda _: None,
        on_change: Callable[[Line | None], None] | None = None,
        command: tuple[str, ...] = (),
    ) -> None:
        """``settings``: their token is replaced; ``command``: to run instead of this package's."""
        key_file = settings.key_file and str(Path(settings.key_file).absolute())
        self._settings = replace(settings, key_file=key_file, changes=on_change is not None)
        self._command = command or (sys.executable, "-m", AGENT)
        self._on_address = on_address
        self._on_change = on_change or (lambda _: None)
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # of the fields below
        self._agent: _Agent | None = None
        self._address: Address | None = None
        self._waiting: dict[int, list[Line]] = {}  # requests by id, with their reply
        self._answered = threading.Condition(self._lock)
        self._next_id = 0
        self._starts = 0
        self._problem = ""  # why the last agent ended, or did not start
        self._thread = threading.Thread(target=self._run, name="topicast-agent", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def address(self) -> Address | None:
        """Where the endpoint is; None while there is none."""
        return self._address

    @property
    def problem(self) -> str:
        """Why the last agent ended, or did not start; empty while one serves."""
        return self._problem

    def start(self) -> None:
        """Start an agent; return at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the agent, and start no other."""
        self._stopping.set()
        with self._lock:
            agent = self._agent
        if agent is not None:
            agent.end()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def sync(self, timeout_s: float) -> None:
        """Return once the endpoint answers with what the metastore had committed before the call.

        Raises:
            NotReady: not within ``timeout_s``.
            LinkError: there is no agent, or it could not; says why.
        """
        self._ask("sync", timeout_s=timeout_s, arguments={"timeout_s": timeout_s})

    def versions(self, tables: Iterable[str]) -> dict[str, Version | None]:
        """Return the version at which each of ``tables`` is answered; None: it is not held.

        Raises:
            LinkError: there is no agent, or it did not answer.
        """
        found = self._ask("versions", arguments={"tables": list(tables)})
        pairs: Mapping[str, tuple[int, int] | None] = found["versions"]
        return {name: pair and Version(*pair) for name, pair in pairs.items()}

    def report_uses(self, tables: Mapping[str, tuple[int, int]]) -> None:
        """Report reads that a cache in front of the endpoint has answered, by name of the table.

        Of each: how many of the table alone, and of its partitions, too. Raises as ``versions``.
        """
        self._ask("uses", arguments={"tables": {name: list(pair) for name, pair in tables.items()}})

    def status(self) -> dict[str, Any]:
        """Return what is known here, and what the agent says; ``agent`` is None if it does not."""
        try:
            agent: Line | None = self._ask("status")
        except LinkError:
            agent = None
        with self._lock:
            return {
                "port": self._address.port if self._address is not None else None,
                "starts": self._starts,
                "problem": self._problem,
                "agent": agent,
            }

    # In the thread

    def _run(self) -> None:
        pause_s = PAUSE_S
        while not self._stopping.is_set():
            served_s = self._run_one()
            if self._stopping.is_set():
                return
            pause_s = PAUSE_S if served_s >= STEADY_S else pause_s
            log.warning("%s: starts again in %.1f s", self._problem, pause_s)
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _run_one(self) -> float:
        """Run one agent to its end; return for how long it has served."""
        began = time.monotonic()
        try:
            token = secrets.token_urlsafe(24)
            agent = _Agent(self._command, replace(self._settings, token=token))
        except (OSError, LinkError) as error:
            self._problem = f"the endpoint's agent does not start: {error}"
            return 0.0
        with self._lock:
            self._agent = agent
            self._starts += 1
            self._problem = ""
        try:
            self._follow(agent, began)
        except LinkError as error:
            self._problem = str(error)
        except Exception:
            log.exception("the endpoint's agent is ended")
            self._problem = "the endpoint's agent said what nobody understands"
        served_s = time.monotonic() - began if self._address is not None else 0.0
        self._set_address(None)
        if not self._stopping.is_set():
            agent.process.kill()
        agent.close()
        with self._lock:
            self._agent = None
            self._answered.notify_all()
            code = agent.process.returncode
            self._problem = self._problem or f"the endpoint's agent has ended with {code}"
        return served_s

    def _follow(self, agent: _Agent, began: float) -> None:
        """Take what an agent says, until it ends or has been silent for too long."""
        heard = began
        while not self._stopping.is_set():
            lines = agent.lines(timeout_s=PROBE_S)
            now = time.monotonic()
            if lines is None:
                return
            if lines:
                heard = now
            for line in lines:
                self._take(agent, json.loads(line))
            limit_s = SILENT_S if self._address is not None else START_S
            if now - heard > limit_s:
                self._problem = f"the endpoint's agent said nothing for {limit_s:.0f} s"
                return
            if not lines and self._address is not None:
                agent.send(b'{"id": 0, "do": "status"}\n', timeout_s=ANSWER_S)

    def _take(self, agent: _Agent, line: object) -> None:
        if not isinstance(line, dict):
            raise WireError("a line is no object of JSON")
        if "id" in line:
            with self._lock:
                if line["id"] in self._waiting:
                    self._waiting[line["id"]].append(line)
                    self._answered.notify_all()
        elif "change" in line:
            self._on_change(line["change"])
        elif "lost" in line:
            self._on_change(None)
        elif "port" in line:
            self._set_address(Address(line["port"], agent.token))
        elif "error" in line:
            self._problem = f"the endpoint's agent has ended: {line['error']}"

    def _set_address(self, address: Address | None) -> None:
        if address != self._address:
            self._address = address
            self._on_address(address)

    # In any thread

    def _ask(
        self,
        what: str,
        *,
        timeout_s: float = ANSWER_S,
        arguments: Mapping[str, object] | None = None,
    ) -> Line:
        """Ask the agent, and return its result."""
        with self._lock:
            agent = self._agent if self._address is not None else None
            if agent is None:
                raise LinkError(self._problem or "the endpoint does not listen")
            self._next_id += 1
            number = self._next_id
            replies = self._waiting[number] = []
        try:
            line = json.dumps({"id": number, "do": what, **(arguments or {})}).encode() + b"\n"
            if len(line) > LINE_BYTES_MAX:
                raise UsageError(f"a request of {len(line)} bytes, {LINE_BYTES_MAX} allowed")
            agent.send(line, timeout_s=timeout_s)
            with self._lock:
                in_time = self._answered.wait_for(
                    lambda: replies or self._agent is not agent, timeout_s
                )
        finally:
            with self._lock:
                del self._waiting[number]
        if not in_time:
            raise NotReady(f"no answer of the endpoint's agent within {timeout_s} s")
        if not replies:
            raise LinkError("the endpoint's agent has ended")
        if "error" in replies[0]:
            raise NotReady(str(replies[0]["error"]))
        result: Line = replies[0]["result"]
        return result


def _environment() -> dict[str, str]:
    """Return the environment of an agent: it finds this package, and files by their whole paths."""
    found = dict(os.environ)
    root = str(Path(__file__).absolute().parents[3])
    others = found.get("PYTHONPATH", "")
    found["PYTHONPATH"] = f"{root}{os.pathsep}{others}" if others else root
    if key_file := found.get("TOPICAST_KEY_FILE"):
        found["TOPICAST_KEY_FILE"] = str(Path(key_file).absolute())
    return found
