"""Mistakes are planted on the real parts; ``topicast doctor`` finds each and says what to do."""

import json
import os
import re
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.fb303.FacebookService import getVersion_result
from thrift.Thrift import TApplicationException

from topicast import __version__
from topicast.catalog.metastore.sample import Sample
from topicast.cli.doctor.checks import Check, examine, ok
from topicast.cli.doctor.metastore import judged
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.catalog.metastore.test_hms import answering, calls
from topicast.tests.catalog.metastore.thrift_server import ThriftServer, refusal, reply
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.forks import forked
from topicast.tests.cli.processes import command, completed, statestored, topicast
from topicast.tests.cli.releases import PROTOCOL_2, another_release
from topicast.tests.cluster.fake_metastore import thrift_bytes
from topicast.tests.hive.releases import RealMetastore, real_metastore
from topicast.tests.keys import user_keys
from topicast.tests.spark.applications import quick_environment

END_S_MAX = 200  # Spark may start beside other Sparks
CLOSED = "127.0.0.1:1"
APPLICATION = "raise SystemExit('the application itself is not run')"
MAIN = "from topicast.cli.main import main; main()"
WITHOUT = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *more):
        return None if name == "hmsclient" else self.finder.find_spec(name, *more)

sys.meta_path[:] = map(Without, sys.meta_path)
"""
CLOCK = """
import time
right = time.time
time.time = lambda: right() + {ahead_s}
"""


@dataclass(frozen=True, slots=True)
class Report:
    """What the doctor says: of each check verdict, finding and next step."""

    code: int
    checks: dict[str, dict[str, str]]

    def verdict(self, check: str) -> str:
        return self.checks[check]["verdict"]

    def text(self, check: str) -> str:
        return f"{self.checks[check]['finding']}; {self.checks[check]['next_step']}"


def report(done: "subprocess.CompletedProcess[str]") -> Report:
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return Report(done.returncode, {one["check"]: one for one in found["checks"]})


def doctor(*words: object, **environment: str) -> Report:
    words = ("doctor", "--output=json", *words)
    return report(forked(words, {**os.environ, **environment}, timeout_s=END_S_MAX))


def doctor_of(release: Path, *words: str) -> Report:
    """Return what the doctor of another ``release`` says, which no fork of this one can be."""
    words = ("doctor", "--output=json", *words)
    done = completed(command("main", *words), timeout_s=END_S_MAX, PYTHONPATH=str(release))
    return report(done)


def doctor_after(code: str, *words: str) -> Report:
    """Return what a doctor says in a Python that runs ``code`` first."""
    words = ("doctor", "--output=json", *words)
    return report(completed([sys.executable, "-c", code + MAIN, *words], timeout_s=END_S_MAX))


def catalogd(*flags: object) -> Report:
    return doctor("--role=catalogd", "--timeout_s=30", "--", "catalogd", *flags)


@contextmanager
def operators_key(mode: int) -> Iterator[Path]:
    """Yield the key file of this user's operator, with this mode while it lasts."""
    path = user_keys("operator").folder.file("operator")
    path.chmod(mode)
    try:
        yield path
    finally:
        path.chmod(0o600)


def test_healthy_driver_has_nothing_wrong(served: Served) -> None:
    found = doctor(f"--statestores={served.statestores}")
    assert {one["verdict"] for one in found.checks.values()} == {"ok"}, found
    assert found.code == 0
    shown = topicast("doctor", f"--statestores={served.statestores}").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["ok"] * len(found.checks)


