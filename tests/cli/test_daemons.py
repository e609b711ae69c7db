import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from topicast import __version__
from topicast.cli import daemons
from topicast.cli.pages.metrics import CATALOGD, STATESTORED, Table
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.forks import forked
from topicast.tests.cli.processes import (
    Running,
    catalogd,
    completed,
    running,
    statestored,
    steady_port,
    topicast,
)
from topicast.tests.integration.relay import Relay
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.keys.credential import credential_text
from topicast.topics.keys.folder import KeysFolder
from topicast.topics.link import new_pair


def ended(name: str, *words: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a daemon that is expected to end by itself, with ``environment`` added."""
    entry = {"statestored": daemons.statestored, "catalogd": daemons.catalogd}[name]
    return forked(words, {**os.environ, **environment}, timeout_s=100, entry=entry)


@pytest.mark.parametrize("name", ["statestored", "catalogd"])
def test_version_is_printed(name: str) -> None:
    assert ended(name, "--version").stdout == f"{name} {__version__}\n"


def test_collector_leaves_what_lives_long_and_takes_young_cycles() -> None:
    script = """
import gc
from collections import Counter
from weakref import WeakSet
from topicast.cli.daemons import collect_old_rarely

class Cycle:
    def __init__(self):
        self.itself = self

collect_old_rarely()
passes = Counter()
gc.callbacks.append(lambda phase, facts: passes.update([facts["generation"]]))
cycles = WeakSet(Cycle() for _ in range(10))
held = [(number, []) for number in range(100_000)]
print(passes[0] > 0, passes[1] > 0, passes[2], len(cycles))
"""
    reported = completed([sys.executable, "-c", script], timeout_s=100)
    assert reported.stdout == "True True 0 0\n", reported.stderr


def test_collector_takes_old_cycles_at_last_and_visits_what_lives_on_once() -> None:
    script = """
import gc
from weakref import WeakSet
from topicast.cli.daemons import collect_old_rarely

class Cycle:
    def __init__(self):
        self.itself = self

def grow(size):
    held.append([[] for _ in range(size)])

held = []
collect_old_rarely(old_passes=50)
old = [Cycle() for _ in range(10)]
cycles = WeakSet(old)
grow(5_000)  # several young passes, and none of the old
before = gc.get_freeze_count()
old.clear()
grow(100_000)
print(len(cycles), gc.get_freeze_count() - before > 50_000)
"""
    reported = completed([sys.executable, "-c", script], timeout_s=100)
    assert reported.stdout == "0 True\n", reported.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_hub_with_zero(number: int, tmp_path: Path) -> None:
    with statestored(tmp_path) as hub:
        assert hub.ready["address"].startswith("tcp://127.0.0.1:")
        assert hub.end(number) == 0
        assert hub.process.stdout is not None
        assert hub.process.stdout.read() == "", "without a catalogd it is never ready"


def test_start_is_logged_with_what_is_not_at_its_default(tmp_path: Path) -> None:
    with statestored(tmp_path, "--statestore_heartbeat_frequency_ms=300") as hub:
        (line,) = [one for one in hub.log.read_text().splitlines() if " starts: " in one]
        assert f"daemon=statestored release={__version__} " in line
        assert "statestore_heartbeat_frequency_ms=300" in line
        assert "max_missed" not in line


def test_hub_without_catalogd_says_why_it_does_not_serve(tmp_path: Path) -> None:
    with statestored(tmp_path) as hub:
        status, reason = hub.health()
        assert status == 503
        assert "catalogd" in reason
        assert "topicast_statestored_serving 0.0" in hub.page("/metrics")


def test_both_are_healthy_once_the_metastore_was_read(served: Served) -> None:
    for daemon in (served.statestored, served.catalogd):
        until(lambda daemon=daemon: daemon.health() == (200, "serving\n"), what="health")
        facts = json.loads(daemon.page("/?json"))
        assert facts["serving"]
        assert (facts["verdict"], facts["reasons"]) == ("serving", [])


NOT_HERE: Final = {"certificate_left_s", "load_left_s"}  # pages by HTTP; nothing is to be loaded


def unscraped(daemon: Running, name: str, table: Table) -> list[str]:
    """Return the facts of a daemon's table that its metrics do not have."""
    scraped = daemon.page("/metrics")
    there = [fact for fact in table if fact not in NOT_HERE]
    return [fact for fact in there if f"\ntopicast_{name}_{fact}" not in scraped]


@pytest.mark.parametrize(("name", "table"), [("statestored", STATESTORED), ("catalogd", CATALOGD)])
def test_metrics_of_both_are_what_their_tables_name(
    served: Served, name: str, table: Table
) -> None:
    daemon = getattr(served, name)
    until(lambda: not unscraped(daemon, name, table), timeout_s=20, what=f"all of {name}'s")


def test_numbers_in_the_status_of_a_daemon_are_metrics(served: Served) -> None:
    names_not_numbers = {"hub", "start"}
    for daemon, table in ((served.statestored, STATESTORED), (served.catalogd, CATALOGD)):
        facts = json.loads(daemon.page("/?json"))
        numbers = {name for name, value in facts.items() if type(value) in {int, float}}
        unnamed = {n for n in numbers if n not in table and not n.startswith("refused_")}
        assert unnamed <= names_not_numbers


def test_port_in_use_is_printed_and_ends_with_one(served: Served, tmp_path: Path) -> None:
    port = served.statestores.rpartition(":")[2]
    done = ended("statestored", f"--state_store_port={port}", "--webserver_port=0")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: tcp://127.0.0.1:{port}: the port is in use; stop its owner, or pass another "
        "--state_store_port (0 takes any free ones)\n"
    )
    assert done.stdout == ""


