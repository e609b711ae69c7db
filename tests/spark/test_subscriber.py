"""A subscriber inside a live Spark driver: neither disturbs the other."""

from pathlib import Path

from topicast.tests.cluster.served import served
from topicast.tests.cluster.shop import NAMES
from topicast.tests.spark.conftest import Drivers


def test_subscriber_works_inside_a_live_spark_driver(drivers: Drivers, tmp_path: Path) -> None:
    driver = drivers.reader
    driver.do("import asyncio; from topicast.subscriber import Subscriber")
    with served(tmp_path) as running:
        driver.do(f"shop = Subscriber({running.address!r}, timeout_s=60); _ = shop.open()")
        try:
            assert driver.do("shop.tables('shop')") == list(NAMES)
            assert driver.do("spark.range(1000).selectExpr('sum(id)').first()[0]") == 499500
            # Python workers are forked while the subscriber is open
            numbers = "spark.sparkContext.parallelize(range(4)).map(lambda number: number + 1)"
            assert driver.do(f"{numbers}.sum()") == 10
            assert driver.do("len(shop.partitions('shop.sales'))") == 100
            assert len(driver.do("asyncio.run(asyncio.to_thread(shop.tables, 'shop'))")) == 6
        finally:
            driver.do("_ = shop.close()")
