"""The folder of keys: the first start, files that only their owner may read, adding, revoking."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from topicast.topics.errors import ConfigError
from topicast.topics.keys.clients import (
    CLIENTS_MAX,
    LIST_BYTES_MAX,
    NAME_MAX,
    ClientRole,
    clients_text,
)
from topicast.topics.keys.files import secret_fault
from topicast.topics.keys.folder import (
    DaemonKeys,
    KeysFolder,
    daemon_keys,
    default_folder,
    find_credential,
)
from topicast.topics.link import new_pair
from topicast.topics.settings import parse_addresses


def test_first_start_makes_keys_that_only_the_user_can_read(folder: KeysFolder) -> None:
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.path.iterdir()}
    names = ("catalogd.key", "statestored.key", "driver.key", "operator.key", "clients", "lock")
    assert files == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    driver, hub = folder.credential("driver"), folder.credential("statestored")
    assert driver.role is ClientRole.DRIVER
    assert driver.hub_key("tcp://127.0.0.1:24000") == hub.pair.public
    assert driver.catalogd == folder.credential("catalogd").pair.public
    assert {one.public for one in folder.clients()} >= {driver.pair.public, hub.pair.public}


def test_second_start_leaves_the_keys_as_they_are(folder: KeysFolder) -> None:
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    folder.make(new_pair)
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


def test_start_that_died_half_way_is_done_again(folder: KeysFolder) -> None:
    (folder.path / "clients").unlink()
    (folder.path / "driver.key").unlink()
    folder.make(new_pair)
    assert folder.clients().with_key(folder.credential("driver").pair.public) is not None


def _killed_before_the_rename(change: str, folder: Path) -> int:
    """Run ``change`` of the ``keys`` in ``folder`` in a process that dies at its first rename."""
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from topicast.topics.keys.clients import ClientRole\n"
        "from topicast.topics.keys.credential import KeyPair\n"
        "from topicast.topics.keys.folder import KeysFolder\n"
        "def kill(event, _):\n"
        "    if event == 'os.rename': os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(kill)\n"
        "pair = lambda: KeyPair(public='p' * 40, secret='s' * 40)\n"
        "keys = KeysFolder(Path(sys.argv[1]))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script + change, str(folder)])
    assert writer.wait() == -signal.SIGKILL
    return writer.pid


def test_secret_that_a_killed_process_left_unfinished_is_deleted(folder: KeysFolder) -> None:
    before = {path.name for path in folder.path.iterdir()}
    add = "keys.add('etl', ClientRole.DRIVER, pair, to=None)"
    pid = _killed_before_the_rename(add, folder.path)
    (left,) = {path.name for path in folder.path.iterdir()} - before
    assert left == f".etl.key.{pid}"
    assert "s" * 40 in (folder.path / left).read_text()

    others = {f".etl.key.{os.getpid()}", f".etl.{pid}", f"notes.{pid}", ".etl.key.0"}
    for name in others:
        (folder.path / name).write_text("not ours, or in use")
    folder.add("bi", ClientRole.DRIVER, new_pair, to=None)
    assert {path.name for path in folder.path.iterdir()} == before | others | {"bi.key"}


def test_secret_left_unfinished_elsewhere_is_deleted_when_that_file_is_written(
    folder: KeysFolder, tmp_path: Path
) -> None:
    to = tmp_path / "handed over"
    to.mkdir(mode=0o700)
    add = f"keys.add('etl', ClientRole.DRIVER, pair, to=Path({str(to / 'etl')!r}))"
    pid = _killed_before_the_rename(add, folder.path)
    assert {path.name for path in to.iterdir()} == {f".etl.{pid}"}

    others = {f".etl.{os.getpid()}", f".bi.{pid}"}
    for name in others:
        (to / name).write_text("not ours, or in use")
    folder.add("etl", ClientRole.DRIVER, new_pair, to=to / "etl")
    assert {path.name for path in to.iterdir()} == others - {f".etl.{os.getpid()}"} | {"etl"}


def test_processes_that_start_at_once_make_the_keys_once(tmp_path: Path) -> None:
    script = (
        "import secrets, sys; from pathlib import Path\n"
        "from topicast.topics.keys.credential import KeyPair\n"
        "from topicast.topics.keys.folder import KeysFolder\n"
        "pair = lambda: KeyPair(public=secrets.token_hex(20), secret=secrets.token_hex(20))\n"
        "folder = KeysFolder(Path(sys.argv[1])); sys.stdin.read(1); folder.make(pair)\n"
        "print(folder.credential('driver').pair.public, folder.clients().named('driver').public)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "keys")]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for one in both:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    printed = {one.communicate(timeout=60)[0] for one in both}
    assert len(printed) == 1
    assert len(set(printed.pop().split())) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_key_that_others_can_read_is_refused_with_the_command(
    mode: int, folder: KeysFolder
) -> None:
    path = folder.file("driver")
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        folder.credential("driver")
    path.chmod(0o600)
    assert folder.credential("driver").name == "driver"


def test_folder_that_others_can_write_is_refused_with_the_command(folder: KeysFolder) -> None:
    folder.path.chmod(0o770)
    with pytest.raises(ConfigError, match=f"chmod 700 {folder.path}"):
        folder.add("etl", ClientRole.DRIVER, new_pair, to=None)


@pytest.mark.parametrize(("owner", "fault"), [(1000, ""), (0, ""), (1001, "chown 1000")])
def test_key_of_another_user_is_refused(owner: int, fault: str, folder: KeysFolder) -> None:
    found = list(folder.file("driver").stat())
    found[stat.ST_UID] = owner
    said = secret_fault(os.stat_result(found), folder.file("driver"), user=1000)
    assert said.startswith(f"it belongs to user {owner}; run: {fault}" if fault else "")
    assert bool(said) is bool(fault)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "etl.key", 0o600)
    with pytest.raises(ConfigError, match="it is not a file"):
        KeysFolder(tmp_path).credential("etl")


def test_added_client_is_in_the_list_and_has_the_servers_keys(
    folder: KeysFolder, tmp_path: Path
) -> None:
    out = folder.add("etl", ClientRole.DRIVER, new_pair, to=tmp_path / "out.key")
    assert out == tmp_path / "out.key"
    etl = find_credential("driver", key_file=str(out), environ={})
    client = folder.clients().with_key(etl.pair.public)
    assert client is not None
    assert (client.name, client.role) == ("etl", ClientRole.DRIVER)
    assert (etl.catalogd, etl.hubs) == (
        folder.credential("driver").catalogd,
        folder.credential("driver").hubs,
    )


def test_added_hub_is_known_at_its_address_to_clients_that_come_later(folder: KeysFolder) -> None:
    address = "tcp://hub-2:24000"
    folder.add("hub-2", ClientRole.HUB, new_pair, address=address, to=None)
    hub = folder.credential("hub-2").pair.public
    folder.add("etl", ClientRole.DRIVER, new_pair, to=None)
    assert folder.credential("etl").hub_key(address) == hub


def test_key_files_beside_the_list_learn_an_added_hub_and_forget_a_revoked_hub(
    folder: KeysFolder, tmp_path: Path
) -> None:
    """Only their lines of hubs change; catalogd and the operator need them."""
    address, before = "tcp://hub-2:24000", folder.credential("catalogd")
    folder.add("hub-2", ClientRole.HUB, new_pair, address=address, to=tmp_path / "hub-2.key")
    added = folder.clients().named("hub-2")
    assert added is not None
    for name in ("catalogd", "operator", "driver"):
        assert folder.credential(name).hub_key(address) == added.public
    folder.revoke("hub-2")
    assert folder.credential("catalogd") == before


@pytest.mark.parametrize(
    ("name", "out", "problem"),
    [
        ("driver", None, "topicast keys revoke driver"),
        ("a/b", None, "letters, digits"),
        ("etl", "operator.key", "does not exist yet"),
        ("etl", "none/etl.key", "can be written"),
    ],
)
def test_client_that_cannot_be_added_changes_nothing(
    name: str, out: str | None, problem: str, folder: KeysFolder
) -> None:
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(ConfigError, match=problem):
        folder.add(name, ClientRole.DRIVER, new_pair, to=folder.path / out if out else None)
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


def test_revoked_client_is_in_the_list_no_more(folder: KeysFolder) -> None:
    public = folder.credential("driver").pair.public
    assert folder.revoke("driver").public == public
    assert folder.clients().with_key(public) is None
    assert not folder.file("driver").exists()
    folder.add("driver", ClientRole.DRIVER, new_pair, to=None)


@pytest.mark.parametrize(("name", "problem"), [("etl", "operator"), ("catalogd", "keeps the list")])
def test_who_cannot_be_revoked_is_said(name: str, problem: str, folder: KeysFolder) -> None:
    with pytest.raises(ConfigError, match=problem):
        folder.revoke(name)


def test_key_is_found_by_argument_content_variable_and_default(folder: KeysFolder) -> None:
    environ = {"XDG_STATE_HOME": str(folder.path.parent)}
    moved = default_folder(environ)
    moved.make(new_pair)
    default = find_credential("driver", environ=environ)
    assert default == moved.credential("driver")
    environ["TOPICAST_KEY_FILE"] = str(folder.file("operator"))
    assert find_credential("driver", environ=environ).name == "operator"
    environ["TOPICAST_KEY"] = folder.file("statestored").read_text()
    assert find_credential("driver", environ=environ).name == "statestored"
    given = str(folder.file("driver"))
    assert find_credential("x", key_file=given, environ=environ).name == "driver"


def test_text_that_is_no_key_is_not_shown_and_its_setting_and_that_of_a_path_are_named() -> None:
    with pytest.raises(
        ConfigError, match=r"^TOPICAST_KEY:1=.*TOPICAST_KEY_FILE its path"
    ) as raised:
        find_credential("driver", environ={"TOPICAST_KEY": "banana"})
    assert "banana" not in str(raised.value)


def test_key_that_is_not_there_is_named_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"driver\.key.*topicast keys add NAME --role driver"):
        find_credential("driver", environ={"XDG_STATE_HOME": str(tmp_path)})


def test_change_of_the_list_is_seen_once(folder: KeysFolder) -> None:
    clients = folder.changed()
    assert clients == folder.clients()
    assert folder.changed() is None
    folder.add("etl", ClientRole.DRIVER, new_pair, to=None)
    changed = folder.changed()
    assert changed is not None
    assert changed.named("etl") is not None


def test_list_that_cannot_be_used_is_said_once(folder: KeysFolder) -> None:
    kept = (folder.path / "clients").read_text()
    folder.changed()
    for spoil in (lambda one: one.write_text("etl"), Path.unlink):
        spoil(folder.path / "clients")
        with pytest.raises(ConfigError):
            folder.changed()
        assert folder.changed() is None
    (folder.path / "clients").touch(0o600)
    (folder.path / "clients").write_text(kept)
    assert folder.changed() == folder.clients()


@pytest.fixture
def hub(folder: KeysFolder, tmp_path: Path) -> DaemonKeys:
    """The keys of a hub on another host: its own key file, and nothing else."""
    away = KeysFolder(tmp_path / "away")
    away.path.mkdir(mode=0o700)
    folder.add("hub-2", ClientRole.HUB, new_pair, address="tcp://h:1", to=away.file("statestored"))
    return DaemonKeys(away.credential("statestored"), away)


def test_hub_elsewhere_begins_with_catalogd_alone_and_then_with_the_last_list(
    folder: KeysFolder, hub: DaemonKeys
) -> None:
    assert [one.public for one in hub.last_clients()] == [folder.credential("catalogd").pair.public]
    hub.folder.keep(folder.clients(), of=hub.credential.catalogd)
    assert hub.last_clients() == folder.clients()
    assert stat.S_IMODE((hub.folder.path / "clients").stat().st_mode) == 0o600


def test_list_of_another_catalogd_is_refused_with_what_to_do(
    hub: DaemonKeys, tmp_path: Path
) -> None:
    other = KeysFolder(tmp_path / "other")
    other.make(new_pair)
    hub.folder.keep(other.clients(), of=other.credential("driver").catalogd)
    with pytest.raises(ConfigError, match=r"statestored\.key names; remove the file"):
        hub.last_clients()


def test_hub_in_catalogds_folder_leaves_the_list_as_it_is(folder: KeysFolder) -> None:
    old = folder.clients()
    folder.add("etl", ClientRole.DRIVER, new_pair, to=None)
    folder.keep(old, of=folder.credential("driver").catalogd)
    assert folder.clients().named("etl") is not None


def test_list_that_cannot_be_kept_is_said(hub: DaemonKeys) -> None:
    hub.folder.path.chmod(0o777)
    with pytest.raises(ConfigError, match="others can write it"):
        hub.folder.keep(hub.last_clients(), of=hub.credential.catalogd)


def test_comments_of_the_list_stay_as_clients_come_change_and_go(folder: KeysFolder) -> None:
    path = folder.path / "clients"
    first, _, rest = path.read_text().partition("driver ")
    path.write_text(f"# für Ann\n{first}# the nightly job\ndriver {rest}# the end\n")
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    folder.add("etl", ClientRole.DRIVER, new_pair, to=None)
    folder.rotate(new_pair, at_once=True)
    folder.revoke("driver")
    lines = path.read_text().splitlines()
    assert [line for line in lines if line.startswith("#")] == comments
    assert lines[-2:] == [comments[-1], lines[-1]]
    assert lines[-1].startswith("etl driver ")


def test_list_whose_comments_leave_no_room_is_said_and_nothing_is_written(
    folder: KeysFolder,
) -> None:
    path = folder.path / "clients"
    with path.open("a") as file:
        file.write("#".ljust(LIST_BYTES_MAX - path.stat().st_size, "x"))
    before = {one: one.read_bytes() for one in folder.path.iterdir()}
    assert len(folder.clients()) == 4
    with pytest.raises(ConfigError, match=rf"at most {LIST_BYTES_MAX} bytes.*shorten its comments"):
        folder.add("etl", ClientRole.DRIVER, new_pair, to=None)
    assert {one: one.read_bytes() for one in folder.path.iterdir()} == before


def test_longest_list_is_read_from_its_file(folder: KeysFolder) -> None:
    path = folder.path / "clients"
    with path.open("a") as file:
        for number in range(CLIENTS_MAX - len(folder.clients())):
            file.write(f"{number:x>{NAME_MAX}} operator {number:040}\n")
    assert len(folder.clients()) == CLIENTS_MAX
    assert clients_text(folder.clients()) == path.read_text()


def test_key_that_systemd_or_kubernetes_guards_comes_first(
    folder: KeysFolder, tmp_path: Path
) -> None:
    guarded = tmp_path / "credentials"
    guarded.mkdir()
    file = folder.add("h", ClientRole.HUB, new_pair, address="tcp://h:1", to=guarded / "s.key")
    file = file.rename(guarded / "statestored.key")
    file.chmod(0o440)  # a group of the platform's own
    (listens,) = parse_addresses("tcp://0.0.0.0:1", setting="a")
    own = tmp_path / "own"

    def found(name: str) -> DaemonKeys:
        return daemon_keys(
            name,
            str(own),
            listens=listens,
            new_pair=new_pair,
            environ={"CREDENTIALS_DIRECTORY": str(guarded)},
        )

    keys = found("statestored")
    assert keys.credential.name == "h"
    keys.folder.keep(keys.last_clients(), of=keys.credential.catalogd)
    assert {path.name for path in own.iterdir()} == {"clients", "clients.for", "lock"}
    with pytest.raises(ConfigError, match="there is no catalogd.key"):
        found("catalogd")
    file.rename(guarded / "catalogd.key")
    with pytest.raises(ConfigError, match="for catalogd a key of role catalogd, not hub"):
        found("catalogd")
