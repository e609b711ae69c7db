"""A client of a hub, and of the catalogd behind it: requests tables of facts, and gives orders.

Hello ──▶ Welcome (hub, epoch, catalogd's address)     Question ──▶ Inspected(rows)
"""

import getpass
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from ...subscriber import Subscriber
from ...subscriber.client.conversation import (
    CATALOG,
    Conversation,
    catalogd_at,
    catalogd_behind,
    greet,
)
from ...subscriber.engine.reachability import unreached
from ...subscriber.protocol.effects import Connection
from ...topics.backports import Self
from ...topics.errors import LinkError, NotReady, TopicastError
from ...topics.keys.credential import Credential
from ...topics.keys.folder import OPERATOR as OPERATOR_KEY
from ...topics.keys.folder import find_credential
from ...topics.link import Handshake, Link
from ...topics.settings import Address, parse_addresses
from ...topics.verdict import Serving, Verdict, verdict_in
from ...topics.wire import header
from ...topics.wire.messages.answers import EventTexts, NamedFacts
from ...topics.wire.messages.connection import Welcome
from ...topics.wire.messages.data import Heartbeat
from ...topics.wire.messages.questions import (
    A,
    Order,
    Question,
    ReadDrivers,
    ReaderQuestion,
    ReadSubscribers,
    ReadVerdict,
)
from ..terminal.exit_codes import DONE
from ..terminal.lists import Record
from ..terminal.output import complain, exit_code, note
from .reaching import is_mute, no_statestored, problem, unknown_host

ANSWER_TIMEOUT_S: Final = 3.0  # a hub answers within milliseconds; a stopped hub never does
DATA: Final = Connection.DATA
OWN_ONLY: Final = "subscribers with another key are left out"
AT_ONCE_S: Final = 0.4  # a hub that answers at all does within milliseconds
GREETED_S: Final = 0.5  # a running catalogd greets within milliseconds
DATA_S: Final = 1.0  # a connection to a hub's port for data takes milliseconds
LOOK_S: Final = 0.1  # between two looks at a handshake
SETTLED: Final = (Handshake.DONE, Handshake.REFUSED, Handshake.FAILED)
MUTE: Final = (
    "catalogd at {address} takes connections and says nothing: its process is stopped or hangs; "
    "look at it on that host"
)
WITHOUT_CATALOGD: Final = frozenset(("no_catalogd", "catalogd_silent"))  # codes of a hub's reasons
OF_DRIVERS: Final = "drivers_problem"  # the code of a reason that the list itself shows
COMMANDS: Final = frozenset(("operator", "command"))  # roles of members that end soon

T = TypeVar("T")


class Inspect(Protocol):
    """Answers questions: a hub or catalogd, which is connected."""

    def __call__(self, question: Question[A]) -> A:
        """Return the answer; raises as ``Operator.hub``."""


