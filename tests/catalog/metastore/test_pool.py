"""Each thread has a metastore of its own, and all are closed together."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from topicast.catalog.metastore.pool import Pool
from topicast.tests.catalog.fake_metastore import FakeMetastore


def test_each_thread_has_its_own_until_all_are_closed() -> None:
    made: list[FakeMetastore] = []

    def make() -> FakeMetastore:
        made.append(FakeMetastore())
        return made[-1]

    pool, together = Pool(make), Barrier(3)

    def use() -> int:
        together.wait(10)
        assert pool.mine() is pool.mine()
        return id(pool.mine())

    with ThreadPoolExecutor(3) as threads:
        used = {future.result() for future in [threads.submit(use) for _ in range(3)]}
    assert used == {id(metastore) for metastore in made}
    assert len(made) == 3
    pool.close()
    assert [metastore.calls for metastore in made] == [["close"]] * 3
    pool.close()
    assert [metastore.calls for metastore in made] == [["close"]] * 3
