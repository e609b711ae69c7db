"""Methods: what Hive's client reads is what the metastore holds, or it is told to ask that."""

from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException, Partition, Table
from thrift.Thrift import TApplicationException

from topicast.subscriber.endpoint.methods import METHODS
from topicast.subscriber.endpoint.requests import RequestReader
from topicast.subscriber.endpoint.service import REFUSED, UNKNOWN, Service
from topicast.tests.cluster.fake_metastore import from_thrift, make_table
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.subscriber.endpoint.messages import (
    answered,
    call,
    table_request,
    tables_request,
)

DAYS = [f"ds={number:03}" for number in range(100)]
PAIRS = ["a=1/b=x", "a=1/b=y%2F", "a=1/b=z", "a=2/b=x", "a=2/b=y%2F", "a=2/b=z"]
ALL_TABLES = sorted([*NAMES, "acid", "ice", "guarded", "pairs"])


def ask(service: Service, method: str, *arguments: Any) -> Any:
    reader = RequestReader()
    reader.feed(call(method, *arguments))
    request = reader.next()
    assert request is not None
    return answered(b"".join(service.answer(request)), method)


def table(shop: Shop, name: str) -> Table:
    return from_thrift(Table, shop.tables("shop", [name])[name])


def partitions(shop: Shop, name: str, names: list[str]) -> list[Partition]:
    found = shop.partitions("shop", name, names)
    return [from_thrift(Partition, found[one]) for one in names]


def test_databases_and_names_are_those_of_the_metastore(service: Service) -> None:
    assert ask(service, "get_database", "SHOP").locationUri == "file:/w/shop"
    assert ask(service, "get_all_databases") == ["default", "shop"]
    assert ask(service, "get_databases", "*") == ["default", "shop"]
    assert ask(service, "get_databases", "S*|x") == ["shop"]
    assert ask(service, "get_all_tables", "shop") == ALL_TABLES
    assert ask(service, "get_tables", "shop", "*") == ALL_TABLES
    assert ask(service, "get_tables", "Shop", "S*|orders") == ["orders", "sales", "stock"]
    assert ask(service, "get_tables_by_type", "shop", "s*", "EXTERNAL_TABLE") == ["sales", "stock"]
    assert ask(service, "get_tables_by_type", "shop", "*", "VIRTUAL_VIEW") == []


def test_tables_are_those_of_the_metastore(service: Service, shop: Shop) -> None:
    orders = table(shop, "orders")
    assert ask(service, "get_table", "Shop", "ORDERS") == orders
    assert ask(service, "get_table_req", table_request("shop", "orders")).table == orders
    both = [orders, table(shop, "sales")]
    names = ["orders", "sales", "Orders"]
    assert ask(service, "get_table_objects_by_name", "shop", names) == both
    found = ask(service, "get_table_objects_by_name_req", tables_request("shop", names))
    assert found.tables == both


def test_partitions_are_those_of_the_metastore(service: Service, shop: Shop) -> None:
    every = partitions(shop, "sales", DAYS)
    assert ask(service, "get_partitions", "shop", "sales", -1) == every
    assert ask(service, "get_partitions", "shop", "sales", 7) == every[:7]
    assert ask(service, "get_partitions_with_auth", "shop", "sales", -1, "ann", []) == every
    assert ask(service, "get_partitions_ps", "shop", "sales", ["007"], -1) == [every[7]]
    auth = ("get_partitions_ps_with_auth", "shop", "sales", [""], 3, "ann", ["staff"])
    assert ask(service, *auth) == every[:3]
    by_name = ("get_partitions_by_names", "shop", "sales", ["ds=009", "ds=003", "ds=009"])
    assert ask(service, *by_name) == [every[3], every[9]]
    assert ask(service, "get_partitions_by_names", "shop", "sales", []) == []
    assert ask(service, "get_partition", "shop", "sales", ["007"]) == every[7]
    assert ask(service, "get_partition_by_name", "shop", "sales", "ds=007") == every[7]
    assert ask(service, "get_partition_with_auth", "shop", "sales", ["007"], "a", []) == every[7]
    assert ask(service, "get_partition_names", "shop", "sales", -1) == DAYS
    assert ask(service, "get_partition_names", "shop", "sales", 2) == DAYS[:2]
    assert ask(service, "get_partition_names_ps", "shop", "sales", ["007"], -1) == ["ds=007"]


