"""The namespace: what exists and of which incarnation, all that goes together at one version."""

import gc

import pytest

from topicast.catalog.model.group_leaves import GroupLeaves
from topicast.catalog.model.namespace import BLOCKS_SUMMED_MAX, Namespace, names_sum
from topicast.catalog.model.versions import Transaction
from topicast.tests.catalog.holding import Holding
from topicast.topics.objects.encoding.values import NAMES_MAX
from topicast.topics.objects.names import TableId, database_key, names_group, rules_key
from topicast.topics.objects.rules import Rule
from topicast.topics.topic import NAMESPACE, PREFIX, TOMBSTONE, VALUE
from topicast.topics.wire.messages.data import SOURCE_EVENTS, SOURCE_ORDERS


@pytest.fixture
def holding() -> Holding:
    """A catalogd that knows database ``d`` with tables ``t`` and ``u``, at version 1."""
    found = Holding()
    write(found, {"d": b"one"}, {("d", "t"): "VIEW", ("d", "u"): "VIEW"})
    return found


def write(
    holding: Holding,
    databases: dict[str, bytes | None],
    tables: dict[TableId, str | None],
    *renewed: TableId,
) -> tuple[Transaction, ...]:
    holding.namespace.write(databases, tables, renewed=renewed, source=SOURCE_EVENTS)
    return holding.written()


def rows(transactions: tuple[Transaction, ...]) -> list[tuple[str, str, int]]:
    return [(row.object, row.kind, row.before) for one in transactions for row in one.changes]


def names(holding: Holding, db: str = "d") -> list[str]:
    return [record.name for record in holding.namespace.tables(db)]


def test_databases_and_tables_appear_in_one_transaction() -> None:
    holding = Holding()
    done = write(holding, {"d": b"one", "e": b"two"}, {("d", "t"): "VIEW"})
    (one,) = done
    assert one.topic == NAMESPACE
    assert rows(done) == [
        ("d", "created", 0),
        ("e", "created", 0),
        ("d.t", "created", 0),
    ]
    assert holding.namespace.databases() == ("d", "e")
    assert holding.namespace.version == 1
    assert names(holding) == ["t"]
    assert names(holding, "e") == []


def test_databases_that_do_not_exist_take_no_memory_however_many_are_looked_for(
    holding: Holding,
) -> None:
    def blocks() -> int:
        return sum(isinstance(one, GroupLeaves) for one in gc.get_objects())

    before = blocks()
    for number in range(100):
        assert holding.namespace.find((f"none_{number}", "t")) is None
        assert names(holding, f"none_{number}") == []
    assert blocks() == before
    write(holding, {"none_1": b"one"}, {("none_1", "t"): "VIEW"})
    assert names(holding, "none_1") == ["t"]


def test_sum_of_names_follows_each_change(holding: Holding) -> None:
    of = holding.namespace.sum_names
    assert of("d") == names_sum(["u", "t"])
    write(holding, {}, {("d", "v"): "VIEW", ("d", "t"): None, ("d", "u"): "TABLE"}, ("d", "u"))
    write(holding, {}, {("d", "none"): None, ("d", "v"): "TABLE"})
    assert of("d") == names_sum(names(holding)) == names_sum(["v", "u"])
    holding.namespace.check()
    write(holding, {"d": None}, {})
    assert of("d") == 0
    write(holding, {"d": b"one"}, {("d", "w"): "VIEW"})
    assert of("d") == names_sum(["w"])


def test_sum_of_many_names_is_made_in_several_calls_between_which_they_change(
    holding: Holding,
) -> None:
    numbered = [f"t{number:05d}" for number in range(2 * BLOCKS_SUMMED_MAX * NAMES_MAX)]
    write(holding, {}, dict.fromkeys([("d", name) for name in numbered], "VIEW"))
    assert holding.namespace.sum_names("d") is None
    changes: dict[TableId, str | None] = {("d", "t00001x"): "VIEW", ("d", numbered[-1]): None}
    changes |= {("d", numbered[0]): None, ("d", "z"): "VIEW"}
    write(holding, {}, changes)
    holding.namespace.check()
    calls = 1
    while (found := holding.namespace.sum_names("d")) is None:
        calls += 1
    assert found == names_sum(names(holding))
    assert 1 < calls < 8, "a block is half full at least"


def test_names_that_are_written_while_they_are_read_come_at_most_once(holding: Holding) -> None:
    """Given blocks of names that are split, and dropped, while a reader is between two."""
    numbered = [f"t{number:03d}" for number in range(3 * NAMES_MAX)]
    write(holding, {}, dict.fromkeys([("d", name) for name in numbered], "VIEW"))
    read = holding.namespace.names("d")
    found = [*next(read)]
    new = [f"{name}x" for name in numbered if "t030" < name < "t090"]
    write(holding, {}, dict.fromkeys([("d", name) for name in new], "VIEW"))
    found += next(read)
    write(holding, {}, dict.fromkeys([("d", name) for name in numbered[150:]], None))
    found += [name for block in read for name in block]
    assert found == sorted(set(found))
    assert set(names(holding)) - set(found) <= set(new)


