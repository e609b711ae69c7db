import socket

from topicast.cli.quickstart.ports import ANY, LOOPBACK, usual_or_any


def test_free_port_is_taken_as_usual() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
    assert usual_or_any(port) == port


def test_port_in_use_is_left_to_who_has_it() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        assert usual_or_any(server.getsockname()[1]) == ANY


def test_port_beside_one_in_use_is_not_taken_where_both_are_needed() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert usual_or_any(port - 1, beside=1) == ANY
