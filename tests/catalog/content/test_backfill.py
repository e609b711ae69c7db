"""What was withheld is sent: re-stamped in small steps, with the same content, and once."""

from topicast.catalog.content.backfill import PAUSE_S, STEP_BYTES_MAX, STEP_ENTRIES_MAX, Backfill
from topicast.catalog.model.modes import (
    Mode,
    ModeState,
    pack_mode_state,
    parse_mode,
    unpack_mode_state,
)
from topicast.catalog.model.versions import Transaction, VersionLog
from topicast.tests.cluster.alone import Alone
from topicast.topics.objects.encoding.values import decode_block
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.topic import Entry, Topic
from topicast.topics.turn import Turn
from topicast.topics.wire.codec import row_bytes
from topicast.topics.wire.header import DELTA_BYTES_MAX

LEAN, MIXED = Mode("minimal"), Mode("mixed")
TABLE = table_key("d", "t")


def restamped(core: Alone, turns: int = 10) -> list[Transaction]:
    """Let time pass; return what was committed meanwhile."""
    before = len(core.committed)
    core.turn(turns)
    return core.committed[before:]


def rows(core: Alone, table: str = "t") -> dict[bytes, Entry]:
    _, topic = core.catalog.tables.topic_of(("d", table))
    return {entry.key: entry for entry in topic.rows(table_key("d", table))}


def test_nothing_is_restamped_when_content_begins_to_be_withheld(core: Alone) -> None:
    assert core.catalog.backfill.change(LEAN)
    assert not core.catalog.backfill.change(LEAN)
    assert restamped(core) == []
    assert core.mode_states == [ModeState(LEAN)], "it is stored once"


def test_what_is_withheld_no_more_gets_a_new_version_and_keeps_its_content(core: Alone) -> None:
    core.catalog.backfill.change(LEAN)
    core.turn()
    before = rows(core)
    core.catalog.backfill.change(MIXED)
    assert core.catalog.deadline(core.now) <= core.now
    (one,) = restamped(core)
    after = rows(core)
    assert [entry.key for entry in one.entries] == sorted(before, reverse=True), "the table last"
    for key, old in before.items():
        new = after[key]
        assert new.version > old.version
        assert (new.schema_version, new.data_version) == (old.schema_version, old.data_version)
    assert after[TABLE].value == before[TABLE].value
    (block,) = before.keys() - {TABLE}
    old_rows, new_rows = (
        decode_block(e.value or b"", e.version) for e in (before[block], after[block])
    )
    assert old_rows.records() == new_rows.records(), "with the versions of the partitions"
    assert one.changes == (), "nothing changed at the metastore"
    assert core.mode_states[-1] == ModeState(MIXED), "nothing remains any more"
    assert core.catalog.backfill.deadline is None


def test_only_tables_that_an_override_withheld_are_restamped(core: Alone) -> None:
    core.create("d", "u")
    core.turn(20)
    core.catalog.backfill.change(parse_mode("mixed", "d.u=minimal"))
    core.turn()
    core.catalog.backfill.change(parse_mode("mixed", ""))
    assert [entry.key for one in restamped(core) for entry in one.entries] == [table_key("d", "u")]


def test_what_is_still_withheld_is_not_restamped(core: Alone) -> None:
    core.catalog.backfill.change(LEAN)
    core.catalog.backfill.change(parse_mode("mixed", "d.t=minimal"))
    assert restamped(core) == []
    core.catalog.backfill.change(MIXED)
    assert len(restamped(core)) == 1


class World:
    """A backfill of one topic of these contents, in virtual time."""

    def __init__(self, contents: dict[bytes, bytes]) -> None:
        self.turn = Turn[object]()
        self.turn.now = 100.0
        self.version_log = VersionLog({0: Topic(), 0xFFFE: Topic()}, self.turn)
        self.write(contents)
        self.version_log.take()
        self.backfill = self.made(ModeState(LEAN))
        self.backfill.change(MIXED)

    def made(self, mode_state: ModeState) -> Backfill:
        return Backfill(self.version_log, mode_state, self.turn)

    def write(self, contents: dict[bytes, bytes]) -> None:
        with self.version_log.transaction(0, source=0) as written:
            v = written.version
            written.add(Entry(key, v, v, v, len(one), one) for key, one in contents.items())

    def finish(self) -> list[Transaction]:
        done: list[Transaction] = []
        while (deadline := self.backfill.deadline) is not None:
            self.turn.now = max(self.turn.now, deadline)
            self.backfill.restamp()
            done += self.version_log.take()
            self.backfill.check()
        return done


def many(count: int, size: int) -> World:
    """Return a backfill of ``count`` tables of ``size`` bytes, all in one topic."""
    return World({table_key("d", f"t{number:04}"): bytes(size) for number in range(count)})


def test_steps_are_small_in_bytes_and_in_number() -> None:
    large = many(20, 9000).finish()
    assert all(sum(map(row_bytes, one.entries)) <= STEP_BYTES_MAX for one in large)
    assert sum(len(one.entries) for one in large) == 20
    small = many(100, 10).finish()
    assert [len(one.entries) for one in small] == [STEP_ENTRIES_MAX] * 3 + [4]
    assert STEP_BYTES_MAX < DELTA_BYTES_MAX
    assert [len(one.entries) for one in many(3, STEP_BYTES_MAX + 1).finish()] == [1, 1, 1]


def test_other_changes_have_their_turn_between_two_steps() -> None:
    world = many(100, 10)
    world.backfill.restamp()
    world.backfill.restamp()
    assert len(world.version_log.take()) == 1
    assert world.backfill.deadline == 100.0 + PAUSE_S


def test_change_in_between_is_not_restamped_again() -> None:
    world = many(100, 10)
    world.backfill.restamp()
    key = table_key("d", "t0050")
    world.write({key: b"new"})
    done = [e for one in world.finish() for e in one.entries if e.key == key]
    assert [entry.value for entry in done] == [b"new"]


def test_restart_goes_on_where_it_was() -> None:
    world = many(100, 10)
    world.backfill.restamp()
    first = {entry.key for one in world.version_log.take() for entry in one.entries}
    stored = world.backfill.take()
    assert stored is not None
    world.backfill = world.made(unpack_mode_state(pack_mode_state(stored)))
    rest = [entry.key for one in world.finish() for entry in one.entries]
    assert len(rest) == 100 - STEP_ENTRIES_MAX
    assert not first.intersection(rest)
    assert world.backfill.take() == ModeState(MIXED)
    assert world.made(ModeState(MIXED)).deadline is None


def test_damaged_block_is_left_out_and_ends_nothing() -> None:
    world = World(dict.fromkeys((TABLE, block_key("d", "t", "ds=1")), b"bad"))
    (one,) = world.finish()
    assert [entry.key for entry in one.entries] == [TABLE]
