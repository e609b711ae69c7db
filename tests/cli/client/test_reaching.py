"""What is at an address where no statestored answers: each case is said apart, with what to do."""

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import click
import pytest
import zmq

from topicast.cli.client.operator import Operator, catalog_at
from topicast.cli.client.reaching import listener_problem, problem
from topicast.cli.doctor.checks import CheckOutcome
from topicast.cli.doctor.host import ports
from topicast.cli.lazy import subcommands
from topicast.cli.main import topicast as topicast_command
from topicast.cli.records.overview import NOT_REACHED
from topicast.cli.terminal.exit_codes import NOT_REACHABLE
from topicast.tests.cli.processes import Running, catalogd, statestored, topicast
from topicast.tests.keys import user_keys
from topicast.tests.waiting import in_time, seconds, until
from topicast.topics.errors import LinkError
from topicast.topics.keys.credential import credential_text
from topicast.topics.link import new_pair
from topicast.topics.settings import parse_addresses

SAID_S = 2.0
STOPPED = "takes connections and says nothing: its process is stopped or hangs"
NO_METASTORE = "thrift://127.0.0.1:1"
OTHERS = {"quickstart", "run", "agent", "start", "debug"}
"""Commands that start something, or say it and go on with the doctor."""
ARGUMENTS = {"path": "FOLDER/out"}
MORE = {
    "top": ("--once",),
    "refresh": ("--all",),
    "invalidate": ("--all",),
    "convert": ("--from=a.b", "--to=a.c"),
}


@dataclass(frozen=True, slots=True)
class Both:
    """A hub and a catalogd that has no metastore."""

    hub: Running
    catalogd: Running


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("reaching")
    with (
        statestored(folder) as hub,
        catalogd(folder, hive=NO_METASTORE, statestores=hub.ready["address"]) as own,
    ):
        yield Both(hub, own)


