"""The lease of a table: proof, just before a change, that no other job converts into it.

    taken ──▶ renewed by a thread of its own ──▶ ended
                 └─ somebody else had it meanwhile ──▶ every check raises LeaseHeld

Each request has a connection of its own, so catalogd may restart or move between two of them.
"""

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ...subscriber.client.conversation import catalogd_named_by
from ...topics.errors import LinkError, TopicastError
from ...topics.keys.credential import Credential
from ...topics.objects.names import TableId
from ...topics.settings import Address
from ...topics.wire.messages.catalog import Lease, Leased

LEASE_S: Final = 15  # a table is blocked for so long after its holder was killed
RENEWALS: Final = 3  # in each lease
ANSWER_S: Final = 5.0


class TableLease:
    """The lease of one table. Any thread may check it."""

    def __init__(
        self, table: TableId, *, owner: str, hubs: Sequence[Address], credential: Credential
    ) -> None:
        """``owner``: who we are, in the error of others that are refused."""
        self._table = table
        self._owner = owner
        self._hubs = hubs
        self._credential = credential
        self._holder = secrets.token_bytes(16)
        self._ended = threading.Event()

    def take(self) -> None:
        """Take the lease.

        Raises:
            LeaseHeld: somebody else has the lease; says who.
            LinkError: no hub or no catalogd answers.
        """
        self._request(LEASE_S, renew=False)

    def check(self) -> None:
        """Renew the lease: once this returns, nobody else has had it since it was taken.

        Raises:
            LeaseHeld: somebody else has it, or had it meanwhile.
            LinkError: no hub or no catalogd answers, so it is not known.
        """
        self._request(LEASE_S, renew=True)

    def end(self) -> None:
        """End the lease, so that others can take it; without catalogd, it ends after LEASE_S."""
        self._ended.set()
        try:
            self._request(0, renew=False)
        except LinkError:
            return

    def renew_until_ended(self) -> None:
        """Renew the lease again and again, in a thread of its own."""
        while not self._ended.wait(LEASE_S / RENEWALS):
            try:
                self.check()
            except LinkError:
                continue  # the lease lasts longer than the pause until the next try
            except TopicastError:
                return  # the next check before a change says why

    def _request(self, lease_s: int, *, renew: bool) -> None:
        db, table = self._table
        lease = Lease(
            request=0,
            db=db,
            table=table,
            holder=self._holder,
            owner=self._owner,
            lease_s=lease_s,
            renew=renew,
        )
        connecting = catalogd_named_by(self._hubs, self._credential, timeout_s=ANSWER_S)
        with connecting as catalogd:
            catalogd.request(lease, Leased, timeout_s=ANSWER_S)


@contextmanager
def held(lease: TableLease) -> Iterator[TableLease]:
    """Take ``lease`` and renew it until the end; raises as ``TableLease.take``."""
    lease.take()
    thread = threading.Thread(target=lease.renew_until_ended, name="topicast-lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease.end()
        thread.join()
