"""Grants: which keys a client may have admitted, for how long, and what ends them."""

from dataclasses import replace

import pytest

from topicast.catalog.serve.grants import GRANTS_PER_CLIENT_MAX, LEASE_S_MAX, AdmitGranted, Grants
from topicast.tests.keys import client
from topicast.topics.errors import UsageError
from topicast.topics.keys.clients import Client, ClientRole, Clients
from topicast.topics.policy import Policy
from topicast.topics.turn import Turn

DRIVER, OPERATOR = client(), client(ClientRole.OPERATOR)
LISTED = Clients((DRIVER, OPERATOR))
KEYS = [f"{number:0>40}" for number in range(GRANTS_PER_CLIENT_MAX + 2)]


class World:
    """Grants in virtual time."""

    def __init__(self) -> None:
        self.turn = Turn[AdmitGranted]()
        self.grants = Grants(self.turn)

    def add(self, granter: Client, public: str, *, lease_s: int, now: float) -> int:
        self.turn.now = now
        return self.grants.add(granter, public, lease_s=lease_s)

    def take(self, now: float) -> tuple[AdmitGranted, ...]:
        self.turn.now = now
        self.grants.send()
        return self.turn.end()

    def admitted(self, now: float) -> list[str] | None:
        """Return the keys of the next Admit, or None if there is none to be performed."""
        found = [sorted(one.of(LISTED)) for one in self.take(now)]
        return found[0] if found else None


def test_granted_key_is_admitted_as_an_observer_until_its_lease_is_over() -> None:
    """P-GRANT-1, P-GRANT-2."""
    world = World()
    assert world.add(DRIVER, KEYS[0], lease_s=60, now=100.0) == 60
    (admit,) = world.take(100.0)
    granted = admit.of(LISTED)[KEYS[0]]
    assert (granted.role, granted.name, granted.public) == ("observer", DRIVER.name, KEYS[0])
    assert world.grants.deadline == 160.0
    assert world.admitted(159.0) is None
    assert world.admitted(160.0) == []
    assert world.admitted(161.0) is None


def test_grant_is_renewed_and_lasts_for_a_day_at_most() -> None:
    """P-GRANT-1."""
    world = World()
    world.add(DRIVER, KEYS[0], lease_s=60, now=100.0)
    assert world.admitted(100.0) == [KEYS[0]]
    assert world.add(DRIVER, KEYS[0], lease_s=1 << 40, now=150.0) == LEASE_S_MAX
    assert world.admitted(161.0) is None
    assert world.admitted(150.0 + LEASE_S_MAX) == []


def test_grant_that_is_renewed_in_time_lasts_and_ends_at_once_when_it_is_ended() -> None:
    """P-GRANT-1, P-GRANT-4."""
    world = World()
    for now in range(0, 100_000, 500):
        world.add(DRIVER, KEYS[0], lease_s=600, now=float(now))
        assert world.admitted(float(now)) == (None if now else [KEYS[0]])
    assert world.add(DRIVER, KEYS[0], lease_s=0, now=99_600.0) == 0
    assert world.admitted(99_600.0) == []
    world.add(DRIVER, KEYS[1], lease_s=0, now=99_600.0)
    assert world.admitted(99_600.0) == []


def test_nobody_is_granted_by_who_is_not_listed_any_more() -> None:
    """P-GRANT-2."""
    world = World()
    world.add(DRIVER, KEYS[0], lease_s=60, now=0.0)
    world.add(OPERATOR, KEYS[1], lease_s=60, now=0.0)
    (admit,) = world.take(0.0)
    assert set(admit.of(LISTED.without(DRIVER.name))) == {KEYS[1]}


def test_bad_key_or_another_clients_key_or_a_key_too_many_is_refused() -> None:
    """P-GRANT-3."""
    world = World()
    for key in KEYS[:GRANTS_PER_CLIENT_MAX]:
        world.add(DRIVER, key, lease_s=60, now=0.0)
    for granter, key, problem in (
        (DRIVER, "short", "a key of 40 characters"),
        (DRIVER, DRIVER.public, "another client's"),
        (OPERATOR, KEYS[0], "another client's"),
        (DRIVER, KEYS[-1], f"has granted {GRANTS_PER_CLIENT_MAX} keys already"),
    ):
        with pytest.raises(UsageError, match=problem):
            world.add(granter, key, lease_s=60, now=0.0)
    assert world.admitted(0.0) == sorted(KEYS[:GRANTS_PER_CLIENT_MAX])
    world.add(OPERATOR, KEYS[-1], lease_s=60, now=0.0)


def test_granted_key_sees_what_its_granter_may_see_by_now() -> None:
    world, sales = World(), replace(DRIVER, policy=Policy(("sales",)))
    world.add(sales, KEYS[0], lease_s=60, now=0.0)
    (admit,) = world.take(0.0)
    changed = replace(sales, policy=Policy(("finance",)))
    for granter in (sales, changed):
        assert admit.of(Clients([granter]))[KEYS[0]].policy == granter.policy
