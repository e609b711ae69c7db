from pathlib import Path

from topicast.catalog.storage.store import Store
from topicast.cli.pages.parts.grid import Grid
from topicast.cli.pages.views.catalog_pages import held_by_catalogd
from topicast.cli.pages.views.memory_page import MemoryUse, memory_page
from topicast.tests.cluster.alone import loaded
from topicast.topics.memory.system_memory import resident_bytes, usable_bytes


def test_page_has_the_process_and_its_limit_before_the_parts_that_are_known() -> None:
    page = memory_page(lambda: iter([MemoryUse("all <topics>", 3 << 19, None)]))["memory"]
    (grid,) = page.read("", {}).values()
    assert isinstance(grid, Grid)
    (_, resident, limit), (_, most, _), topics, *_ = grid.rows
    assert limit == usable_bytes()
    assert 1_000_000 < resident <= most  # type: ignore[operator]  # a test process takes more
    assert topics == ("all <topics>", 3 << 19, None)
    html = grid.html("/memory", {})
    assert ">all &lt;topics&gt;</td>" in html
    assert '<td class="right" data-head="held ">1.5 MB</td>' in html


def test_resident_memory_is_as_linux_says() -> None:
    text = Path("/proc/self/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("VmRSS"))
    assert abs((resident_bytes() or 0) - int(line.split()[1]) * 1024) < 4_000_000


def test_catalogd_says_what_its_topics_and_its_store_take(tmp_path: Path) -> None:
    store = Store.open(tmp_path, num_topics=16, now_us=1, new_id=1)
    store.close()
    status = loaded().catalog.status()
    found = {one.what: one for one in held_by_catalogd(status, store.path, history_bytes_max=7)}
    assert found["entries of all topics"].held_bytes == status.held_bytes > 0
    on_disk = found["on disk: the store"].held_bytes
    assert on_disk is not None
    assert on_disk >= store.path.stat().st_size > 0
    assert found["on disk: the change history, in the store"].limit_bytes == 7
