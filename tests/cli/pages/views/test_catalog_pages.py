from dataclasses import replace
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.ingest.loads.follow_rules import PARAMETER
from topicast.catalog.model.versions import Commit
from topicast.catalog.storage.store import Store
from topicast.cli.pages.parts.grid import Grid
from topicast.cli.pages.views.catalog_pages import catalog_pages
from topicast.tests.cli.pages.asking import parts
from topicast.tests.cluster.alone import NUM_TOPICS, Alone, loaded


def loading(folder: Path, **changed: object) -> str:
    status = replace(loaded().catalog.status(), **changed)  # type: ignore[arg-type]
    page = catalog_pages(lambda: status, folder / "store")["loading"]
    grid = parts(page, "", {})[""]
    assert isinstance(grid, Grid)
    return grid.html("/loading", {})


def test_loading_says_how_far_it_is_and_how_long_the_rest_takes(tmp_path: Path) -> None:
    found = loading(tmp_path, tables_to_load=75_000, load_read=25_000, load_left_s=240.0)
    assert "<td>25,000 of 100,000 read, 25 %</td>" in found
    assert "<tr><th>time left</th><td>4 min</td></tr>" in found
    assert "<tr><th>time left</th><td>–</td></tr>" in loading(
        tmp_path, tables_to_load=1, load_read=0, load_left_s=None
    )


def test_loading_says_when_all_is_read(tmp_path: Path) -> None:
    assert "<td>all read</td>" in loading(tmp_path)


@pytest.mark.parametrize(
    ("database", "default", "said"),
    [
        ("", False, ""),
        ("true", False, "no, impala.disableHmsSync of its database is true: what is held is as of"),
        ("", True, "no, --disable_hms_sync_by_default: what is held is as of"),
        ("false", True, ""),
    ],
)
def test_page_of_a_table_says_that_it_is_not_followed(
    tmp_path: Path, database: str, default: bool, said: str
) -> None:
    core = Alone(sync_off_by_default=default)
    parameters = {PARAMETER: database} if database else {}
    core.metastore.create_database(Database("d", "", "file:/w/d", parameters))
    core.create("d", "t")
    core.turn(20)
    store = Store.open(tmp_path, num_topics=NUM_TOPICS, now_us=1_800_000_000_000_000, new_id=7)
    store.commit(Commit(transactions=tuple(core.committed), window=None))
    page = catalog_pages(core.catalog.status, store.path)["catalog"]
    grid = parts(page, "", {"table": "d.t"})[""]
    assert isinstance(grid, Grid)
    facts = {str(name): str(value) for name, value in grid.rows}
    assert facts.get("followed", "").startswith(said)
    assert bool(facts.get("followed")) is bool(said)
    store.close()
