"""Subscriber: the object that applications hold: checks arguments, and returns catalog objects."""

import os
import secrets
import socket
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from ...topics.backports import Self
from ...topics.clock import seconds
from ...topics.errors import AuthRefused, NoSuchObject, NotReady, UsageError
from ...topics.keys.credential import Credential
from ...topics.keys.folder import DRIVER, find_credential
from ...topics.link import Link
from ...topics.notebook import shown
from ...topics.objects.encoding.templates import Templates
from ...topics.objects.metastore_facts import ColumnStatistics, Function
from ...topics.objects.names import table_name
from ...topics.objects.tables import Database, Partition, Table
from ...topics.topic import FULL, LEVELS, NONE, Version
from .. import arguments
from ..config import TIMEOUT_S, settings_of
from ..engine.core import Core
from ..engine.introspection import DriverRecord, Facts
from ..engine.loop import EngineLoop
from ..engine.watch import Watch
from ..engine.write_outbox import WriteOutbox
from ..fetch.fetcher import PartitionRequest, selected_names
from ..protocol.status import Freshness, Shortage, Stats, TopicInfo, Unfollowed
from ..store.table_snapshot import TableSnapshot
from .contents import Contents
from .metastore_facts import functions_of, statistics_of
from .read_view import ReadView, claims_of, names_of, open_read_view
from .reader import Reader, Values
from .write_reports import WriteIntent, report_write

OPEN: Final = "open"
FLUSH_S: Final = 2.0  # for catalogd to acknowledge the writes of a subscriber that is closed
TIMES_MAX: Final = 1000  # reads of a table that are counted at once

Topic: TypeAlias = int | str
"""A topic's number, or the name of a table that is in it."""


