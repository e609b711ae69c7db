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

    Use it as a context manager: it is ready on entry. Any thread may call it. Names are taken
    in any case, as Hive does. After a fork the child must make its own.
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
        """Read the settings; nothing is connected before ``open``.

        A setting that is None is taken from the environment, as TOPICAST_BUDGET, else it has the
        default that docs/reference/settings.md lists.

        Args:
            statestores: Addresses of hubs, separated by commas; the first is preferred.
            budget: Bytes that may be held, as 1000, "256MB" or "5%" of the memory that the
                container, else the machine, allows.
            timeout_s: How long a call may wait for another process.
            name: Under which operators see it; else host and process id.
            max_staleness_s: Fail reads once catalogd was silent for so long; else never.
            self_audit_s: Compare a table that is held with catalogd so often, 60 s or more; 0:
                never.
            levels: auto: choose each topic's level by use; full: follow all that fits, from the
                start.
            always: Tables to hold whether they are read or not, as "finance.*,sales.orders".
            never: Tables to pull for each read, never held; counts first.
            metastore: URIs of the metastore that this process writes to.
            key_file: What it joins with; else TOPICAST_KEY, the content of a key file, else
                TOPICAST_KEY_FILE, else driver.key of this user's keys.
            credential: The content of a key file that was read already, instead of its path.
            outbox: Writes to be reported that outlive this subscriber; None: its own writes only.
            driver_facts: Returns what ``topicast drivers`` shows of this application, without
                waiting; None: it is not listed there.
            command: Whether it belongs to a command that ends soon, and not to an application:
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
        """Return a subscriber, open, whose core something else runs: a simulator, for example."""
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
            NotReady: not within ``timeout_s``; says what is missing.
            AuthRefused: not within ``timeout_s``, because a server does not accept our key.
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
        """Leave, and end the engine's thread; a second time, or in a forked child, nothing.

        Writes of its own that catalogd has not acknowledged are waited for FLUSH_S.
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
            NoSuchObject: there is none of that name.
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
            LinkError: it had to be pulled and did not come in time.
            SourceError: the metastore cannot read it, or it is too large to be held.

        Cost: 10 µs from a joined topic, but for the first time after a change.
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
        """Return the partitions of ``name`` that match ``filter``, sorted by name; without one all.

        ``filter`` is a condition as Spark SQL has it after WHERE, on partition columns compared
        with literals: ``ds >= '2026-11-01' and hour in (3, 4) and not region like 'eu%'``.
        ``names`` selects the existing partitions of these names, as ``ds=2026-11-01/hour=3``,
        ``values`` for those that have them, as ``{"ds": "2026-11-01"}`` or, in order of the
        columns, ``("2026-11-01", 3)``; "" is any, and so are the last values that are left out.

        Raises:
            NoSuchObject: there is no such table.
            UsageError: ``filter``, ``names`` or ``values`` are not valid, or not for this table.
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

        Where they are not held, only names come, a few bytes each, and are not kept.

        Raises:
            NoSuchObject, UsageError, LinkError, SourceError: as ``partitions``.
        """
        db, table = arguments.table(name)
        selector = self._reader.selector((db, table), filter, values=values)
        request = PartitionRequest(db, table, selector, names_only=True)
        found = self._reader.select(request)
        return selected_names(request, found, lambda: self.table(name).partition_columns)

    def folders(self, name: str) -> tuple[str, ...]:
        """Return where the data of ``name`` lies: its location, then folders elsewhere, sorted.

        Those are of partitions that do not lie in the table's own.

        Raises:
            NoSuchObject, LinkError, SourceError: as ``partitions``.

        Cost: as ``table``; as ``partitions`` if a partition lies in a folder of another name.
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

        ``scope``: only what was committed of this table (``db.table``), or of this database and
        its tables (``db``): changes of others that are still being read are not waited for.

        Raises:
            UsageError: ``scope`` is neither a database nor a table.
            NotReady: not within ``timeout_s``; says who lags: the metastore, catalogd and for which
                object, statestored, or this subscriber.
            SourceError: changes of the metastore do not reach catalogd at all; says why.
        """
        limit_s = self._limit_s(timeout_s)
        wanted = arguments.scope(scope)
        operation = partial(self._core.sync, wanted, within_s=limit_s)
        self._reader.call(operation, timeout_s=limit_s)

    def functions(self, database: str) -> tuple[Function, ...]:
        """Return the permanent functions of ``database``, sorted by name.

        Nobody holds them: catalogd reads them from the metastore now, in one call.

        Raises:
            NoSuchObject: there is no such database.
            SourceError: the metastore refuses to say.
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

        Nobody holds them: catalogd reads them from the metastore now. Each names the version of its
        table: while ``table(name).version`` is the same, no change of them has arrived here, nor of
        the table's data.

        ``columns``: their names; None: all that are not of partitions. ``partitions``: of these,
        as ``ds=2026-11-01/hour=3``; None: those of the table as a whole, which Hive keeps of tables
        without partitions only.

        Raises:
            NoSuchObject: there is no such table.
            UsageError: a name of a column or a partition is not valid.
            SourceError: the metastore refuses to say.
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

        Each comes with its version now, 0 if there is no table, or no known version. It takes one
        round trip, however many. It is the table's own entry that is looked at. What cannot be
        confirmed counts as changed: a version of another epoch, or a number without an epoch.

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
        catalogd has not loaded: nothing is known of them. One round trip, however many.

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
        """Return the tables ``names`` with their partitions, as they were at one moment.

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
        """Return the reads for parts of ours that hand on the bytes of objects.

        ``may_wait=False``: from memory alone, without waiting for anybody.
        """
        budget_bytes = self._settings.budget_bytes
        return Contents(self._reader, may_wait=may_wait, budget_bytes=budget_bytes)

    def note_reads(self, name: str, *, times: int = 1, whole: bool = False) -> None:
        """Count reads of the table ``name`` that a cache in front of this subscriber has answered.

        They choose levels as reads do. ``whole``: of its partitions, too.

        Raises:
            UsageError: it is not a table's name, ``times`` is not a number from 1 to 1000, or
                ``whole`` is neither True nor False.
        """
        db, table = arguments.table(name)
        of_partitions = arguments.flag(whole, "whole")
        for _ in range(arguments.times(times, times_max=TIMES_MAX)):
            self._reader.note_read(db, table, whole=of_partitions)

    def topic_of(self, name: str) -> int:
        """Return the number of the topic that the table ``name`` is in, or would be in.

        Raises:
            UsageError: it is not a table's name.
        """
        return self._reader.topic_of(arguments.table(name))

    def topics(self, *which: Topic) -> tuple[TopicInfo, ...]:
        """Return every topic, or those of ``which``: how it is followed, and what it costs.

        Raises:
            UsageError: one of ``which`` is neither the number of a topic nor a table's name.
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

        Each topic is meant by its number, or by the name of a table that is in it.
        At full everything is held; at minimal what is pulled, until it changes.
        Several are one request: all are joined, or an error says why and none is.

        Raises:
            OverBudget: together they do not fit; says the bytes needed.
            UsageError: there is no such topic or level, or the level is not offered.
            StaleMetadata: topics were numbered anew meanwhile: each has other tables, join again.
        """
        if arguments.text(level, "level") not in LEVELS:
            raise UsageError(f"level {level!r}: {', '.join(LEVELS)}")
        number, named = LEVELS.index(level), self._reader.numbers(arguments.topics(topics))
        self._reader.call(partial(self._core.join, named, number))

    def drop(self, topics: Topic | Iterable[Topic]) -> None:
        """Follow a topic, or several, no longer; their tables are pulled when they are read.

        Each topic is meant by its number, or by the name of a table that is in it.

        Raises:
            UsageError: there is no such topic; nothing is dropped.
        """
        self.join(topics, LEVELS[NONE])

    def unfollowed(self) -> Unfollowed:
        """Return the topics of which changes do not arrive, or do not yet; it does not wait.

        Cost: 0.1 µs for each topic.
        """
        return self._core.view.unfollowed()

    def shortage(self) -> Shortage:
        """Return why topics are not followed, and the budget that would do.

        Raises:
            OverBudget: nothing can be followed, because not even the names of tables fit.
        """
        return self._reader.facts(self._core.shortage)

    def prefer(self, topics: Topic | Iterable[Topic]) -> None:
        """Follow ``topics`` before others, where those that are watched do not all fit the budget.

        Each is meant by its number, or by the name of a table that is in it. They replace those of
        the last call.

        Raises:
            UsageError: there is no such topic; nothing is changed.
        """
        wanted = frozenset(self._reader.numbers(arguments.topics(topics)))
        self._reader.facts(partial(self._core.prefer, wanted))

    def follows(self, name: str) -> bool:
        """Return whether memory holds the table ``name``, so that a watch sees each change of it.

        What somebody else reads of it after that may be kept until the watch sees a change. If it
        is not held it is pulled first, and catalogd loads it.

        Raises:
            LinkError, SourceError: as ``table``.
        """
        db, table = arguments.table(name)
        with suppress(NoSuchObject):
            self._reader.table(db, table)
            return self._core.view.table(db, table) is not None
        return False

    def pin(self, name: str) -> None:
        """Keep the table ``name`` whole, pulled anew after each change; return once it is held.

        Raises:
            NoSuchObject: there is no such table.
            OverBudget: it does not fit with the other pins; says the bytes needed.
            NotReady: not held within ``timeout_s``; it is pinned, and tried again.
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

        Only for what the metastore does not notice: an ``INSERT`` into existing partitions,
        files put under a table's location. ``partitions``: their names, or with a slash at the
        end how they begin; none: any of them. ``failed``: it ended in an error.
        ``overwritten``: files that were there are gone.

        Returns within ``wait_s`` whether catalogd has it; if not, it is reported until it has.

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
        """Report that a write begins; the context manager's end reports how it ended.

        If this process dies meanwhile, everybody takes the data for changed after 30 s.

        Raises:
            UsageError: as ``report_write``.
        """
        self._reader.running()
        return WriteIntent(self._outbox, wanted, partitions)

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Return within ``timeout_s`` whether catalogd has every write."""
        return self._outbox.flush(arguments.timeout_s(timeout_s))

    def stats(self) -> Stats:
        """Return counters, and the state of the budget."""
        return self._reader.facts(self._core.stats)

    def freshness(self) -> Freshness:
        """Return how old what is held may be; it does not wait, so that it can be read often.

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

        ``sales.*`` matches the tables of a database, ``sales`` the database and its tables. Latest
        state, not history: of an object that changes often the newest change is seen.

        It returns once every topic is followed that can be. With ``wait=False`` it returns at once,
        and changes are missed as long as their topic is among those of ``unfollowed``.

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
