"""The Py4J boundary to the router: TopicastPlanning.java and its parts, compiled in the JVM.

Nothing here calls the metastore, or makes a part of Spark that the application has not made.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from ....topics.objects.changes import ChangeKind
from ...endpoint.server import HOST
from ...protocol.effects import Change
from ...store.change_feed import REPORTED
from ..java import java_singleton, java_source, java_unit
from .catalog_source import CATALOG, catalog_source

IN_HIVE: Final = "hive"  # the value of spark.sql.catalogImplementation

_NAME: Final = "TopicastPlanning"
_PARTS: Final = (  # of the router, each a class of that name
    *("TopicastCommands", "TopicastCounts", "TopicastFollowed", "TopicastInstalled"),
    *("TopicastLines", "TopicastNames", "TopicastObjects", "TopicastQuestions", "TopicastReaders"),
    *("TopicastRelations", "TopicastServed", "TopicastSizes", "TopicastWrites"),
)
_LOGGING: Final = "org.apache.spark.internal.Logging"
_METHOD: Final = re.compile(r"\.([\w$]+)\(")


Use = tuple[str, int, int]
"""A table that was read: its name, how often, and how often its partitions."""


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """Where an endpoint listens, on this machine, and what its clients have to present."""

    port: int
    token: str = field(repr=False)

    @property
    def uri(self) -> str:
        """The address for ``hive.metastore.uris``."""
        return f"thrift://{HOST}:{self.port}"


class NoRouter(Exception):
    """This Spark has no catalog in whose place the router could stand; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterChange:
    """A change of ``object``, a table or a database.

    ``names``: it came or went. ``files``: its files may differ. ``reported``: by a driver, before
    the metastore's event of it was read.
    """

    object: str
    names: bool
    files: bool
    reported: bool = False


def router_change(change: Change) -> RouterChange:
    """Return what the router has to know of a change that the driver's subscriber has seen."""
    return RouterChange(
        object=change.object,
        names=names_of(change.kind),
        files=change.files,
        reported=change.origin == REPORTED,
    )


def names_of(kind: ChangeKind) -> bool:
    """Whether the object came or went."""
    return kind in (ChangeKind.CREATED, ChangeKind.DROPPED)


class Router:
    """Answers reads of Spark's catalogs from memory while it is live; for any thread."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self._begun = 0  # by what the JVM knows that this object has begun

    @staticmethod
    def of(jvm: Any, registry: Any) -> "Router":
        """Return the router of a JVM, compiled at the first call.

        Args:
            jvm: Of Py4J.
            registry: Of the sessions, a TopicastSessions.

        Raises:
            NoRouter, UnknownCatalog, Py4JError, TypeError: it cannot be made in this Spark.

        Cost: 0.4 s for the first time.
        """
        return Router(java_singleton(jvm, _NAME, router_source(jvm), registry))

    def begin(self, *, bytes_max: int, validate: str = "none") -> None:
        """Stand in the catalogs' place, and keep ``bytes_max`` of objects; none is live yet.

        ``validate``: what confirms each read of a table before it is answered. hms: the metastore,
        to which the table is compared; catalogd: what takes ``unconfirmed``; none: nothing.
        """
        self._begun = int(self._java.begin(bytes_max, validate))

    def end(self) -> None:
        """Put the originals back and keep nothing, unless another agent has begun since."""
        self._java.end(self._begun)

    def live(self, for_s: float) -> None:
        """Answer from memory for so many seconds from now; 0: not any more."""
        self._java.live(int(for_s * 1000))

    def follow(self, databases: Iterable[str]) -> None:
        """Keep objects of ``databases`` only: changes of these are received."""
        self._java.follow("\n".join(databases))

    def endpoint(self, address: EndpointAddress) -> None:
        """Ask an endpoint before the original.

        What it answers is not older than what ``changed`` has told before.
        """
        self._java.endpoint(address.uri, address.token)

    def changed(self, changes: Iterable[RouterChange]) -> None:
        """Drop what has changed."""
        lines = (f"{one.names:d} {one.files:d} {one.reported:d} {one.object}" for one in changes)
        self._java.changed("\n".join(lines))

    def altered(self, timeout_s: float) -> list[tuple[str, bool]]:
        """Return the tables that statements of this driver have changed: whether names, too.

        Waits for the first table.
        """
        lines = str(self._java.altered(int(timeout_s * 1000))).splitlines()
        return [(line[2:], line[0] == "1") for line in lines]

    def changed_all(self, *, late_s: float) -> None:
        """Drop everything; relations of sessions may be old for ``late_s``."""
        self._java.changedAll(int(late_s * 1000))

    def await_writes(self, timeout_s: float) -> int:
        """Wait for a write that no sync has passed; return its number, 0 if there is none."""
        return int(getattr(self._java, "await")(int(timeout_s * 1000)))

    def synced(self, number: int) -> None:
        """Answer from memory again for what was written up to this write."""
        self._java.synced(number)

    def wanted(self, timeout_s: float) -> list[tuple[int, str]]:
        """Return tables of which it is to be found out whether their changes are received.

        Waits for the first table; ``known`` takes the number of each.
        """
        return _numbered(self._java.wanted(int(timeout_s * 1000)))

    def known(self, number: int, table: str, *, is_followed: bool) -> None:
        """Keep, or do not keep, what is read of a wanted table from now on."""
        self._java.known(number, table, is_followed)

    def unconfirmed(self, timeout_s: float) -> list[tuple[int, str]]:
        """Return reads that wait for ``confirmed``: a number and a table each.

        Waits for the first read.
        """
        return _numbered(self._java.unconfirmed(int(timeout_s * 1000)))

    def confirmed(self, answers: Mapping[int, bool]) -> None:
        """Let the metastore answer the reads of which the answer is false, and memory the others.

        ``changed`` has told all that had changed by then.
        """
        lines = (f"{is_so:d} {number}" for number, is_so in answers.items())
        self._java.confirmed("\n".join(lines))

    def renew(self, for_s: float) -> tuple[Mapping[str, str], list[Use]]:
        """As ``live``; return the state, and which tables were read since the last call."""
        state, _, uses = str(self._java.renew(int(for_s * 1000))).partition("\n\n")
        lines = (line.rsplit(" ", 2) for line in uses.splitlines())
        return _pairs(state), [(name, int(table), int(parts)) for name, table, parts in lines]

    def bytes_of(self, result: Any) -> int:
        """Return how many bytes of the heap a result of Spark's catalog is taken for."""
        return int(self._java.bytesOf(result))

    def status(self) -> Mapping[str, str]:
        """Return the counters and the state, by name."""
        return _pairs(str(self._java.status()))


def why_not(conf: Callable[[str], str | None]) -> str:
    """Return why a session has no catalog of Hive; empty if it has, or may have, such a catalog."""
    kind = conf("spark.sql.catalogImplementation")
    return "" if kind in (None, IN_HIVE) else f"its catalog is {kind}"


def router_source(jvm: Any) -> str:
    """Return the Java source of the router and of its catalog, for the Spark of a JVM.

    Raises:
        NoRouter, UnknownCatalog: there is none.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"{CATALOG.replace('.', '/')}.class") is None:
        raise NoRouter("this Spark has no support for Hive")
    text = jvm.scala.runtime.ScalaRunTime.stringOf
    logging = str(text(loader.loadClass(_LOGGING).getMethods()))
    methods = str(text(loader.loadClass(CATALOG).getMethods()))
    catalog = catalog_source(methods, excluded=_METHOD.findall(logging))
    return java_unit(*(java_source(__package__, one) for one in (_NAME, *_PARTS)), catalog)


@lru_cache(maxsize=1)  # while nothing is read, the next answer is the same
def _pairs(state: str) -> Mapping[str, str]:
    pairs = (line.partition("=") for line in state.splitlines())
    return {name: value for name, _, value in pairs}


def _numbered(lines: object) -> list[tuple[int, str]]:
    """Return the numbers and names of lines that the router has written."""
    pairs = (line.partition(" ") for line in str(lines).split("\n"))
    return [(int(number), name) for number, _, name in pairs if number]