def test_port_for_data_in_use_is_said_to_follow_the_flag() -> None:
    port = steady_port()
    with socket.create_server(("127.0.0.1", port + 1)):
        done = ended("statestored", f"--state_store_port={port}", "--webserver_port=0")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: tcp://127.0.0.1:{port + 1}: the port is in use; stop its owner, or pass another "
        "--state_store_port, whose next port is for data (0 takes any free ones)\n"
    )


@pytest.mark.parametrize(
    ("flags", "port", "what"),
    [
        ("statestored --state_store_port=24500", 24500, "requests (--state_store_port)"),
        ("statestored --state_store_port=24500", 24501, "data (--state_store_port, plus 1)"),
        ("catalogd --catalog_service_port=26500", 26500, "requests (--catalog_service_port)"),
    ],
)
def test_port_of_the_pages_that_is_another_of_the_daemons_own_is_wrong_use(
    flags: str, port: int, what: str
) -> None:
    done = ended(*flags.split(), f"--webserver_port={port}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: webserver_port={port} is not valid: the daemon itself serves {what} there; "
        "choose another, or 0 for any free one\n"
    )


def test_port_of_the_pages_in_use_ends_with_one(served: Served, tmp_path: Path) -> None:
    port = served.catalogd.ready["web"].rpartition(":")[2]
    done = ended(
        "catalogd",
        "--catalog_service_port=0",
        f"--webserver_port={port}",
        f"--state_dir={tmp_path}",
    )
    assert done.returncode == 1
    assert f"web pages cannot listen on 127.0.0.1:{port}" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        ("catalogd --statestores=http://x", 2, "statestores"),
        ("catalogd --hive_metastore_uris=nonsense", 2, "thrift://HOST:PORT"),
        ("catalogd --num_topics=3", 2, "num_topics"),
        ("statestored --state_store_host=0.0.0.0", 2, "listens on 0.0.0.0"),
        ("statestored --state_store_host=hub-1", 2, "topicast keys add NAME --role hub"),
        ("statestored --advertise_address=:1", 2, "advertise_address=':1'"),
        ("catalogd --catalog_service_host=catalog-1", 2, "topicast keys init --keys_dir={0}/home"),
        ("statestored --keys_dir={0}", 2, "topicast keys add NAME --role hub"),
        ("catalogd --keys_dir={0}", 2, "topicast keys init --keys_dir={0}"),
        ("catalogd --keys_dir={0}/catalogd", 2, "folder with the list of clients"),
        ("catalogd --webserver_port=70000", 2, "webserver_port"),
        ("statestored --webserver_interface=0.0.0.0", 2, "--webserver_password_file"),
        ("catalogd --webserver_interface=::", 2, "--webserver_token_file"),
        ("catalogd --webserver_token_file={0}/file", 2, "chmod 600 {0}/file"),
        ("statestored --webserver_certificate_file={0}/file", 2, "--webserver_private_key_file"),
        ("catalogd --state_dir={0}/file/s", 1, "{0}/file"),
        # not by the rights of a folder: the tests may run as root
        ("catalogd --state_dir=/dev/null", 1, "/dev/null: cannot be used as state folder"),
    ],
)
def test_setting_that_is_not_allowed_or_cannot_be_used_ends_the_daemon(
    arguments: str, code: int, printed: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "catalogd").mkdir()
    shutil.copy(user_keys("catalogd").folder.file("catalogd"), tmp_path / "catalogd")
    name, setting = arguments.format(tmp_path).split()
    more = [f"--state_dir={tmp_path}", "--catalog_service_port=0"] if name == "catalogd" else []
    done = ended(name, *more, setting, XDG_STATE_HOME=str(tmp_path / "home"))
    assert done.returncode == code
    assert printed.format(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


def test_two_catalogds_do_not_share_a_state_folder(tmp_path: Path) -> None:
    flags = ["--catalog_service_port=0", "--webserver_port=0", f"--state_dir={tmp_path / 's'}"]
    with running(tmp_path / "log", "daemons", "catalogd", *flags):
        done = ended("catalogd", *flags)
    assert done.returncode == 1
    assert str(tmp_path / "s") in done.stderr


def test_store_that_does_not_fit_or_is_damaged_is_left_as_it_is(tmp_path: Path) -> None:
    """Given a store of 16 topics, when 32 are asked for, or it is cut, then that is printed."""
    flags = ["--catalog_service_port=0", "--webserver_port=0", f"--state_dir={tmp_path / 's'}"]
    with running(tmp_path / "log", "daemons", "catalogd", "--num_topics=16", *flags) as first:
        assert first.end() == 0
    (store,) = (tmp_path / "s").glob("*.sqlite3")
    kept = store.read_bytes()
    other = ended("catalogd", "--num_topics=32", *flags)
    assert other.returncode == 1
    assert other.stderr.startswith(f"error: {store}: was made with --num_topics=16, and ")
    assert store.read_bytes() == kept
    store.write_bytes(kept[:100] + bytes(2000))
    damaged = ended("catalogd", "--num_topics=16", *flags)
    assert damaged.returncode == 1
    assert damaged.stderr.startswith(f"error: {store}: is damaged")
    for printed in (other.stderr, damaged.stderr):
        assert "Traceback" not in printed
        assert len(printed.splitlines()) == 1


def test_killed_catalogd_is_back_with_its_epoch(hive: EmbeddedMetastore, tmp_path: Path) -> None:
    """Given a hub that saw it, when catalogd is killed and restarted, then nothing starts anew."""
    with ExitStack() as up:
        hub = up.enter_context(statestored(tmp_path))
        flags = [
            f"--statestores={hub.ready['address']}",
            "--catalog_service_port=0",
            "--webserver_port=0",
            f"--state_dir={tmp_path / 'state'}",
            f"--hive_metastore_uris={hive.uri}",
        ]

        def epoch_at_hub() -> int:
            return int(json.loads(hub.page("/?json"))["epoch"])

        with running(tmp_path / "log", "daemons", "catalogd", *flags) as first:
            epoch = until(epoch_at_hub, what="the first epoch at the hub")
            assert first.end(signal.SIGKILL) == -signal.SIGKILL
        with running(tmp_path / "log", "daemons", "catalogd", *flags) as second:
            assert json.loads(second.page("/?json"))["epoch"] == epoch
            assert second.end() == 0
        assert epoch_at_hub() == epoch


def test_hub_takes_its_port_again_after_it_was_killed(tmp_path: Path) -> None:
    port = steady_port()
    flags = [f"--state_store_port={port}", "--webserver_port=0"]
    with running(tmp_path / "log", "daemons", "statestored", *flags) as first:
        first.end(signal.SIGKILL)
    with running(tmp_path / "log", "daemons", "statestored", *flags) as second:
        assert second.ready["address"].endswith(f":{port}")


def test_closed_stdout_does_not_end_a_daemon(hive: EmbeddedMetastore, tmp_path: Path) -> None:
    """Given a hub whose output nobody reads any more, then it serves, once it can."""
    with statestored(tmp_path) as hub:
        assert hub.process.stdout is not None
        hub.process.stdout.close()
        with catalogd(tmp_path, hive=hive.uri, statestores=hub.ready["address"]):
            until(lambda: hub.health()[0] == 200, what="the hub to serve")
        assert hub.end() == 0


def test_ready_is_printed_when_health_is_200_and_not_before(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Given a metastore that is away, then neither daemon is ready, until it has been read."""
    with ExitStack() as up:
        relay = up.enter_context(Relay("thrift://127.0.0.1:1"))
        hub = up.enter_context(statestored(tmp_path))
        own = up.enter_context(catalogd(tmp_path, hive=relay.uri, statestores=hub.ready["address"]))
        until(lambda: "cannot" in own.health()[1], what="the reason")
        assert [one.health()[0] for one in (hub, own)] == [503, 503]
        assert not [one for one in (hub, own) if may_be_read(one)]
        relay.lead_to(hive.uri)
        for one in (own, hub):
            one.becomes_ready()
            assert one.health()[0] == 200


def test_catalogd_with_a_store_is_ready_though_its_metastore_is_away(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    with statestored(tmp_path) as hub:
        where = {"statestores": hub.ready["address"]}
        with catalogd(tmp_path, hive=hive.uri, **where) as first:
            first.becomes_ready()
            until(lambda: first.health() == (200, "serving\n"), what="what is to be stored")
            first.end()
        with catalogd(tmp_path, hive="thrift://127.0.0.1:1", **where) as second:
            second.becomes_ready()
            until(lambda: "metastore does not answer" in second.health()[1], what="the reason")
            assert second.health()[0] == 200


def may_be_read(daemon: Running) -> bool:
    """Return whether it has printed more than was read."""
    assert daemon.process.stdout is not None
    return bool(select.select([daemon.process.stdout], [], [], 0)[0])


def test_first_start_makes_keys_for_this_user_and_the_second_keeps_them(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Given a user without keys, when both daemons have started, then all admit each other."""
    user = {"XDG_STATE_HOME": str(tmp_path / "home")}
    home = {**os.environ, **user}
    keys = tmp_path / "home" / "topicast" / "keys"
    port = steady_port()
    hub_flags = (f"--state_store_port={port}", "--webserver_port=0")
    flags = (
        *("--catalog_service_port=0", "--webserver_port=0", f"--state_dir={tmp_path / 's'}"),
        *(f"--statestores=tcp://127.0.0.1:{port}", f"--hive_metastore_uris={hive.uri}"),
    )
    log, where = tmp_path / "log", f"--statestores=tcp://127.0.0.1:{port}"
    made = set()
    for _ in range(2):
        with (
            running(log, "daemons", "statestored", *hub_flags, environment=home),
            running(log, "daemons", "catalogd", *flags, environment=home),
        ):
            until(lambda: "hears catalogd" in topicast("status", where, **user).stdout, what="it")
            made.add((keys / "catalogd.key").read_text())
    assert len(made) == 1
    assert (keys / "operator.key").stat().st_mode & 0o777 == 0o600


def test_command_of_another_user_is_refused_with_what_to_do(served: Served, tmp_path: Path) -> None:
    stranger = {"XDG_STATE_HOME": str(tmp_path)}
    done = topicast("status", f"--statestores={served.statestores}", **stranger)
    assert (done.returncode, done.stdout) == (2, "")
    assert "operator.key" in done.stderr
    KeysFolder(tmp_path / "topicast" / "keys").make(new_pair)
    done = topicast("status", f"--statestores={served.statestores}", **stranger)
    assert done.returncode == 3
    assert "it has another key than operator knows; get a key file" in done.stderr


def test_key_that_is_not_admitted_is_refused_with_what_to_do(
    served: Served, tmp_path: Path
) -> None:
    own = user_keys("operator").credential
    stranger = replace(own, pair=new_pair())
    done = topicast(
        "status", f"--statestores={served.statestores}", TOPICAST_KEY=credential_text(stranger)
    )
    assert done.returncode == 3
    assert "it does not admit the key operator; get a key file" in done.stderr
    assert stranger.pair.secret not in done.stderr + done.stdout


def test_secrets_stand_in_no_log_and_on_no_page(served: Served) -> None:
    for name, daemon in (("statestored", served.statestored), ("catalogd", served.catalogd)):
        secret = user_keys(name).credential.pair.secret
        command_line = Path(f"/proc/{daemon.process.pid}/cmdline").read_text()
        shown = daemon.log.read_text() + daemon.page("/") + daemon.page("/?json") + command_line
        assert secret not in shown
        assert secret not in daemon.page("/metrics")
