"""Leases: one holder of a table at a time, also over a restart, and a renewal that is proof."""

import pytest

from topicast.catalog.model.versions import LeaseRow
from topicast.catalog.serve.leases import LEASE_S_MAX, LEASES_MAX, Leases, TooManyLeases
from topicast.tests.cluster.alone import Alone
from topicast.topics.errors import LeaseHeld
from topicast.topics.turn import Turn
from topicast.topics.wire.messages.catalog import Lease, Leased
from topicast.topics.wire.messages.connection import Refused

ANN, BEN = b"a" * 16, b"b" * 16
TABLE = ("lake", "events")


def row(holder: bytes = ANN, *, number: int = 0, lease_s: int = 30) -> LeaseRow:
    table = ("lake", f"t{number}") if number else TABLE
    return LeaseRow(table=table, holder=holder, owner=f"owner {holder[:1]!r}", lease_s=lease_s)


class World:
    """Leases in virtual time."""

    def __init__(self, *rows: LeaseRow) -> None:
        self.turn = Turn[object]()
        self.leases = Leases(self.turn, rows)

    def take(self, holder: bytes, now: float, *, renew: bool = False) -> int:
        return self.take_row(row(holder), now, renew=renew)

    def take_row(self, one: LeaseRow, now: float, *, renew: bool = False) -> int:
        self.leases.check()
        self.turn.now = now
        return self.leases.take(one, renew=renew)

    def end(self, holder: bytes, now: float) -> None:
        self.turn.now = now
        self.leases.end(TABLE, holder)

    def changed(self, now: float) -> tuple[LeaseRow, ...] | None:
        self.turn.now = now
        return self.leases.changed()


def lease(holder: bytes, lease_s: int = 30, *, renew: bool = False) -> Lease:
    return Lease(
        request=7,
        db="lake",
        table="events",
        holder=holder,
        owner="convert on host-1",
        lease_s=lease_s,
        renew=renew,
    )


def test_second_holder_is_refused_and_reads_who_has_the_lease_until_it_is_over() -> None:
    """P-LEASE-1."""
    world = World()
    assert world.take(ANN, 100.0) == 30
    with pytest.raises(LeaseHeld, match=r"lake.events is held by owner b'a', for 10 s more"):
        world.take(BEN, 120.0)
    assert world.take(ANN, 120.0, renew=True) == 30
    with pytest.raises(LeaseHeld):
        world.take(BEN, 149.0)
    assert world.take(BEN, 150.0) == 30


def test_renewal_fails_iff_somebody_else_had_the_lease_meanwhile() -> None:
    """P-LEASE-2."""
    world = World()
    with pytest.raises(LeaseHeld, match="lapsed"):
        world.take(ANN, 1.0, renew=True)
    world.take(ANN, 1.0)
    assert world.take(ANN, 900.0, renew=True) == 30  # over, and nobody took it
    world.take(BEN, 1000.0)
    world.end(BEN, 1001.0)
    with pytest.raises(LeaseHeld, match="lapsed"):
        world.take(ANN, 1002.0, renew=True)


def test_only_its_holder_ends_a_lease() -> None:
    """P-LEASE-4."""
    world = World()
    world.take(ANN, 1.0)
    assert world.changed(1.0) == (row(ANN),)
    world.end(BEN, 2.0)
    assert world.changed(2.0) is None
    with pytest.raises(LeaseHeld):
        world.take(BEN, 3.0)
    world.end(ANN, 4.0)
    assert world.changed(4.0) == ()
    assert world.take(BEN, 5.0) == 30


def test_stored_lease_holds_after_a_restart_as_if_renewed_then() -> None:
    """P-LEASE-3."""
    world = World(row(ANN))
    assert world.changed(5000.0) is None
    with pytest.raises(LeaseHeld):
        world.take(BEN, 5029.0)
    assert world.take(BEN, 5030.0) == 30
    assert world.changed(5030.0) == (row(BEN),)
    assert world.take(BEN, 5031.0, renew=True) == 30
    assert world.changed(5031.0) is None  # a renewal is not worth a commit


def test_lease_lasts_ten_minutes_at_most() -> None:
    """P-LEASE-3."""
    assert World().take_row(row(lease_s=86_400), 1.0) == LEASE_S_MAX


def test_leases_that_are_held_are_bounded_and_those_that_are_over_make_room() -> None:
    """P-LEASE-5."""
    world = World()
    for number in range(1, LEASES_MAX + 1):
        world.take_row(row(number=number), 1.0)
    with pytest.raises(TooManyLeases, match=str(LEASES_MAX)):
        world.take(BEN, 2.0)
    world.changed(2.0)
    assert world.take(BEN, 31.0) == 30
    assert len(world.changed(31.0) or ()) == LEASES_MAX
    world.leases.check()


def test_lease_of_a_client_survives_a_restart_of_catalogd() -> None:
    """P-LEASE-1, P-LEASE-3, P-LEASE-4: over the wire, and in the store before the answer."""
    core = Alone()
    assert core.answer_to(lease(ANN), Leased) == Leased(request=7, lease_s=30)
    core.restart()
    refused = core.answer_to(lease(BEN), Refused)
    assert (refused.code, refused.request) == ("HELD", 7)
    assert "held by convert on host-1" in refused.message
    assert core.answer_to(lease(ANN, renew=True), Leased).lease_s == 30
    assert core.answer_to(lease(ANN, 0), Leased).lease_s == 0
    assert core.answer_to(lease(BEN), Leased).lease_s == 30
