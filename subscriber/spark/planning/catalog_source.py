"""TopicastCatalog: the Java source of the class that replaces Spark's catalog, for any version.

    a public method m of HiveExternalCatalog ──▶ the same method of TopicastCatalog
        m is in READS                  router.read(…), which may call the original by load(…)
        m is in OTHERS, is one that    original.m(…)
          Scala has made ($), or has
          no parameter
        any other m                    original.m(…), and then router.wrote(…); before it
                                       router.guard(…), if m is in GUARDED

The class extends HiveExternalCatalog, because Spark casts its catalog to that class. It overrides
every public method: an inherited method would call our reads where the original calls its own. A
method that no list has counts as a write, so that with another version of Spark more reads go to
the metastore, and no answer is wrong.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

CATALOG: Final = "org.apache.spark.sql.hive.HiveExternalCatalog"
NAME: Final = "TopicastCatalog"

READS: Final = {  # by method: the calls of the metastore that the original makes
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
GUARDED: Final = frozenset(  # writes whose arguments may contain what Spark has read before
    ("alterDatabase", "alterTable", "alterTableDataSchema", "alterTableSchema", "alterPartitions")
)
OTHERS: Final = frozenset(  # neither reads that memory answers nor writes that the router notes
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
_SKIPPED: Final = {"static", "volatile"}  # a bridge has the bit that is printed as volatile
_CLASS: Final = """
final class {name} extends {catalog} {{
    final {catalog} original;
    final org.apache.spark.SparkContext context;
    volatile TopicastReaders readers;  // clients of the endpoint; null: there is no endpoint
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

    // Have reads ask the endpoint at ``uri`` from now on; with "" they ask none.
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
    """A method of Spark's catalog is missing, or cannot be overridden; the text says which."""


@dataclass(frozen=True, slots=True)
class _JavaMethod:
    """A method of Java; ``returns`` and ``takes`` are types as source code names them."""

    returns: str
    name: str
    takes: tuple[str, ...]


def catalog_source(text: str, *, excluded: Iterable[str]) -> str:
    """Return the source of the class ``NAME``; it compiles in one unit with the router's source.

    Args:
        text: The public methods of HiveExternalCatalog, as Java prints an array of them.
        excluded: Names of inherited methods to leave alone: those of Spark's Logging.

    Raises:
        UnknownCatalog: a method cannot be overridden, or there is no getTable.
    """
    methods = _methods_of(text, excluded=frozenset(excluded))
    reads = [method for method in methods if method.name in READS]
    if not any(read.name == "getTable" for read in reads):
        raise UnknownCatalog(f"{CATALOG} has no method getTable")
    return _CLASS.format(
        name=NAME,
        catalog=CATALOG,
        loads="\n".join(_load(number, read) for number, read in enumerate(reads)),
        numbers="\n".join(
            f'        if (name.equals("{read.name}")) return {number};'
            for number, read in enumerate(reads)
        ),
        methods="\n".join(
            _read(reads.index(method), method) if method in reads else _delegate(method)
            for method in methods
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
        takes = tuple(kind.replace("$", ".") for kind in match["takes"].split(",") if kind)
        found[name, takes] = _JavaMethod(match["returns"].replace("$", "."), name, takes)
    return [found[key] for key in sorted(found)]


def _load(number: int, read: _JavaMethod) -> str:
    """Return the case of ``load`` that calls a read of the original."""
    given = ", ".join(_unboxed(f"a[{at}]", kind) for at, kind in enumerate(read.takes))
    return f"        case {number}: return {_boxed(f'from.{read.name}({given})', read.returns)};"


def _read(number: int, read: _JavaMethod) -> str:
    """Return the method that has the router decide who answers."""
    args = f'{number}, "{read.name}", {READS[read.name]}, {_arguments(read)}'
    call = _unboxed(f"router.read(this, {args})", read.returns)
    return f"\n    {_head(read)} {{\n        return {call};\n    }}"


def _delegate(method: _JavaMethod) -> str:
    """Return the method that calls the original and, if it may write, notes that in the router."""
    names = ", ".join(f"a{at}" for at in range(len(method.takes)))
    call = f"original.{method.name}({names});"
    if method.returns != "void":
        call = f"return {call}"
    if method.name in OTHERS or "$" in method.name or not method.takes:
        return f"\n    {_head(method)} {{\n        {call}\n    }}"
    args = f'"{method.name}", {_arguments(method)}'
    guard = f"        router.guard(this, {args});\n" if method.name in GUARDED else ""
    return (
        f"\n    {_head(method)} {{\n{guard}        try {{\n            {call}\n"
        f"        }} finally {{\n            router.wrote({args});\n        }}\n    }}"
    )


def _head(method: _JavaMethod) -> str:
    takes = ", ".join(f"{kind} a{at}" for at, kind in enumerate(method.takes))
    return f"public {method.returns} {method.name}({takes})"


def _arguments(method: _JavaMethod) -> str:
    """Return the array of the arguments with which a method was called, as objects."""
    given = ", ".join(_boxed(f"a{at}", kind) for at, kind in enumerate(method.takes))
    return f"new Object[] {{{given}}}"


def _boxed(text: str, kind: str) -> str:
    """Return the expression ``text``, of the type ``kind``, as an object."""
    return f"{_BOXES[kind]}.valueOf({text})" if kind in _BOXES else text


def _unboxed(text: str, kind: str) -> str:
    """Return the expression ``text``, an object, as a value of the type ``kind``."""
    if kind in _BOXES:
        return f"(({_BOXES[kind]}) {text}).{kind}Value()"
    return f"({kind}) {text}"
