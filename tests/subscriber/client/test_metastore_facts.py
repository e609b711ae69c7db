"""Functions and column statistics, as applications read them through catalogd."""

import pytest

from topicast.catalog.serve import metastore_questions
from topicast.subscriber.client import metastore_facts
from topicast.tests.catalog.metastore.test_facts import function, statistics
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import NoSuchObject, NotReady, SourceError, UsageError
from topicast.topics.wire.messages.answers import FunctionPage
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.questions import ReadFunctions, ReadStatistics

CATALOGD, READER = "catalogd", "reader-0"


def given(shopping: Shopping, table: str, *partitions: str) -> None:
    for name in partitions or ("",):
        found = statistics("shop", table, "id", partition=name)
        shopping.shop.update_partition_column_statistics(found)


def test_functions_of_a_database_are_what_the_metastore_has_now(
    shopping: Shopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shopping.call(lambda catalog: catalog.functions("shop")) == ()
    for name in ("third", "first", "second"):
        shopping.shop.create_function(function("shop", name, f"hdfs:///{name}.jar"))
    found = shopping.call(lambda catalog: catalog.functions("SHOP"))
    assert [one.name for one in found] == ["first", "second", "third"]
    assert found[0].resources == ("JAR:hdfs:///first.jar",)
    monkeypatch.setattr(metastore_questions, "BYTES_MAX", 1)
    assert shopping.call(lambda catalog: catalog.functions("shop")) == found, "page after page"
    with pytest.raises(NoSuchObject):
        shopping.call(lambda catalog: catalog.functions("absent"))


def test_statistics_name_the_version_of_their_table(shopping: Shopping) -> None:
    given(shopping, "orders")
    (one,) = shopping.call(lambda catalog: catalog.column_statistics("shop.orders"))
    assert (one.partition, one.column, one.low, one.high) == ("", "id", "-5", "9")
    assert one.version == shopping.table("shop.orders").version
    shopping.shop.remark("shop.orders", {"COLUMN_STATS_ACCURATE": "{}"})
    shopping.settle()
    assert shopping.table("shop.orders").version > one.version, "they are to be read again"
    (again,) = shopping.call(lambda catalog: catalog.column_statistics("shop.orders", ["ID"]))
    assert again.version == shopping.table("shop.orders").version


def test_statistics_of_partitions_are_read_some_at_a_time(
    shopping: Shopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(shopping, "sales", "ds=001", "ds=007")
    monkeypatch.setattr(metastore_facts, "PARTITIONS_MAX", 2)
    names = ["ds=007", "ds=003", "ds=001", "ds=absent"]
    found = shopping.call(lambda catalog: catalog.column_statistics("shop.sales", partitions=names))
    version = shopping.table("shop.sales").version
    assert [(one.partition, one.version) for one in found] == [
        (name, version) for name in ("ds=001", "ds=007")
    ]
    assert len(shopping.messages(ReadStatistics)) == 2
    assert shopping.call(lambda catalog: catalog.column_statistics("shop.sales")) == ()


def test_nothing_is_requested_where_nothing_is_named(shopping: Shopping) -> None:
    for columns, partitions in (((), None), (None, ())):
        found = shopping.call(
            lambda catalog, c=columns, p=partitions: catalog.column_statistics(
                "shop.sales", c, partitions=p
            )
        )
        assert found == ()
    assert shopping.messages(ReadStatistics) == []
    with pytest.raises(NoSuchObject):
        shopping.call(lambda catalog: catalog.column_statistics("shop.absent"))
    with pytest.raises(UsageError):
        shopping.call(lambda catalog: catalog.column_statistics("shop.sales", "id"))


def test_question_that_is_lost_is_sent_again_and_a_question_that_times_out_says_why(
    shopping: Shopping,
) -> None:
    shopping.lose(CATALOGD, READER, FunctionPage, count=1)
    assert shopping.call(lambda catalog: catalog.functions("shop")) == ()
    assert len(shopping.messages(ReadFunctions)) == 2
    shopping.shop.failures += [SourceError("no route")] * 1000
    with pytest.raises(NotReady, match="catalogd has not answered: no route"):
        shopping.call(lambda catalog: catalog.functions("shop"))


@pytest.mark.parametrize(
    ("code", "error"),
    [("UNREADABLE", SourceError), ("NO_OBJECT", NoSuchObject), ("CLAIM", UsageError)],
)
def test_question_that_is_refused_for_good_fails_at_once(
    shopping: Shopping, code: str, error: type[Exception]
) -> None:
    shopping.alter(
        FunctionPage,
        lambda answer: Refused(request=answer.request, code=code, message="why", retry_ms=0),
    )
    with pytest.raises(error):
        shopping.call(lambda catalog: catalog.functions("shop"), wait_s=1.0)
