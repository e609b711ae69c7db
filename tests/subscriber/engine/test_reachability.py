"""Which servers are not reached: noticed after a while, named with what to do, and discarded."""

import pytest

from topicast.subscriber.engine.reachability import ADDRESSES_MAX, UNREACHED_S, Reachability
from topicast.subscriber.protocol.effects import Connection
from topicast.topics.link import Handshake

A, A_DATA = "tcp://hub-a:24000", "tcp://hub-a:24001"
B, B_DATA = "tcp://hub-b:24000", "tcp://hub-b:24001"
CATALOGD = "tcp://catalogd:26000"
NONE, LOST, DONE = Handshake.NONE, Handshake.UNREACHED, Handshake.DONE
CONTROL, DATA, SERVICE = Connection.CONTROL, Connection.DATA, Connection.SERVICE


class Connections:
    """A reachability in virtual time, with the connections that it looks at."""

    def __init__(self, hub: str = A, data: str = A_DATA, catalogd: str = CATALOGD) -> None:
        self.seen = Reachability("etl")
        self.states: dict[Connection, Handshake] = {}
        self.now = 100.0
        for connection, address in ((CONTROL, hub), (DATA, data), (SERVICE, catalogd)):
            self.open(connection, address)

    def open(self, connection: Connection, address: str) -> None:
        """Connect, and leave the former connection, if there is any."""
        if connection in self.states:
            self.seen.closed(connection)
        self.seen.opened(connection, address)
        self.states[connection] = NONE

    def after(self, seconds: float = 0.0, **states: Handshake) -> str:
        """Return the problem once these connections have had these states for so long."""
        self.states.update({Connection(name): state for name, state in states.items()})
        self.seen.look(self.states, now=self.now)
        self.now += seconds
        self.seen.look(self.states, now=self.now)
        return self.seen.problem


@pytest.mark.parametrize("state", [NONE, LOST])
@pytest.mark.parametrize(
    ("connection", "said"),
    [
        (CONTROL, rf"the statestored at {A} is not reached"),
        (DATA, rf"at {A} says that its data is at {A_DATA}, which is not reached"),
        (SERVICE, rf"catalogd says that it is at {CATALOGD}, which is not reached"),
    ],
)
def test_server_that_is_not_reached_for_a_while_is_named(
    connection: Connection, said: str, state: Handshake
) -> None:
    found = Connections()
    found.after(control=DONE, data=DONE, service=DONE)
    assert found.after(UNREACHED_S - 0.1, **{connection: state}) == ""
    problem = found.after(0.2)
    assert said in problem
    assert "port" in problem
    assert not found.seen.is_well
    assert found.after(**{connection: DONE}) == ""
    assert found.seen.is_well


def test_restart_of_a_server_is_no_problem() -> None:
    found = Connections()
    for _ in range(3):
        assert found.after(UNREACHED_S - 1, control=LOST, data=LOST, service=LOST) == ""
        assert found.after(1, control=DONE, data=DONE, service=DONE) == ""


def test_change_of_the_problem_is_said_once() -> None:
    found = Connections()
    found.after(UNREACHED_S, control=DONE, data=DONE, service=LOST)
    assert not found.seen.look(found.states, now=found.now + 1)
    found.states[SERVICE] = DONE
    assert found.seen.look(found.states, now=found.now + 1)


def test_data_that_no_hub_delivers_is_named_though_each_is_left_soon() -> None:
    """Of two hubs each is left after a second: less than a connection into a black hole takes."""
    found = Connections()
    problems = set()
    for hub, data in ((A, A_DATA), (B, B_DATA)) * 3:
        found.open(CONTROL, hub)
        found.open(DATA, data)
        problems.add(found.after(1, control=DONE, data=NONE, service=DONE))
    assert any(A_DATA in one for one in problems)


def test_hub_that_is_away_is_no_problem_while_another_serves() -> None:
    found = Connections()
    found.after(1, control=LOST, data=NONE, service=DONE)
    found.open(CONTROL, B)
    found.open(DATA, B_DATA)
    assert found.after(2 * UNREACHED_S, control=DONE, data=DONE) == ""


def test_former_address_of_catalogd_is_no_problem() -> None:
    found = Connections()
    found.after(UNREACHED_S, control=DONE, data=DONE, service=LOST)
    found.open(SERVICE, "tcp://elsewhere:26000")
    assert found.after(service=NONE) == ""
    assert found.after(UNREACHED_S, service=DONE) == ""


def test_refused_key_comes_before_what_is_not_reached() -> None:
    found = Connections()
    found.after(UNREACHED_S, control=LOST, data=LOST, service=LOST)
    assert not found.seen.refuses_key
    problem = found.after(service=Handshake.REFUSED)
    assert problem.startswith(f"catalogd: key etl {Handshake.REFUSED.value}; ")
    assert "topicast keys revoke etl, then topicast keys add etl" in problem
    assert found.seen.refuses_key


def test_refusal_is_one_problem_from_one_attempt_to_the_next_and_of_several_hubs() -> None:
    found = Connections()
    first = found.after(control=Handshake.REFUSED)
    assert f"the statestored at {A}: key etl refused" in first
    found.open(CONTROL, A)
    assert found.after() == first, "it is tried again"
    found.open(CONTROL, B)
    assert found.after(control=Handshake.FAILED) == first
    assert found.seen.refuses_key
    found.open(CONTROL, A)
    assert found.after(control=DONE, data=DONE, service=DONE) == ""
    found.open(CONTROL, B)
    assert found.after() == "", "what it was is over"


def test_refusal_of_a_catalogd_that_has_moved_is_over() -> None:
    found = Connections()
    refused = found.after(control=DONE, data=DONE, service=Handshake.REFUSED)
    assert "catalogd: key etl" in refused
    found.open(SERVICE, CATALOGD)
    assert found.after() == refused
    found.open(SERVICE, "tcp://elsewhere:26000")
    assert found.after() == ""


def test_port_of_another_socket_is_thought_of_before_a_key_is_revoked() -> None:
    problem = Connections().after(control=Handshake.FAILED)
    assert "is this the port for requests, 24000 unless set? If so, where catalogd's" in problem


def test_addresses_that_peers_give_are_bounded() -> None:
    found = Connections()
    for number in range(2 * ADDRESSES_MAX):
        found.open(DATA, f"tcp://hub-{number}:1")
        found.after(data=NONE)
    assert "hub-0:1" not in found.after(UNREACHED_S, control=DONE, service=DONE)
