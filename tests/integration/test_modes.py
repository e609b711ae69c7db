"""The mode is turned while hubs, catalogd and readers run: answers stay right throughout."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.looking import Looker
from topicast.tests.integration.tables import database, is_held, revise, seen
from topicast.tests.waiting import until
from topicast.topics.topic import FULL, MINIMAL

TABLES = ("modes.t", "modes.tmp_u")
BOTH = MINIMAL | FULL
EACH_MODE = 3  # of the turns below: by then each mode has held once


@pytest.fixture
def client(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[HMSClient]:
    """A client, and database ``modes`` with two tables of forty partitions at revision 0."""
    with database(hive.uri, tmp_path, dict.fromkeys(TABLES, 40)) as found:
        yield found


def turn(daemons: Daemons, *words: str, offered: int) -> None:
    """Let another mode hold; return when the hub knows and nothing is left to be touched."""
    daemons.turn(*words)
    assert daemons.status("hub")["offers"] == offered

    def shown() -> bool:
        facts = daemons.status("catalog")
        return (facts.get("mode"), facts.get("topics_to_backfill")) == (words[0], 0)

    until(shown, timeout_s=40, what="the mode in the status, and the end of the re-stamp")


def order_everything(daemons: Daemons) -> None:
    """Let catalogd discard everything, and read it again."""
    assert daemons.order("invalidate")["failed"] == 0
    assert daemons.order("refresh")["failed"] == 0


def test_mode_is_turned_under_readers_and_no_answer_goes_back(
    client: HMSClient, daemons: Daemons
) -> None:
    """Given readers that follow all, and that choose, when the mode goes there and back."""
    with ExitStack() as up:
        readers = [
            up.enter_context(
                Subscriber(daemons.hub_address, budget="16MB", timeout_s=30, levels=levels)
            )
            for levels in ("full", "auto")
        ]
        until(lambda: is_held(readers[0], TABLES[0]), timeout_s=20, what="the content at full")
        lookers = [up.enter_context(Looker(reader, TABLES, look=seen)) for reader in readers]
        modes = [
            (("minimal",), MINIMAL),
            (("mixed",), BOTH),
            (("full",), FULL),
            (("mixed", "*.tmp_*=minimal"), BOTH),
            (("minimal", ""), MINIMAL),
            (("full", ""), FULL),
        ]
        for rev, (words, offered) in enumerate(modes, start=1):
            turn(daemons, *words, offered=offered)
            revise(client, TABLES, rev)
            for reader in readers:
                reader.sync(timeout_s=30)
                assert {seen(reader, name) for name in TABLES} == {(rev, rev)}
            if rev <= EACH_MODE:
                order_everything(daemons)
                assert {seen(reader, name) for name in TABLES for reader in readers} == {(rev, rev)}
    assert [looker.wrong for looker in lookers] == [[], []]
    assert all(looker.reads > 10 for looker in lookers)


@pytest.mark.nightly  # the test before turns the mode under readers
def test_what_was_withheld_is_answered_from_memory_again(
    client: HMSClient, daemons: Daemons
) -> None:
    """Given a reader at full, when content is withheld, changed, and withheld no more."""
    with Subscriber(daemons.hub_address, budget="16MB", timeout_s=30, levels="full") as catalog:
        until(lambda: is_held(catalog, "modes.tmp_u"), timeout_s=20, what="the content at full")
        turn(daemons, "mixed", "*.tmp_*=minimal", offered=BOTH)
        revise(client, TABLES, 1)
        catalog.sync(timeout_s=30)
        assert seen(catalog, "modes.tmp_u") == (1, 1)
        daemons.kill("statestored")
        daemons.start("statestored")  # and is seeded with stubs
        until(lambda: daemons.status("hub")["problem"] == "", timeout_s=40, what="the hub")
        daemons.kill("catalogd")
        daemons.start("catalogd")  # which keeps the mode
        until(
            lambda: daemons.status("catalog").get("overrides") == "*.tmp_*=minimal",
            timeout_s=40,
            what="catalogd with the mode that it had",
        )
        turn(daemons, "mixed", "", offered=BOTH)
        until(lambda: is_held(catalog, "modes.tmp_u"), timeout_s=40, what="the content again")
        assert seen(catalog, "modes.tmp_u") == (1, 1)


@pytest.mark.parametrize("levels", ["full", pytest.param("auto", marks=pytest.mark.nightly)])
def test_changes_of_what_is_withheld_are_watched(
    client: HMSClient, daemons: Daemons, levels: str
) -> None:
    with Subscriber(daemons.hub_address, budget="16MB", timeout_s=30, levels=levels) as catalog:
        until(lambda: is_held(catalog, "modes.tmp_u"), timeout_s=20, what="the content")
        turn(daemons, "mixed", "*.tmp_*=minimal", offered=BOTH)
        changes = catalog.watch("modes.tmp_u")
        for rev in (1, 2, 3):
            revise(client, TABLES, rev)
            catalog.sync(timeout_s=30)
            change = changes.next_within(20)
            assert change is not None, f"revision {rev}"
            assert (change.object, change.kind) == ("modes.tmp_u", "data")
            catalog.table("modes.tmp_u")
            while changes.next_within(0.2) is not None:
                pass  # the table and its partition may come apart


def test_refresh_and_invalidate_reach_readers(client: HMSClient, daemons: Daemons) -> None:
    with Subscriber(daemons.hub_address, budget="16MB", timeout_s=30, levels="full") as catalog:
        until(lambda: is_held(catalog, "modes.t"), timeout_s=20, what="the content at full")
        changes = catalog.watch("modes.t")
        before = catalog.table("modes.t").version
        assert daemons.order("refresh", "modes.t")["tables"] == 1
        until(lambda: catalog.table("modes.t").version > before, timeout_s=20, what="a new version")
        change = next(changes)
        assert (change.object, change.kind) == ("modes.t", "data")
        assert daemons.order("invalidate", "modes.t")["tables"] == 1
        assert seen(catalog, "modes.t") == (0, 0)
        until(lambda: is_held(catalog, "modes.t"), timeout_s=20, what="the content again")
