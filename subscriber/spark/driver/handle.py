"""Attaches this process's driver: from a session to caches that are refreshed by push.

attach ──▶ settings ──▶ probe ──▶ worker, in the background ──▶ live
              └────────────┴─ not possible ─▶ plain Spark, the status says why

There is one handle for a process. It makes the parts of an attached driver, and owns them.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ....topics.backports import Self
from ....topics.errors import ConfigError, NotReady
from ....topics.keys.folder import KEY
from ....topics.objects.drivers import DETACHED, UNSUPPORTED
from ...arguments import timeout_s as checked_timeout_s
from ...client.subscriber import Subscriber
from ...config import bytes_of_budget
from ...engine.introspection import Facts
from ...engine.write_outbox import Outbox
from ..config import (
    PLANNING_SHARE,
    Arguments,
    SparkSettings,
    bytes_of_share,
    control_of,
    settings_of,
)
from ..guard import Guard, first_line
from ..planning.planning import Planning, PlanningSettings, text_of
from ..planning.router import Router, why_not
from ..refresh.catalyst import VERSIONS, Catalyst, Session, Unsupported
from ..refresh.control import Application, Control, facts_of
from ..refresh.path_relations import PathRelations
from ..refresh.refresher import Refresher
from ..refresh.worker import Worker, condition_with, health
from ..sessions import Sessions, existing
from ..status import Status
from ..writes.plans import metastore_in_use
from ..writes.reporter import Reporter
from .connect import ConnectSessions
from .hook import on_construction, once, release

SYNC_S: Final = 10.0
SUBSCRIBER_TIMEOUT_S: Final = 10.0
NAMED_MAX: Final = 5  # tables in the text of an error
PARTITIONS: Final = "spark.sql.hive.manageFilesourcePartitions"  # false: relations list them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of a driver that could be attached."""

    settings: SparkSettings
    application: Application
    outbox: Outbox  # outlives the worker's subscribers, which send what is in it
    clients: ConnectSessions
    planning: Planning
    worker: Worker
    reporter: Reporter
    unhook: Callable[[], None]  # new sessions are found no more


