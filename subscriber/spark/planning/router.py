"""Router: calls TopicastPlanning in the JVM, through Py4J; compiles it and its parts at first.

Every text that is exchanged has one line for each object. No call here reaches the metastore, or
has Spark create a catalog that the application has not created.
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
    *("TopicastLease", "TopicastLines", "TopicastNames", "TopicastObjects", "TopicastQuestions"),
    *("TopicastReaders", "TopicastRelations", "TopicastServed", "TopicastSizes", "TopicastWrites"),
)
_LOGGING: Final = "org.apache.spark.internal.Logging"
_METHOD: Final = re.compile(r"\.([\w$]+)\(")


Use = tuple[str, int, int]
"""A table that Spark has read: its name, the reads of the table itself, those of its partitions."""


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """The port of an endpoint on this machine, and the secret that its clients present."""

    port: int
    token: str = field(repr=False)

    @property
    def uri(self) -> str:
        """The address for ``hive.metastore.uris``."""
        return f"thrift://{HOST}:{self.port}"


class NoRouter(Exception):
    """This Spark has no catalog that the router could replace; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterChange:
    """A change of ``object``, a table or a database.

    ``names``: the object was created or dropped. ``files``: its files may differ. ``reported``: a
    driver has reported the change, and catalogd has not read the metastore's event of it yet.
    """

    object: str
    names: bool
    files: bool
    reported: bool = False


def router_change(change: Change) -> RouterChange:
    """Return ``change``, which a watch of the subscriber has returned, as the router takes it."""
    return RouterChange(
        object=change.object,
        names=came_or_went(change.kind),
        files=change.files,
        reported=change.origin == REPORTED,
    )


def came_or_went(kind: ChangeKind) -> bool:
    """Return whether a change of ``kind`` has created or dropped its object."""
    return kind in (ChangeKind.CREATED, ChangeKind.DROPPED)


