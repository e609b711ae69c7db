import pytest

from topicast.subscriber.spark.planning.catalog_source import (
    CATALOG,
    UnknownCatalog,
    catalog_source,
)

SEQ = "scala.collection.immutable.Seq"
GET_TABLE = f"public a.CatalogTable {CATALOG}.getTable(java.lang.String,java.lang.String)"


def source(*methods: str, excluded: tuple[str, ...] = ()) -> str:
    """Return the source of a catalog that has getTable and ``methods``."""
    return catalog_source(f"Array({', '.join((GET_TABLE, *methods))})", excluded=excluded)


def body(text: str, name: str) -> str:
    """Return the method ``name`` of a source, in one line."""
    begin = text.index(f" {name}(", text.index("methodOf"))
    return " ".join(text[begin : text.index("\n    }", begin)].split())


def test_listed_read_asks_the_router_which_may_ask_the_original() -> None:
    found = source(f"public boolean {CATALOG}.tableExists(java.lang.String,java.lang.String)")
    asked = 'router.read(this, 1, "tableExists", 1, new Object[] {a0, a1})'
    assert f"return ((Boolean) {asked}).booleanValue();" in body(found, "tableExists")
    read = "from.tableExists((java.lang.String) a[0], (java.lang.String) a[1])"
    assert f"case 1: return Boolean.valueOf({read});" in found


def test_write_is_the_originals_and_marked_whether_it_succeeds_or_not() -> None:
    found = source(f"public void {CATALOG}.dropTable(java.lang.String,java.lang.String,boolean)")
    assert body(found, "dropTable").endswith(
        "{ try { original.dropTable(a0, a1, a2); } finally { "
        'router.wrote("dropTable", new Object[] {a0, a1, Boolean.valueOf(a2)}); }'
    )


def test_write_that_may_carry_what_was_read_is_guarded() -> None:
    found = source(f"public void {CATALOG}.alterTable(a.CatalogTable)")
    guard = 'router.guard(this, "alterTable", new Object[] {a0}); try { original.alterTable(a0);'
    assert guard in body(found, "alterTable")


def test_method_that_no_list_has_counts_as_a_write_because_it_may_write() -> None:
    found = source(f"public {SEQ} {CATALOG}.compactTables(java.lang.String,{SEQ})")
    compact = body(found, "compactTables")
    assert "return original.compactTables(a0, a1);" in compact
    assert 'router.wrote("compactTables"' in compact


def test_functions_and_what_needs_no_metastore_are_left_to_the_original() -> None:
    found = source(
        f"public {SEQ} {CATALOG}.listFunctions(java.lang.String,java.lang.String)",
        f"public a.HiveClient {CATALOG}.client()",
        f"public scala.Option {CATALOG}.listPartitions$default$3()",
    )
    assert body(found, "client") == "client() { return original.client();"
    for name in ("listFunctions", "client", "listPartitions$default$3"):
        assert "router" not in body(found, name)


def test_what_is_not_the_catalogs_is_not_overridden() -> None:
    found = source(
        f"public static a.B {CATALOG}.EMPTY()",
        f"public org.slf4j.Logger {CATALOG}.log()",
        "public final native java.lang.Class java.lang.Object.getClass()",
        f"public volatile java.lang.Object {CATALOG}.getBridge()",
        excluded=("log",),
    )
    for name in ("EMPTY", "log", "getClass", "getBridge"):
        assert f" {name}(" not in found


def test_text_is_the_same_whatever_the_order_of_the_methods() -> None:
    one = f"public void {CATALOG}.setCurrentDatabase(java.lang.String)"
    other = f"public {SEQ} {CATALOG}.listDatabases()"
    assert source(one, other) == source(other, one)


@pytest.mark.parametrize(
    "method",
    [
        f"public final void {CATALOG}.close()",
        f"public void {CATALOG}.close() throws java.io.IOException",
    ],
)
def test_catalog_that_cannot_be_overridden_is_unknown(method: str) -> None:
    with pytest.raises(UnknownCatalog, match="close"):
        source(method)


def test_catalog_without_tables_is_unknown() -> None:
    with pytest.raises(UnknownCatalog, match="getTable"):
        catalog_source("Array()", excluded=())
