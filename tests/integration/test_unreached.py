"""Servers that are not reached from here though their peers are: who is named, and what to do."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import catalogd, statestored, steady_port, topicast
from topicast.tests.hive.releases import RealMetastore
from topicast.tests.waiting import until
from topicast.topics.errors import NotReady

NOWHERE: Final = "127.0.0.1:1"
CATALOGD: Final = (
    f"catalogd says that it is at tcp://{NOWHERE}, which is not reached from here: is it running, "
    "is its port open to this host, or should its --advertise_address be another?"
)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_catalogd_that_is_not_reached_is_named_by_driver_and_commands(
    up: ExitStack, hive: RealMetastore, tmp_path: Path
) -> None:
    """Given a hub that has catalogd's deltas, when the driver does not reach catalogd itself."""
    hub = up.enter_context(statestored(tmp_path)).ready["address"]
    advertised = f"--advertise_address={NOWHERE}"
    up.enter_context(catalogd(tmp_path, advertised, hive=hive.uri, statestores=hub))
    with Subscriber(hub) as catalog:
        until(lambda: catalog.stats().connection_problem == CATALOGD, what="the problem")
        with pytest.raises(NotReady) as caught:
            catalog.sync(timeout_s=1.0)
    assert str(caught.value).endswith(CATALOGD)

    def status() -> str:
        done = topicast("status", f"--statestores={hub}")
        assert "statestored" in done.stdout
        assert done.returncode == 3
        return done.stderr

    until(lambda: CATALOGD in status(), what="catalogd in the status")


def test_catalogd_that_is_lost_to_a_live_driver_is_in_its_stats(
    up: ExitStack, hive: RealMetastore, tmp_path: Path
) -> None:
    hub = up.enter_context(statestored(tmp_path)).ready["address"]
    daemon = up.enter_context(catalogd(tmp_path, hive=hive.uri, statestores=hub))
    with Subscriber(hub) as catalog:
        until(lambda: catalog.stats().connection_problem == "", what="the connection")
        daemon.end()
        said = until(lambda: catalog.stats().connection_problem, what="the problem")
        assert said.startswith(f"catalogd says that it is at {daemon.ready['address']}, which")


def test_data_of_a_hub_that_is_not_reached_is_named(
    up: ExitStack, hive: RealMetastore, tmp_path: Path
) -> None:
    """Given an advertised port of which the next one leads nowhere."""
    port = steady_port()
    flags = (f"--state_store_port={port}", "--advertise_address=127.0.0.1:9")
    assert up.enter_context(statestored(tmp_path, *flags)).ready["address"] == "tcp://127.0.0.1:9"
    hub = f"tcp://127.0.0.1:{port}"
    up.enter_context(catalogd(tmp_path, hive=hive.uri, statestores=hub))
    said = f"the statestored at {hub} says that its data is at tcp://127.0.0.1:10, which is not"
    with pytest.raises(NotReady, match=said):
        Subscriber(hub, timeout_s=5.0).open()
    done = topicast("status", f"--statestores={hub}")
    assert said in done.stderr