class Router:
    """Answers reads of Spark's catalogs from memory while it is live; for any thread.

    Every method may raise Py4JError: the JVM has ended, or the call failed in it.
    """

    def __init__(self, java: Any) -> None:
        self._java = java  # the JVM's TopicastPlanning
        self._begun = 0  # the number of this object's ``begin`` in the JVM, which ``end`` passes

    @staticmethod
    def of(jvm: Any, registry: Any) -> "Router":
        """Return the router of a JVM, which the first call compiles and creates.

        Args:
            jvm: Py4J's view of the JVM.
            registry: The JVM's TopicastSessions, which lists the sessions.

        Raises:
            NoRouter, UnknownCatalog, Py4JError, TypeError: this Spark cannot have a router.

        Cost: 0.4 s at the first call.
        """
        return Router(java_singleton(jvm, _NAME, router_source(jvm), registry))

    def begin(self, *, bytes_max: int, validate: str = "none") -> None:
        """Replace Spark's catalogs, and keep at most ``bytes_max`` bytes of results.

        Memory answers nothing before ``live`` or ``renew``. ``validate``: what confirms a table
        before memory answers. hms: the router compares it with the metastore's; catalogd: the
        caller asks catalogd for each read that ``unconfirmed`` returns; none: nothing does.
        """
        self._begun = int(self._java.begin(bytes_max, validate))

    def end(self) -> None:
        """Put the originals back and keep nothing, unless another agent has called begin since."""
        self._java.end(self._begun)

    def live(self, for_s: float) -> None:
        """Let memory answer for ``for_s`` seconds from now; 0: the originals answer at once."""
        self._java.live(int(for_s * 1000))

    def follow(self, databases: Iterable[str]) -> None:
        """Keep objects of ``databases`` only: those whose changes the subscriber receives."""
        self._java.follow("\n".join(databases))

    def endpoint(self, address: EndpointAddress) -> None:
        """Ask the endpoint at ``address`` before the original.

        Caller: the agent, whose endpoint never answers with a state older than the changes that
        ``changed`` has passed on.
        """
        self._java.endpoint(address.uri, address.token)

    def changed(self, changes: Iterable[RouterChange]) -> None:
        """Drop what the router keeps of each changed object."""
        lines = (f"{one.names:d} {one.files:d} {one.reported:d} {one.object}" for one in changes)
        self._java.changed("\n".join(lines))

    def altered(self, timeout_s: float) -> list[tuple[str, bool]]:
        """Return each table that a statement of this driver has changed, and whether its name, too.

        The call waits for the first table, at most ``timeout_s``.
        """
        lines = str(self._java.altered(int(timeout_s * 1000))).splitlines()
        return [(line[2:], line[0] == "1") for line in lines]

    def changed_all(self, *, late_s: float) -> None:
        """Drop everything that the router keeps: any object may have changed.

        For ``late_s`` the first read of each table also invalidates Spark's relations of it.
        """
        self._java.changedAll(int(late_s * 1000))

    def await_writes(self, timeout_s: float) -> int:
        """Wait for a write of this driver that no sync has passed, at most ``timeout_s``.

        Returns:
            The number of the newest such write; 0: there is none.
        """
        return int(getattr(self._java, "await")(int(timeout_s * 1000)))

    def synced(self, number: int) -> None:
        """Let memory answer again for the tables of the writes up to ``number``."""
        self._java.synced(number)

    def wanted(self, timeout_s: float) -> list[tuple[int, str]]:
        """Return tables that Spark reads, each with a number, for which ``known`` is to be called.

        The call waits for the first table, at most ``timeout_s``.
        """
        return _numbered(self._java.wanted(int(timeout_s * 1000)))

    def known(self, number: int, table: str, *, is_followed: bool) -> None:
        """Keep what Spark reads of a wanted table from now on, if the subscriber follows it."""
        self._java.known(number, table, is_followed)

    def unconfirmed(self, timeout_s: float) -> list[tuple[int, str]]:
        """Return the number and the table of each read that waits for ``confirmed``.

        The call waits for the first read, at most ``timeout_s``.
        """
        return _numbered(self._java.unconfirmed(int(timeout_s * 1000)))

    def confirmed(self, answers: Mapping[int, bool]) -> None:
        """Let memory answer the reads whose answer is true, and the metastore the others.

        ``answers``: by the number of the read. Caller: the agent, once it has passed everything
        that catalogd had committed by its answer to ``changed``.
        """
        lines = (f"{is_so:d} {number}" for number, is_so in answers.items())
        self._java.confirmed("\n".join(lines))

    def renew(self, for_s: float) -> tuple[Mapping[str, str], list[Use]]:
        """Call ``live``; return ``status``, and the tables that Spark has read since the last call.

        Cost: one call into the JVM.
        """
        state, _, uses = str(self._java.renew(int(for_s * 1000))).partition("\n\n")
        lines = (line.rsplit(" ", 2) for line in uses.splitlines())
        return _pairs(state), [(name, int(table), int(parts)) for name, table, parts in lines]

    def bytes_of(self, result: Any) -> int:
        """Return as how many bytes of the heap the router counts a result of Spark's catalog."""
        return int(self._java.bytesOf(result))

    def status(self) -> Mapping[str, str]:
        """Return the counters and the state, by name."""
        return _pairs(str(self._java.status()))


def why_not(conf: Callable[[str], str | None]) -> str:
    """Return why a session has no catalog of Hive; empty: it has one, or may yet have one.

    ``conf`` looks into the configuration of Spark.
    """
    kind = conf("spark.sql.catalogImplementation")
    return "" if kind in (None, IN_HIVE) else f"its catalog is {kind}"


def router_source(jvm: Any) -> str:
    """Return the Java source of the router, its parts and TopicastCatalog, for a JVM's Spark.

    Raises:
        NoRouter: this Spark has no HiveExternalCatalog.
        UnknownCatalog: TopicastCatalog cannot extend it.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"{CATALOG.replace('.', '/')}.class") is None:
        raise NoRouter("this Spark has no support for Hive")
    text = jvm.scala.runtime.ScalaRunTime.stringOf
    logging = str(text(loader.loadClass(_LOGGING).getMethods()))
    methods = str(text(loader.loadClass(CATALOG).getMethods()))
    catalog = catalog_source(methods, excluded=_METHOD.findall(logging))
    return java_unit(*(java_source(__package__, one) for one in (_NAME, *_PARTS)), catalog)


@lru_cache(maxsize=1)  # while Spark reads nothing, the next status is the same text
def _pairs(status: str) -> Mapping[str, str]:
    pairs = (line.partition("=") for line in status.splitlines())
    return {name: value for name, _, value in pairs}


def _numbered(lines: object) -> list[tuple[int, str]]:
    """Return the numbers and names of lines that the router has written."""
    pairs = (line.partition(" ") for line in str(lines).split("\n"))
    return [(int(number), name) for number, _, name in pairs if number]
