"""A full disk under catalogd's store: said, the rest served, and no harm once there is room.

The disk is a small file system in a namespace of its own, in which catalogd runs; the test reaches
it by the process that holds the namespace.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.tables import database, revise
from topicast.tests.net.namespaces import Held, missing
from topicast.tests.waiting import until

DISK: Final = "/mnt"
BYTES: Final = 6 << 20
MAKE: Final = f"mount -t tmpfs -o size={BYTES} topicast-test {DISK}"
TABLE: Final = "full.t"
WAIT_S: Final = 60.0


@pytest.fixture
def held() -> Iterator[Held]:
    """What has a disk of a few megabytes, and all else as it is here."""
    assert not missing()
    with closing(Held(["unshare", "--user", "--map-root-user", "--mount"], MAKE)) as found:
        yield found


def fill(disk: Path) -> Path:
    """Write until there is no room; return the file."""
    filler = disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(bytes(2 * BYTES))
    return filler


@pytest.mark.nightly  # 40 s; that it is said is a unit of status
def test_full_disk_is_said_and_what_was_committed_meanwhile_comes_once_there_is_room(
    hive: EmbeddedMetastore, held: Held, tmp_path: Path
) -> None:
    with (
        database(hive.uri, tmp_path, {TABLE: 0}) as client,
        closing(Daemons(tmp_path, hive.uri)) as daemons,
    ):
        daemons.start("statestored")
        inside = ("nsenter", f"--target={held.pid}", "--user", "--preserve-credentials", "--mount")
        daemons.start("catalogd", f"--state_dir={DISK}/state", under=inside)
        catalogd = daemons.of("catalogd")
        with Subscriber(daemons.hub_address, timeout_s=WAIT_S) as catalog:
            catalog.sync(WAIT_S)
            assert "rev" not in catalog.table(TABLE).parameters
            filler = fill(Path(f"/proc/{held.pid}/root{DISK}"))
            revise(client, [TABLE], 1)
            until(lambda: catalogd.health()[0] == 503, timeout_s=WAIT_S, what="it is said")
            reason = catalogd.health()[1]
            assert "catalog.sqlite3: cannot grow" in reason
            assert "free space on its disk" in reason
            assert "rev" not in catalog.table(TABLE).parameters, "what was followed is served"
            until(lambda: catalog.stats().staleness_s > 1, timeout_s=WAIT_S, what="with its age")
            filler.unlink()
            catalog.sync(WAIT_S)
            assert catalog.table(TABLE).parameters["rev"] == "1"
            until(lambda: catalogd.health()[0] == 200, timeout_s=WAIT_S, what="it serves")
        assert catalogd.process.poll() is None
        said = [line for line in catalogd.log.read_text().splitlines() if "cannot grow" in line]
        assert len(said) == 1, "once, however often it is tried"
