"""Each peer's items leave in the order in which they came, one peer after the other."""

from topicast.catalog.serve.fair_queue import FairQueue


def queue(**bounds: int) -> FairQueue[str]:
    return FairQueue(**{"items_max": 100, "per_peer_max": 50, **bounds})


def taken(machine: FairQueue[str]) -> list[tuple[bytes, str]]:
    """Take everything."""
    found = []
    while (one := machine.take()) is not None:
        found.append(one)
    return found


def test_one_of_each_peer_goes_before_a_second_of_any() -> None:
    """P-PULL-13."""
    machine = queue()
    for request in range(4):
        machine.put(b"a", request, f"{request}")
    machine.put(b"b", 7, "7")
    machine.put(b"c", 8, "8")
    machine.put(b"c", 9, "9")
    assert len(machine) == 7
    expected = [
        (b"a", "0"),
        (b"b", "7"),
        (b"c", "8"),
        (b"a", "1"),
        (b"c", "9"),
        (b"a", "2"),
        (b"a", "3"),
    ]
    assert taken(machine) == expected
    assert len(machine) == 0


def test_peer_that_may_not_be_answered_now_delays_no_other() -> None:
    machine = queue()
    machine.put(b"a", 1, "1")
    machine.put(b"b", 2, "2")
    found = machine.take(lambda peer: peer == b"b")
    assert found == (b"b", "2")
    assert machine.take(lambda peer: peer == b"b") is None
    assert not machine.has_item(lambda peer: peer == b"b")
    assert machine.has_item(lambda peer: peer == b"a")
    assert taken(machine) == [(b"a", "1")]


def test_item_of_a_repeated_request_replaces_the_older_one() -> None:
    """P-PULL-4."""
    machine = queue()
    machine.put(b"a", 1, "1")
    machine.put(b"a", 1, "u")
    assert len(machine) == 1
    assert machine.take() == (b"a", "u")


def test_items_of_cancelled_requests_and_of_peers_that_left_are_not_taken() -> None:
    machine = queue()
    for peer in (b"a", b"b", b"c"):
        for request in (1, 2):
            machine.put(peer, request, f"{request}")
    machine.remove(b"a", 1)
    machine.remove(b"a", 9)
    machine.remove(b"c", 1)
    machine.remove(b"c", 2)
    machine.remove_peer(b"b")
    machine.remove_peer(b"z")
    assert len(machine) == 1
    assert taken(machine) == [(b"a", "2")]


def test_queues_are_bounded_for_each_peer_and_in_all() -> None:
    """P-PULL-15."""
    machine = queue(items_max=3, per_peer_max=2)
    assert [machine.put(b"a", request, f"{request}") for request in (1, 2, 3)] == [
        True,
        True,
        False,
    ]
    assert [machine.put(b"b", request, f"{request}") for request in (1, 2)] == [True, False]
    assert machine.put(b"a", 2, "2"), "a repeated request takes no more room"
    machine.remove(b"a", 1)
    assert machine.put(b"c", 1, "1")
