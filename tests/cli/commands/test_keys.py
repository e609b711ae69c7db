"""The command that makes keys; what a role may do, and revoking, on real daemons."""

import json
import os
import time
from itertools import count
from pathlib import Path

import pytest

from topicast.cli.client.operator import Operator
from topicast.cli.terminal.exit_codes import DEGRADED, DONE
from topicast.subscriber import Subscriber
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.processes import topicast
from topicast.tests.keys import user_keys
from topicast.tests.waiting import in_time, until
from topicast.topics.errors import AuthRefused, ConfigError
from topicast.topics.keys.folder import KeysFolder, find_credential
from topicast.topics.settings import parse_addresses
from topicast.topics.wire.messages.questions import ReadSubscribers

REVOKED_S = 2.0


def made(*words: object, folder: Path) -> str:
    done = topicast("keys", *words, f"--keys_dir={folder}")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_keys_are_made_added_listed_shown_and_revoked(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    assert made("init", folder=folder) == f"{folder}\n"
    out = tmp_path / "etl.key"
    assert made("add", "etl", "--role=driver", f"--out={out}", folder=folder) == f"{out}\n"
    assert out.stat().st_mode & 0o777 == 0o600
    hub = ("add", "hub-2", "--role=hub", "--address=tcp://hub-2:24000")
    made(*hub, folder=folder)
    printed = made("add", "printed", "--role=driver", "--out=-", folder=folder)
    assert find_credential("x", environ={"TOPICAST_KEY": printed}).name == "printed"
    assert not KeysFolder(folder).file("printed").exists()
    made("add", "sales", "--role=observer", "--databases=sales,Fin_*", folder=folder)
    assert "fin_*,sales" in made("show", "sales", folder=folder)
    assert str(KeysFolder(folder).credential("sales").policy) == "fin_*,sales"
    made("revoke", "sales", folder=folder)
    etl = find_credential("x", key_file=str(out), environ={})
    shown = made("show", "etl", folder=folder)
    assert etl.pair.public in shown
    assert etl.pair.secret not in shown
    names = [line.split()[0] for line in made("list", folder=folder).splitlines()[1:]]
    assert names == ["catalogd", "statestored", "driver", "operator", "etl", "hub-2", "printed"]
    assert made("revoke", "etl", folder=folder) == f"revoked etl {etl.pair.public}\n"
    assert KeysFolder(folder).clients().named("etl") is None


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("add driver --role=driver", "topicast keys revoke driver"),
        ("add hub-2 --role=hub", "a key of role hub needs --address"),
        ("add etl --role=driver --address=tcp://h:1", "other roles have none"),
        ("add a/b --role=driver", "letters, digits"),
        ("add etl --role=driver --databases=a;b", "databases as sales"),
        ("add etl --role=operator --databases=a", "databases of a driver or observer"),
        ("add etl --role=king", "'king' is not one of"),
        ("show nobody", "topicast keys list"),
        ("revoke nobody", "one of the clients"),
        ("revoke catalogd", "keeps the list"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(
    words: str, problem: str, tmp_path: Path
) -> None:
    made("init", folder=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = topicast("keys", *words.split(), f"--keys_dir={tmp_path}")
    assert done.returncode == 2
    assert problem in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_keys_are_added_where_the_list_is(tmp_path: Path) -> None:
    done = topicast("keys", "add", "etl", "--role=driver", f"--keys_dir={tmp_path}")
    assert done.returncode == 2
    assert "topicast keys init" in done.stderr


@pytest.mark.parametrize("role", ["driver", "observer"])
def test_order_takes_an_operators_key(role: str, served: Served, tmp_path: Path) -> None:
    folder, out = user_keys("catalogd").folder.path, tmp_path / "own.key"
    made("add", f"no-operator-{role}", f"--role={role}", f"--out={out}", folder=folder)
    own = {"TOPICAST_KEY_FILE": str(out), "TOPICAST_STATESTORES": served.statestores}

    def ordered() -> str:
        done = topicast("mode", "full", **own)
        assert done.returncode != 0
        return done.stderr if "operator" in done.stderr.replace("no-operator", "") else ""

    printed = until(ordered, what="a refusal for the role")
    assert f"has role {role}, and Order takes operator" in printed
    status = topicast("status", "-o", "json", **own)
    shown = json.loads(status.stdout)
    daemons = (*shown["statestoreds"], shown["catalogd"])
    # A key that was not admitted yet, as this key at first, is a reason for a minute.
    code = DEGRADED if any(one["reasons"] for one in daemons) else DONE
    assert len(daemons) == 2
    assert (status.returncode, status.stderr) == (code, ""), status.stdout


def test_client_is_admitted_and_revoked_while_it_is_connected(
    served: Served, tmp_path: Path
) -> None:
    """Given live daemons and connections, then a key works soon after add, and not after revoke."""
    folder, number = user_keys("catalogd").folder.path, count()

    def seconds_until_each() -> float:
        name = f"etl-revoked-{next(number)}"
        out = tmp_path / f"{name}.key"
        made("add", name, "--role=driver", f"--out={out}", folder=folder)
        added_at = time.monotonic()
        with Subscriber(served.statestores, key_file=str(out), name=name) as catalog:
            admitted_s = time.monotonic() - added_at
            assert catalog.databases()

            with Operator(parse_addresses(served.statestores), timeout_s=60) as visit:

                def is_member() -> bool:
                    return any(name in row for row in visit.hub(ReadSubscribers()).rows)

                until(is_member, what="the member")
                KeysFolder(folder).revoke(name)
                revoked_at = time.monotonic()
                until(lambda: not is_member(), what="its end")
                ended_s = time.monotonic() - revoked_at
        with pytest.raises(AuthRefused, match=f"{name} refused: the other end does not admit"):
            Subscriber(served.statestores, key_file=str(out), timeout_s=10.0).open()
        return max(admitted_s, ended_s)

    in_time(seconds_until_each, limit_s=REVOKED_S)


def test_key_file_that_others_can_read_is_refused(served: Served, tmp_path: Path) -> None:
    folder, out = user_keys("catalogd").folder.path, tmp_path / "open.key"
    made("add", "open", "--role=driver", f"--out={out}", folder=folder)
    out.chmod(0o644)
    with pytest.raises(ConfigError, match=f"chmod 600 {out}"):
        Subscriber(served.statestores, key_file=str(out)).open()
    done = topicast("status", TOPICAST_KEY_FILE=str(out), TOPICAST_STATESTORES=served.statestores)
    assert done.returncode == 2
    assert f"chmod 600 {out}" in done.stderr
    assert os.environ.get("TOPICAST_KEY_FILE") is None
