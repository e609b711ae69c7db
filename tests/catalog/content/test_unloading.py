"""Unloading: a table that nobody uses is a stub, until somebody does."""

from dataclasses import replace

import pytest

from topicast.catalog.config import CatalogdConfig
from topicast.catalog.content.unloading import PRESSURE_S, UnloadSettings
from topicast.catalog.metastore.port import Read
from topicast.tests.cluster.alone import Alone, loaded
from topicast.tests.keys import client_for
from topicast.topics.errors import ConfigError
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import ALL
from topicast.topics.policy import Policy
from topicast.topics.topic import STUB
from topicast.topics.wire.messages.catalog import (
    USED_MAX,
    Pull,
    Pulled,
    Used,
)

TIMEOUT_S = 150.0
AGED = UnloadSettings(timeout_s=TIMEOUT_S)


def aged(*tables: str) -> Alone:
    """Return a catalogd that unloads, and has loaded ``tables``."""
    return loaded(*tables, unload=AGED)


def pull(table: str = "t") -> Pull:
    return Pull(request=4, db="d", table=table, selector=ALL, credit=1 << 20)


def is_stub(core: Alone, table: str = "t") -> bool:
    _, topic = core.catalog.tables.topic_of(("d", table))
    rows = topic.rows(table_key("d", table))
    return [entry.kind for entry in rows] == [STUB]


def reads_of_tables(core: Alone) -> list[Read]:
    return [one for one in core.reads if isinstance(one, Read) and one.requests]


def test_table_that_nobody_uses_is_unloaded_and_loaded_by_a_pull() -> None:
    core = aged()
    core.wait(TIMEOUT_S - 10)
    assert core.is_loaded()
    core.wait(15)
    assert is_stub(core)
    assert core.catalog.status().counts["tables_unloaded"] == 1
    assert core.tables() == ["t"], "it exists as before"
    core.effects.clear()
    core.wait(TIMEOUT_S)
    assert reads_of_tables(core) == [], "it is not loaded in the background"
    answer = core.answer_to(pull(), Pulled, turns=6)
    assert answer.found
    assert core.partitions() == ["ds=1", "ds=2"]
    core.wait(TIMEOUT_S + 5)
    assert is_stub(core)


def test_unloading_is_due_when_the_table_is_whose_use_is_the_longest_ago() -> None:
    core = aged("idle", "used")
    unloading = core.catalog.unloading
    idle_at = unloading.deadline
    assert idle_at is not None
    assert core.now + TIMEOUT_S - 5 < idle_at <= core.now + TIMEOUT_S
    core.wait(20)
    core.ask(Used(tables=(("d", "used"),)))
    core.wait(10)
    assert unloading.deadline == idle_at
    core.wait(idle_at - core.now + 1)
    used_at = unloading.deadline
    assert used_at is not None
    assert used_at > idle_at + 10
    core.wait(used_at - core.now + 1)
    assert unloading.deadline is None


def test_unloading_changes_no_version_of_schema_or_data() -> None:
    core = aged()
    before = core.catalog.tables.entry(("d", "t"))
    core.wait(TIMEOUT_S + 5)
    after = core.catalog.tables.entry(("d", "t"))
    assert before is not None
    assert after is not None
    assert after.version > before.version
    assert after[2:4] == before[2:4]
    assert core.committed[-1].changes[0].kind == "unloaded"


def test_table_that_is_pulled_or_used_somewhere_stays_loaded() -> None:
    """P-USED-2."""
    core = aged("pulled", "used", "idle")
    for _ in range(3):
        core.wait(TIMEOUT_S / 2)
        core.ask(pull("pulled"))
        core.ask(Used(tables=(("d", "used"), ("d", "never there"))))
    core.step()
    assert [core.is_loaded(name) for name in ("pulled", "used", "idle")] == [True, True, False]


def test_use_of_more_tables_than_a_message_may_name_does_not_count() -> None:
    core = aged()
    many = tuple(("d", f"t{number}") for number in range(USED_MAX))
    for _ in range(3):
        core.wait(TIMEOUT_S / 2)
        core.ask(Used(tables=(*many, ("d", "t"))))
    core.step()
    assert is_stub(core)


