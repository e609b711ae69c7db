"""Stores and peers of another version: each is refused with both versions, and nothing changes."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from topicast.catalog.storage.database import FILE_NAME, SCHEMA
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.processes import command, completed, document
from topicast.tests.cli.releases import PROTOCOL_2, another_release

READER = """
import sys
from topicast.subscriber import Subscriber
with Subscriber(sys.argv[1], metastore="thrift://127.0.0.1:1", timeout_s=5) as catalog:
    catalog.databases()
"""
OF_THE_STORE = ("catalog/storage/database.py", f"SCHEMA: Final = {SCHEMA}", "SCHEMA: Final = 99")
OTHERS = "protocol version 1 offered, 2 spoken here: upgrade one side"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of processes of a release with another protocol, and another store."""
    folder = tmp_path_factory.mktemp("other")
    another_release(folder, PROTOCOL_2, OF_THE_STORE)
    return {"PYTHONPATH": str(folder)}


def steady(served: Served) -> dict[str, Any]:
    """Return the facts of both daemons that stay, however many peers are refused."""
    daemons = {"hub": served.statestored, "catalogd": served.catalogd}
    facts = {name: json.loads(one.page("/?json")) for name, one in daemons.items()}
    names = ("hub", "epoch", "start", "num_topics", "problem")
    return {name: [one.get(fact) for fact in names] for name, one in facts.items()}


def test_commands_and_readers_of_another_version_are_refused_by_both_versions(
    served: Served, other: dict[str, str]
) -> None:
    """P-VER-3."""
    before = steady(served)
    at = {"TOPICAST_STATESTORES": served.statestores}
    done = completed(command("main", "status"), **at, **other)
    assert (done.returncode, OTHERS in done.stdout + done.stderr) == (3, True), done
    done = completed([sys.executable, "-c", READER, served.statestores], **other)
    assert done.returncode != 0
    assert f"it does not speak our protocol: {OTHERS}" in done.stderr
    assert steady(served) == before
    assert document(served.statestores, "status")["statestoreds"][0]["verdict"] == "serving"


def test_catalogd_of_another_version_leaves_the_store_as_it_is(
    served: Served, other: dict[str, str], tmp_path: Path
) -> None:
    copy = tmp_path / FILE_NAME
    with (
        closing(sqlite3.connect(served.state_dir / FILE_NAME)) as own,
        closing(sqlite3.connect(copy)) as db,
    ):
        own.backup(db)
    before = copy.read_bytes()
    flags = (f"--state_dir={tmp_path}", "--num_topics=16", "--catalog_service_port=0")
    peers = (f"--statestores={served.statestores}", "--hive_metastore_uris=thrift://127.0.0.1:1")
    done = completed(command("daemons", "catalogd", *flags, *peers, "--webserver_port=0"), **other)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"was written by another release (schema {SCHEMA}, 99 understood here)" in done.stderr
    assert copy.read_bytes() == before
