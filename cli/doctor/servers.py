"""Servers: checks of the hub and of catalogd, with the requests that every client sends."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from ... import __version__
from ...topics.errors import LinkError, VersionMismatch
from ...topics.keys.credential import Credential
from ...topics.link import Handshake, Link
from ...topics.settings import Address
from ...topics.verdict import Reason, Serving
from ...topics.wire import header
from ...topics.wire.messages.questions import ReadStatus
from ..client.operator import AT_ONCE_S, Operator, facts_of, verdict_by
from ..client.reaching import BUSY, problem
from .checks import Answer, ok, warning, wrong

APART_S: Final = 5.0  # of two clocks; fresh reads do not depend on them
SET_CLOCKS: Final = (
    "set the clocks of all machines: timedatectl set-ntp true (else times in the change history "
    "are wrong, and Kerberos refuses clocks that are 300 s apart)"
)
SAME_RELEASE: Final = (
    f"this is release {__version__}: look at the hub's machine which one it has, topicast "
    "--version, and install the newer one on both: pip install 'topicast==RELEASE'"
)
UPGRADE: Final = (
    "releases of one protocol version work together; install one release everywhere when you can: "
    "docs/deploy.md"
)
OF_METASTORE: Final = ("metastore", "events")  # the codes of reasons about it begin so
LOOK_S: Final = 0.1  # between two looks at a handshake
PROBE: Final = "probe"


class Servers:
    """One hub and its catalogd, as a client with ``credential`` meets them."""

    def __init__(self, addresses: tuple[Address, ...], *, timeout_s: float) -> None:
        """Take the hubs, and how long to wait for each answer."""
        self.credential: Credential | None = None  # set once the key file is read
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._catalog: dict[str, Any] = {}  # catalogd's facts, once it has answered
        self._metastore: tuple[Reason, ...] = ()  # of catalogd's verdict, once it has answered

    def hub(self) -> Answer:
        """Check that each hub admits the key, and that a hub answers.

        Raises:
            LinkError: a hub does not admit the key, or no hub answers.
        """
        assert self.credential is not None, "the key file was read"
        admitted(self.credential, self._addresses, timeout_s=self._timeout_s)
        try:
            with self._visit() as visit:
                begin = time.monotonic()
                visit.hub(ReadStatus())
                took_ms = (time.monotonic() - begin) * 1000
                return ok(f"the statestored at {visit.address} answers in {took_ms:.1f} ms")
        except LinkError as error:
            if isinstance(error.__cause__, VersionMismatch):
                return wrong(str(error), SAME_RELEASE)
            raise

    def data(self) -> Answer:
        """Connect to the address from which the hub sends its data."""
        with self._visit() as visit:
            visit.reach_data()
            return ok(f"{visit.welcome.data_address} is reached")

    def catalogd(self) -> Answer:
        """Check that catalogd answers at the address that the hub gives for it."""
        with self._visit() as visit:
            self._catalog = facts_of(visit.catalog(ReadStatus()))
            verdict = verdict_by(visit.catalog)
            of_metastore = [one for one in verdict.reasons if one.code.startswith(OF_METASTORE)]
            self._metastore = tuple(of_metastore)
            where = f"catalogd at {visit.welcome.catalog_address}"
            for one in verdict.reasons:
                if one not in of_metastore:
                    finding = f"{where} is {one.state}: {one.what}"
                    serves = one.state is Serving.DEGRADED
                    return warning(finding, one.mend) if serves else wrong(finding, one.mend)
            return ok(f"{where} answers")

    def metastore(self) -> Answer:
        """Return what catalogd reports about its metastore."""
        for one in self._metastore:
            finding = f"catalogd says: {one.what}"
            if one.state is Serving.NOT_SERVING or one.code == "metastore_events":
                return wrong(finding, one.mend)
            return warning(finding, one.mend)
        return ok(f"catalogd has applied event {self._catalog['watermark']}")

    def versions(self) -> Answer:
        """Compare the protocol, and the releases that this machine, the hub and catalogd have."""
        with self._visit() as visit:
            spoken = visit.welcome.protocol
            releases = {"statestored": facts_of(visit.hub(ReadStatus())).get("release")}
        if spoken != header.PROTOCOL:
            return warning(
                f"protocol {spoken} is spoken, {header.PROTOCOL} is known here",
                SAME_RELEASE,
            )
        if self._catalog:
            releases["catalogd"] = self._catalog.get("release")
        others = [f"{it} has {has}" for it, has in releases.items() if has != __version__]
        if others:
            return warning(f"this is release {__version__}, {', '.join(others)}", UPGRADE)
        return ok(
            f"protocol {spoken}; {', '.join(releases)} and this machine have release {__version__}"
        )

    def clocks(self) -> Answer:
        """Compare this machine's clock with the hub's, and with when catalogd's store was made."""
        with self._visit() as visit:
            ahead_s = visit.clock_ahead_s()
            store_s = visit.welcome.epoch / 1e6 - time.time()
            hub = f"the statestored at {visit.address}"
        if abs(ahead_s) > APART_S:
            way = "ahead of" if ahead_s > 0 else "behind"
            return wrong(f"this machine's clock is {abs(ahead_s):.0f} s {way} {hub}'s", SET_CLOCKS)
        if store_s > APART_S:
            return wrong(
                f"catalogd's store was made {store_s:.0f} s after what is now on this machine, "
                f"whose clock agrees with {hub}'s",
                SET_CLOCKS,
            )
        return ok(f"this machine's clock is within {APART_S:g} s of that of {hub}")

    def _visit(self) -> Operator:
        return Operator(self._addresses, timeout_s=self._timeout_s, credential=self.credential)


def admitted(credential: Credential, addresses: Sequence[Address], *, timeout_s: float) -> Answer:
    """Check that each hub admits the key of ``credential``, by a handshake without a message.

    Raises:
        LinkError: a hub does not admit it, or is not reached.
    """
    for address in addresses:
        if _admits(address, credential, AT_ONCE_S):
            continue
        why = problem(address, credential)
        if why or not _admits(address, credential, timeout_s):
            raise LinkError(f"at {address}: {why or BUSY}")
    return ok(f"every statestored admits the key {credential.name}")


def _admits(address: Address, credential: Credential, timeout_s: float) -> bool:
    """Return whether a handshake succeeds within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    with closing(Link(credential.pair)) as link:
        link.connect_dealer(PROBE, str(address), credential.hub_keys(str(address)))
        while not (is_done := link.handshake(PROBE) is Handshake.DONE):
            if time.monotonic() >= deadline:
                break
            link.poll(LOOK_S)
        return is_done