class Operator:
    """A short connection to a hub, from ``with`` to its end."""

    def __init__(
        self,
        statestores: tuple[Address, ...],
        *,
        timeout_s: float = ANSWER_TIMEOUT_S,
        credential: Credential | None = None,
    ) -> None:
        """Take the hubs to try, in turn; ``credential`` None: that of this user's commands."""
        self._statestores = statestores
        self.timeout_s = timeout_s  # how long to wait for each answer
        self._credential = credential or find_credential(OPERATOR_KEY, environ=os.environ)
        self._link = Link(self._credential.pair)

    def __enter__(self) -> Self:
        """Connect to the first hub that answers.

        Raises:
            LinkError: no hub answers.
            AuthRefused: a server does not admit this process's key.
        """
        try:
            self.address, self._hub, self.welcome = self._greet()
        except BaseException:
            self._link.close()
            raise
        return self

    def _greet(self) -> tuple[Address, Conversation, Welcome]:
        """Register with the first hub that answers: at once, else after a look at all of them."""
        problems = {one: unknown_host(one) for one in self._statestores}
        known = [one for one in self._statestores if not problems[one]]
        try:
            at_once_s = min(self.timeout_s, AT_ONCE_S)
            return greet(self._link, known, self._credential, timeout_s=at_once_s)
        except LinkError as error:
            if error.__cause__ is not None:  # a hub answers, in another protocol
                raise
        with ThreadPoolExecutor(len(self._statestores)) as pool:
            looks = pool.map(partial(problem, credential=self._credential), known)
            problems |= zip(known, looks, strict=True)
        if there := [one for one in self._statestores if not problems[one]]:
            with suppress(NotReady):
                return greet(self._link, there, self._credential, timeout_s=self.timeout_s)
        raise LinkError(no_statestored(problems))

    def __exit__(self, *_error: object) -> None:
        try:
            self._hub.leave()
        finally:
            self._link.close()

    def hub(self, question: Question[A]) -> A:
        """Return the answer of the hub, or of the reader that ``question`` names.

        Raises:
            NotReady: no answer in time.
            UsageError: a hub does not answer this question, or does not have this reader.
        """
        return self._hub.inspect(question, timeout_s=self.timeout_s)

    def readers(
        self, kind: type[ReaderQuestion[A]], registrations: Sequence[str]
    ) -> dict[str, A | TopicastError]:
        """Return the answer or refusal of each reader; nothing for silent readers."""
        return self._hub.inspect_readers(kind, registrations, timeout_s=self.timeout_s)

    def catalog(self, question: Question[A]) -> A:
        """Return the answer of catalogd.

        Raises:
            NotReady, UsageError: as ``hub``.
            LinkError: no catalogd is known or reached; says within 2 s what to do.
        """
        with self._catalog() as catalogd:
            try:
                return catalogd.inspect(question, timeout_s=self.timeout_s)
            except NotReady as error:
                raise LinkError(self._silence()) from error

    def reach_data(self) -> None:
        """Connect to the address that the hub names for its data.

        Raises:
            LinkError: the address is not reached from here; says what to do.
        """
        with self._data():
            pass

    def clock_ahead_s(self) -> float:
        """Return how far this machine's clock is ahead of the hub's; negative if it is behind.

        Waits for the hub's next heartbeat, which says when it was sent.

        Raises:
            LinkError: as ``reach_data``, or no heartbeat comes.
        """
        wait_s = self.welcome.heartbeat_ms / 1000 + self.timeout_s
        with self._data():
            self._link.subscribe(DATA, header.HEARTBEAT_PREFIX)
            deadline = time.monotonic() + wait_s
            while (left_s := deadline - time.monotonic()) > 0:
                frames = (one.frame for one in self._link.poll(left_s) if one.name == DATA)
                messages = map(self._hub.read, map(header.without_policy, frames))
                if beats := [one for one in messages if isinstance(one, Heartbeat)]:
                    return time.time() - beats[-1].sent_us / 1e6
        raise LinkError(f"no heartbeat comes from {self.welcome.data_address} in {wait_s:g} s")

    @contextmanager
    def _data(self) -> Iterator[None]:
        """Connect to the hub's data until the block ends; raises as ``reach_data``."""
        address, servers = self.welcome.data_address, self._credential.hub_keys(str(self.address))
        self._link.connect_xsub(DATA, address, servers)
        try:
            deadline = time.monotonic() + DATA_S
            while self._link.handshake(DATA) is not Handshake.DONE:
                if time.monotonic() >= deadline:
                    raise LinkError(unreached(DATA, address, hub=str(self.address)))
                self._link.poll(LOOK_S)
            yield
        finally:
            self._link.disconnect(DATA)

    def order(self, order: str, arguments: tuple[str, ...], kind: type[A], *, sender: str) -> A:
        """Give catalogd an order; return its answer, of ``kind``, once it has been carried out.

        Raises:
            NotReady: no answer in time; the order may still be carried out.
            NoSuchObject: its object does not exist.
            UsageError: there is no such order, or not with such arguments.
            SourceError: the metastore does not answer.
            LinkError: no catalogd is known, or it is busy.
        """
        wanted = Order(request=0, sender=sender, order=order, arguments=arguments)
        with self._catalog() as catalogd:
            try:
                return catalogd.request(wanted, kind, timeout_s=self.timeout_s)
            except NotReady as error:
                words = " ".join((order, *arguments))
                text = f"{words} is not done after {self.timeout_s:g} s, and may still be done"
                raise NotReady(f"catalogd at {self.welcome.catalog_address}: {text}") from error

    @contextmanager
    def _catalog(self) -> Iterator[Conversation]:
        behind = catalogd_behind(self._link, self.welcome, self._credential, hub=self.address)
        with behind as catalogd:
            self._reach_catalogd()
            yield catalogd

    def _reach_catalogd(self) -> None:
        """Wait until catalogd greets, for AT_ONCE_S at most; raises LinkError if it cannot."""
        deadline = time.monotonic() + AT_ONCE_S
        while self._link.handshake(CATALOG) not in SETTLED:
            if time.monotonic() >= deadline:
                break
            self._link.poll(LOOK_S)
        else:
            return
        address = self.welcome.catalog_address
        mute = is_mute(parse_addresses(address, setting="catalogd")[0], limit_s=GREETED_S)
        if mute:
            raise LinkError(MUTE.format(address=address))
        if mute is None:
            raise LinkError(unreached(Connection.SERVICE, address, hub=str(self.address)))

    def _silence(self) -> str:
        """Return why catalogd, to which a connection is open, does not answer."""
        address = self.welcome.catalog_address
        if self._link.handshake(CATALOG) is Handshake.DONE:
            return f"catalogd at {address} does not answer: is it running?"
        return unreached(Connection.SERVICE, address, hub=str(self.address))