class Handle:
    """An attached driver; its methods never harm the application."""

    def __init__(self, *, versions: tuple[str, ...] = VERSIONS, jvm_pid: int | None = None) -> None:
        """Begin as plain Spark.

        Args:
            versions: Of Spark, as they begin; with these it was tried.
            jvm_pid: Of a driver without Python, on this host; None: this process is the driver.
        """
        self._versions = versions
        self._jvm_pid = jvm_pid
        self._pid = os.getpid()
        self._guard = Guard()
        self._sessions = Sessions()
        self._control = Control()
        self._refresher = Refresher()  # the worker's, once there is one
        self._catalyst: Catalyst | None = None  # these two are None: it could not be attached
        self._parts: _Parts | None = None
        self._spark = ""  # version
        self._primitives = ""  # methods of Spark that refreshes use
        self._reason = ""  # why it is not live, or may not be

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        now = self.status()
        facts = (f"state={now.state!r}", f"reason={now.reason!r}", f"control={now.control!r}")
        return f"Handle({', '.join(facts)}, statestores={now.statestores!r})"

    def add(self, session: Session) -> None:
        """Refresh ``session``, too, and keep this driver's key from its Python workers."""
        with self._guard("hide the key"):
            if self._jvm_pid is None:
                _hide_key(session)
        with self._guard("track a session"):
            if self._pid == os.getpid() and self._catalyst is not None:
                self._sessions.add(session)
                self._catalyst.adopt(session)

    def status(self) -> Status:
        """Return the state and the counters; in a notebook a table."""
        parts, counts, here = self._parts, self._refresher.counts, self._pid == os.getpid()
        servers = health(parts.worker.subscriber if parts and here else None)
        state, reason = condition_with(self._condition(), servers)
        plans = parts.planning.facts(now=True) if parts is not None and here else None
        return Status(
            state=state,
            reason=reason,
            control=self._refresher.control,
            spark=self._spark,
            primitives=self._primitives,
            statestores=parts.settings.statestores if parts is not None else "",
            staleness_s=servers.silent_s,
            metastore_problem=servers.metastore_problem,
            connection_problem=servers.connection_problem,
            sessions=self._refresher.sessions,
            connect_sessions=len(parts.clients) if parts is not None else 0,
            relations=self._refresher.relations,
            changes=counts.changes,
            changes_ignored=counts.ignored,
            refreshes=counts.renewed,
            stale_reads_avoided=counts.reread,
            would_refresh=counts.would_renew,
            full_refreshes=counts.full,
            planning=plans.state if plans is not None else "",
            memory_reads=plans.answered if plans is not None else 0,
            endpoint=plans.endpoint if plans is not None else "",
            endpoint_reads=plans.endpoint_answered if plans is not None else 0,
            metastore_calls_saved=plans.calls_saved if plans is not None else 0,
            metastore_reads=text_of(plans.originals) if plans is not None else "",
            writes_refused=plans.refused if plans is not None else 0,
            writes=parts.reporter.status() if parts is not None else "",
            writes_reported=parts.outbox.ended if parts is not None else 0,
            errors=self._guard.errors,
            last_error=self._guard.last_error,
        )

    def control(self, control: str) -> None:
        """Turn it ``off`` (plain Spark), ``on``, or to a ``dry-run`` that only counts.

        Raises:
            ConfigError: it is not one of these.
        """
        self._control.application = control_of(control)

    def sync(self, timeout_s: float = SYNC_S) -> None:
        """Return once all that the metastore had committed before the call is refreshed here.

        Raises:
            UsageError: ``timeout_s`` is not a number of seconds, or more than a day.
            NotReady: not within ``timeout_s``, or the driver is not attached.
            SourceError: changes of the metastore do not reach catalogd at all; says why.
        """
        timeout_s = checked_timeout_s(timeout_s)
        parts, deadline = self._parts, time.monotonic() + timeout_s
        if parts is None or self._pid != os.getpid():
            state, reason = self._condition()
            raise NotReady(f"the driver is {state}: {reason}")
        worker = parts.worker
        if not worker.connected.wait(timeout_s) or worker.subscriber is None:
            why = self._condition()[1]
            text = f"no contact with {parts.settings.statestores} within {timeout_s} s"
            raise NotReady(f"{text}: {why}" if why else text)
        write = parts.planning.newest_write()
        worker.subscriber.sync(max(deadline - time.monotonic(), 0.0))
        parts.planning.settle(write)
        if not worker.caught_up(timeout_s=max(deadline - time.monotonic(), 0.0)):
            raise NotReady(_not_refreshed(worker.unfinished(), timeout_s))

    def detach(self) -> None:
        """Make the driver plain Spark again; a second time, or in a forked child, do nothing."""
        if self._pid != os.getpid():
            return
        with self._guard("detach"):
            release(self)
            if self._parts is not None:
                self._parts.planning.close()
                self._parts.unhook()
                self._parts.reporter.stop()
                self._parts.worker.stop()

    def begin(self, session: Session, arguments: Arguments) -> None:
        """Start, or note why that is not possible."""
        with self._guard("attach"):
            try:
                self._start(session, arguments)
            except (ConfigError, Unsupported) as error:
                self._reason = str(error)
                raise
            except Exception as error:
                self._reason = f"{type(error).__name__}: {first_line(error)}"
                raise

    def _start(self, session: Session, arguments: Arguments) -> None:
        catalyst = Catalyst.probe(session)
        settings = settings_of(arguments, conf=_conf_of(session), environ=os.environ)
        self._primitives, self._spark = catalyst.primitives, str(session._sc.version)
        if not self._spark.startswith(self._versions):
            self._reason = f"tried with Spark {', '.join(self._versions)} only"
        self._control.application = settings.control
        self._refresher = Refresher(
            control=settings.control,
            refresh_existing=settings.refresh_existing,
            refresh_cached=settings.refresh_cached,
            lists_partitions=(_conf_of(session)(PARTITIONS) or "").lower() == "false",
        )
        parts = self._parts = self._make(session, settings, catalyst)
        with self._guard("report writes"):
            parts.reporter.start(session, wraps=self._jvm_pid is None)
        parts.worker.start()

    def _make(self, session: Session, settings: SparkSettings, catalyst: Catalyst) -> _Parts:
        application = Application(
            application=str(session._sc.appName),
            application_id=str(session._sc.applicationId),
            user=str(session._sc.sparkUser()),
            host=socket.gethostname(),
            pid=self._jvm_pid or os.getpid(),
            spark=self._spark,
        )
        outbox = Outbox(driver=secrets.token_bytes(16), metastore=settings.metastore, probe=True)
        clients = ConnectSessions(self._sessions, guard=self._guard, accept=catalyst.accept)
        self._catalyst = catalyst
        unhook = self._track(type(session)) if self._jvm_pid is None else lambda: None
        planning = self._planning(session, settings)
        return _Parts(
            settings=settings,
            application=application,
            outbox=outbox,
            clients=clients,
            planning=planning,
            worker=Worker(
                self._refresher,
                caches=catalyst,
                paths=PathRelations(
                    catalyst, guard=self._guard, refresh_existing=settings.refresh_existing
                ),
                clients=clients,
                guard=self._guard,
                control=self._control,
                planning=planning,
                connect=lambda: self._subscriber(settings, application, outbox),
                names=application.names,
            ),
            reporter=Reporter(
                self._sessions,
                outbox=outbox,
                guard=self._guard,
                control=self._control,
                metastore_of=lambda of: metastore_in_use(
                    of._jsparkSession, made=catalyst.has_state(of), configured=settings.metastore
                ),
                configured=settings.metastore,
                found=catalyst.registry,
            ),
            unhook=unhook,
        )

    def _track(self, kind: type[Session]) -> Callable[[], None]:
        """Add the sessions of this Python, and those made from now on; return what ends that."""
        unhook = on_construction(kind, self.add)
        for found in existing(kind):
            self.add(found)
        return unhook

    def _planning(self, session: Session, settings: SparkSettings) -> Planning:
        """Return what plans from memory; nothing of it runs yet."""
        assert self._catalyst is not None
        jvm, registry, why = session._jvm, self._catalyst.registry, why_not(_conf_of(session))
        return Planning(
            lambda: Router.of(jvm, registry),
            settings=PlanningSettings(
                bytes_max=bytes_of_share(bytes_of_budget(settings.budget), PLANNING_SHARE),
                max_staleness_s=settings.max_staleness_s,
                validate=settings.validate,
                endpoint=settings.endpoint,
            ),
            report=self._report_statement,
            guard=self._guard,
            why_off=why if settings.planning else "spark.topicast.planning=off",
        )

    def _report_statement(self, table: str, *, named: bool) -> None:
        if self._parts is not None:
            self._parts.reporter.report_statement(table, named=named)

    def _subscriber(
        self, settings: SparkSettings, application: Application, outbox: Outbox
    ) -> Subscriber:
        """Return a subscriber that sends the outbox; it is not open yet."""
        return Subscriber(
            settings.statestores,
            budget=_share_of_subscriber(settings),
            timeout_s=SUBSCRIBER_TIMEOUT_S,
            key_file=settings.key_file,
            name=application.driver,
            outbox=outbox,
            driver_facts=lambda: self._facts(application, outbox),
        )

    def _facts(self, application: Application, outbox: Outbox) -> Facts:
        """Return what operators see."""
        plans = self._parts.planning.facts(now=False) if self._parts is not None else None
        return facts_of(
            application,
            self._refresher,
            condition=self._condition(),
            planning=plans.state if plans is not None else "",
            endpoint=plans.endpoint if plans is not None else "",
            memory_reads=plans.answered if plans is not None else 0,
            endpoint_reads=plans.endpoint_answered if plans is not None else 0,
            metastore_calls_saved=plans.calls_saved if plans is not None else 0,
            writes_refused=plans.refused if plans is not None else 0,
            writes=self._parts.reporter.status() if self._parts is not None else "",
            writes_reported=outbox.ended,
            errors=self._guard.errors,
            last_error=self._guard.last_error,
        )

    def _condition(self) -> tuple[str, str]:
        """Return the state of the driver, and the reason for it."""
        if self._pid != os.getpid():
            return DETACHED, "this process was forked: attach in its parent"
        if self._parts is None:
            return UNSUPPORTED, self._reason
        state, reason = self._parts.worker.condition
        return state, "; ".join(filter(None, (reason, self._reason)))