def test_healthy_catalogd_and_hub_have_nothing_wrong(
    served: Served, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    where = (f"--statestores={served.statestores}", f"--state_dir={tmp_path / 'made' / 'later'}")
    found = catalogd(f"--hive_metastore_uris={hive.uri}", *where, "--catalog_service_port=0")
    assert "wrong" not in {one["verdict"] for one in found.checks.values()}, found
    assert not (tmp_path / "made").exists(), "the doctor makes nothing"
    hub = doctor("--role=hub", "--", "statestored", "--state_store_port=0")
    assert {one["verdict"] for one in hub.checks.values()} == {"ok"}, hub


def test_missing_key_file(served: Served, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.key")
    found = doctor(f"--statestores={served.statestores}", TOPICAST_KEY_FILE=missing)
    assert (found.code, found.verdict("key file"), found.verdict("hub")) == (
        1,
        "wrong",
        "not tried",
    )
    assert "topicast keys add NAME --role driver --out FILE" in found.text("key file")
    assert found.text("hub").startswith("it needs: key file")


def test_key_file_that_others_can_read(served: Served) -> None:
    with operators_key(0o644) as path:
        found = doctor(f"--statestores={served.statestores}", TOPICAST_KEY_FILE=str(path))
    assert (found.code, found.verdict("key file")) == (1, "wrong")
    assert f"run: chmod 600 {path}" in found.text("key file")


def test_key_of_another_role(served: Served) -> None:
    with operators_key(0o600) as path:
        found = doctor(f"--statestores={served.statestores}", TOPICAST_KEY_FILE=str(path))
    assert (found.code, found.verdict("key file")) == (0, "warning")
    assert "topicast keys add NAME --role driver" in found.text("key file")


def test_key_of_another_catalogd(served: Served, tmp_path: Path) -> None:
    assert topicast("keys", "init", f"--keys_dir={tmp_path}").returncode == 0
    key = str(tmp_path / "driver.key")
    found = doctor(f"--statestores={served.statestores}", TOPICAST_KEY_FILE=key)
    assert (found.verdict("ports"), found.verdict("hub")) == ("ok", "wrong")
    assert "key" in found.text("hub")
    assert "topicast keys" in found.text("hub")


def test_host_that_nobody_knows() -> None:
    user_keys("driver")
    found = doctor("--statestores=tcp://no-such-host.invalid:24000")
    assert (found.verdict("names"), found.verdict("ports")) == ("wrong", "not tried")
    assert "does not know the host no-such-host.invalid" in found.text("names")
    assert "/etc/hosts" in found.text("names")


def test_hub_that_does_not_run() -> None:
    user_keys("driver")
    found = doctor(f"--statestores=tcp://{CLOSED}")
    assert (found.verdict("ports"), found.verdict("hub")) == ("wrong", "not tried")
    assert "Connection refused; start a statestored there" in found.text("ports")


def test_port_of_something_else() -> None:
    user_keys("driver")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = doctor(f"--statestores=tcp://127.0.0.1:{port}", "--timeout_s=3")
    assert (found.verdict("ports"), found.verdict("hub")) == ("ok", "wrong")
    assert "takes connections and says nothing" in found.text("hub")


def test_hub_without_a_catalogd(tmp_path: Path) -> None:
    with statestored(tmp_path) as hub:
        found = doctor(f"--statestores={hub.ready['address']}")
    assert (found.verdict("hub"), found.verdict("catalogd")) == ("ok", "wrong")
    assert "start one with catalogd --statestores=" in found.text("catalogd")
    assert found.verdict("metastore") == "not tried"


def test_setting_that_is_not_allowed() -> None:
    found = catalogd("--num_topics=3", f"--statestores=tcp://{CLOSED}")
    assert (found.verdict("settings"), found.verdict("key file")) == ("wrong", "not tried")
    assert "num_topics" in found.text("settings")
    assert "a power of two" in found.text("settings")


def test_metastore_that_does_not_run_and_folder_that_cannot_be_made(served: Served) -> None:
    flags = (f"--hive_metastore_uris=thrift://{CLOSED}", "--state_dir=/dev/null/catalogd")
    found = catalogd(*flags, f"--statestores={served.statestores}")
    assert (found.verdict("metastore"), found.verdict("events")) == ("wrong", "not tried")
    assert CLOSED in found.text("metastore")
    assert "start it there, or correct catalogd's flags" in found.text("metastore")
    assert found.verdict("state folder") == "wrong"
    assert "a folder, which /dev/null is not" in found.text("state folder")


@pytest.mark.nightly  # it starts a metastore
def test_metastore_that_records_no_events(served: Served, tmp_path: Path) -> None:
    with real_metastore(tmp_path / "hive", events=False) as silent:
        flags = (f"--hive_metastore_uris={silent.uri}", f"--state_dir={tmp_path}")
        found = catalogd(*flags, f"--statestores={served.statestores}")
    assert (found.verdict("metastore"), found.verdict("events")) == ("ok", "wrong")
    assert "set hive.metastore.transactional.event.listeners=" in found.text("events")


def test_settings_of_events_are_as_they_should_be_on_a_real_metastore(
    served: Served, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    found = catalogd(
        f"--hive_metastore_uris={hive.uri}",
        f"--statestores={served.statestores}",
        f"--state_dir={tmp_path}",
        "--catalog_service_port=0",
    )
    assert found.verdict("event settings") == "ok", found
    assert "writes are recorded" in found.text("event settings")


@pytest.mark.parametrize(
    ("setting", "value", "said", "next_step"),
    [
        ("metastore.dml.events", "", "leaves no event", "set hive.metastore.dml.events=true"),
        ("metastore.dml.events", "false", "leaves no event", "=true"),
        ("metastore.event.db.listener.timetolive", "3600s", "kept for 3600s", "=86400s"),
        ("metastore.event.db.listener.timetolive", "5 min", "kept for 5 min", "=86400s"),
        ("metastore.event.message.factory", "com.example.Mine", "is not known here", "in JSON"),
        (
            "metastore.notification.parameters.exclude.patterns",
            "impala.*",
            "impala.disableHmsSync may not be seen",
            "leave hive.metastore.notification",
        ),
    ],
)
def test_setting_of_the_metastore_that_harms_events_is_a_warning(
    setting: str, value: str, said: str, next_step: str
) -> None:
    good: dict[str, str | None] = {
        "metastore.dml.events": "true",
        "metastore.event.db.listener.timetolive": "1d",
        "metastore.event.message.factory": "org.apache.x.GzipJSONMessageEncoder",
        "metastore.notification.parameters.exclude.patterns": "",
    }
    assert judged(good).verdict == "ok"
    assert judged(dict.fromkeys(good)).verdict == "ok", "a metastore need not say"
    found = judged(good | {setting: value})
    assert found.verdict == "warning"
    assert said in found.finding
    assert next_step in found.next_step


def test_event_id_that_does_not_move_and_clock_that_is_behind(
    served: Served, hive: RealMetastore, tmp_path: Path
) -> None:
    """Given a table that was created an hour after the newest event of the log.

    And, before that, a clock that is 300 s behind the time of the newest event.
    """
    if not isinstance(hive, EmbeddedMetastore):
        pytest.skip("the log of this release cannot be changed from here")
    Sample(hive.uri, "doctors", location=f"file:{tmp_path}").fill(tables=1, days=1)
    flags = (f"--hive_metastore_uris={hive.uri}", f"--state_dir={tmp_path}")
    words = ("--role=catalogd", "--timeout_s=30", "--", "catalogd", *flags)
    behind = doctor_after(CLOCK.format(ahead_s=-300), *words)
    assert (behind.verdict("event log"), behind.verdict("clocks")) == ("ok", "wrong"), behind
    assert "s after what is now on this machine; set the clocks of" in behind.text("clocks")
    hive.sql("UPDATE NOTIFICATION_LOG SET EVENT_TIME = EVENT_TIME - 3600")
    try:
        found = catalogd(*flags, f"--statestores={served.statestores}")
    finally:
        hive.sql("UPDATE NOTIFICATION_LOG SET EVENT_TIME = EVENT_TIME + 3600")
    assert (found.verdict("events"), found.verdict("event log")) == ("ok", "wrong")
    assert "the id does not move: table doctors.events_01 was" in found.text("event log")
    assert "on each server of this metastore" in found.text("event log")


def test_events_that_this_user_may_not_read(served: Served, tmp_path: Path) -> None:
    """Hive 3 and 4 refuse so: the reason is in the log of the metastore only."""
    name, kind = "get_current_notificationEventId", TApplicationException.INTERNAL_ERROR
    answers = answering(
        calls.get_all_databases_result(success=["default"]),
        calls.get_config_value_result(success="DbNotificationListener"),
    )
    with ThriftServer(answers | {name: lambda: refusal(name, kind)}) as server:
        flags = (f"--hive_metastore_uris={server.uri}", f"--state_dir={tmp_path}")
        found = catalogd(*flags, f"--statestores={served.statestores}")
    verdicts = [found.verdict(one) for one in ("metastore", "events", "event log")]
    assert verdicts == ["ok", "ok", "wrong"], found
    assert "set hive.metastore.event.db.notification.api.auth=false" in found.text("event log")
    assert "hadoop.proxyuser." in found.text("event log")


def test_metastore_of_a_release_that_was_not_tried(served: Served, tmp_path: Path) -> None:
    version = thrift_bytes(getVersion_result(success="4.3.0"))
    answers = answering(
        calls.get_all_databases_result(success=["default"]),
        calls.get_config_value_result(success="DbNotificationListener"),
    )
    with ThriftServer(answers | {"getVersion": lambda: reply("getVersion", version)}) as server:
        flags = (f"--hive_metastore_uris={server.uri}", f"--state_dir={tmp_path}")
        found = catalogd(*flags, f"--statestores={served.statestores}")
    assert found.verdict("metastore") == "warning", found
    assert "Hive 4.3.0, 1 databases" in found.text("metastore")
    assert "which was not tried (2.3, 3.1, 4.0, 4.1, 4.2 were)" in found.text("metastore")


def test_port_that_is_taken(served: Served) -> None:
    port = served.statestores.rpartition(":")[2]
    found = doctor("--role=hub", "--", "statestored", f"--state_store_port={port}")
    assert (found.code, found.verdict("ports")) == (0, "warning")
    assert "unless the daemon runs already, end what listens there" in found.text("ports")


def test_address_of_another_machine() -> None:
    found = doctor("--role=hub", "--", "statestored", "--state_store_host=192.0.2.1")
    assert found.code == 1
    assert found.verdict("ports") == "wrong"
    assert "listen on an address of this machine" in found.text("ports")


def test_library_that_is_missing() -> None:
    words = ("--role=catalogd", "--timeout_s=30", "--", "catalogd", f"--statestores=tcp://{CLOSED}")
    found = doctor_after(WITHOUT, *words)
    assert (found.verdict("packages"), found.verdict("metastore")) == ("wrong", "not tried")
    assert "missing: hmsclient; pip install 'topicast[catalog]'" in found.text("packages")


@pytest.mark.parametrize(
    ("ahead_s", "said"), [(300, r"30\d s ahead of"), (-300, r"(29\d|300) s behind")]
)
def test_clock_that_is_off(served: Served, ahead_s: int, said: str) -> None:
    found = doctor_after(CLOCK.format(ahead_s=ahead_s), f"--statestores={served.statestores}")
    assert (found.code, found.verdict("clocks")) == (1, "wrong")
    text = f"clock is ({said}) the statestored at {re.escape(served.statestores)}'s"
    assert re.search(text, found.text("clocks")), "a heartbeat may be late"
    assert "timedatectl set-ntp true" in found.text("clocks")
    assert found.verdict("catalogd") == "ok"


def test_release_of_another_protocol(served: Served, tmp_path: Path) -> None:
    another_release(tmp_path, PROTOCOL_2)
    found = doctor_of(tmp_path, f"--statestores={served.statestores}")
    assert (found.verdict("hub"), found.verdict("versions")) == ("wrong", "not tried")
    assert "protocol version 1 offered, 2 spoken here" in found.text("hub")
    assert f"this is release {__version__}" in found.text("hub")
    assert "pip install 'topicast==RELEASE'" in found.text("hub")


def test_daemons_of_another_release(served: Served, tmp_path: Path) -> None:
    another_release(tmp_path, ("__init__.py", __version__, "99.0"))
    found = doctor_of(tmp_path, f"--statestores={served.statestores}")
    assert (found.code, found.verdict("versions")) == (0, "warning")
    both = f"this is release 99.0, statestored has {__version__}, catalogd has {__version__}"
    assert both in found.text("versions")
    assert "releases of one protocol version work together" in found.text("versions")


def test_command_of_another_role_is_wrong_use() -> None:
    done = topicast("doctor", "--role=hub", "--", "catalogd")
    assert (done.returncode, done.stdout) == (2, "")
    assert "after -- comes the command of this role, statestored, not catalogd" in done.stderr


@pytest.fixture
def application(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(APPLICATION)
    return path


def spark(served: Served, application: Path, *settings: str, **environment: str) -> Report:
    """Look at a real driver with these settings of Spark."""
    folder = application.parent
    conf = " ".join(f"--conf {one}" for one in (f"spark.sql.warehouse.dir={folder}", *settings))
    return doctor(
        f"--statestores={served.statestores}",
        *("--", sys.executable, application),
        PYSPARK_SUBMIT_ARGS=f"--master local[1] --conf spark.ui.enabled=false {conf} pyspark-shell",
        **quick_environment(),
        **environment,
    )


@pytest.mark.nightly
@pytest.mark.real
@pytest.mark.timeout(240)
def test_driver_that_writes_to_another_metastore(served: Served, application: Path) -> None:
    other = f"spark.hadoop.hive.metastore.uris=thrift://{CLOSED}"
    found = spark(served, application, other)
    assert (found.verdict("application"), found.verdict("attached")) == ("ok", "ok"), found
    assert "no jar attaches the application: call attach(spark) in it" in found.text("attached")
    assert found.verdict("writes") == "wrong"
    assert "set hive.metastore.uris to that metastore" in found.text("writes")
    assert "spark.topicast.metastore" in found.text("writes")


@pytest.mark.real
@pytest.mark.timeout(240)
def test_driver_whose_settings_make_refreshes_useless(
    served: Served, hive: EmbeddedMetastore, application: Path
) -> None:
    found = spark(
        served,
        application,
        f"spark.hadoop.hive.metastore.uris={hive.uri}",
        "spark.topicast.control=off",
        "spark.sql.filesourceTableRelationCacheSize=0",
        "spark.sql.catalog.spark_catalog=org.apache.iceberg.spark.SparkSessionCatalog",
    )
    named = ("attached", "caches", "spark_catalog")
    assert [found.verdict(name) for name in named] == ["warning"] * 3, found
    assert "spark.topicast.control=on, or, if operators have switched it, topicast drivers on" in (
        found.text("attached")
    )
    assert "nothing to refresh; remove this setting, or give another: --conf" in found.text(
        "caches"
    )
    assert "SessionCatalog; tables of its own format" in found.text("spark_catalog")
    assert found.code == 0


def test_python_without_topicast(served: Served, application: Path) -> None:
    venv.create(application.parent / "venv", symlinks=True)
    python = application.parent / "venv" / "bin" / "python"
    found = doctor(f"--statestores={served.statestores}", "--", python, application, PYTHONPATH="")
    assert (found.verdict("application"), found.verdict("attached")) == ("wrong", "not tried")
    assert f"{python} -m pip install topicast" in found.text("application")


def test_commands_whose_driver_cannot_be_looked_at(served: Served) -> None:
    for words, why in (
        (("spark-submit", "--deploy-mode", "cluster", "a.py"), "the driver runs elsewhere"),
        (("spark-submit", "a.jar"), "topicast drivers shows whether it is attached"),
        (("jupyter", "lab"), "give spark-submit or python"),
        (("no/such/python3", "a.py"), "No such file or directory"),
    ):
        found = doctor(f"--statestores={served.statestores}", "--", *words)
        assert found.verdict("application") == "wrong"
        assert why in found.text("application")


def test_check_that_hangs_is_left_behind() -> None:
    read, write = os.pipe()  # nobody writes into it until the end

    def hang() -> Any:
        os.read(read, 1)
        return ok("")

    checks = [
        Check("first", hang),
        Check("second", lambda: ok("")),
        Check("third", hang, ("first",)),
    ]
    found = [(one.check, str(one.answer.verdict)) for one in examine(checks, limit_s=0.05)]
    os.write(write, b"..")
    assert found == [("first", "wrong"), ("second", "ok"), ("third", "not tried")]
    os.close(write)


def test_defect_in_a_check_ends_no_other() -> None:
    checks = [Check("first", lambda: ok(str(1 // 0))), Check("second", lambda: ok(""))]
    first, second = examine(checks, limit_s=5)
    assert str(first).startswith("wrong      first")
    assert "ZeroDivisionError" in str(first)
    assert str(second).startswith("ok ")
