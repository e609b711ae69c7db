"""Grants: keys that clients have admitted for their own processes, such as Spark's executors.

    driver ──Grant(key)──▶ admitted as an observer ──lease over | driver revoked──▶ disconnected

    ──Grant for 0 s──▶ disconnected at once

A granted key may do no more than read, and has no grants of its own. It is kept in memory: after a
restart of catalogd, drivers that still need it grant it again.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Final

from ...topics.errors import ConfigError, UsageError
from ...topics.keys.clients import Client, ClientRole, Clients, checked_key
from ...topics.turn import PartTurn

GRANTS_PER_CLIENT_MAX: Final = 256  # applications with one key file; catalogd holds 200 B for each
LEASE_S_MAX: Final = 24 * 3600


@dataclass(frozen=True, slots=True)
class AdmitGranted:
    """Effect: admit these clients, too, each while its granter is in the list."""

    granted: tuple[tuple[str, Client], ...]
    """Pairs of the granter's public key and the granted client."""

    def of(self, listed: Clients) -> dict[str, Client]:
        """Return, by public key, the clients to which a client of ``listed`` has given a grant.

        Each has the present policy of its granter.
        """
        return {
            one.public: replace(one, policy=granter.policy)
            for by, one in self.granted
            if (granter := listed.with_key(by)) is not None
        }


@dataclass(frozen=True, slots=True)
class _Grant:
    granter: str  # its public key
    client: Client
    until: float


class Grants:
    """The present grants; ``send`` has the shell admit them when they have changed."""

    def __init__(self, turn: PartTurn[AdmitGranted]) -> None:
        self._turn = turn
        self._by_key: dict[str, _Grant] = {}
        self._changed = False

    @property
    def deadline(self) -> float:
        """When the next grant expires."""
        return min((one.until for one in self._by_key.values()), default=inf)

    def add(self, granter: Client, public: str, *, lease_s: int) -> int:
        """Admit ``public`` for ``granter``, or renew it; return its seconds, 0: it has ended.

        Raises:
            UsageError: it is not a key, is another client's, or there are too many grants.
        """
        try:
            checked_key(public, setting="public")
        except ConfigError as error:
            raise UsageError(str(error)) from error
        known = self._by_key.get(public)
        if public == granter.public or (known is not None and known.granter != granter.public):
            raise UsageError("the key to be granted is another client's")
        of_granter = [one for one in self._by_key.values() if one.granter == granter.public]
        if known is None and len(of_granter) >= GRANTS_PER_CLIENT_MAX:
            raise UsageError(f"{granter.name} has granted {GRANTS_PER_CLIENT_MAX} keys already")
        lease_s = min(lease_s, LEASE_S_MAX)
        client = replace(granter, role=ClientRole.OBSERVER, public=public)
        self._by_key[public] = _Grant(granter.public, client, self._turn.now + lease_s)
        self._changed |= known is None
        return lease_s

    def send(self) -> None:
        """Have the granted clients admitted, if they have changed since the last call."""
        held = {key: one for key, one in self._by_key.items() if self._turn.now < one.until}
        if not self._changed and len(held) == len(self._by_key):
            return
        self._by_key, self._changed = held, False
        self._turn.add(AdmitGranted(tuple((one.granter, one.client) for one in held.values())))
