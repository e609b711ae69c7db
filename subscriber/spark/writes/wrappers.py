"""Wraps PySpark's own methods that write: they return once what they wrote is reported.

    DataFrame.write, DataFrame.writeTo, SparkSession.sql ──▶ the method itself ──▶ settle
    SparkSession.catalog.refreshTable, refreshByPath ──▶ the method itself ──▶ refreshed

The listener in the JVM sees what was written. It does not see the last two, for which Spark
executes nothing, so their wrapper names what was refreshed. A wrapper adds nothing to what the
method returns or raises. Undoing leaves wrappers that others have put over ours.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the wrapped method ``name`` of ``it``, which ``run`` makes."""

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
)  # statements that write nothing, but for those of others: what waits in vain waits 3 ms


class CallReports(Protocol):
    """Takes reports of calls; none of its methods raises."""

    def settle(self) -> None:
        """Wait a moment until what was executed is reported."""

    def refreshed(self, session: Any, name: str, *, is_path: bool) -> None:
        """Report that a table, or a path, was refreshed; wait a moment for that."""


def install(reports: CallReports, kind: type) -> Callable[[], None]:
    """Wrap what writes in the process of a session of ``kind``; return what undoes that."""
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
    """Let ``around`` call the method ``name`` of ``kind``, if it has that; return the undoing.

    It is wrapped in the class that has it: what users derive of it is wrapped, too.
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