@contextmanager
def listening(words: bytes) -> Iterator[str]:
    """A server that takes connections, and says ``words`` to each."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with ExitStack() as held, suppress(OSError):  # the end of the server
                while True:
                    held.enter_context(server.accept()[0]).sendall(words)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def another_zeromq() -> Iterator[str]:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        yield f"tcp://127.0.0.1:{port}"


class WebServer(HTTPServer):
    """A server of somebody else; ``looks``: how often it was asked for a page."""

    looks = 0

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.server_port}"


class Quiet(BaseHTTPRequestHandler):
    server: WebServer

    def do_GET(self) -> None:
        self.server.looks += 1
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def web_server() -> Iterator[WebServer]:
    with WebServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def refusal(address: str) -> str:
    """Return the error of a command at ``address``, which comes in time."""
    user_keys("operator")
    errors: list[str] = []

    def tried() -> None:
        with pytest.raises(LinkError) as error, Operator(parse_addresses(address)):
            pass
        errors.append(str(error.value))

    in_time(lambda: seconds(tried), limit_s=SAID_S)
    text = errors[-1]
    assert text.startswith(f"no statestored answers at {address}: ")
    return text


def test_port_where_nothing_listens() -> None:
    assert "nothing listens there; start one, or name others" in refusal("tcp://127.0.0.1:1")


def test_host_that_is_not_known() -> None:
    text = refusal("tcp://no-such-host.invalid:24000")
    assert "does not know the host no-such-host.invalid; correct --statestores" in text
    assert text.endswith("getent hosts no-such-host.invalid")


def test_only_the_first_address_of_a_name_is_looked_at_as_no_other_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = socket.getaddrinfo

    def two_addresses(host: str | None, port: int | None, *more: int) -> Any:
        """Resolve hub.example as a DNS server with two addresses does."""
        if host != "hub.example":
            return known(host, port, *more)
        return [*known("127.0.0.2", port, *more), *known("127.0.0.1", port, *more)]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    with listening(b"") as address:
        (named,) = parse_addresses(address.replace("127.0.0.1", "hub.example"))
        first = "127.0.0.2, the first of the 2 addresses of hub.example"
        assert listener_problem(named).startswith(f"nothing listens there ({first}); start one")
        assert (
            ports([named], daemon="statestored", setting="--statestores").verdict
            is CheckOutcome.WRONG
        )


def test_peer_that_says_nothing() -> None:
    with listening(b"") as address:
        assert "takes connections and says nothing: its process is stopped" in refusal(address)


@pytest.mark.parametrize("words", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\xff" * 64], ids=["ssh", "noise"])
def test_peer_that_is_not_topicast(words: bytes) -> None:
    with listening(words) as address:
        text = refusal(address)
    assert "what listens there is not Topicast; correct the port in --statestores" in text


def test_zeromq_of_another_program_is_not_topicast() -> None:
    with another_zeromq() as address:
        assert "is not Topicast; correct the port" in refusal(address)


def test_web_server_is_not_topicast() -> None:
    with web_server() as web:
        assert "is not Topicast, but a web server; correct the port" in refusal(web.address)


def test_our_other_ports_are_known(both: Both) -> None:
    web = both.hub.ready["web"].replace("http", "tcp")
    assert "that is the page of a daemon; requests go to another port" in refusal(web)
    with Operator(parse_addresses(both.hub.ready["address"]), timeout_s=30) as visit:
        data = visit.welcome.data_address
    assert "that is its port for data; requests go to the port before it" in refusal(data)
    service = both.catalogd.ready["address"]
    assert "that is catalogd; name a statestored" in refusal(service)


def test_key_that_is_not_admitted_and_hub_of_another_key(both: Both) -> None:
    (address,) = parse_addresses(both.hub.ready["address"])
    ours = user_keys("operator").credential
    assert problem(address, ours) == "", "it admits our key"
    stranger = replace(ours, pair=new_pair())
    assert "does not admit the key operator; get a key file" in problem(address, stranger)
    other = replace(ours, hubs=(("", new_pair().public),), catalogd=new_pair().public)
    assert "has another key than operator knows; get a key file" in problem(address, other)


def test_each_of_several_addresses_is_explained() -> None:
    user_keys("operator")
    with listening(b"") as silent:
        refused = "tcp://127.0.0.1:1"
        with (
            pytest.raises(LinkError) as error,
            Operator(parse_addresses(f"{silent},{refused}")),
        ):
            pass
    assert f"at {silent}: it takes connections" in str(error.value)
    assert f"; and at {refused}: nothing listens there" in str(error.value)


def test_command_that_reads_says_it_as_soon() -> None:
    user_keys("operator")

    def tried() -> None:
        with (
            pytest.raises(LinkError, match="nothing listens there"),
            catalog_at("tcp://127.0.0.1:1", budget="1MB", timeout_s=60),
        ):
            pass

    in_time(lambda: seconds(tried), limit_s=SAID_S)


def connecting(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that takes the addresses of statestoreds, and then ends."""
    for name, one in subcommands(group).items():
        if isinstance(one, click.Group):
            yield from connecting(one, *path, name)
        elif name not in OTHERS and any(param.name == "statestores" for param in one.params):
            required = (p for p in one.params if p.required and isinstance(p, click.Argument))
            given = (ARGUMENTS.get(str(param.name), "a.b") for param in required)
            yield (*path, name, *given, *MORE.get(name, ()))


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_each_command_says_what_is_there_instead_after_one_look(tmp_path: Path) -> None:
    """Of a web server; how long a look takes, the tests above say."""
    user_keys("operator")
    user_keys("driver")
    with web_server() as web:
        for words in connecting(topicast_command):
            web.looks = 0
            given = [one.replace("FOLDER", str(tmp_path)) for one in words]
            done = topicast(*given, TOPICAST_STATESTORES=web.address)
            said = done.stderr + done.stdout
            code = 1 if words[0] == "doctor" else NOT_REACHABLE
            assert (done.returncode, web.looks) == (code, 1), (words, said)
            assert "is not Topicast, but a web server" in said, words