class Subscriber:
    """The metastore's catalog, as fresh as the last push, within a budget.

    Use it as a context manager: it is ready on entry. Any thread may call it. Names may be written
    in any case, as in Hive. After a fork the child has to make a subscriber of its own.
    """

    def __init__(
        self,
        statestores: str | None = None,
        *,
        budget: str | int | None = None,
        timeout_s: float = TIMEOUT_S,
        name: str | None = None,
        max_staleness_s: float | None = None,
        self_audit_s: float | None = None,
        levels: str | None = None,
        always: str | None = None,
        never: str | None = None,
        metastore: str | None = None,
        key_file: str | None = None,
        credential: Credential | None = None,
        outbox: WriteOutbox | None = None,
        driver_facts: Callable[[], Facts] | None = None,
        command: bool = False,
    ) -> None:
        """Read the settings, and connect to no server before ``open``.

        A setting that is None comes from the environment, such as TOPICAST_BUDGET, else it has the
        default that docs/reference/settings.md lists.

        Args:
            statestores: Addresses of hubs, separated by commas; the first is preferred.
            budget: Bytes that the subscriber may hold, as 1000, "256MB" or "5%" of the memory that
                the container, else the machine, allows.
            timeout_s: How long a call may wait for another process.
            name: The name by which operators see it; else host and process id.
            max_staleness_s: Fail reads once catalogd was silent for so long; else never.
            self_audit_s: Compare a held table with catalogd each time that so long has passed, 60 s
                or more; 0: never.
            levels: auto: choose each topic's level by use; full: follow all topics that fit at
                full, from the start.
            always: Tables to hold even if nobody reads them, as "finance.*,sales.orders".
            never: Tables to pull for each read and never to hold; takes precedence over ``always``.
            metastore: URIs of the metastore that this process writes to.
            key_file: The file with the subscriber's key; else TOPICAST_KEY, the content of such a
                file, else TOPICAST_KEY_FILE, else driver.key of this user's keys.
            credential: The content of a key file that was read already, instead of its path.
            outbox: Keeps writes to be reported beyond the end of this subscriber; None: the
                subscriber has an outbox of its own.
            driver_facts: Returns the facts that ``topicast drivers`` shows of this application,
                without waiting; None: the application is not listed there.
            command: Whether the subscriber is of a command that ends soon, not of an application:
                lists of subscribers and drivers leave it out.

        Raises:
            ConfigError: a setting has a value that is not allowed.
            UsageError: ``credential``, ``outbox`` or ``driver_facts`` is of another type.
        """
        if not isinstance(credential, Credential | None):
            raise UsageError("credential is not a Credential")
        if not isinstance(outbox, WriteOutbox | None):
            raise UsageError("outbox is not a WriteOutbox")
        if driver_facts is not None and not callable(driver_facts):
            raise UsageError("driver_facts is not a function")
        settings = settings_of(
            environ=os.environ,
            default_name=f"{socket.gethostname()}:{os.getpid()}",
            statestores=statestores,
            budget=budget,
            timeout_s=timeout_s,
            name=name,
            max_staleness_s=max_staleness_s,
            self_audit_s=self_audit_s,
            levels=levels,
            always=always,
            never=never,
            metastore=metastore,
            key_file=key_file,
            command=command,
        )
        core = Core(
            settings,
            new_id=lambda: secrets.token_bytes(16),
            outbox=outbox
            or WriteOutbox(driver=secrets.token_bytes(16), metastore=settings.metastore),
            driver_facts=driver_facts,
        )
        reader = Reader(core, settings)
        self._begin(reader, has_own_outbox=outbox is None, credential=credential)

    @classmethod
    def in_front_of(cls, reader: Reader) -> Self:
        """Return an open subscriber whose core another object runs, such as a simulator."""
        made = cls.__new__(cls)
        made._begin(reader, has_own_outbox=False)
        return made

    def _begin(
        self, reader: Reader, *, has_own_outbox: bool, credential: Credential | None = None
    ) -> None:
        self._reader = reader
        self._settings = reader.settings
        self._core = reader.core
        self._outbox = reader.core.outbox
        self._has_own_outbox = has_own_outbox  # which ends with this
        self._credential = credential  # None: it is found when this is opened
        self._pid = os.getpid()
        self._loop: EngineLoop | None = None  # from open on
        self._closed = False

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        hubs = ",".join(self._settings.statestores)
        budget = self._settings.budget_bytes
        name = self._settings.name
        return f"<Subscriber {name!r} of {hubs}: {self._state}, budget {budget} bytes>"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "subscriber": self._settings.name,
            "statestores": ", ".join(self._settings.statestores),
            "budget_bytes": self._settings.budget_bytes,
        }
        verdict = self._state
        if verdict == OPEN:
            stats = self.stats()
            verdict = stats.verdict
            facts |= {one: getattr(stats, one) for one in ("held_bytes", "hits", "misses", "pulls")}
        return shown(verdict, facts.items())

    @property
    def _state(self) -> str:
        engine = self._reader.engine
        if self._closed or (engine is not None and not engine.running):
            return "closed"
        return "not open" if engine is None else OPEN

    def open(self) -> Self:
        """Connect, and return once the namespace and the initial topics are live.

        Raises:
            NotReady: it took longer than ``timeout_s``; says what is missing.
            AuthRefused: likewise, because a server does not accept our key.
            OverBudget: the namespace does not fit; says the bytes needed.
            ConfigError: there is no key, or its file cannot be used; says how to mend that.
        """
        if self._loop is not None or self._closed:
            raise UsageError("a subscriber is opened once: make another one")
        key_file = self._settings.key_file
        own = self._credential or find_credential(DRIVER, key_file=key_file, environ=os.environ)
        loop = EngineLoop(
            self._core,
            Link(own.pair),
            credential=own,
            clock=seconds,
            inbox_bytes=self._settings.inbox_bytes,
        )
        self._loop = self._reader.engine = loop
        self._finalizer = weakref.finalize(self, loop.stop)  # also when the interpreter exits
        loop.start()
        try:
            self._reader.call(self._core.ready)
        except NotReady as error:
            problem = loop.reachability.problem if loop.reachability.refuses_key else ""
            self.close()
            if problem:
                raise AuthRefused(problem) from error
            raise
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Leave the hub, and end the engine's thread; a second call, or a forked child's, does not.

        The call waits, FLUSH_S at most, until catalogd has acknowledged the writes of this
        subscriber's own outbox.
        """
        if self._pid != os.getpid():
            return
        if self._has_own_outbox and not self._closed:
            self._outbox.flush(FLUSH_S)
            self._outbox.close()
        self._closed = True
        if self._loop is not None:
            self._finalizer()

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases, sorted."""
        return self._reader.names(lambda view: view.databases())

    def database(self, name: str) -> Database:
        """Return a database.

        Raises:
            NoSuchObject: there is no database of that name.
        """
        name = arguments.database(name, "name")
        return self._reader.names(lambda view: view.database(name))

    def tables(self, db: str) -> tuple[str, ...]:
        """Return the names of the tables of ``db``, sorted.

        Raises:
            NoSuchObject: there is no such database.
        """
        db = arguments.database(db, "db")
        return self._reader.names(lambda view: view.tables(db))

    def table(self, name: str) -> Table:
        """Return the table ``name``, which is ``db.table``.

        Raises:
            NoSuchObject: there is no such table.
            LinkError: it had to be pulled, and the reply did not come in time.
            SourceError: the metastore cannot read the table, or it is too large to be held.

        Cost: 10 µs from a joined topic; the first call after a change decodes the table.
        """
        db, table = arguments.table(name)
        return self._reader.table(db, table).head_of(db, table).table

    def partitions(
        self,
        name: str,
        filter: str | None = None,  # noqa: A002 - the word of HMS and Spark
        *,
        names: Iterable[str] | None = None,
        values: Values | None = None,
    ) -> tuple[Partition, ...]:
        """Return the selected partitions of ``name``, sorted by name; without a selection, all.

        Give one of these at most. ``filter``: a condition as Spark SQL has it after WHERE, on
        partition columns compared with literals, such as
        ``ds >= '2026-11-01' and hour in (3, 4) and not region like 'eu%'``. ``names``: the names of
        partitions, as ``ds=2026-11-01/hour=3``; those that do not exist are left out. ``values``:
        values of partition columns, as ``{"ds": "2026-11-01"}`` or, in the order of the columns,
        ``("2026-11-01", 3)``; "" matches any value, and so do the last values if they are left out.

        Raises:
            NoSuchObject: there is no such table.
            UsageError: ``filter``, ``names`` or ``values`` is not valid, or not for this table.
            LinkError, SourceError: as ``table``.
        """
        db, table = arguments.table(name)
        selector = self._reader.selector((db, table), filter, names=names, values=values)
        found = self._reader.select(PartitionRequest(db, table, selector))
        assert isinstance(found, TableSnapshot)
        return found.partitions(db, table, selector)

    def partition_names(
        self,
        name: str,
        filter: str | None = None,  # noqa: A002
        *,
        values: Values | None = None,
    ) -> tuple[str, ...]:
        """Return the sorted names of the partitions that ``partitions`` would return.

        If memory does not hold the partitions, only their names are pulled, a few bytes each, and
        are not kept.

        Raises:
            NoSuchObject, UsageError, LinkError, SourceError: as ``partitions``.
        """
        db, table = arguments.table(name)
        selector = self._reader.selector((db, table), filter, values=values)
        request = PartitionRequest(db, table, selector, names_only=True)
        found = self._reader.select(request)
        return selected_names(request, found, lambda: self.table(name).partition_columns)

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the folders of the data of ``name``: its location, then those elsewhere, sorted.

        A folder elsewhere is of a partition that does not lie in the table's location.

        Raises:
            NoSuchObject, LinkError, SourceError: as ``partitions``.

        Cost: as ``table``; as ``partitions`` if a folder does not have its partition's name.
        """
        db, table = arguments.table(name)
        head = self._reader.table(db, table).head_of(db, table)
        own, bases = head.table.data_location, Templates(head.templates, "").bases()
        found = {base for base in bases if base}
        if None in bases:
            found |= {partition.location for partition in self.partitions(name)}
        inside = f"{own}/" if own else None
        others = [one for one in found if one and not (inside and f"{one}/".startswith(inside))]
        return (*([own] if own else []), *sorted(others))

    def sync(self, timeout_s: float | None = None, *, scope: str = "") -> None:
        """Return once everything that HMS had committed before the call is visible here.

        ``scope``: a table (``db.table``), or a database with its tables (``db``), of which alone
        changes are waited for.

        Raises:
            UsageError: ``scope`` is neither a database nor a table.
            NotReady: it took longer than ``timeout_s``; says who lags: the metastore, catalogd and
                for which object, statestored, or this subscriber.
            SourceError: changes of the metastore do not reach catalogd at all; says why.
        """
        limit_s = self._limit_s(timeout_s)
        wanted = arguments.scope(scope)
        operation = partial(self._core.sync, wanted, within_s=limit_s)
        self._reader.call(operation, timeout_s=limit_s)

    def functions(self, database: str) -> tuple[Function, ...]:
        """Return the permanent functions of ``database``, sorted by name.

        No process holds functions: catalogd reads them from the metastore now, in one call.

        Raises:
            NoSuchObject: there is no such database.
            SourceError: the metastore refuses the call.
            NotReady: it did not answer in time.
        """
        return functions_of(self._reader, arguments.database(database, "database"))

    def column_statistics(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        *,
        partitions: Iterable[str] | None = None,
    ) -> tuple[ColumnStatistics, ...]:
        """Return the statistics that the metastore has of columns, by partition and column.

        No process holds statistics: catalogd reads them from the metastore now. Each result has the
        version of its table. While ``table(name).version`` is the same, no change of the statistics
        has arrived here, nor of the table's data.

        ``columns``: their names; None: all columns that are no partition columns. ``partitions``:
        names, as ``ds=2026-11-01/hour=3``; None: statistics of the table as a whole, which Hive
        keeps only for tables without partitions.

        Raises:
            NoSuchObject: there is no such table.
            UsageError: a name of a column or a partition is not valid.
            SourceError: the metastore refuses the call.
            NotReady: it did not answer in time.
        """
        return statistics_of(
            self._reader,
            arguments.table(name),
            columns=arguments.columns(columns),
            partitions=None
            if partitions is None
            else arguments.partition_names(partitions, "partitions"),
        )

    def validate(self, known: Iterable[tuple[str, int]]) -> dict[str, Version]:
        """Return those of the tables ``known``, by name and version, that have changed since.

        The result has the present version of each; 0: there is no such table, or catalogd does not
        know its version. catalogd looks at the table's own entry. A version that it cannot confirm
        counts as changed: one of another epoch, or a number without an epoch. Cost: one round trip
        for all tables.

        Raises:
            UsageError: a name is not a table's, or a version is not a number.
            LinkError: catalogd did not answer in time.
        """
        pairs = arguments.several(known, "known", such_as="[('shop.orders', 7)]")
        epoch, claims = claims_of(map(arguments.claim, pairs), whole=False)
        stale = self._reader.validate(epoch, claims) if claims else {}
        return {
            table_name(claims[at].db, claims[at].table): version
            for at, version in stale.items()
            if at < len(claims)
        }

    def outdated(self, names: Iterable[str], timeout_s: float | None = None) -> frozenset[str]:
        """Return those of the tables ``names`` that catalogd may have in a newer version.

        A change of partitions counts. So do tables whose topic is not followed, and tables that
        catalogd has not loaded: their changes are not known. Cost: one round trip for all tables.

        Raises:
            UsageError: a name is not a table's.
            LinkError: catalogd did not answer in time.
        """
        given = arguments.several(names, "names", such_as="['shop.orders']")
        asked = {name: arguments.table(name) for name in given}
        if not asked:
            return frozenset()
        view = self._reader.view()
        reached = ((table, view.reached(*table)) for table in asked.values())
        known = ((table, Version(version, epoch)) for table, (epoch, version) in reached)
        limit_s = self._limit_s(timeout_s)
        stale = self._reader.validate(*claims_of(known, whole=True), timeout_s=limit_s)
        return frozenset(name for at, name in enumerate(asked) if at in stale)

    def read_view(self, *names: str, timeout_s: float | None = None) -> ReadView:
        """Return the tables ``names`` with their partitions, as they were at one time.

        Raises:
            NoSuchObject: there is no such table.
            NotReady: they could not be read in time.
        """
        return open_read_view(
            names_of(names),
            self._reader.versioned,
            validate=self._reader.validate,
            deadline=time.monotonic() + self._limit_s(timeout_s),
        )

    def contents(self, *, may_wait: bool = True) -> Contents:
        """Return the reads for parts of Topicast that pass the bytes of objects on.

        ``may_wait=False``: they answer from memory alone, and wait for no process.
        """
        budget_bytes = self._settings.budget_bytes
        return Contents(self._reader, may_wait=may_wait, budget_bytes=budget_bytes)

    def note_reads(self, name: str, *, times: int = 1, whole: bool = False) -> None:
        """Count reads of the table ``name`` that a cache in front of this subscriber has answered.

        Such reads count for the levels of topics as reads of this subscriber do. ``whole``: the
        reads were of the table's partitions, too.

        Raises:
            UsageError: ``name`` is not a table's name, ``times`` is not a number from 1 to 1000, or
                ``whole`` is neither True nor False.
        """
        db, table = arguments.table(name)
        of_partitions = arguments.flag(whole, "whole")
        for _ in range(arguments.times(times, times_max=TIMES_MAX)):
            self._reader.note_read(db, table, whole=of_partitions)

    def topic_of(self, name: str) -> int:
        """Return the number of the topic of the table ``name``, which need not exist.

        Raises:
            UsageError: ``name`` is not a table's name.
        """
        return self._reader.topic_of(arguments.table(name))

    def topics(self, *which: Topic) -> tuple[TopicInfo, ...]:
        """Return of every topic, or those of ``which``, how it is followed, and what it costs.

        Raises:
            UsageError: an item of ``which`` is neither the number of a topic nor a table's name.
        """
        every = self._reader.facts(self._core.topics)
        if not which:
            return every
        by_id = {one.id: one for one in every}
        numbers = self._reader.numbers(arguments.topics(which))
        for number in numbers:
            if number not in by_id:
                raise UsageError(f"no topic {number}: there are 0 to {len(every) - 2}")
        return tuple(by_id[number] for number in numbers)

    def join(self, topics: Topic | Iterable[Topic], level: str = LEVELS[FULL]) -> None:
        """Follow a topic, or several, at ``level``: full, minimal or none; return once it is so.

        A topic is given by its number, or by the name of a table in it. At full the whole topic is
        held; at minimal its pulled tables, each until it changes. Several topics are one request:
        all are joined, or an error says why, and none is.

        Raises:
            OverBudget: together they do not fit; says the bytes needed.
            UsageError: there is no such topic or level, or the level is not offered.
            StaleMetadata: another thread has dropped one of them meanwhile, or has joined it at
                another level, and the others are joined; or the number of topics has changed, so
                that each has other tables.
        """
        if arguments.text(level, "level") not in LEVELS:
            raise UsageError(f"level {level!r}: {', '.join(LEVELS)}")
        number, named = LEVELS.index(level), self._reader.numbers(arguments.topics(topics))
        self._reader.call(partial(self._core.join, named, number))

    def drop(self, topics: Topic | Iterable[Topic]) -> None:
        """Follow a topic, or several, no longer: each read of their tables pulls from then on.

        A topic is given by its number, or by the name of a table in it.

        Raises:
            UsageError: there is no such topic; no topic is dropped.
        """
        self.join(topics, LEVELS[NONE])

    def unfollowed(self) -> Unfollowed:
        """Return the topics whose changes do not arrive, or do not yet, without waiting.

        Cost: 0.1 µs for each topic.
        """
        return self._core.view.unfollowed()

    def shortage(self) -> Shortage:
        """Return why topics are not followed, and the budget that would hold all.

        Raises:
            OverBudget: no topic can be followed, because not even the names of tables fit.
        """
        return self._reader.facts(self._core.shortage)

    def prefer(self, topics: Topic | Iterable[Topic]) -> None:
        """Follow ``topics`` before other watched topics, if not all of them fit the budget.

        A topic is given by its number, or by the name of a table in it. The topics replace those of
        the last call.

        Raises:
            UsageError: there is no such topic; the topics of the last call stay.
        """
        wanted = frozenset(self._reader.numbers(arguments.topics(topics)))
        self._reader.facts(partial(self._core.prefer, wanted))

    def follows(self, name: str) -> bool:
        """Return whether memory holds the table ``name``, so that a watch sees each change of it.

        If memory does not hold the table, the call pulls it first, for which catalogd loads it. A
        caller that gets True, and then reads the table elsewhere, may keep the result until the
        watch sees a change.

        Raises:
            LinkError, SourceError: as ``table``.
        """
        db, table = arguments.table(name)
        with suppress(NoSuchObject):
            self._reader.table(db, table)
            return self._core.view.table(db, table) is not None
        return False

    def pin(self, name: str) -> None:
        """Keep the table ``name`` whole, pulled after each change; return once it is held.

        Raises:
            NoSuchObject: there is no such table.
            OverBudget: the table does not fit with the other pins; says the bytes needed.
            NotReady: it took longer than ``timeout_s``; the table is pinned, and pulls go on.
        """
        db, table = arguments.table(name)
        self._reader.call(partial(self._core.pin, db, table))

    def unpin(self, name: str) -> None:
        """Pin the table ``name`` no longer, whether it was pinned by name or by pattern."""
        db, table = arguments.table(name)
        self._reader.call(partial(self._core.unpin, db, table))

    def report_write(
        self,
        wanted: str,
        partitions: Iterable[str] = (),
        *,
        failed: bool = False,
        overwritten: bool = False,
        wait_s: float = 0.0,
    ) -> bool:
        """Report to all readers that data of the table or path ``wanted`` was written.

        Report only writes that the metastore does not notice, such as an ``INSERT`` into existing
        partitions, or files put under a table's location. ``partitions``: names, or with a slash at
        the end how names begin; empty: any partition. ``failed``: the write ended in an error.
        ``overwritten``: files that were there are gone.

        Returns within ``wait_s`` whether catalogd has the report; it is sent until catalogd has it.

        Raises:
            UsageError: ``wanted`` is neither a table nor a path, or a partition's name is invalid.
        """
        self._reader.running()
        limit_s = arguments.timeout_s(wait_s, "wait_s")
        number = report_write(
            self._outbox, wanted, partitions, failed=failed, overwritten=overwritten
        )
        return limit_s > 0 and self._outbox.wait(number, timeout_s=limit_s)

    def write_intent(self, wanted: str, partitions: Iterable[str] = ()) -> WriteIntent:
        """Report that a write begins; the end of the context manager reports how the write ended.

        If this process dies meanwhile, the data counts as changed for all readers after 30 s.

        Raises:
            UsageError: as ``report_write``.
        """
        self._reader.running()
        return WriteIntent(self._outbox, wanted, partitions)

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until catalogd has every report, at most ``timeout_s``; return whether it has."""
        return self._outbox.flush(arguments.timeout_s(timeout_s))

    def stats(self) -> Stats:
        """Return counters, and the state of the budget."""
        return self._reader.facts(self._core.stats)

    def freshness(self) -> Freshness:
        """Return how old the held content may be, without waiting, so that it can be read often.

        Cost: 0.1 µs for each topic.
        """
        self._reader.running()
        view = self._core.view
        return Freshness(
            current_at=view.current_at,
            unfollowed=view.unfollowed().topics,
            metastore_problem=view.metastore_problem(),
        )

    @property
    def driver(self) -> DriverRecord:
        """The operators' rules for this application, and the facts that they see of it."""
        return self._core.driver

    def watch(self, pattern: str = "*", *, wait: bool = True) -> Watch:
        """Yield changes of the objects that match ``pattern``, from now on, until closed.

        ``sales.*`` matches the tables of a database, ``sales`` the database and its tables. A watch
        has the latest state, not the history: of an object that changes often it yields the newest
        change.

        The call returns once every topic is followed that can be. With ``wait=False`` it returns at
        once, and the watch misses changes as long as their topic is among those of ``unfollowed``.

        Raises:
            LinkError: the hub has not confirmed every topic in time.
        """
        wanted, waits = arguments.text(pattern, "pattern"), arguments.flag(wait, "wait")
        watch = self._reader.running().watch(wanted, timeout_s=self._settings.timeout_s)
        if waits:
            try:
                self._reader.call(self._core.followed)
            except BaseException:
                watch.close()
                raise
        return watch

    def _limit_s(self, timeout_s: float | None) -> float:
        """Return how long a call may wait."""
        return self._settings.timeout_s if timeout_s is None else arguments.timeout_s(timeout_s)
