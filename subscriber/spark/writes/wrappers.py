"""Wraps PySpark's methods that write, so that they return once the agent has reported the write.

    DataFrame.write, DataFrame.writeTo, SparkSession.sql ──▶ the method itself ──▶ settle
    SparkSession.catalog.refreshTable, refreshByPath ──▶ the method itself ──▶ refreshed

The listener in the JVM sees the writes. It does not see the last two methods, for which Spark
executes nothing, so their wrapper names what they refresh. A wrapper returns and raises what the
method does. If somebody has wrapped our wrapper, undoing leaves both, and ours does nothing more.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the wrapped method ``name`` of the object ``it``; ``run`` calls the original."""

    it: Any
    name: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    run: Callable[[], Any]

    def argument(self, name: str) -> Any:
        """Return the argument ``name``, which is the first argument if it is not named."""
        return self.args[0] if self.args else self.named.get(name)


Around = Callable[[Call], Any]

_WRITER: Final = (
    *("save", "parquet", "orc", "json", "csv", "text", "xml"),
    *("insertInto", "saveAsTable"),
)
_V2: Final = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
_REFRESHES: Final = {"refreshTable": "tableName", "refreshByPath": "path"}
_QUERY: Final = re.compile(
    r"[\s(]*(?:select|values|table|describe|desc|show|explain|set|use)\b", re.IGNORECASE
)
"""Statements that write nothing, so that their caller need not wait. It waits 3 ms for others."""


class CallReports(Protocol):
    """Takes what wrapped methods have done; none of its methods raises."""

    def settle(self) -> None:
        """Wait a moment until the agent has reported what Spark has executed."""

    def refreshed(self, session: Any, name: str, *, is_path: bool) -> None:
        """Report that the application has refreshed a table, or a path; then as ``settle``."""


def install(reports: CallReports, kind: type) -> Callable[[], None]:
    """Wrap the methods that write in this process; return what undoes that.

    ``kind``: the class of its sessions.
    """
    from pyspark.sql.catalog import Catalog
    from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

    def write(call: Call) -> Any:
        try:
            return call.run()
        finally:
            reports.settle()

    def run(call: Call) -> Any:
        text = call.argument("sqlQuery")
        is_query = isinstance(text, str) and _QUERY.match(text) is not None
        return call.run() if is_query else write(call)

    def refresh(call: Call) -> Any:
        result, name = call.run(), call.argument(_REFRESHES[call.name])
        reports.refreshed(call.it._sparkSession, name, is_path=call.name == "refreshByPath")
        return result

    undoings = [
        wrap(kind, "sql", run),
        *(wrap(DataFrameWriter, method, write) for method in _WRITER),
        *(wrap(DataFrameWriterV2, method, write) for method in _V2),
        *(wrap(Catalog, method, refresh) for method in _REFRESHES),
    ]

    def undo() -> None:
        for one in undoings:
            one()

    return undo


def wrap(kind: type, name: str, around: Around) -> Callable[[], None]:
    """Have ``around`` called instead of the method ``name`` of ``kind``; return what undoes that.

    The method is wrapped in the class that defines it, so that classes that users derive of it have
    the wrapper, too. If no class defines it, nothing is wrapped.
    """
    owner = next((one for one in kind.__mro__ if name in one.__dict__), None)
    if owner is None:
        return lambda: None
    original: Callable[..., Any] = owner.__dict__[name]
    on = True

    @wraps(original)
    def wrapped(self: Any, *args: Any, **named: Any) -> Any:
        if not on:
            return original(self, *args, **named)
        run = partial(original, self, *args, **named)
        return around(Call(it=self, name=name, args=args, named=named, run=run))

    def undo() -> None:
        nonlocal on
        on = False
        if owner.__dict__[name] is wrapped:
            setattr(owner, name, original)

    setattr(owner, name, wrapped)
    return undo
