"""Peers: the owner of a connection's other end."""

import os
import socket

import pytest

from topicast.subscriber.endpoint import peers

PEER, OWN = ("127.0.0.1", 54321), ("127.0.0.1", 9083)
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout"
REST = "00000000:00000000 00:00000000 00000000  {uid}        0 123 1 0 20 4 30 10 -1"


def line(local: str, remote: str, state: str = "01", uid: int = 1000) -> str:
    return f"   0: {local} {remote} {state} {REST.format(uid=uid)}"


FOUR = line("0100007F:D431", "0100007F:237B")
SIX = line("0000000000000000FFFF00000100007F:D431", "0000000000000000FFFF00000100007F:237B")


@pytest.mark.parametrize("mine", [FOUR, SIX])
def test_owner_is_that_of_the_other_end(mine: str) -> None:
    ours = line("0100007F:237B", "0100007F:D431", uid=7)
    assert peers.owner_in([HEAD, ours, mine], PEER, OWN) == 1000


def test_connection_that_is_not_there_or_has_ended_has_no_owner() -> None:
    ended = line("0100007F:D431", "0100007F:237B", state="06", uid=0)
    assert peers.owner_in([HEAD, ended, "", "0: 1"], PEER, OWN) is None


def test_owner_of_a_real_connection_is_this_user() -> None:
    assert peers.is_known()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as near,
    ):
        far, peer = listener.accept()
        with far:
            assert peer == near.getsockname()
            assert peers.owner(peer, listener.getsockname()) == os.getuid()
            assert peers.owner((peer[0], 1), listener.getsockname()) is None
