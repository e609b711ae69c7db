"""A driver of any kind beside two in Python: an attached driver that writes, and plain Spark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from topicast.tests.spark.applications import GONE
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.jvm.shells import JvmDriver, drivers_of, of_run
from topicast.tests.spark.pair import BEFORE, WAIT_S
from topicast.tests.waiting import until, until_equal

OLD: Final = [["1", "a"]]
TWO: Final = [["1", "a"], ["2", "a"]]


class Scene:
    """The writer, attached, the reader, plain, and the hub."""

    def __init__(self, drivers: Drivers, uri: str) -> None:
        self.drivers = drivers
        self.uri = uri
        self.hub = drivers.daemons.hub_address

    def live(self, application: str, *, but: str = "") -> dict[str, Any]:
        """Return the facts of a driver once it is attached; ``but``: another driver than this."""

        def found() -> dict[str, Any]:
            every = drivers_of(self.hub, application)
            fit = (one for one in every if one["state"] == "live" and one["driver"] != but)
            return next(fit, {})

        return until(found, timeout_s=WAIT_S, what=f"the agent of {application}")

    def is_fresh(self, db: str, ask: Callable[[str], Any], *, writes: bool = True) -> None:
        """Check that ``ask`` answers what others write, that plain Spark does not, and reports."""
        writer, rows = self.drivers.writer, f"SELECT * FROM {db}.t"
        create = f"CREATE TABLE {db}.t USING parquet AS SELECT 1 AS id, 'a' AS ds"
        writer.sql(f"CREATE DATABASE {db}", create)
        for _ in range(2):
            until_equal(lambda: ask(rows), OLD, timeout_s=WAIT_S)
            assert self.drivers.reader.rows(rows) == BEFORE
        writer.sql(f"INSERT INTO {db}.t VALUES (2, 'a')")
        until_equal(lambda: ask(rows), TWO, timeout_s=WAIT_S)
        assert self.drivers.reader.rows(rows) == BEFORE
        writer.sql(f"INSERT OVERWRITE {db}.t VALUES (2, 'a')")
        until_equal(lambda: ask(rows), [["2", "a"]], timeout_s=WAIT_S)
        assert GONE in self.drivers.reader.rows(rows)
        assert writer.rows(rows) == [[2, "a"]]
        if writes:
            ask(f"INSERT INTO {db}.t VALUES (3, 'a')")
            wanted = [[2, "a"], [3, "a"]]
            until_equal(lambda: writer.rows(rows), wanted, timeout_s=WAIT_S)
        writer.sql(f"ALTER TABLE {db}.t ADD COLUMNS (note STRING)")
        notes = f"SELECT count(note) FROM {db}.t"
        until_equal(lambda: ask(notes), [["0"]], timeout_s=WAIT_S)
        assert "UNRESOLVED_COLUMN" in self.drivers.reader.rows(notes)
        writer.sql(f"DROP TABLE {db}.t", f"CREATE TABLE {db}.t USING parquet AS SELECT 7 AS other")
        until_equal(lambda: ask(rows), [["7"]], timeout_s=WAIT_S)


@contextmanager
def started(
    kind: type[JvmDriver], folder: Path, scene: Scene, *, end: str = "end", **more: Any
) -> Iterator[JvmDriver]:
    """Start a driver by ``topicast run``, unless ``under`` says otherwise."""
    driver = kind(folder, scene.uri, **{"under": of_run(scene.hub), **more})
    try:
        yield driver
    finally:
        getattr(driver, end)()
