"""The one background thread of a subscriber: owns the link, and performs what the core decides.

    any thread ──Inbox──▶ core.handle ──effects──▶ sockets, commands, watches
    sockets ────poll────▶     │                     (readers read core.view without the thread)
                          deadline

The thread waits in ``poll``, and under a flood of deltas in ``rest``. It is a daemon thread, holds
no reference to the subscriber, and closes its sockets itself. After an error of ours the core
begins anew on new sockets; waiting callers get an error, and try again. Too many errors end the
thread.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout  # TimeoutError itself from 3.11 on
from typing import Final, TypeVar

from ...topics.backports import assert_never
from ...topics.errors import ConfigError, LinkError, NotReady, UsageError, WireError
from ...topics.keys.credential import Credential, PublicKeys
from ...topics.link import Handshake, Inbox, Link
from ...topics.link import ReceivedFrame as Frame
from ...topics.link.sockets import READ_BYTES_MAX, read_max
from ...topics.objects.rules import Rule
from ...topics.turn import Tick
from ...topics.wire import decode, encode
from ...topics.wire.header import POLICY_MARK, policy_number, without_policy
from ..protocol.commands import Command, Operation
from ..protocol.effects import (
    AnswerDiffers,
    BeginAnew,
    Complete,
    ConnectCatalog,
    ConnectData,
    ConnectHub,
    Connection,
    ConnectionProblem,
    DroppedFrame,
    Effect,
    EngineRestarted,
    Leave,
    Notify,
    PinsNotHeld,
    Received,
    Registration,
    Send,
    Subscribe,
    Trust,
    Unsubscribe,
    Watching,
)
from .core import Core, Fact
from .reachability import Reachability
from .watch import Watch, Watches

POLL_S_MAX: Final = 1.0
TURN_S: Final = 0.002  # for commands, before the sockets are polled again
CONNECTIONS: Final = {one.value: one for one in Connection}
LARGE: Final = (Connection.BULK, Connection.PULLS)  # a frame of these may take a millisecond
GRACE_S: Final = 1.0  # beyond a command's timeout, which the core ends unless its thread is held up
STOP_S: Final = 5.0  # for the thread to end
FLOOD_S: Final = 0.02  # under a flood, the longest time between two polls that bring deltas
FLOOD_POLLS: Final = 10  # more such polls in a row are a flood; a write makes two or three deltas
POLLS_A_LOOK: Final = 5  # under a flood, polls between two looks at the core's deadline
REST_S: Final = 0.01  # under a flood, the pause between two polls, so that deltas gather
TOGETHER: Final = 20  # facts that the core handles at once; their effects wait for the last
RESTARTS_MAX: Final = 10  # within RESTARTS_S; an error that comes back at once will not pass
RESTARTS_S: Final = 60.0
# After a large frame the thread sleeps, so that threads that wait for Python's lock get it. A poll
# that finds a frame returns before they wake: each would wait for sys.getswitchinterval, 5 ms.
YIELD_S: Final = 0.00005
FEW: Final = 50  # frames in a poll; after more the thread does not rest: they may fill the inbox

CLOSED: Final = "the subscriber is closed, or was never opened"

T = TypeVar("T")

log = logging.getLogger(__name__)


class EngineLoop:
    """Runs ``core`` on ``link``; ``call`` and ``watch`` are for any thread."""

    def __init__(
        self,
        core: Core,
        link: Link,
        *,
        credential: Credential,
        clock: Callable[[], float],
        inbox_bytes: int = READ_BYTES_MAX,
    ) -> None:
        """Take a ``link`` with the key pair of ``credential``, which names the servers' keys.

        ``clock``: returns seconds; callers compare the times of the core's view with it.
        ``inbox_bytes``: how many bytes of the hub's frames may wait while the engine is busy.
        """
        self.core = core
        core.restrict(credential.policy)
        self._inbox_bytes = inbox_bytes
        self._few = min(FEW, read_max(inbox_bytes) // 2)
        self._link = link
        self._credential = credential
        self._hub = ""  # the address of the hub that was tried last
        self._hub_keys: dict[str, PublicKeys] = {}  # by address, as hubs have sent them
        self._catalogd_keys: PublicKeys = ()  # as a hub has sent them; empty: none has yet
        self.reachability = Reachability(credential.name)
        self.clock = clock
        self._pid = os.getpid()
        self._inbox: Inbox[Fact] = Inbox(link.wake)
        self._commands: set[Command[object]] = set()  # not completed yet
        self._connected: set[Connection] = set()
        # Large frames that wait: a turn handles one, so that a delta waits for one only. The credit
        # that was granted for catch-ups and pulls bounds their bytes.
        self._large: deque[tuple[Connection, bytes]] = deque()
        self._taken: deque[Fact] = deque()  # from the inbox, left for the next turn
        self._handshakes: dict[str, Handshake] = {}  # of all connections, at the last look
        self._watches = Watches()
        self._rules: tuple[Rule, ...] = core.view.rules()  # of operators, at the last look
        self._handling: Fact | None = None  # the command that is being started
        self._restarted_at: deque[float] = deque(maxlen=RESTARTS_MAX)
        self.failure = ""  # why the thread has ended, if it was an error of ours
        self._delta_at = -FLOOD_S  # seconds: when deltas came last
        self._deadline = 0.0  # seconds: of the core, at the last look
        self._polls = 0  # polls in a row that brought deltas, each soon after the one before
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="topicast-subscriber", daemon=True)

    @property
    def running(self) -> bool:
        """Whether the thread runs, in this process: a forked child has none."""
        return self._thread.is_alive() and not self._stopping

    def start(self) -> None:
        """Start the thread, and let it send the writes of the outbox."""
        self.core.outbox.attach(self._link.wake)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, the sockets and every watch; in a forked child do nothing."""
        if self._pid != os.getpid():
            return
        self._stopping = True
        self._watches.close()
        if not self._thread.is_alive():
            self._link.close()
        elif self._thread is not threading.current_thread():  # garbage collection may stop it there
            self._link.wake()
            self._thread.join(STOP_S)

    def call(self, operation: Operation[T], *, timeout_s: float) -> T:
        """Run an operation of the core in the engine's thread, and return its result.

        Raises:
            UsageError: the subscriber is closed, or belongs to another process.
            LinkError: there is no result in time, or the thread has failed.
        """
        command = Command(operation, deadline=self.clock() + timeout_s)
        self._commands.add(command)
        try:
            self._put(command, timeout_s=timeout_s)
            return command.result(timeout_s + GRACE_S)
        except EngineRestarted:
            raise
        except NotReady as error:
            problem = self.reachability.problem
            raise (NotReady(f"{error}; {problem}") if problem else error) from error
        except FutureTimeout as exc:
            raise NotReady(f"no answer within {timeout_s} s: the thread is held up") from exc
        finally:
            self._commands.discard(command)

    def watch(self, pattern: str, *, timeout_s: float) -> Watch:
        """Return a new watch, which sees the changes of each topic that is followed."""
        watch = self._watches.add(pattern)
        self._put(Watching(on=True), timeout_s=timeout_s)
        return watch

    def run_once(self) -> None:
        """Read one batch, let the core decide, and perform its effects."""
        rested = self._may_rest()
        if not rested or self._polls % POLLS_A_LOOK == 0:
            self._deadline = self.core.deadline
        pause_s = min(self._deadline - self.clock(), POLL_S_MAX)
        batch = self._link.poll(0.0 if rested or self._large or self._taken else pause_s)
        facts = self._facts_of(batch)
        if self._watches and not self.core.watched:  # a watch was just made
            self.perform(self.core.handle(Watching(on=True), now=self.clock()))
        self._handle(facts)
        self.core.view.current_at = self.core.current_at  # watches have all changes until then
        self._taken.extend(() if self._taken else self._inbox.take())
        now = began = self.clock()
        while self._taken and now < began + TURN_S:
            self._handling = self._taken.popleft()
            self.perform(self.core.handle(self._handling, now=now))
            now, self._handling = self.clock(), None
        if now >= self._deadline:
            self.perform(self.core.handle(Tick(), now=now))
            self._deadline = self.core.deadline
        self._notice(batch, now)
        self._look_at_connections()
        rules, self._rules = self._rules, self.core.view.rules()
        if self._rules is not rules:
            self._watches.wake()

    def _facts_of(self, batch: Sequence[Frame]) -> list[Fact]:
        """Return the small frames of ``batch``, and the first of the large frames that wait."""
        facts: list[Fact] = []
        for frame in batch:
            connection = CONNECTIONS[frame.name]
            if connection in LARGE:
                self._large.append((connection, frame.frame))
            else:
                facts.append(_read(connection, frame.frame))
        if self._large:
            facts.append(_read(*self._large.popleft()))
        return facts

    def _handle(self, facts: Sequence[Fact]) -> None:
        """Let the core decide about the ``facts`` that arrived.

        If it begins anew, drop the others: they came over connections that are closed by now.
        """
        restarts = self.core.restarts
        for begin in range(0, len(facts), TOGETHER):
            some = facts[begin : begin + TOGETHER]
            self.perform(self.core.handle_all(some, now=self.clock()))
            if self.core.restarts != restarts:
                return

    def perform(self, effects: Iterable[Effect]) -> None:
        """Perform ``effects`` in their order, then the effects to which they lead."""
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, Notify):  # by far the most, where everything is watched
                if not self._watches.offer(effect.changes):
                    todo += self.core.handle(Watching(on=False), now=self.clock())
            else:
                self._perform(effect)

    def _notice(self, batch: Sequence[Frame], now: float) -> None:
        """Count the polls in a row that bring deltas, each soon after the one before."""
        if not batch:
            self._polls = 0
        if not batch or batch[-1].name != Connection.DATA:
            return
        again = now < self._delta_at + FLOOD_S and len(batch) <= self._few
        self._polls = self._polls + 1 if again else 0
        self._delta_at = now

    def _look_at_connections(self) -> None:
        """Log a change of the problem with the servers, and notify the core of it."""
        handshakes, before = self._link.handshakes(), self._handshakes
        if handshakes == before and self.reachability.is_well:
            return  # as a rule: each wake of an idle subscriber passes here
        self._handshakes = handshakes
        if not self.reachability.look(handshakes, now=self.clock()):
            return
        problem = self.reachability.problem
        if self.reachability.refuses_key:
            log.warning("key not accepted: problem=%s", problem)
        elif problem:
            log.warning("server not reached: problem=%s", problem)
        else:
            log.warning("servers reached: the problem is over")  # as loud as the problem was
        self.perform(self.core.handle(ConnectionProblem(problem), now=self.clock()))

    def _may_rest(self) -> bool:
        """Return whether a flood of deltas goes on, while no caller waits."""
        if self._polls <= FLOOD_POLLS or self.core.outbox.urgent:
            return False
        return not (self._commands or self._taken or self._large)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
            if not self.failure:
                self.perform(self.core.handle(Leave(), now=self.clock()))
        finally:
            self._stopping = True
            self.core.outbox.detach(self._link.wake)
            self._link.close()
            closed = LinkError(self.failure) if self.failure else UsageError(CLOSED)
            for command in list(self._commands):
                command.abort(closed)
            self._watches.close()

    def _turn(self) -> None:
        """Run once; after an error of ours begin anew, or end."""
        try:
            self.run_once()
            if self._may_rest():
                self._link.rest(REST_S)
            elif self._large:
                time.sleep(YIELD_S)
        except Exception as error:
            log.exception("engine failed: restarts=%d", self.core.restarts)
            log.error("engine before that: steps=%s", self.core.turn.trace.text())
            self._restart(error)

    def _restart(self, error: Exception) -> None:
        """Begin anew on new sockets, and notify callers and watches; end after too many errors.

        The caller whose call failed is answered last, so that its next call is not aborted, too.
        """
        now, failed = self.clock(), f"{type(error).__name__}: {error}"
        culprit, self._handling = self._handling, None
        if isinstance(culprit, Command):
            self._commands.discard(culprit)
        self._restarted_at.append(now)
        try:
            if len(self._restarted_at) == RESTARTS_MAX and now < self._restarted_at[0] + RESTARTS_S:
                self._end(failed)
            else:
                self._begin_anew("the subscriber failed while it carried this out")
        finally:
            if isinstance(culprit, Command):
                why = f"the subscriber failed at this call, and restarts: {failed}"
                culprit.abort(NotReady(why))

    def _end(self, failed: str) -> None:
        """End the thread after too many failures, of which ``failed`` is the last."""
        self.failure = (
            f"the subscriber has failed {RESTARTS_MAX} times within {RESTARTS_S:.0f} s, the "
            f"last time with {failed}: the log has the traceback; make another subscriber"
        )
        log.error("engine ended: failures=%d within_s=%d", RESTARTS_MAX, RESTARTS_S)
        self._stopping = True

    def _begin_anew(self, reason: str) -> None:
        """Restart on new sockets; end the calls that wait with ``reason``, and notify watches."""
        self._reconnect(tuple(Connection), "")
        self._large.clear()
        self._deadline = 0.0
        self.core.restart()
        for command in list(self._commands):
            command.abort(EngineRestarted(reason))
        self._watches.lose()

    def _put(self, fact: Fact, *, timeout_s: float) -> None:
        if self._pid == os.getpid() and not self.running:
            raise LinkError(self.failure) if self.failure else UsageError(CLOSED)
        self._inbox.put(fact, timeout_s=timeout_s)

    def _perform(self, effect: Effect) -> None:  # noqa: C901 - dispatch by match
        match effect:
            case Send(connection=connection, message=message):
                if connection in self._connected:  # else it is lost: the core repeats it
                    self._link.send(connection, encode(message))
            case Subscribe(prefix=prefix):
                if Connection.DATA in self._connected:
                    self._link.subscribe(Connection.DATA, prefix)
            case Unsubscribe(prefix=prefix):
                if Connection.DATA in self._connected:
                    self._link.unsubscribe(Connection.DATA, prefix)
            case Complete(command=command):
                self._commands.discard(command)
                command.release()
            case PinsNotHeld(tables=tables, needed_bytes=needed, room_bytes=room):
                text = "pins do not fit: tables=%d needed_bytes=%d room_bytes=%d"
                log.warning(text, tables, needed, room)
            case Registration(hub=hub, why=why) if why:
                log.warning("not registered: statestored=%s reason=%s", hub, why)
            case Registration(hub=hub):
                log.warning("registered: statestored=%s", hub)  # as loud as the refusal
            case AnswerDiffers(table=table, what=what):
                log.warning("self-audit: answer differs, pulled again: table=%s: %s", table, what)
            case ConnectHub(address=address):
                log.info("statestored tried: address=%s", address)
                self._hub = address
                self._reconnect((Connection.DATA,), "")
                self._reconnect((Connection.CONTROL, Connection.BULK), address)
            case ConnectData(address=address):
                log.info("statestored followed: data_address=%s", address)
                self._reconnect((Connection.DATA,), address)
            case ConnectCatalog(address=address):
                log.info("catalogd found: address=%s", address)
                self._reconnect((Connection.SERVICE, Connection.PULLS), address)
            case Trust(hub=hub, catalogd=catalogd):
                self._hub_keys[self._hub] = hub
                self._catalogd_keys = catalogd or self._catalogd_keys
                for connection in self._connected:
                    self._link.trust(connection, self._keys_of(connection))
            case BeginAnew(why=why):
                log.info("begun anew: %s", why)
                self._begin_anew(why)
            case Notify():
                raise AssertionError(effect)  # ``perform`` does it
            case _:
                assert_never(effect)

    def _reconnect(self, connections: tuple[Connection, ...], address: str) -> None:
        """Close sockets, and open new sockets to ``address`` unless it is empty or not valid."""
        for connection in connections:
            if connection in LARGE:
                self._large = deque(one for one in self._large if one[0] != connection)
            if connection in self._connected:
                self.reachability.closed(connection)
                self._link.disconnect(connection)
                self._connected.discard(connection)
            if not address:
                continue
            try:
                servers = self._keys_of(connection)
                if connection is Connection.DATA:
                    bound = self._inbox_bytes
                    self._link.connect_xsub(connection, address, servers, inbox_bytes=bound)
                else:
                    self._link.connect_dealer(connection, address, servers)
            except (LinkError, ConfigError) as error:
                log.warning("address refused: socket=%s error=%s", connection.value, error)
            else:
                self._connected.add(connection)
                self.reachability.opened(connection, address)

    def _keys_of(self, connection: Connection) -> PublicKeys:
        """Return the public keys that the server at the end of ``connection`` may have."""
        if connection in (Connection.SERVICE, Connection.PULLS):
            return self._catalogd_keys or self._credential.catalogd_keys
        return self._hub_keys.get(self._hub) or self._credential.hub_keys(self._hub)


def _read(connection: Connection, frame: bytes) -> Fact:
    try:
        if not frame.startswith(POLICY_MARK):
            return Received(connection, decode(frame))
        return Received(connection, decode(without_policy(frame)), policy_number(frame))
    except WireError as error:
        return DroppedFrame(connection, error)