def test_first_hub_that_answers_is_used_though_another_is_silent(both: Both) -> None:
    address = both.hub.ready["address"]
    with (
        listening(b"") as silent,
        Operator(parse_addresses(f"{silent},{address}"), timeout_s=30) as visit,
    ):
        assert str(visit.address) == address


def test_look_is_closed_again() -> None:
    """A port is free again once it was looked at."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        problem(parse_addresses(f"tcp://127.0.0.1:{port}")[0], user_keys("operator").credential)
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_hub_that_does_not_serve_is_said_before_it_is_waited_for(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    where = both.hub.ready["address"]
    user_keys("operator")
    with (
        pytest.raises(LinkError, match="has nothing from a catalogd"),
        catalog_at(where, budget="1MB", timeout_s=0.5),
    ):
        pass
    said = capsys.readouterr().err
    assert said.startswith(f"note: statestored {where} is not serving: ")
    assert said.endswith("waits 0.5 s\n")


def test_catalogd_that_is_stopped_is_said_to_be(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every command that needs it, as soon as what is said of a statestored."""
    user_keys("operator")
    where = f"--statestores={both.hub.ready['address']}"

    def said(*words: str) -> str:
        topicast_command.main([*words, where], standalone_mode=False)
        return capsys.readouterr().out

    def shows(words: str, *command: str) -> None:
        assert words in said(*(command or ("status",)))

    def says_so_twice() -> None:
        shows(STOPPED)
        with pytest.raises(LinkError, match="stopped or hangs; look at it on that host"):
            said("events")

    until(lambda: "no metastore reached" in said("status"), timeout_s=30, what="catalogd's word")
    both.catalogd.process.send_signal(signal.SIGSTOP)
    try:
        in_time(lambda: seconds(lambda: shows(STOPPED)), limit_s=SAID_S)
        in_time(lambda: seconds(says_so_twice), limit_s=2 * SAID_S)
        top = partial(shows, f": {NOT_REACHED}\n", "top", "--once")
        in_time(lambda: seconds(top), limit_s=SAID_S)
    finally:
        both.catalogd.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("what", ["nothing", "catalogd", "another key"])
def test_run_says_that_no_statestored_is_there(
    both: Both,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """While the application goes on; what needs a key if the environment names a key."""
    ours, at = user_keys("driver").credential, "tcp://127.0.0.1:1"
    if what != "nothing":
        stranger = replace(ours, pair=new_pair()) if what == "another key" else ours
        monkeypatch.setenv("TOPICAST_KEY", credential_text(stranger))
        at = (both.hub if what == "another key" else both.catalogd).ready["address"]
    said = {
        "nothing": "nothing listens there",
        "catalogd": "that is catalogd; name a statestored",
        "another key": "it does not admit the key driver; get a key file",
    }
    words = ["run", f"--statestores={at}", "--", sys.executable, "-c"]
    with pytest.raises(SystemExit):
        topicast_command.main([*words, "input()"], standalone_mode=False)
    errors = ""

    def look() -> bool:
        nonlocal errors
        errors += capfd.readouterr().err
        return "until one does, this is plain Spark" in errors

    until(look, timeout_s=10, what="the line")
    assert f"no statestored answers at {at}: {said[what]}" in errors


def test_pipeline_says_so_before_it_starts_spark() -> None:
    user_keys("driver")
    words = ["pipeline", "export", "/tmp/none", "--statestores=tcp://127.0.0.1:1"]

    def tried() -> None:
        with pytest.raises(LinkError, match="nothing listens there; start one"):
            topicast_command.main(words, standalone_mode=False)

    in_time(lambda: seconds(tried), limit_s=SAID_S)
