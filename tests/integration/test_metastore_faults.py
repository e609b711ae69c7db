"""A metastore that dies, hangs or talks rubbish: it is said, nothing moves, then all goes on."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database
from thrift.Thrift import TApplicationException

from topicast.catalog.metastore.embedded import EmbeddedMetastore
from topicast.catalog.sources.poller import BACKOFF_S
from topicast.cli.operator import Operator
from topicast.subscriber import Subscriber
from topicast.tests.catalog.fake_metastore import make_table
from topicast.tests.catalog.metastore.thrift_server import ThriftServer, refusal
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.relay import Relay
from topicast.tests.waiting import until
from topicast.topics.settings import parse_addresses

POLL: Final = "get_current_notificationEventId"


def excusing_itself(name: str) -> bytes:
    return refusal(name, TApplicationException.INTERNAL_ERROR)


def talking_rubbish(_name: str) -> bytes:
    return random.Random(1).randbytes(300)


def silent(_name: str) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class Stage:
    """Both daemons, a subscriber, and table ``outage.t``, written past catalogd."""

    daemons: Daemons
    catalog: Subscriber
    client: HMSClient

    def revise(self) -> str:
        """Change the table; return the revision that is to be seen."""
        table = self.client.get_table("outage", "t")
        rev = str(int(table.parameters.get("rev", "0")) + 1)
        table.parameters["rev"] = rev
        self.client.alter_table("outage", "t", table)
        return rev

    def seen(self) -> str:
        return self.catalog.table("outage.t").parameters.get("rev", "0")

    def sees(self, rev: str) -> None:
        until(lambda: self.seen() == rev, timeout_s=40, what=f"revision {rev}")

    def facts(self) -> dict[str, Any]:
        """Return what catalogd tells of itself, by its own page."""
        return dict(json.loads(self.daemons.of("catalogd").page("/?json")))

    def health(self) -> tuple[int, str]:
        return self.daemons.of("catalogd").health()

    def is_well(self) -> bool:
        return self.health() == (200, "ok\n")

    def held(self) -> dict[str, Any]:
        """Return what must not change while the metastore is away."""
        with self.operator() as operator:
            topics = operator.hub("topics")
        versions = [dict(zip(topics.columns, row, strict=True))["version"] for row in topics.rows]
        return {"hub": versions, "seen": self.seen(), "databases": self.catalog.databases()}

    def told(self) -> dict[str, Any]:
        """Return what ``topicast status`` tells of catalogd."""
        with self.operator() as operator:
            return dict(operator.catalog("status").rows)

    def operator(self) -> Operator:
        return Operator(parse_addresses(self.daemons.hub_address, setting="statestores"))


@contextmanager
def staged(metastore: EmbeddedMetastore, uri: str, folder: Path) -> Iterator[Stage]:
    """Set everything up on ``metastore``, which catalogd reaches at ``uri``."""
    host, _, port = metastore.uri.removeprefix("thrift://").partition(":")
    with HMSClient(host=host, port=int(port)) as client, ExitStack() as up:
        client.create_database(Database("outage", "", f"file:{folder}/outage", {}))
        up.callback(client.drop_database, "outage", False, True)
        client.create_table(make_table("outage", "t", location=f"file:{folder}/outage/t"))
        daemons = Daemons(folder, uri)
        up.callback(daemons.close)
        daemons.start("statestored")
        daemons.start("catalogd")
        catalog = Subscriber(daemons.hub_address, budget="16MB", timeout_s=30)
        stage = Stage(daemons, up.enter_context(catalog), client)
        until(stage.is_well, timeout_s=30, what="health")
        yield stage


@pytest.fixture(scope="module")
def relay(hive: EmbeddedMetastore) -> Iterator[Relay]:
    with Relay(hive.uri) as found:
        yield found


@pytest.fixture(scope="module")
def stage(
    hive: EmbeddedMetastore, relay: Relay, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    with staged(hive, relay.uri, tmp_path_factory.mktemp("stage")) as found:
        yield found


@pytest.mark.parametrize("otherwise", [excusing_itself, talking_rubbish])
def test_metastore_that_fails_is_named_and_then_followed_again(
    stage: Stage, relay: Relay, hive: EmbeddedMetastore, otherwise: Callable[[str], bytes]
) -> None:
    until(stage.is_well, timeout_s=40, what="health")
    stage.sees(stage.revise())
    before, counts = stage.held(), stage.facts()
    with ThriftServer({}, otherwise=otherwise) as broken:
        began = time.monotonic()
        relay.lead_to(broken.uri)
        until(lambda: broken.called.count(POLL) > 2, timeout_s=40, what="several tries")
        polls, since_s = broken.called.count(POLL), time.monotonic() - began
        assert BACKOFF_S * (2 ** (polls - 1) - 1) <= since_s, "each pause is twice the one before"
        rev = stage.revise()
        until(lambda: "warning" in stage.health()[1], timeout_s=40, what="a warning")
        status, text = stage.health()
        assert (status, text.splitlines()[0]) == (200, "ok"), "what is held is served on"
        assert f"cannot read the current event id at {relay.uri}: " in text
        assert f"--hive_metastore_uris={relay.uri}?" in text, "what to look at"
        assert stage.told()["warning"].startswith("the metastore does not answer: ")
        assert stage.facts()["polls_failed"] > counts["polls_failed"]
        assert stage.facts()["withdrawn"] == counts["withdrawn"]
        assert stage.held() == before
        relay.lead_to(hive.uri)
    stage.sees(rev)
    until(stage.is_well, timeout_s=40, what="health afterwards")


def test_metastore_that_was_stopped_for_a_while_is_waited_for(
    stage: Stage, hive: EmbeddedMetastore
) -> None:
    until(stage.is_well, timeout_s=40, what="health")
    before, counts = stage.held(), stage.facts()
    assert hive.pid is not None
    os.kill(hive.pid, signal.SIGSTOP)
    try:
        until(lambda: "has waited" in stage.facts()["warning"], timeout_s=40, what="warning")
        assert stage.facts()["polls_late"] == counts["polls_late"] + 1
        assert stage.facts()["metastore_silent_s"] >= 2
        assert stage.held() == before
    finally:
        os.kill(hive.pid, signal.SIGCONT)
    stage.sees(stage.revise())
    until(stage.is_well, timeout_s=40, what="health afterwards")
    assert stage.facts()["polls_failed"] == counts["polls_failed"], "the poll was answered late"


def test_metastore_that_was_killed_is_followed_when_it_is_back(tmp_path: Path) -> None:
    with ExitStack() as up:
        metastore = EmbeddedMetastore(tmp_path / "metastore", durable=True)
        up.enter_context(metastore)
        stage = up.enter_context(staged(metastore, metastore.uri, tmp_path))
        stage.sees(stage.revise())
        before = stage.held()
        assert metastore.pid is not None
        os.kill(metastore.pid, signal.SIGKILL)
        until(lambda: "does not answer" in stage.facts()["warning"], timeout_s=40, what="warning")
        assert metastore.uri in stage.health()[1]
        assert stage.held() == before
        metastore.stop()
        metastore.start()
        stage.client.close()
        stage.client.open()
        stage.sees(stage.revise())
        until(stage.is_well, timeout_s=40, what="health")


def test_catalogd_that_starts_without_a_metastore_says_so_and_serves_later(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    with ThriftServer({}, otherwise=silent) as deaf, Relay(deaf.uri) as relay, ExitStack() as up:
        daemons = Daemons(tmp_path, relay.uri)
        up.callback(daemons.close)
        daemons.start("statestored")
        daemons.start("catalogd")
        catalogd = daemons.of("catalogd")
        until(lambda: "has waited" in catalogd.health()[1], timeout_s=40, what="the reason")
        with ThriftServer({}, otherwise=excusing_itself) as broken:
            relay.lead_to(broken.uri)
            until(lambda: "cannot read" in catalogd.health()[1], timeout_s=40, what="another")
            status, text = catalogd.health()
            assert (status, text.partition(":")[0]) == (503, "reading names from the metastore")
            assert f"--hive_metastore_uris={relay.uri}?" in text
            relay.lead_to(hive.uri)
        until(lambda: catalogd.health() == (200, "ok\n"), timeout_s=40, what="health")
