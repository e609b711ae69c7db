"""A real metastore whose database is damaged: catalogd passes what it cannot send."""

from collections.abc import Iterator
from contextlib import contextmanager

from topicast.catalog.follow.notes import Noted
from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.catalog.metastore.hms import Hms
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import Place

FOLLOWS_S = 60  # of virtual time: three tries, and a search
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
