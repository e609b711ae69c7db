"""Random changes of tables that are followed or not; pauses, gaps and restarts between them."""

from collections import Counter
from random import Random

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database, Table

from topicast.catalog.ingest.loads.follow_rules import PARAMETER
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import copied, make_table
from topicast.topics.wire.messages.catalog import Sync, Synced

DBS = ("d", "e")
NAMES = ("t", "u", "v")
STEPS = 40
SEEDS = 30
VALUES = ("true", "false", None)


class World:
    """A catalogd and a metastore, and what is done to them, drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.core = Alone(sync_off_by_default=self.rng.random() < 0.3)
        self.counts: Counter[str] = Counter()
        for db in DBS:
            self.core.create_database(db)
        self.core.wait(1)

    def held(self, db: str, name: str) -> Table | None:
        found = {one for one, _ in self.core.metastore.table_names(db)}
        return self.core.metastore.get_table(db, name) if name in found else None

    def step(self) -> None:
        rng, core = self.rng, self.core
        db, name = rng.choice(DBS), rng.choice(NAMES)
        table = self.held(db, name)
        kinds = [self.flag_of_database, self.pause, self.start, self.clean, self.restart, self.look]
        weights = [2, 1, 2, 1, 1, 6]
        kind = rng.choices([*kinds, None], [*weights, 20])[0]
        if kind is not None:
            kind(db)
            self.counts[kind.__name__] += 1
        elif table is None:
            core.metastore.create_table(make(db, name, rng.choice((*VALUES, None, None))))
        else:
            self.change(table)
        core.wait(rng.choice((0.0, 0.05, 0.3, 1.0)))

    def change(self, table: Table) -> None:
        rng, metastore = self.rng, self.core.metastore
        db, name = table.dbName, table.tableName
        changed = copied(table)
        match rng.choice(("flag", "flag", "drop", "rename", "add", "add", "remove")):
            case "flag":
                set_flag(changed, rng.choice(VALUES))
                metastore.alter_table(db, name, changed)
            case "drop":
                metastore.drop_table(db, name, False)
            case "rename":
                target = rng.choice(DBS), rng.choice(NAMES)
                if self.held(*target) is None:
                    changed.dbName, changed.tableName = target
                    if rng.random() < 0.3:
                        set_flag(changed, rng.choice(VALUES))
                    metastore.alter_table(db, name, changed)
            case "add":
                values = [v for v in "123456" if f"ds={v}" not in self.parts(db, name)][:2]
                if values:
                    self.core.add(table, *values)
            case "remove":
                if parts := self.parts(db, name):
                    metastore.drop_partition(db, name, [rng.choice(parts)[3:]], False)

    def parts(self, db: str, name: str) -> list[str]:
        return list(self.core.metastore.partition_names(db, name))

    def flag_of_database(self, db: str, *, value: str = "") -> None:
        chosen = value or self.rng.choice(("true", "false"))
        database = Database(db, "", f"file:/w/{db}", {PARAMETER: chosen})
        self.core.metastore.alter_database(db, database)

    def pause(self, _db: str) -> None:
        self.core.order("events", "pause")

    def start(self, _db: str) -> None:
        self.core.order("events", "start", *self.rng.choice(((), (), ("-1",), ("0",))))

    def clean(self, _db: str) -> None:
        self.core.metastore.clean_log(self.core.metastore.current_event_id())

    def restart(self, _db: str) -> None:
        self.core.restart()

    def look(self, _db: str) -> None:
        """Let everything be followed, and compare what is."""
        self.core.order("events", "start")
        self.core.wait(3)
        self.compare(only_followed=True)

    def compare(self, *, only_followed: bool) -> None:
        rules, namespace = self.core.catalog.follow_rules, self.core.catalog.namespace
        for db in DBS:
            for name in NAMES:
                table = self.held(db, name)
                if only_followed and (rules.is_off((db, name)) or self.is_off(table)):
                    continue
                assert (namespace.find((db, name)) is not None) is (table is not None), (db, name)
                if table is not None:
                    assert self.core.partitions(db, name) == self.parts(db, name), (db, name)

    def is_off(self, table: Table | None) -> bool:
        """Return whether the metastore says that ``table`` is not followed."""
        if table is None:
            return False
        own = table.parameters.get(PARAMETER)
        rules = self.core.catalog.follow_rules
        return rules.database_is_off(table.dbName) if own is None else own == "true"

    def end(self) -> None:
        """Turn everything on, and compare; then remove what has gone while it was off."""
        self.core.order("events", "start")
        for db in DBS:
            self.flag_of_database(db, value="false")
            for name in NAMES:
                if (table := self.held(db, name)) is not None:
                    set_flag(table, "false")
                    self.core.metastore.alter_table(db, name, table)
        self.core.answer_to(Sync(request=3), Synced, turns=60)
        self.compare(only_followed=True)
        self.core.order("refresh", turns=60)
        self.compare(only_followed=False)


def make(db: str, name: str, flag: str | None) -> Table:
    table = make_table(db, name, location=f"file:/w/{db}/{name}", keys=("ds",))
    set_flag(table, flag)
    return table


def set_flag(table: Table, value: str | None) -> None:
    table.parameters.pop(PARAMETER, None)
    if value is not None:
        table.parameters[PARAMETER] = value


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_what_is_followed_equals_the_metastore_and_so_does_everything_at_last(first: int) -> None:
    skipped = 0
    for seed in range(first, first + 10):
        world = World(seed)
        try:
            for _ in range(STEPS):
                world.step()
            skipped += world.core.catalog.counts.events_sync_off
            world.end()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert skipped > 0