def at_each(
    statestores: tuple[Address, ...], look: Callable[[Operator], T]
) -> tuple[list[T], list[LinkError]]:
    """Visit all hubs at once; return what ``look`` found, and the failures.

    Raises:
        LinkError: no hub answers.
    """
    visits = each_of(statestores, look)
    failures = [one for one in visits if isinstance(one, LinkError)]
    found = [one for one in visits if not isinstance(one, LinkError)]
    if not found:
        raise failures[0]
    return found, failures


def each_of(statestores: tuple[Address, ...], look: Callable[[Operator], T]) -> list[T | LinkError]:
    """Visit all hubs at once; return what ``look`` found at each, or its failure."""

    def visit(address: Address) -> T | LinkError:
        try:
            with Operator((address,)) as visit:
                return look(visit)
        except LinkError as error:
            return error

    with ThreadPoolExecutor(len(statestores)) as pool:
        return list(pool.map(visit, statestores))


@contextmanager
def asking_catalogd(address: Address) -> Iterator[Inspect]:
    """Connect to the catalogd at ``address``; yield a function that returns its answers.

    Raises:
        LinkError: it does not answer.
    """
    credential = find_credential(OPERATOR_KEY, environ=os.environ)
    with catalogd_at(str(address), credential, client=credential.name) as catalogd:

        def asked(question: Question[A]) -> A:
            return catalogd.inspect(question, timeout_s=ANSWER_TIMEOUT_S)

        yield asked


def ordered(order: str, arguments: tuple[str, ...], **where: Any) -> NamedFacts:
    """Give catalogd an order in the name of the current user; return its answer.

    ``where``: ``statestores`` and ``timeout_s``.
    """
    return _ordered(order, arguments, NamedFacts, **where)


def shown_events(event: int, **where: Any) -> EventTexts:
    """Have catalogd read the events with an id; ``where``: as of ``ordered``."""
    return _ordered("events", ("show", str(event)), EventTexts, **where)


