"""The agent's process at a real hub: it answers, syncs, reports changes, is bounded, and ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from topicast.subscriber.endpoint.settings import AgentSettings
from topicast.subscriber.endpoint.supervisor import Supervisor
from topicast.tests.bench.catalogd import BenchCatalogd
from topicast.tests.bench.source import Catalog
from topicast.tests.bench.stores import blocks_of
from topicast.tests.cli.processes import is_gone, statestored
from topicast.tests.subscriber.endpoint.messages import call
from topicast.tests.subscriber.endpoint.test_server import Client
from topicast.tests.waiting import in_time, until
from topicast.topics.errors import NotReady

BUDGET_BYTES = 16 << 20
RSS_BYTES_MAX = (45 << 20) + BUDGET_BYTES * 5 // 4
PARTITIONS = 50_000  # 70 MB as Thrift, 2 MB as blocks
TOKEN = "t" * 24
END_S = 1.0


class Hub(NamedTuple):
    """A statestored, and a catalogd whose content a test commits."""

    address: str
    catalog: Catalog
    commit: Callable[[Any], None]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    catalog = Catalog()
    catalog.create_database("bench")
    catalog.create_table("bench", "plain")
    catalog.create_table("bench", "days", keys=("ds",))
    catalog.fill("bench", "days", *blocks_of(PARTITIONS))
    with ExitStack() as started:
        daemon = started.enter_context(statestored(tmp_path_factory.mktemp("hub")))
        catalogd = BenchCatalogd(catalog, daemon.ready["address"])
        started.callback(catalogd.close)
        catalogd.settle()
        lock, ended = threading.Lock(), threading.Event()

        def turn() -> None:
            while not ended.is_set():
                with lock:
                    catalogd.turn(0.02)

        thread = threading.Thread(target=turn, daemon=True)
        thread.start()
        started.callback(thread.join)
        started.callback(ended.set)

        def commit(delta: Any) -> None:
            with lock:
                catalogd.commit(delta)

        yield Hub(daemon.ready["address"], catalog, commit)


def settings_of(hub: Hub) -> AgentSettings:
    return AgentSettings(
        token=TOKEN, statestores=hub.address, budget=BUDGET_BYTES, name="app", timeout_s=60
    )


class Supervised(NamedTuple):
    supervisor: Supervisor
    changes: list[Any]

    def status(self) -> Any:
        return until(lambda: self.supervisor.status()["agent"], timeout_s=30, what="its status")

    def client(self) -> Client:
        address = until(lambda: self.supervisor.address, timeout_s=60, what="the agent's address")
        return Client(address.port, token=address.token)


@pytest.fixture(scope="module")
def supervised(hub: Hub) -> Iterator[Supervised]:
    changes: list[Any] = []
    with Supervisor(settings_of(hub), on_change=changes.append) as supervisor:
        found = Supervised(supervisor, changes)
        found.client().close()
        yield found


@pytest.mark.timeout(120)
def test_what_was_committed_is_answered_after_a_sync_and_reported(
    hub: Hub, supervised: Supervised
) -> None:
    with closing(supervised.client()) as client:
        before = supervised.supervisor.versions(["bench.plain"])["bench.plain"]
        for number in range(1, 4):
            columns = tuple(f"c{at}" for at in range(number))
            hub.commit(hub.catalog.put_table("bench", "plain", columns=columns))
            supervised.supervisor.sync(30)
            until(lambda: len(client.ask("get_table", "bench", "plain").sd.cols), timeout_s=30)

            def shown(wanted: int = number) -> bool:
                return len(client.ask("get_table", "bench", "plain").sd.cols) == wanted

            until(shown, timeout_s=30)
        after = supervised.supervisor.versions(["bench.plain", "bench.none"])
        assert before is None or (after["bench.plain"] or 0) > before
        assert after["bench.none"] is None
        until(lambda: [one for one in supervised.changes if one["object"] == "bench.plain"])
        newest = max(one["version"] for one in supervised.changes)
        assert after["bench.plain"] == newest


@pytest.mark.timeout(180)
def test_memory_is_bounded_whoever_does_not_read(supervised: Supervised) -> None:
    request = call("get_partitions", "bench", "days", -1)
    with ExitStack() as opened:
        slow = [opened.enter_context(closing(supervised.client())) for _ in range(20)]
        for client in slow:
            client.send(request)
        other = opened.enter_context(closing(supervised.client()))
        assert other.ask("get_table", "bench", "days").tableName == "days"
        names = other.ask("get_partition_names", "bench", "days", 5)
        assert len(names) == 5
        status = supervised.status()
        assert status["rss_bytes"] <= RSS_BYTES_MAX
        assert status["connections"] == len(slow) + 1
        received = 0
        while received < PARTITIONS * 1000:
            received += len(slow[0].sock.recv(1 << 20))
        assert supervised.status()["rss_bytes"] <= RSS_BYTES_MAX


@pytest.mark.timeout(120)
def test_uses_of_a_cache_in_front_are_counted(supervised: Supervised) -> None:
    supervised.supervisor.report_uses({"bench.plain": (3, 0), "bench.days": (0, 2)})
    for wrong, problem in (({"plain": (1, 0)}, "table's name"), ({"a.b": (-1, 0)}, "times")):
        with pytest.raises(NotReady, match=problem):
            supervised.supervisor.report_uses(wrong)


@pytest.mark.timeout(120)
def test_agent_that_was_killed_or_stopped_is_replaced_or_waited_for(supervised: Supervised) -> None:
    old = supervised.supervisor.address
    pid = supervised.status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(NotReady, match="within 0.2 s"):
        supervised.supervisor.sync(0.2)
    os.kill(pid, signal.SIGCONT)
    supervised.supervisor.sync(30)
    os.kill(pid, signal.SIGKILL)
    until(lambda: supervised.supervisor.address not in (None, old), timeout_s=60)
    with closing(supervised.client()) as client:
        assert client.ask("get_table", "bench", "plain").tableName == "plain"
    assert supervised.supervisor.status()["starts"] == 2


@contextmanager
def agent_of(line: bytes) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the command by hand; it is killed at the end."""
    words = [sys.executable, "-m", "topicast.cli.main", "agent"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        tell(process, line)
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def tell(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def said(process: "subprocess.Popen[bytes]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def end_of_input(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()


def term(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("end", [end_of_input, term])
def test_command_ends_with_its_input_or_when_it_is_told(
    hub: Hub, end: Callable[["subprocess.Popen[bytes]"], None]
) -> None:
    def took_s() -> float:
        with agent_of(settings_of(hub).line()) as process:
            ready = said(process)
            assert ready == {"port": ready["port"], "pid": process.pid}
            with closing(Client(ready["port"], token=TOKEN)) as client:
                assert client.ask("get_table", "bench", "plain").tableName == "plain"
                for line in (b'{"id": 7, "do": "status"}\n', b'{"do": "dance"}\n', b"[]\n", b"{\n"):
                    tell(process, line)
                replies = [said(process) for _ in range(4)]
                assert replies[0]["result"]["port"] == ready["port"]
                assert ["error" in one for one in replies] == [False, True, True, True]
                began = time.monotonic()
                end(process)
                assert process.wait(30) == 0
                took = time.monotonic() - began
                assert client.is_closed
            assert is_gone(process.pid)
            return took

    in_time(took_s, limit_s=END_S)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", [b"\n", b'{"token": "short"}\n', b'{"tokens": 1}\n'])
def test_command_without_its_settings_says_what_is_wrong(line: bytes) -> None:
    with agent_of(line) as process:
        assert "error" in said(process)
        assert process.wait(30) == 1


@pytest.mark.timeout(120)
def test_supervisor_without_a_key_says_why_there_is_no_endpoint(tmp_path: Path) -> None:
    settings = AgentSettings(
        token="", statestores="tcp://127.0.0.1:9", key_file=str(tmp_path / "no.key"), timeout_s=1
    )
    with Supervisor(settings) as supervisor:
        until(lambda: "no.key" in supervisor.status()["problem"])
        assert supervisor.status()["port"] is None
        until(lambda: supervisor.status()["starts"] >= 2, timeout_s=30)
    assert supervisor.address is None