def test_table_of_a_database_that_is_still_being_read_is_among_every_table() -> None:
    holding = Holding()
    write(holding, {"e": b"two"}, {("d", "t"): "VIEW", ("e", "u"): "VIEW"})
    assert holding.namespace.databases() == ("e",)
    assert [*holding.namespace.every_table()] == [("d", "t"), ("e", "u")]


def test_table_is_found_with_type_and_incarnation(holding: Holding) -> None:
    record = holding.namespace.find(("d", "t"))
    assert record is not None
    assert (record.name, record.type, record.incarnation, record.version) == ("t", "VIEW", 1, 1)
    assert holding.namespace.find(("d", "none")) is None
    assert holding.namespace.find(("none", "t")) is None


def test_what_stays_the_same_or_is_not_known_this_time_is_not_written_again(
    holding: Holding,
) -> None:
    same: dict[TableId, str | None] = {("d", "t"): "VIEW", ("d", "u"): "", ("d", "none"): None}
    assert write(holding, {"d": b"one"}, same) == ()


def test_changed_database_and_type_are_written_and_the_incarnation_stays(holding: Holding) -> None:
    done = write(holding, {"d": b"other"}, {("d", "t"): "MANAGED_TABLE"})
    record = holding.namespace.find(("d", "t"))
    assert record is not None
    assert (record.type, record.incarnation, record.version) == ("MANAGED_TABLE", 1, 2)
    assert rows(done) == [("d", "schema", 1)]
    assert done[0].entries[0].key == database_key("d")


def test_dropped_table_is_gone_and_its_name_begins_anew(holding: Holding) -> None:
    assert rows(write(holding, {}, {("d", "t"): None})) == [("d.t", "dropped", 1)]
    assert names(holding) == ["u"]
    write(holding, {}, {("d", "t"): "VIEW"})
    record = holding.namespace.find(("d", "t"))
    assert record is not None
    assert record.incarnation == 3


def test_table_that_was_dropped_and_created_meanwhile_is_another_incarnation(
    holding: Holding,
) -> None:
    done = write(holding, {}, {("d", "t"): "VIEW", ("d", "u"): "VIEW"}, ("d", "t"))
    assert rows(done) == [("d.t", "dropped", 1), ("d.t", "created", 1)]
    found = {one.name: one.incarnation for one in holding.namespace.tables("d")}
    assert found == {"t": 2, "u": 1}


def test_dropped_database_takes_its_tables_along(holding: Holding) -> None:
    """Given tables of it in the same write, then they are gone, too, whatever was read of them."""
    done = write(holding, {"d": None}, {("d", "t"): "VIEW", ("e", "v"): "VIEW"})
    kinds = [(entry.key, entry.kind) for entry in done[0].entries[:2]]
    assert kinds == [(database_key("d"), TOMBSTONE), (names_group("d"), PREFIX)]
    dropped = [(one, "dropped", 1) for one in ("d.t", "d.u", "d")]
    assert rows(done) == [*dropped, ("e.v", "created", 0)]
    assert holding.namespace.databases() == ()
    assert holding.namespace.find(("d", "t")) is None
    write(holding, {"d": b"one"}, {})
    assert names(holding) == [], "it comes back empty"
    write(holding, {}, {("d", "t"): "VIEW"})
    assert names(holding) == ["t"]


@pytest.mark.parametrize(
    ("databases", "tables", "kinds"),
    [
        ({"none": None}, {}, []),
        ({"empty": None}, {}, [TOMBSTONE]),
        ({"orphan": None}, {}, [PREFIX]),
        ({}, {("orphan", "t"): None}, [TOMBSTONE]),
    ],
)
def test_only_what_is_there_leaves_a_tombstone(
    holding: Holding,
    databases: dict[str, bytes | None],
    tables: dict[TableId, str | None],
    kinds: list[int],
) -> None:
    write(holding, {"empty": b"e"}, {("orphan", "t"): "VIEW"})
    done = write(holding, databases, tables)
    assert [entry.kind for one in done for entry in one.entries] == kinds


def test_many_names_split_over_blocks_and_are_found_after_a_restart(holding: Holding) -> None:
    every = sorted(f"t{number:04d}" for number in range(3 * NAMES_MAX))
    done = write(holding, {}, {("e", name): "VIEW" for name in every})
    assert [entry.kind for entry in done[0].entries] == [VALUE] * 3
    assert names(holding, "e") == every
    write(holding, {}, {("e", name): None for name in every[:-1]})
    again = Namespace(holding.version_log)
    assert [record.name for record in again.tables("e")] == every[-1:]
    assert again.find(("e", every[-1])) == holding.namespace.find(("e", every[-1]))


def test_rules_are_beside_the_names_and_found_after_a_restart(holding: Holding) -> None:
    off = (Rule("a", "off"), Rule("b", "dry-run"))
    holding.namespace.set_rules(off)
    (done,) = holding.written()
    assert (done.topic, done.source, done.changes) == (NAMESPACE, SOURCE_ORDERS, ())
    assert [entry.key for entry in done.entries] == [rules_key()]
    again = Namespace(holding.version_log)
    assert again.rules() == off
    assert (again.databases(), names(holding)) == (("d",), ["t", "u"])
    holding.namespace.set_rules(off)
    assert holding.written() == ()
    holding.namespace.set_rules(())
    assert again.rules() == ()
    holding.namespace.set_rules(())
    assert len(holding.written()) == 1
