"""``topicast status`` at real daemons; what it prints of their answers is in test_overview."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from topicast.cli.commands.status import status
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.documents import assert_of_schema
from topicast.tests.cli.processes import catalogd, command, statestored, topicast
from topicast.tests.keys import user_keys
from topicast.tests.waiting import in_time, seconds, until
from topicast.topics.keys.folder import KeysFolder
from topicast.topics.link import new_pair

NOWHERE = "tcp://127.0.0.1:1"
SAID_S = 2.0


def test_status_shows_both_daemons_and_what_each_has_received_of_the_mode(served: Served) -> None:
    done = topicast("status", "--output=json", f"--statestores={served.statestores}")
    found = json.loads(done.stdout)
    own, (hub,) = found["catalogd"], found["statestoreds"]
    reasons = [one["code"] for one in (*hub["reasons"], *own["reasons"])]
    assert set(reasons) <= {"handshakes_failed"}, "other tests have tried wrong keys"
    assert (hub["address"], done.returncode, done.stderr) == (
        served.statestores,
        5 if reasons else 0,
        "",
    )
    assert (own["mode"], own["overrides"]) == ("mixed", "")
    assert own["offers"] == hub["offers"] == "none, minimal, full"
    assert own["lag_events"] == 0
    assert own["lag_s"] < 60
    (connection,) = found["connections"]
    assert (connection["address"], connection["connected"]) == (served.statestores, True)
    printed = topicast("status", "--verbose", f"--statestores={served.statestores}").stdout
    assert printed.partition("\n")[0] == found["verdict"]
    assert "1 of 1 hub, lag 0 events" in printed
    assert ["drivers_with_another_hub", "0"] in map(str.split, printed.splitlines())
    assert "  watermark " in printed.partition("\ncatalogd ")[2]


def test_status_of_several_hubs_shows_those_that_answer(served: Served) -> None:
    both = f"{NOWHERE},{served.statestores}"
    done = topicast("status", "--output=json", TOPICAST_STATESTORES=both)
    assert done.returncode == 3
    assert NOWHERE in done.stderr
    found = json.loads(done.stdout)
    assert [hub["address"] for hub in found["statestoreds"]] == [served.statestores]
    assert [one["address"] for one in found["not_reached"]] == [NOWHERE]
    assert "verdict" in found["catalogd"]


def test_catalogd_is_shown_though_no_hub_answers(served: Served) -> None:
    address = served.catalogd.ready["address"]
    done = topicast("status", f"--catalogd={address}", TOPICAST_STATESTORES=NOWHERE)
    assert (done.returncode, done.stdout.partition("\n")[0]) == (3, "not reachable")
    place = address.removeprefix("tcp://")
    assert f"catalogd     {place}  " in done.stdout
    assert "lag 0 events" in done.stdout


def test_why_nothing_is_known_of_catalogd_is_said_with_what_to_do() -> None:
    user_keys("operator")
    where = (f"--statestores={NOWHERE}", "--catalogd=tcp://127.0.0.1:2")
    done = topicast("status", *where)
    assert (done.returncode, done.stdout.partition("\n")[0]) == (3, "not reachable")
    hub, own = done.stderr.splitlines()
    assert hub.startswith(f"error: no statestored answers at {NOWHERE}")
    assert own.startswith("error: catalogd is not found: no statestored answers")
    assert own.endswith("2: nothing listens there; give its address with --catalogd")
    found = json.loads(topicast("status", "--output=json", *where).stdout)
    assert (found["statestoreds"], found["catalogd"]) == ([], {})


def test_catalogd_that_does_not_admit_the_key_is_found_and_says_so(
    served: Served, tmp_path: Path
) -> None:
    KeysFolder(tmp_path / "keys").make(new_pair)
    key = tmp_path / "keys" / "operator.key"
    address = served.catalogd.ready["address"]
    where = (f"--statestores={NOWHERE}", f"--catalogd={address}")
    done = topicast("status", *where, TOPICAST_KEY_FILE=str(key))
    assert f"catalogd at {address} has another key than operator knows" in done.stdout
    assert "topicast keys add" in done.stdout


def test_status_without_any_daemon_comes_as_soon_as_every_command() -> None:
    user_keys("operator")
    words = [f"--statestores={NOWHERE}", "--catalogd=tcp://127.0.0.1:2"]

    def tried() -> None:
        assert status.main(words, standalone_mode=False) == 3

    in_time(lambda: seconds(tried), limit_s=SAID_S)


@pytest.mark.real
def test_catalogd_whose_metastore_is_away_says_so(tmp_path: Path) -> None:
    """Its hub says where it is, though it has announced nothing yet."""
    user_keys("operator")
    with (
        statestored(tmp_path) as hub,
        catalogd(tmp_path, hive="thrift://127.0.0.1:9", statestores=hub.ready["address"]) as own,
    ):
        where = f"--statestores={hub.ready['address']}"

        def look() -> str:
            done = topicast("status", where)
            assert done.returncode in {3, 5}
            return done.stdout

        until(
            lambda: "no metastore reached: thrift://127.0.0.1:9" in look(), timeout_s=30, what="it"
        )
        printed = look()
        place = own.ready["address"].removeprefix("tcp://")
        assert printed.startswith("not serving\n")
        assert f"catalogd     {place}" in printed
        assert "catalogd has no names yet" in printed
        assert "no catalogd has announced" not in printed
        assert topicast("refresh", "shop.orders", where).stderr.endswith("refused)\n")


def test_watch_shows_the_status_again_until_it_is_interrupted(served: Served) -> None:
    words = ("status", "--watch", "--output=json", f"--statestores={served.statestores}")
    with subprocess.Popen(command("main", *words), stdout=subprocess.PIPE, text=True) as watch:
        try:
            assert watch.stdout is not None
            looks = [json.loads(watch.stdout.readline()) for _ in range(2)]
            watch.send_signal(signal.SIGINT)
            assert watch.wait(60) == 0
        finally:
            watch.kill()
    assert_of_schema("status-watch", looks[0])
    addresses = [[hub["address"] for hub in look["statestoreds"]] for look in looks]
    assert addresses == [[served.statestores]] * 2
