"""A metastore that dies, hangs or sends garbage is reported; nothing changes until it is back."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from thrift.Thrift import TApplicationException

from topicast.catalog.ingest.events.poller import BACKOFF_S, LATE_S
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.catalog.metastore.thrift_server import ThriftServer, refusal
from topicast.tests.cli.processes import steady_port
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.integration.dam import Dam
from topicast.tests.integration.relay import Relay
from topicast.tests.integration.stage import Stage, staged
from topicast.tests.waiting import until

POLL: Final = "get_current_notificationEventId"
DAM_BYTES = 200_000  # of each connection: polls before the batch take 100 bytes each
BATCH_EVENTS = 40
NOTE_CHARS = 20_000  # of each: the dam holds back after the tenth event, and sooner


def excusing_itself(name: str) -> bytes:
    return refusal(name, TApplicationException.INTERNAL_ERROR)


def talking_rubbish(_name: str) -> bytes:
    return random.Random(1).randbytes(300)


def silent(_name: str) -> bytes:
    return b""


@pytest.fixture(scope="module")
def relay(own_hive: EmbeddedMetastore) -> Iterator[Relay]:
    with Relay(own_hive.uri) as found:
        yield found


@pytest.fixture(scope="module")
def stage(
    own_hive: EmbeddedMetastore, relay: Relay, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    with staged(own_hive, relay.uri, tmp_path_factory.mktemp("stage")) as found:
        yield found


@pytest.mark.parametrize(
    "otherwise", [excusing_itself, pytest.param(talking_rubbish, marks=pytest.mark.nightly)]
)
def test_metastore_that_fails_is_named_and_then_followed_again(
    stage: Stage, relay: Relay, own_hive: EmbeddedMetastore, otherwise: Callable[[str], bytes]
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
        reason = f"cannot read the current event id at {relay.uri}: "
        until(lambda: reason in stage.health()[1], timeout_s=40, what="the warning")
        status, text = stage.health()
        assert (status, text.partition(":")[0]) == (200, "degraded"), "what is held is served on"
        assert f"--hive_metastore_uris={relay.uri}?" in text, "what to look at"
        assert stage.daemons.status("catalog")["warning"].startswith(
            "the metastore does not answer: "
        )
        assert stage.facts()["polls_failed"] > counts["polls_failed"]
        assert stage.facts()["tables_turned_unreadable"] == counts["tables_turned_unreadable"]
        assert stage.held() == before
        relay.lead_to(own_hive.uri)
    stage.sees(rev)
    until(stage.is_well, timeout_s=40, what="health afterwards")


@pytest.mark.nightly  # test_verdicts stops a metastore, too
def test_metastore_that_was_stopped_for_a_while_is_waited_for(
    stage: Stage, own_hive: EmbeddedMetastore
) -> None:
    until(stage.is_well, timeout_s=40, what="health")
    before, counts = stage.held(), stage.facts()
    waits = stage.log().count("has waited")  # a poll of a busy machine may have
    assert own_hive.pid is not None
    os.kill(own_hive.pid, signal.SIGSTOP)
    try:
        until(lambda: "has waited" in stage.health()[1], timeout_s=40, what="warning")
        assert stage.facts()["polls_late"] > counts["polls_late"]
        assert stage.facts()["metastore_silent_s"] >= LATE_S
        until(lambda: "cannot read" in stage.health()[1], timeout_s=40, what="its end")
        waits = stage.log().count("has waited") - waits
        assert waits == 1, "a line for each change, none for each second"
        assert stage.held() == before
    finally:
        os.kill(own_hive.pid, signal.SIGCONT)
    stage.sees(stage.revise())
    until(stage.is_well, timeout_s=40, what="health afterwards")


def test_metastore_that_was_killed_in_the_middle_of_its_answer_is_followed_when_it_is_back(
    tmp_path: Path,
) -> None:
    """Part of a batch of events is not applied: all of it is, once, when the metastore is back."""
    with ExitStack() as up:
        metastore = EmbeddedMetastore(tmp_path / "metastore", port=steady_port(), durable=True)
        up.enter_context(metastore)
        dam = up.enter_context(Dam(f"tcp{metastore.uri[6:]}", bytes_max=DAM_BYTES))
        stage = up.enter_context(staged(metastore, f"thrift{dam.address[3:]}", tmp_path))
        table = make_table("outage", "days", location=f"file:{tmp_path}/days", keys=["ds"])
        stage.client.create_table(table)
        stage.sees(stage.revise())
        last = stage.client.get_current_notificationEventId().eventId
        until(lambda: stage.facts()["watermark"] == last, what="all of it, and the page's count")
        before, counts = stage.held(), stage.facts()
        assert not dam.held.is_set()
        stage.daemons.freeze("catalogd")  # so that one poll reads all of them
        for number in range(BATCH_EVENTS):
            day = make_partition(table, [f"{number:02}"])
            day.sd.serdeInfo.parameters = {"note": "x" * NOTE_CHARS}
            stage.client.add_partitions([day])
        rev = stage.revise()
        stage.daemons.thaw("catalogd")
        assert dam.held.wait(60)
        assert metastore.pid is not None
        os.kill(metastore.pid, signal.SIGKILL)
        until(lambda: "does not answer" in stage.health()[1], timeout_s=40, what="warning")
        assert dam.address.removeprefix("tcp") in stage.health()[1], "which metastore"
        assert stage.held() == before
        assert stage.catalog.partitions("outage.days") == ()
        assert stage.facts()["events"] == counts["events"]
        dam.opened.set()
        metastore.stop()  # it is quiet about a JVM that is gone, and so is a second time
        metastore.stop()
        assert metastore.pid is None
        metastore.start()
        stage.client.close()
        stage.client.open()
        stage.sees(rev)
        stage.catalog.sync()
        assert len(stage.catalog.partitions("outage.days")) == BATCH_EVENTS
        every = counts["events"] + BATCH_EVENTS + 1
        until(lambda: stage.facts()["events"] >= every, what="the page's count of all of them")
        until(stage.is_well, timeout_s=40, what="health")
        assert stage.facts()["events"] == every, "each was counted once"


def test_catalogd_that_starts_without_a_metastore_says_so_and_serves_later(
    own_hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    with ThriftServer({}, otherwise=silent) as deaf, Relay(deaf.uri) as relay, ExitStack() as up:
        daemons = up.enter_context(both_daemons(tmp_path, relay.uri))
        catalogd = daemons.of("catalogd")
        until(lambda: "has waited" in catalogd.health()[1], timeout_s=40, what="the reason")
        with ThriftServer({}, otherwise=excusing_itself) as broken:
            relay.lead_to(broken.uri)
            until(lambda: "cannot read" in catalogd.health()[1], timeout_s=40, what="another")
            status, text = catalogd.health()
            beginning = "not serving: reading names from the metastore: cannot read"
            assert (status, text[: len(beginning)]) == (503, beginning)
            assert f"--hive_metastore_uris={relay.uri}?" in text
            relay.lead_to(own_hive.uri)
        until(lambda: catalogd.health() == (200, "serving\n"), timeout_s=40, what="health")
