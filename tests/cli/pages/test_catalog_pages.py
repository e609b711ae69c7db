from dataclasses import replace
from pathlib import Path

from topicast.cli.pages.catalog_pages import catalog_pages
from topicast.cli.pages.grid import Grid
from topicast.tests.cli.pages.asking import parts
from topicast.tests.cluster.alone import loaded


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
