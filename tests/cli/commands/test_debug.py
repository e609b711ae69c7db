"""``topicast debug``: one archive with what the daemons and the host say, and no secret."""

import json
import zipfile
from pathlib import Path

from topicast.tests.cli.conftest import Served
from topicast.tests.cli.processes import topicast
from topicast.tests.keys import user_keys
from topicast.topics.keys.credential import credential_text

NOWHERE = "tcp://127.0.0.1:1"


def place(web: str) -> str:
    return web.partition("://")[2].replace(":", "-")


def test_archive_has_every_table_and_no_secret(served: Served, tmp_path: Path) -> None:
    out, log = tmp_path / "for-you.zip", tmp_path / "catalogd.log"
    log.write_text("what it said\n")
    own = user_keys("operator").credential
    both = f"{served.statestores},{NOWHERE}"
    given = ("debug", f"--out={out}", f"--log={log}", f"--statestores={both}")
    done = topicast(*given, TOPICAST_KEY=credential_text(own))
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout
    assert NOWHERE in done.stderr, "it is said who has not answered"
    assert out.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(out) as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    names = {
        name.partition("-")[0] + "/" + name.rpartition("/")[2] for name in found if "/" in name
    }
    assert names >= {
        *(f"statestored/{one}.json" for one in ("status", "verdict", "topics", "drivers")),
        *(f"catalogd/{one}.json" for one in ("status", "verdict", "hubs", "recent")),
    }
    pages = {
        web: {name.rpartition("/")[2] for name in found if name.startswith(f"pages-{place(web)}/")}
        for web in (served.statestored.ready["web"], served.catalogd.ready["web"])
    }
    open_to_all = {"front.json", "metrics.txt", "flags.json", "threads.json", "memory.json"}
    of_hub, of_catalogd = pages.values()
    assert of_hub >= {*open_to_all, "topics.json", "subscribers.json", "drivers.json"}
    assert of_catalogd >= {*open_to_all, "hubs.json", "events.json", "topics.json"}
    assert "num_topics" in found[f"pages-{place(served.catalogd.ready['web'])}/flags.json"]
    assert found["logs/0-catalogd.log"] == "what it said\n"
    host = json.loads(found["host.json"])
    assert host["settings"]["TOPICAST_KEY"] == "(set, not shown)"
    assert host["packages"]["topicast"] == "0.1.0"
    checks = {one["check"]: one["verdict"] for one in json.loads(found["doctor.json"])}
    assert checks.keys() >= {"packages", "names", "ports", "hub", "clocks", "catalogd"}
    assert (checks["packages"], checks["names"]) == ("ok", "ok")
    problem, *withheld = json.loads(found["not-answered.json"])
    assert NOWHERE in problem
    assert all("is shown once the pages need a password" in one for one in withheld)
    assert any("/logs?json" in one for one in withheld)
    assert own.pair.secret not in "".join(found.values())
    again = topicast(*given)
    assert again.returncode == 2
    assert f"{out} exists already: name another file" in again.stderr


def test_archive_without_a_key_has_what_this_host_says(tmp_path: Path) -> None:
    out = tmp_path / "alone.zip"
    own = {"XDG_STATE_HOME": str(tmp_path)}
    done = topicast("debug", f"--out={out}", f"--statestores={NOWHERE}", **own)
    assert done.returncode == 3
    assert "operator.key" in done.stderr
    with zipfile.ZipFile(out) as archive:
        assert "operator.key" in archive.read("not-answered.json").decode()
        assert json.loads(archive.read("host.json"))["host"]
        checks = json.loads(archive.read("doctor.json"))
        assert {one["check"] for one in checks if one["verdict"] == "wrong"} == {
            "key file",
            "ports",
        }


def test_archive_that_cannot_be_written_is_said_to_be() -> None:
    done = topicast("debug", "--out=/proc/a.zip", f"--statestores={NOWHERE}")
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr
