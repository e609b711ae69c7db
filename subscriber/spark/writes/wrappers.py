"""Wraps PySpark's own methods that write or refresh: reported when they begin, and when they end.

    DataFrame.write, DataFrame.writeTo, SparkSession.sql ──▶ begin ──▶ the method itself ──▶ end
    SparkSession.catalog.refreshTable, refreshByPath

A wrapper adds nothing to what the method returns or raises. A call that it does not understand
passes, and the listener reports it. Undoing leaves wrappers that others have put over ours.
"""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from .statements import Target, parts_of, targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the wrapped method ``name`` of ``it``, which ``run`` makes."""

    it: Any
    name: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    run: Callable[[], Any]

    def argument(self, name: str, *, at: int = 0) -> Any:
        """Return the argument ``name``, at position ``at`` if it is not named."""
        return self.args[at] if len(self.args) > at else self.named.get(name)


Around = Callable[[Call], Any]

_BY_PATH: Final = ("save", "parquet", "orc", "json", "csv", "text", "xml")
_BY_TABLE: Final = {"insertInto": "tableName", "saveAsTable": "name"}
_V2: Final = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
_REFRESHES: Final = {"refreshTable": "tableName", "refreshByPath": "path"}
_V2_OVERWRITES: Final = frozenset({"overwrite", "overwritePartitions"})


class Reports(Protocol):
    """Takes the reports; nothing of it raises."""

    def begin(self, session: Any, found: tuple[Target, ...]) -> Any:
        """Report that a write begins; return the argument of ``end``."""

    def end(
        self, begun: Any, *, failed: bool, overwritten: bool = False, frame: Any = None
    ) -> None:
        """Report that it has ended; ``frame`` is what a statement returned.

        ``overwritten``: files that were there are gone.
        """

    def flush(self) -> None:
        """Report what was written until now, before Spark ends."""


def install(reports: Reports, session: Any) -> Callable[[], None]:
    """Wrap what writes in the process of ``session``; return what undoes that."""
    from pyspark.sql.catalog import Catalog
    from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

    tables: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
    modes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def reported(session: Any, found: tuple[Target, ...], call: Call) -> Any:
        begun = reports.begin(session, found)
        try:
            result = call.run()
        except BaseException:
            reports.end(begun, failed=True)
            raise
        # of a writer the mode is known once it has run: its last argument may have been one
        mode = str(modes.get(call.it, "")).lower()
        overwritten = mode == "overwrite" or call.name in _V2_OVERWRITES
        reports.end(begun, failed=False, overwritten=overwritten, frame=result)
        return result

    def run(call: Call) -> Any:
        text = call.argument("sqlQuery")
        found = targets(text) if isinstance(text, str) else ()
        return reported(call.it, found, call) if found else call.run()

    def write(name: str) -> Around:
        return lambda call: reported(call.it._spark, _target(name, call.argument(name)), call)

    def refresh(name: str) -> Around:
        return lambda call: reported(call.it._sparkSession, _refreshed(name, call), call)

    def write_v2(call: Call) -> Any:
        return reported(call.it._spark, _target("table", tables.get(call.it)), call)

    def stop(call: Call) -> Any:
        reports.flush()
        return call.run()

    undoings = [
        wrap(type(session), "sql", run),
        wrap(type(session._sc), "stop", stop),
        wrap(DataFrameWriter, "mode", _noted(modes, "saveMode")),
        wrap(DataFrameWriterV2, "__init__", _noted(tables, "table", at=1)),
        *(wrap(DataFrameWriter, method, write("path")) for method in _BY_PATH),
        *(wrap(DataFrameWriter, method, write(name)) for method, name in _BY_TABLE.items()),
        *(wrap(DataFrameWriterV2, method, write_v2) for method in _V2),
        *(wrap(Catalog, method, refresh(name)) for method, name in _REFRESHES.items()),
    ]

    def undo() -> None:
        for one in undoings:
            one()

    return undo


def wrap(kind: type, name: str, around: Around) -> Callable[[], None]:
    """Let ``around`` call the method ``name`` of ``kind``, where there is one; return the undoing.

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


def _noted(into: MutableMapping[Any, Any], name: str, *, at: int = 0) -> Around:
    """Return what notes the argument ``name`` for the object whose method is called."""

    def note(call: Call) -> Any:
        result = call.run()
        into[call.it] = call.argument(name, at=at)
        return result

    return note


def _refreshed(name: str, call: Call) -> tuple[Target, ...]:
    found = _target(name, call.argument(name))
    return tuple(replace(one, refreshes=True) for one in found)


def _target(kind: str, named: Any) -> tuple[Target, ...]:
    """Return the target that an argument names; () if it is not understood."""
    if not isinstance(named, str) or not named:
        return ()
    if kind == "path":
        return (Target(path=named),)
    parts = parts_of(named)
    return (Target(name=parts),) if parts else ()
