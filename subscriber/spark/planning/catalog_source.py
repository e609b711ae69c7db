"""The Java source of the class that stands in the place of Spark's catalog, for any version.

    methods of HiveExternalCatalog, as reflection prints them ──▶ TopicastCatalog
        a read that is listed     router.read(…), which reads by load(original, …)
        a write that is listed    original.m(…), and then router.wrote(…)
        any other                 original.m(…)

The class extends HiveExternalCatalog, because Spark casts its catalog to that, and overrides each
of its public methods: an inherited method would run with our reads. A method that no list has
is a write if it may write, so another version of Spark is served with fewer reads, never worse.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

CATALOG: Final = "org.apache.spark.sql.hive.HiveExternalCatalog"
NAME: Final = "TopicastCatalog"

READS: Final = {  # method -> calls of the metastore that the original makes
    "getDatabase": 1,
    "databaseExists": 1,
    "listDatabases": 1,
    "getTable": 1,
    "tableExists": 1,
    "listTables": 2,
    "listViews": 2,
    "getPartition": 2,
    "getPartitionOption": 2,
    "listPartitionNames": 2,
    "listPartitions": 2,
    "listPartitionsByFilter": 2,
}
GUARDED: Final = frozenset(  # writes that may carry what was read before
    ("alterDatabase", "alterTable", "alterTableDataSchema", "alterTableSchema", "alterPartitions")
)
OTHERS: Final = frozenset(  # neither: what they read is always read from the metastore
    (
        "client",
        "getRawTable",
        "getRawTablesByNames",
        "getTablesByName",
        "requireDbExists",
        "requireTableExists",
        "requireFunctionExists",
        "requireFunctionNotExists",
        "setCurrentDatabase",
        "validateHiveSerdeTable",
        "createFunction",
        "dropFunction",
        "alterFunction",
        "renameFunction",
        "getFunction",
        "functionExists",
        "listFunctions",
    )
)

_METHOD: Final = re.compile(
    r"public (?P<modifiers>(?:[a-z]+ )*)(?P<returns>[\w.$\[\]]+) "
    r"(?P<owner>[\w.$]+)\.(?P<name>[\w$]+)\((?P<takes>[^)]*)\)(?P<throws> throws [\w.$,]+)?"
)
_BOXES: Final = {
    "boolean": "Boolean",
    "byte": "Byte",
    "char": "Character",
    "double": "Double",
    "float": "Float",
    "int": "Integer",
    "long": "Long",
    "short": "Short",
}
_SKIPPED: Final = {"static", "volatile"}  # volatile: what reflection calls a bridge
_CLASS: Final = """
final class {name} extends {catalog} {{
    final {catalog} original;
    final org.apache.spark.SparkContext context;
    volatile TopicastReaders readers;  // null: there is no endpoint
    private final org.apache.spark.SparkConf conf;
    private final org.apache.hadoop.conf.Configuration hadoop;
    private final TopicastPlanning router;

    {name}(org.apache.spark.SparkConf conf, org.apache.hadoop.conf.Configuration hadoop,
            {catalog} original, TopicastPlanning router, org.apache.spark.SparkContext context) {{
        super(conf, hadoop);
        this.conf = conf;
        this.hadoop = hadoop;
        this.original = original;
        this.router = router;
        this.context = context;
    }}

    // Ask this endpoint from now on; "": none.
    synchronized void ask(String uri, String token) {{
        TopicastReaders before = readers;
        readers = null;
        if (before != null) before.close();
        if (uri.isEmpty()) return;
        try {{
            readers = new TopicastReaders(conf, hadoop, {catalog}.class.getClassLoader(),
                uri, token);
            readers.begin();
        }} catch (Throwable failed) {{
            router.failed(failed);
        }}
    }}

    Object load({catalog} from, int method, Object[] a) {{
        switch (method) {{
{loads}
        default: throw new IllegalArgumentException("no read " + method);
        }}
    }}