def test_partitions_of_several_keys_are_found_by_some_values(service: Service, shop: Shop) -> None:
    def names(*values: str) -> Any:
        return ask(service, "get_partition_names_ps", "shop", "pairs", list(values), -1)

    assert names("1") == PAIRS[:3]
    assert names("", "z") == ["a=1/b=z", "a=2/b=z"]
    assert names("", "") == PAIRS
    (found,) = partitions(shop, "pairs", ["a=2/b=y%2F"])
    assert ask(service, "get_partition", "shop", "pairs", ["2", "y/"]) == found
    assert ask(service, "get_partitions", "shop", "pairs", -1) == partitions(shop, "pairs", PAIRS)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('ds = "007"', DAYS[7:8]),
        ('ds >= "098" or ds = "000"', [DAYS[0], *DAYS[98:]]),
        ('(ds) in ("001", "002", "x")', DAYS[1:3]),
        ('(ds) not in ("001") and ds < "003"', [DAYS[0], DAYS[2]]),
        ('ds like "00.*"', DAYS[:10]),
        ('ds = "none"', []),
    ],
)
def test_filters_select_as_those_of_the_metastore(
    service: Service, shop: Shop, text: str, wanted: list[str]
) -> None:
    found = ask(service, "get_partitions_by_filter", "shop", "sales", text, -1)
    assert found == partitions(shop, "sales", wanted)
    some = ask(service, "get_partitions_by_filter", "shop", "sales", text, 1)
    assert some == partitions(shop, "sales", wanted[:1])


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (("get_database", "nowhere"), "no such object: nowhere"),
        (("get_databases", "a.c"), "names like"),
        (("get_tables", "nowhere", "*"), "no such object"),
        (("get_tables", "shop", "s[a]*"), "names like"),
        (("get_all_tables", ""), "database's name"),
        (("get_table", "shop", "nothing"), "no such object: shop.nothing"),
        (("get_table", "shop", "a.b"), "not a table's name"),
        (("get_table", "shop", "acid"), "transactional"),
        (("get_table", "shop", "ice"), "Iceberg"),
        (("get_table_objects_by_name", "shop", ["orders", "nothing"]), "no such object"),
        (("get_table_objects_by_name", "shop", ["orders", "acid"]), "transactional"),
        (("get_table_objects_by_name_req", tables_request("shop", ["ice"])), "Iceberg"),
        (("get_partitions", "shop", "orders", -1), "has no partitions"),
        (("get_partitions", "shop", "acid", -1), "transactional"),
        (("get_partitions", "shop", "sales", 0), "no partition is requested"),
        (("get_partition_names", "shop", "acid", -1), "transactional"),
        (("get_partition_names", "shop", "orders", -1), "has no partitions"),
        (("get_partitions_with_auth", "shop", "guarded", -1, "a", []), "privileges"),
        (("get_partition_with_auth", "shop", "guarded", ["1"], "a", []), "privileges"),
        (("get_partitions_ps_with_auth", "shop", "guarded", [""], -1, "a", []), "privileges"),
        (("get_partitions_ps", "shop", "sales", ["1", "2"], -1), "2 values given"),
        (("get_partition", "shop", "sales", ["none"]), "no such object: shop.sales/ds=none"),
        (("get_partition", "shop", "sales", [""]), "is empty"),
        (("get_partition", "shop", "sales", ["1", "2"]), "2 values given"),
        (("get_partition_by_name", "shop", "sales", "ds=none"), "no such object"),
        (("get_partition_by_name", "shop", "sales", "none"), "not a partition's name"),
        (("get_partitions_by_names", "shop", "sales", ["ds=001", "ds=x"]), "one of 2 partitions"),
        (("get_partitions_by_filter", "shop", "sales", "ds = 7", -1), "write it in quotes"),
        (("get_partitions_by_filter", "shop", "sales", "", -1), "filter"),
        (("get_partitions_by_filter", "shop", "sales", "id = '1'", -1), "not a partition column"),
    ],
)
def test_what_the_metastore_has_to_answer_is_refused(
    service: Service, call: tuple[Any, ...], why: str
) -> None:
    with pytest.raises((MetaException, TApplicationException)) as caught:
        ask(service, *call)
    message = str(caught.value.message)
    assert why in message
    assert "asks the metastore" in message
    assert service.counts.facts()[REFUSED] == {call[0]: 1}


def test_tables_of_a_type_are_not_listed_while_the_type_of_one_is_not_known(
    shop: Shop, request: pytest.FixtureRequest
) -> None:
    untyped = make_table("shop", "visits_new", location="file:/w/shop/visits_new")
    untyped.tableType = ""
    shop.create_table(untyped)
    service = request.getfixturevalue("service")
    assert ask(service, "get_tables", "shop", "visits*") == ["visits", "visits_new"]
    assert ask(service, "get_tables_by_type", "shop", "s*", "EXTERNAL_TABLE") == ["sales", "stock"]
    with pytest.raises(MetaException, match="types of some of these tables are not known"):
        ask(service, "get_tables_by_type", "shop", "visits*", "VIRTUAL_VIEW")


@pytest.mark.parametrize(
    "method", ["drop_table", "create_database", "get_function", "get_config_value", "nothing"]
)
def test_what_is_no_read_is_unknown(service: Service, method: str) -> None:
    reader = RequestReader()
    reader.feed(call("get_all_databases").replace(b"\0\x11get_all_databases", named(method)))
    request = reader.next()
    assert request is not None
    with pytest.raises(TApplicationException, match="reads only") as caught:
        answered(b"".join(service.answer(request)), method)
    assert caught.value.type == TApplicationException.UNKNOWN_METHOD
    assert service.counts.facts()[UNKNOWN] == {method: 1}


def named(method: str) -> bytes:
    return len(method).to_bytes(2, "big") + method.encode()


def test_no_method_writes() -> None:
    assert all(name.startswith("get_") for name in METHODS)


def test_reads_choose_levels(service: Service, shopping: Shopping) -> None:
    reads = shopping.reader.member.placement.reads
    reads.clear()
    ask(service, "get_table", "shop", "orders")
    ask(service, "get_partitions", "shop", "sales", -1)
    assert list(reads) == [("shop", "orders", False), ("shop", "sales", True)]