def attach(
    spark: Session,
    statestores: str | None = None,
    *,
    budget: str | int | None = None,
    control: str | None = None,
    refresh_existing: bool | None = None,
    refresh_cached: bool | None = None,
    metastore: str | None = None,
    key_file: str | None = None,
    planning: str | None = None,
    max_staleness: str | None = None,
    validate: str | None = None,
    endpoint: str | None = None,
) -> Handle:
    """Return the handle of this process, whose sessions are refreshed by push from now on.

    It never raises and needs no metastore: where it cannot work the driver is plain Spark, and
    ``status()`` says why. An argument that is not given is taken from Spark's configuration
    (``spark.topicast.*``), else from the environment: `config`. A second call changes nothing.

    Args:
        spark: A classic session; others of the process are found.
        statestores: Addresses, separated by commas.
        budget: Bytes that may be held, as 1000, "64MB" or "5%" of the container's memory.
        control: on, off, or dry-run.
        refresh_existing: Let DataFrames that exist see what others append, too.
        refresh_cached: Make cached data (CACHE TABLE, ``df.cache()``) of a changed table anew.
        metastore: What this driver writes to, as catalogd names it; else hive.metastore.uris.
        key_file: What this driver joins with; else driver.key of this user's keys.
        planning: on: plans are made from memory as far as it is current; off: by the metastore.
        max_staleness: How long the hub or catalogd may be silent, as "10s", until the metastore
            is asked again.
        validate: hms: each table of a plan is compared with the metastore's; catalogd: each read
            of one is confirmed by catalogd, which costs a round trip; else none.
        endpoint: on: what is read for the first time comes from the subscriber if it can; off: from
            the metastore.

    Cost: the first contact with statestored, which is waited for up to half a second.
    """
    arguments = Arguments(
        statestores=statestores,
        budget=budget,
        control=control,
        refresh_existing=refresh_existing,
        refresh_cached=refresh_cached,
        metastore=metastore,
        key_file=key_file,
        planning=planning,
        max_staleness=max_staleness,
        validate=validate,
        endpoint=endpoint,
    )

    def make() -> Handle:
        handle = Handle()
        handle.begin(spark, arguments)
        return handle

    handle = once(make)
    handle.add(spark)
    return handle


