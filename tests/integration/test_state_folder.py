"""The state folder of a running catalogd is deleted, or moved away, by an operator's mistake."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.terminal.exit_codes import DEGRADED
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import topicast
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.tables import database, revise
from topicast.tests.waiting import until

TABLE: Final = "state_folder.t"
WAIT_S: Final = 60.0


@pytest.fixture
def daemons(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[Daemons]:
    with both_daemons(tmp_path, hive.uri) as found:
        yield found


def wait_until_said(daemons: Daemons) -> str:
    """Return the reason that catalogd gives for not serving."""
    catalogd = daemons.of("catalogd")
    until(lambda: catalogd.health()[0] == 503, timeout_s=WAIT_S, what="the folder is missed")
    return catalogd.health()[1]


def test_deleted_folder_is_said_while_drivers_read_and_a_restart_begins_anew(
    hive: EmbeddedMetastore, daemons: Daemons, tmp_path: Path
) -> None:
    with (
        database(hive.uri, tmp_path, {TABLE: 0}) as client,
        Subscriber(daemons.hub_address, timeout_s=WAIT_S) as catalog,
    ):
        catalog.sync(WAIT_S)
        catalog.table(TABLE)
        shutil.rmtree(tmp_path / "state")
        reason = wait_until_said(daemons)
        assert "catalogd.lock: was deleted, moved or replaced" in reason
        assert "restart catalogd" in reason
        assert "rev" not in catalog.table(TABLE).parameters, "what was followed is served"
        revise(client, [TABLE], 1)
        daemons.kill("catalogd")
        daemons.start("catalogd")
        catalog.sync(WAIT_S)
        assert catalog.table(TABLE).parameters["rev"] == "1"


def test_folder_that_is_moved_back_is_used_again(
    hive: EmbeddedMetastore, daemons: Daemons, tmp_path: Path
) -> None:
    with (
        database(hive.uri, tmp_path, {TABLE: 0}) as client,
        Subscriber(daemons.hub_address, timeout_s=WAIT_S) as catalog,
    ):
        catalog.sync(WAIT_S)
        state = tmp_path / "state"
        away = state.rename(tmp_path / "away")
        wait_until_said(daemons)
        done = topicast("status", f"--statestores={daemons.hub_address}")
        assert done.returncode == DEGRADED
        assert "catalogd.lock: was deleted, moved or replaced\n    -> put the files" in done.stdout
        assert "lag" not in done.stdout
        done = topicast("refresh", TABLE, f"--statestores={daemons.hub_address}")
        assert "is not ready: " in done.stderr
        assert "put the files back" in done.stderr
        revise(client, [TABLE], 1)
        away.rename(state)
        catalog.sync(WAIT_S)
        assert catalog.table(TABLE).parameters["rev"] == "1"
        catalogd = daemons.of("catalogd")
        until(lambda: catalogd.health()[0] == 200, timeout_s=WAIT_S, what="it serves")
        assert catalogd.process.poll() is None
