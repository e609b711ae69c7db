"""A real metastore whose database is damaged: catalogd passes what it cannot send."""

from collections.abc import Iterator
from contextlib import contextmanager

from topicast.catalog.follow.notes import Noted
from topicast.catalog.metastore.hms import Hms
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import Place, make_partition
from topicast.topics.objects.encoding.values import COMPLETE

FOLLOWS_S = 60  # of virtual time: three tries, and a search
LARGE = 1_100  # partitions: more than are read at once
COLUMN = 'ALTER TABLE "NOTIFICATION_LOG" ALTER COLUMN "MESSAGE"'


@contextmanager
def following(uri: str) -> Iterator[Alone]:
    """Yield a catalogd that has read what the metastore at ``uri`` holds."""
    reads = Hms(uri, timeout_s=60)
    core = Alone(source=reads)
    core.turn(20)
    yield core
    reads.close()


def test_event_without_a_message_is_passed_and_those_behind_it_are_followed(
    real_place: Place, hive: EmbeddedMetastore
) -> None:
    """Hive's worker for the connection ends when it is to send a NULL: the client sees that end."""
    with following(hive.uri) as core:
        core.wait(20)  # no event is read again
        real_place.table("lost")
        bad = real_place.reads.current_event_id()
        hive.sql(f"""{COLUMN} NULL""")
        hive.sql(f"""UPDATE "NOTIFICATION_LOG" SET "MESSAGE" = NULL WHERE "EVENT_ID" = {bad}""")
        try:
            real_place.table("behind")
            core.wait(FOLLOWS_S)
        finally:
            hive.sql(f"""DELETE FROM "NOTIFICATION_LOG" WHERE "EVENT_ID" = {bad}""")
            hive.sql(f"""{COLUMN} NOT NULL""")
        assert core.catalog.counts.events_passed == 1
        said = [one.text for one in core.effects if isinstance(one, Noted)]
        assert [one for one in said if one.startswith(f"events {bad} to {bad} are passed")]
        assert core.tables(real_place.db) == ["behind", "lost"]
        real_place.table("later")
        core.wait(3)
        assert core.tables(real_place.db) == ["behind", "later", "lost"]


def test_large_table_stays_as_it_is_held_until_it_was_compared_after_lost_events(
    real_place: Place, hive: EmbeddedMetastore
) -> None:
    db, writes = real_place.db, real_place.writes
    table = real_place.table("large", "ds")
    writes.add_partitions([make_partition(table, [f"{n:04d}"]) for n in range(LARGE)])
    with following(hive.uri) as core:
        core.wait(20)  # no event is read again
        assert len(core.partitions(db, "large")) == LARGE
        core.catalogd.crash()
        last = real_place.reads.current_event_id()
        one = writes.get_partition(db, "large", ["0001"])
        one.parameters["rev"] = "2"
        writes.alter_partitions(db, "large", [one])
        writes.drop_partition(db, "large", ["0002"], False)
        writes.add_partitions([make_partition(table, ["new"])])
        hive.sql(f"""DELETE FROM "NOTIFICATION_LOG" WHERE "EVENT_ID" > {last}""")
        core.catalogd.revive()
        states, said = set(), set()
        for _ in range(100):
            core.turn()
            held = core.catalog.tables.value((db, "large"))
            states.add(held and held.partitions)
            said.add(core.catalog.status().loading)
        assert core.catalog.counts.event_gaps == 1
        assert states == {COMPLETE}
        names = core.partitions(db, "large")
        assert (len(names), "ds=0002" in names, "ds=new" in names) == (LARGE, False, True)
        (struct,) = [of for _, of in core.catalog.tables.structs((db, "large"), ["ds=0001"])]
        assert b"rev" in struct
        assert any("partitions are compared" in text for text in said)