def _not_refreshed(tables: Sequence[str], timeout_s: float) -> str:
    """Say which tables a refresh still works on after ``timeout_s``."""
    if not tables:
        return f"not refreshed within {timeout_s} s"
    named = ", ".join("all" if table == "*" else table for table in tables[:NAMED_MAX])
    more = f" and {len(tables) - NAMED_MAX} more" if len(tables) > NAMED_MAX else ""
    return (
        f"not refreshed within {timeout_s} s: Spark still lists files, or makes cached data, of "
        f"{named}{more}: does the file system of each answer?"
    )


def _share_of_subscriber(settings: SparkSettings) -> str | int:
    """Return the budget of the subscriber: all of it, or what objects in the JVM leave."""
    if not settings.planning:
        return settings.budget
    budget_bytes = bytes_of_budget(settings.budget)
    return max(budget_bytes - bytes_of_share(budget_bytes, PLANNING_SHARE), 1)


def _hide_key(session: Session) -> None:
    """Let Python functions that are made from now on run where TOPICAST_KEY is empty.

    Where the driver runs its own tasks, their Python workers inherit the JVM's environment, and so
    the content of a key.
    """
    if os.environ.get(KEY) and session._sc is not None:
        session._sc.environment[KEY] = ""


def _conf_of(session: Session) -> Callable[[str], str | None]:
    """Return a look into the context's configuration; the session's would make its state."""
    conf = session._sc._conf
    return lambda key: conf.get(key) if conf.contains(key) else None