    int methodOf(String name) {{
{numbers}
        return -1;
    }}
{methods}
}}
"""


class UnknownCatalog(Exception):
    """The methods of this catalog are not such that they can be overridden; says which."""


@dataclass(frozen=True, slots=True)
class _JavaMethod:
    """A method of Java: names of types as source code has them."""

    returns: str
    name: str
    takes: tuple[str, ...]


def catalog_source(text: str, *, excluded: Iterable[str]) -> str:
    """Return the source of the class ``NAME``, which needs the router's in the same source.

    Args:
        text: The public methods of HiveExternalCatalog, as Java prints an array of them.
        excluded: Names of methods that are not the catalog's: those of loggers.

    Raises:
        UnknownCatalog: a method cannot be overridden, or there is no getTable.
    """
    methods = _methods_of(text, excluded=frozenset(excluded))
    reads = [one for one in methods if one.name in READS]
    if not any(one.name == "getTable" for one in reads):
        raise UnknownCatalog(f"{CATALOG} has no method getTable")
    return _CLASS.format(
        name=NAME,
        catalog=CATALOG,
        loads="\n".join(_load(number, one) for number, one in enumerate(reads)),
        numbers="\n".join(
            f'        if (name.equals("{one.name}")) return {number};'
            for number, one in enumerate(reads)
        ),
        methods="\n".join(
            _read(reads.index(one), one) if one in reads else _delegate(one) for one in methods
        ),
    )


def _methods_of(text: str, *, excluded: frozenset[str]) -> list[_JavaMethod]:
    """Return the methods to override, in a fixed order.

    Raises:
        UnknownCatalog: a method cannot be overridden.
    """
    found: dict[tuple[str, tuple[str, ...]], _JavaMethod] = {}
    for match in _METHOD.finditer(text):
        modifiers = set(match["modifiers"].split())
        name, owner = match["name"], match["owner"]
        if modifiers & _SKIPPED or owner == "java.lang.Object" or name in excluded:
            continue
        if "final" in modifiers or match["throws"]:
            raise UnknownCatalog(f"{owner}.{name} is final, or throws what Java checks")
        takes = tuple(one.replace("$", ".") for one in match["takes"].split(",") if one)
        found[name, takes] = _JavaMethod(match["returns"].replace("$", "."), name, takes)
    return [found[key] for key in sorted(found)]


def _load(number: int, one: _JavaMethod) -> str:
    given = ", ".join(_unboxed(f"a[{at}]", kind) for at, kind in enumerate(one.takes))
    return f"        case {number}: return {_boxed(f'from.{one.name}({given})', one.returns)};"


def _read(number: int, one: _JavaMethod) -> str:
    given = ", ".join(_boxed(f"a{at}", kind) for at, kind in enumerate(one.takes))
    call = f'router.read(this, {number}, "{one.name}", {READS[one.name]}, new Object[] {{{given}}})'
    return f"\n    {_head(one)} {{\n        return {_unboxed(call, one.returns)};\n    }}"


def _delegate(one: _JavaMethod) -> str:
    names = ", ".join(f"a{at}" for at in range(len(one.takes)))
    call = f"original.{one.name}({names});"
    if one.returns != "void":
        call = f"return {call}"
    if one.name in OTHERS or "$" in one.name or not one.takes:
        return f"\n    {_head(one)} {{\n        {call}\n    }}"
    given = ", ".join(_boxed(f"a{at}", kind) for at, kind in enumerate(one.takes))
    args = f'"{one.name}", new Object[] {{{given}}}'
    guard = f"        router.guard(this, {args});\n" if one.name in GUARDED else ""
    return (
        f"\n    {_head(one)} {{\n{guard}        try {{\n            {call}\n"
        f"        }} finally {{\n            router.wrote({args});\n        }}\n    }}"
    )


def _head(one: _JavaMethod) -> str:
    takes = ", ".join(f"{kind} a{at}" for at, kind in enumerate(one.takes))
    return f"public {one.returns} {one.name}({takes})"


def _boxed(text: str, kind: str) -> str:
    return f"{_BOXES[kind]}.valueOf({text})" if kind in _BOXES else text


def _unboxed(text: str, kind: str) -> str:
    if kind in _BOXES:
        return f"(({_BOXES[kind]}) {text}).{kind}Value()"
    return f"({kind}) {text}"
