from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from topicast.catalog import status as catalog_status
from topicast.catalog.assembly import build as build_catalogd
from topicast.catalog.config import CatalogdConfig
from topicast.cli.pages.metrics import CATALOGD
from topicast.cli.pages.sources import STUCK_S, sources_of, verdict_of_loop
from topicast.statestore import status as statestore_status
from topicast.statestore.config import StatestoredConfig
from topicast.statestore.statestored import build as build_statestored
from topicast.tests.cli.pages.asking import answer
from topicast.tests.keys import user_keys
from topicast.topics.verdict import Reason, Serving, Verdict

NEW = Verdict(
    (Reason(state=Serving.NOT_SERVING, code="no_catalogd", what="no catalogd", mend="start it"),)
)


def test_daemon_that_turns_reports_its_own_verdict() -> None:
    assert verdict_of_loop(Verdict(), silent_s=STUCK_S) == Verdict()
    assert verdict_of_loop(NEW, silent_s=0.0) == NEW


def test_loop_that_hangs_is_all_that_is_known() -> None:
    (reason,) = verdict_of_loop(NEW, silent_s=STUCK_S + 2).reasons
    assert (reason.state, reason.code) == (Serving.NOT_SERVING, "loop_hangs")
    assert "hangs: its last turn began 12 s ago" in reason.what
    assert "restart" in reason.mend


@pytest.fixture(params=["statestored", "catalogd"])
def daemon_in_this_thread(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A daemon whose loop turns when the test calls it, and the name of its status."""
    if request.param == "statestored":
        config = StatestoredConfig(state_store_port=0)
        daemon, _ = build_statestored(config, keys=user_keys("statestored"))
        reported = statestore_status.facts
    else:
        daemon, _ = build_catalogd(
            CatalogdConfig(
                catalog_service_port=0,
                num_topics=16,
                state_dir=tmp_path,
                hive_metastore_uris="thrift://127.0.0.1:1",
            ),
            name="here",
            keys=user_keys("catalogd"),
        )
        reported = catalog_status.facts
    yield daemon, lambda: reported(daemon.status)
    daemon.close()


def test_loop_that_hangs_is_no_health(daemon_in_this_thread: Any) -> None:
    """Given a last turn that began long ago, then that is reported, until the loop turns again."""
    daemon, reported = daemon_in_this_thread
    sources = sources_of("daemon", daemon, reported, numbers=CATALOGD)
    daemon.run_once()
    assert b"hangs" not in answer(sources, "/healthz")[2]
    daemon.turned_at -= STUCK_S + 1
    status, _, printed = answer(sources, "/healthz")
    assert (status, b"hangs: its last turn began 11 s ago" in printed) == (503, True)
    scraped = answer(sources, "/metrics")[2].decode()
    assert "topicast_daemon_serving 0.0" in scraped
    assert "topicast_daemon_loop_silent_seconds 11" in scraped
    daemon.run_once()
    assert b"hangs" not in answer(sources, "/healthz")[2]