def test_events_of_an_unloaded_table_raise_its_version_and_read_nothing() -> None:
    core = aged()
    core.wait(TIMEOUT_S + 5)
    versions = [core.catalog.tables.entry(("d", "t")).version]  # type: ignore[union-attr]
    core.effects.clear()
    table = core.metastore.get_table("d", "t")
    table.parameters["k"] = "new"
    core.metastore.alter_table("d", "t", table)
    core.turn(6)
    versions.append(core.catalog.tables.entry(("d", "t")).version)  # type: ignore[union-attr]
    partition = core.metastore.get_partition("d", "t", ["1"])
    partition.parameters["k"] = "new"
    core.metastore.alter_partitions("d", "t", [partition])
    core.turn(6)
    versions.append(core.catalog.tables.entry(("d", "t")).version)  # type: ignore[union-attr]
    assert versions == sorted(set(versions)), "each event is a change to readers"
    assert reads_of_tables(core) == []
    assert is_stub(core)
    core.answer_to(pull(), Pulled, turns=6)
    assert core.is_loaded()


def test_unloaded_table_that_is_dropped_is_gone_and_created_again_is_another() -> None:
    core = aged()
    core.wait(TIMEOUT_S + 5)
    before = core.catalog.namespace.find(("d", "t"))
    core.metastore.drop_table("d", "t", delete_data=False)
    core.turn(6)
    assert core.tables() == []
    assert not core.answer_to(pull(), Pulled, turns=6).found
    core.create("d", "t", "ds")
    core.turn(20)
    after = core.catalog.namespace.find(("d", "t"))
    assert before is not None
    assert after is not None
    assert after.incarnation != before.incarnation
    assert core.partitions() == []


def test_after_a_restart_what_is_loaded_counts_as_just_used_and_the_rest_stays_unloaded() -> None:
    core = aged("idle", "t")
    for _ in range(3):
        core.wait(TIMEOUT_S / 2)
        core.ask(pull("t"))
    core.step()
    core.restart()
    core.turn(20)
    assert (core.is_loaded("t"), is_stub(core, "idle")) == (True, True)
    core.wait(TIMEOUT_S - 10)
    assert core.is_loaded("t")
    core.wait(20)
    assert is_stub(core, "t")


def test_tables_that_were_used_least_recently_are_unloaded_while_memory_is_short() -> None:
    """P-USED-2: and no other for its age."""
    names = [f"t{number:02d}" for number in range(20)]
    core = loaded(*names, unload=UnloadSettings(pressure=0.6), limited=True)
    memory = core.catalog.memory
    assert memory is not None
    core.ask(Used(tables=tuple(("d", name) for name in names[1:])))
    core.turn()
    memory.resident_bytes = int(memory.limit_bytes * 0.7)
    core.turn(4)
    left = [name for name in names if core.is_loaded(name)]
    assert left == names[:0] + names[2:], "a tenth of them"
    core.wait(PRESSURE_S + 5)
    assert len([name for name in names if core.is_loaded(name)]) == 16
    memory.resident_bytes = int(memory.limit_bytes * 0.5)
    core.wait(2 * PRESSURE_S)
    assert len([name for name in names if core.is_loaded(name)]) == 16
    assert core.catalog.unloading.deadline is None


def test_catalogd_that_unloads_nothing_remembers_no_use() -> None:
    core = loaded()
    core.ask(Used(tables=(("d", "t"),)))
    core.wait(2 * TIMEOUT_S)
    assert core.is_loaded()


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("invalidate_tables_timeout_s", 60.0, "0 .off., or from 120"),
        ("invalidate_tables_timeout_s", -1.0, "0 .off., or from 120"),
        ("invalidate_tables_memory_pressure", 0.0, "above 0, up to 1"),
        ("invalidate_tables_on_memory_pressure", True, "only with --mem_limit"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting}.*{said}"):
        CatalogdConfig(**{setting: value})  # type: ignore[arg-type]


def test_flags_are_those_of_the_core() -> None:
    config = CatalogdConfig(
        mem_limit="1GB",
        invalidate_tables_timeout_s=3600,
        invalidate_tables_on_memory_pressure=True,
        invalidate_tables_memory_pressure=0.5,
    )
    assert config.core("h:9083").unload == UnloadSettings(timeout_s=3600, pressure=0.5)
    assert CatalogdConfig().core("h:9083").unload == UnloadSettings()


def test_tables_that_are_used_somewhere_are_compared_with_the_metastore_first() -> None:
    core = loaded("a", "b", "c")
    core.ask(Used(tables=(("d", "c"), ("d", "b"))))
    core.step()
    assert list(core.catalog.reconciliation.used()) == [("d", "b"), ("d", "c")]


def test_use_of_tables_that_a_client_may_not_see_does_not_count() -> None:
    core = aged()
    stranger = replace(client_for(pull()), policy=Policy(("other",)))
    for _ in range(3):
        core.wait(TIMEOUT_S / 2)
        core.ask(Used(tables=(("d", "t"),)), client=stranger)
    core.step()
    assert is_stub(core)