def _ordered(
    order: str, arguments: tuple[str, ...], kind: type[A], *, statestores: str, timeout_s: float
) -> A:
    addresses = parse_addresses(statestores, setting="statestores")
    with Operator(addresses, timeout_s=timeout_s) as visit:
        sender = f"{getpass.getuser()}@{socket.gethostname()}"
        return visit.order(order, arguments, kind, sender=sender)


def members_of(visit: Operator) -> list[Record]:
    """Return a record for each client of a hub, without commands such as this process."""
    found = [one for one in visit.hub(ReadSubscribers()).records() if one["role"] not in COMMANDS]
    return [{**one, "statestored": str(visit.address)} for one in found]


def readers_of(visit: Operator) -> list[Record]:
    """Return a record for each reader of a hub."""
    return [one for one in members_of(visit) if one["role"] == "reader"]


def announced_at(visit: Operator) -> dict[str, Record]:
    """Return, by registration, the facts that drivers announced to a hub last."""
    return {one["registration"]: one for one in visit.hub(ReadDrivers()).records()}


def verdicts_at(visit: Operator) -> dict[str, Verdict]:
    """Return the verdicts of a hub, and of the catalogd behind it, by their names.

    A catalogd that does not answer has none: its hub says so.
    """
    found = {f"statestored {visit.address}": verdict_by(visit.hub)}
    if WITHOUT_CATALOGD.isdisjoint(one.code for one in next(iter(found.values())).reasons):
        with suppress(LinkError):
            found["catalogd"] = verdict_by(visit.catalog)
    return found


def note_verdicts(verdicts: Mapping[str, Verdict]) -> None:
    """Print on standard error what a reader of drivers must know of the daemons behind them."""
    for name, verdict in verdicts.items():
        for one in verdict.reasons:
            if one.code != OF_DRIVERS:
                note(f"{name} is {one.state}: {one.text}")


def complain_of(failures: Sequence[LinkError]) -> int:
    """Print which hubs did not answer; return the exit code if others have."""
    for error in failures:
        complain(str(error))
    return exit_code(failures[-1]) if failures else DONE


def note_policy(left_out: str) -> bool:
    """Return whether the key of this user's commands sees only some databases.

    If so, print which, and what is ``left_out`` of the result.

    Raises:
        ConfigError: this user has no key.
    """
    policy = find_credential(OPERATOR_KEY, environ=os.environ).policy
    if policy is not None:
        note(f"this key sees {policy} only: {left_out}")
    return policy is not None


def verdict_by(inspect: Inspect) -> Verdict:
    """Return the verdict of the daemon that ``inspect`` asks."""
    return verdict_in(inspect(ReadVerdict()).rows)


def facts_of(table: NamedFacts) -> dict[str, Any]:
    """Return the facts of a table of names and values."""
    return dict(table.rows)


@contextmanager
def catalog_at(statestores: str, *, budget: str, timeout_s: float) -> Iterator[Subscriber]:
    """Open the catalog as a reader; if the hub does not serve, print why, and wait for it.

    Raises:
        LinkError: no statestored, or no catalogd behind it, answers within ``timeout_s``.
    """
    with Operator(parse_addresses(statestores, setting="statestores")) as visit:
        found = verdict_by(visit.hub)
        if found.state is Serving.NOT_SERVING:
            why = "; ".join(one.text for one in found.reasons)
            note(f"statestored {visit.address} is {found.state}: {why}; waits {timeout_s:g} s")
    subscriber = Subscriber(  # for one request: nothing is pinned, whatever the environment sets
        statestores,
        budget=budget,
        timeout_s=timeout_s,
        always="",
        never="",
        credential=find_credential(OPERATOR_KEY, environ=os.environ),
        command=True,
    )
    logging.disable(logging.WARNING)  # the error has the text of the warnings
    try:
        subscriber.open()
    except NotReady as error:
        raise LinkError(f"{error}: see topicast status --statestores={statestores}") from error
    finally:
        logging.disable(logging.NOTSET)
    try:
        yield subscriber
    finally:
        subscriber.close()
