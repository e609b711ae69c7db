"""Admission: the keys that a hub admits, and the keys of servers of which it notifies its members.

catalogd ──ClientList──▶ checked ──▶ members that are admitted no more leave ──▶ Admit
own keys, catalogd's keys ──changed──▶ ServerKeys to every member
"""

from collections.abc import Callable

from ..topics.errors import ConfigError
from ..topics.keys.clients import Client, ClientRole, Clients, read_clients
from ..topics.keys.credential import PublicKeys
from ..topics.streams.sender import SendTo
from ..topics.turn import Turn
from ..topics.wire.messages.connection import Channel, Refused, ServerKeys
from ..topics.wire.messages.publishers import ClientList
from ..topics.wire.refusal import Refusal, refuse
from .effects import Admit, Effect
from .members.membership import Member, Membership


class Admission:
    """The list of clients that a hub admits; ``remove`` ends a member that left the list."""

    def __init__(
        self, membership: Membership, *, turn: Turn[Effect], remove: Callable[[Member], None]
    ) -> None:
        self._turn = turn
        self._membership = membership
        self._remove = remove
        self._clients = Clients()  # that are admitted
        self._own_keys: PublicKeys = ("",)  # the hub's, as sent to its members
        self._client_list: bytes | None = None  # the last list that was obeyed

    def client(self, public: str) -> Client | None:
        """Return the client whose key is ``public``; None if it is not admitted."""
        return self._clients.with_key(public)

    def have_keys(self, own: PublicKeys) -> None:
        """Take the hub's own public keys, the current and the next; notify every member."""
        self._own_keys = own
        self._send_keys()

    def admit(self, clients: Clients) -> None:
        """Admit ``clients`` alone; remove each member that is not one of them as it was."""
        self._clients = clients
        for member in tuple(self._membership):
            if clients.with_key(member.client.public) != member.client:
                self._remove(member)

    def obey(self, member: Member, message: ClientList) -> Refused | None:
        """Admit the clients in the list of ``member``, a catalogd, or return why not."""
        if message.text == self._client_list and self._clients.are_kept_by(member.client.keys):
            return None  # it is sent again and again
        try:
            clients = read_clients(message.text.decode("ascii"), source="the list of clients")
        except (ConfigError, UnicodeDecodeError) as error:
            return refuse(Refusal.WIRE, str(error))
        if not clients.are_kept_by(member.client.keys):
            text = f"the list of clients does not have {member.client.name} as its only catalogd"
            return refuse(Refusal.WIRE, text)
        self._client_list = message.text
        if clients == self._clients:
            return None
        keys = self._server_keys()
        self.admit(clients)
        self._turn.add(Admit(clients))
        if self._server_keys() != keys:
            self._send_keys()
        return None

    def send_keys_to(self, member: Member) -> None:
        """Send a member the keys of the servers, once the hub has its own."""
        peer = member.peers.get(Channel.CONTROL)
        if peer is not None and self._own_keys[0]:
            self._turn.add(SendTo(peer, self._server_keys()))

    def _send_keys(self) -> None:
        for member in self._membership:
            self.send_keys_to(member)

    def _server_keys(self) -> ServerKeys:
        catalogd = next((one for one in self._clients if one.role is ClientRole.CATALOGD), None)
        return ServerKeys(
            hub=self._own_keys[0],
            hub_next="".join(self._own_keys[1:]),
            catalogd=catalogd.public if catalogd is not None else "",
            catalogd_next=catalogd.next_public if catalogd is not None else "",
        )
