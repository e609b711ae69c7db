"""Driver: creates and owns the parts of an attached driver, in its agent.

begin ──▶ probe of Spark ──▶ settings ──▶ worker, in the background ──▶ live
               └────────────────┴─ not possible ─▶ plain Spark, the status says why
"""

import os
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ....topics.errors import NotReady
from ....topics.objects.drivers import UNSUPPORTED
from ...client.subscriber import Subscriber
from ...engine.introspection import Facts
from ...engine.write_outbox import WriteOutbox
from ..config import (
    PLANNING_SHARE,
    SparkSettings,
    bytes_of_share,
    conf_of,
    read_control,
    settings_of,
)
from ..guard import Guard
from ..jar.bootstrap import check_release
from ..planning.planning import Planning, PlanningFacts, PlanningSettings, text_of
from ..planning.router import Router, why_not
from ..refresh.catalyst import VERSIONS, Catalyst
from ..refresh.control import Application, Control, facts_of
from ..refresh.path_relations import PathRelations
from ..refresh.refresher import Refresher
from ..refresh.worker import Worker, condition_with, health
from ..sessions import Session, Sessions, reason_of
from ..status import AttachStatus
from ..writes.listener import Queue
from ..writes.plans import metastore_in_use
from ..writes.reporter import Reporter
from .connect import ConnectSessions

SUBSCRIBER_TIMEOUT_S: Final = 10.0  # of calls of the subscriber that name no other time
NAMED_MAX: Final = 5  # tables in the text of an error
PARTITIONS: Final = "spark.sql.hive.manageFilesourcePartitions"  # false: relations list partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The parts of a driver that could be attached."""

    settings: SparkSettings
    application: Application
    outbox: WriteOutbox  # outlives the worker's subscribers, each of which sends its writes
    clients: ConnectSessions
    planning: Planning
    worker: Worker
    reporter: Reporter


class Driver:
    """An attached driver; its methods never harm the application."""

    def __init__(self, bootstrap: Any, *, pid: int, versions: tuple[str, ...] = VERSIONS) -> None:
        """Begin as plain Spark.

        Args:
            bootstrap: The JVM's TopicastBootstrap.
            pid: The process id by which operators know the driver: of its Python, else of its JVM.
            versions: How the versions of Spark begin with which Topicast was tried.
        """
        self._bootstrap = bootstrap
        self._pid = pid
        self._versions = versions
        self._guard = Guard()
        self._sessions = Sessions()
        self._control = Control()
        self._refresher = Refresher()  # the worker's, once there is a worker
        self._parts: _Parts | None = None  # None: the driver could not be attached
        self._spark = ""  # the version of Spark
        self._primitives = ""  # the methods of Spark that refreshes call
        self._reason = ""  # why the driver is not live, or why it may not work

    def status(self) -> AttachStatus:
        """Return the state and the counters."""
        parts, counts = self._parts, self._refresher.counts
        servers = health(parts.worker.subscriber if parts is not None else None)
        state, reason = condition_with(self._condition(), servers)
        plans = parts.planning.facts(now=True) if parts is not None else PlanningFacts()
        return AttachStatus(
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
            planning=plans.state,
            memory_reads=plans.answered,
            endpoint=plans.endpoint,
            endpoint_reads=plans.endpoint_answered,
            metastore_calls_saved=plans.calls_saved,
            metastore_reads=text_of(plans.originals),
            writes_refused=plans.refused,
            writes=parts.reporter.status() if parts is not None else "",
            writes_reported=parts.outbox.ended if parts is not None else 0,
            errors=self._guard.errors,
            last_error=self._guard.last_error,
        )

    def control(self, control: str) -> None:
        """Turn it ``off`` (plain Spark), ``on``, or to a ``dry-run`` that only counts.

        Raises:
            ConfigError: ``control`` is none of these.
        """
        self._control.application = read_control(control, "control")
        if self._parts is not None:
            self._parts.worker.wake()

    def sync(self, timeout_s: float, *, until: float, scope: str = "") -> None:
        """Return once all that the metastore had committed before the call is refreshed here.

        ``timeout_s``: how long the caller waits, for the error; ``until``: the end of that time, on
        the monotonic clock. ``scope``: a table, or a database with its tables, whose changes alone
        are waited for; while the driver is connecting all changes are, because it goes live for
        all tables at once.

        Raises:
            NotReady: it took longer, or the driver is not attached.
            SourceError: changes of the metastore do not reach catalogd at all; says why.
        """
        parts = self._parts

        def left_s() -> float:
            return max(until - time.monotonic(), 0.0)

        if parts is None:
            state, reason = self._condition()
            raise NotReady(f"the driver is {state}: {reason}")
        worker = parts.worker
        if not worker.connected.wait(left_s()) or worker.subscriber is None:
            why = self._condition()[1]
            hubs = parts.settings.statestores
            text = f"the driver has not attached by {hubs} within {timeout_s} s"
            raise NotReady(f"{text}: {why}" if why else text)
        write = parts.planning.newest_write()
        worker.subscriber.sync(left_s(), scope=scope)
        parts.planning.synced(0 if scope else write)
        if not worker.caught_up(timeout_s=left_s()):
            raise NotReady(_not_refreshed(worker.unfinished(), timeout_s))

    def detach(self) -> None:
        """Make the driver plain Spark again."""
        with self._guard("detach"):
            if self._parts is not None:
                self._parts.planning.close()
                self._parts.reporter.stop()
                self._parts.worker.stop()

    def begin(self, session: Session, given: Mapping[str, object]) -> None:
        """Attach ``session``, or note why that is not possible.

        ``given``: the arguments of ``attach``.
        """
        with self._guard("attach"):
            try:
                self._start(session, given)
            except Exception as error:
                self._reason = reason_of(error)
                raise

    def _start(self, session: Session, given: Mapping[str, object]) -> None:
        check_release(self._bootstrap)
        catalyst, conf = Catalyst.probe(session), conf_of(session)
        settings = settings_of(given, conf=conf, environ=os.environ)
        self._primitives, self._spark = catalyst.primitives, str(session._sc.version)
        if not self._spark.startswith(self._versions):
            self._reason = f"tried with Spark {', '.join(self._versions)} only"
        self._control.application = settings.control
        self._refresher = Refresher(
            control=settings.control,
            refresh_existing=settings.refresh_existing,
            refresh_cached=settings.refresh_cached,
            lists_partitions=(conf(PARTITIONS) or "").lower() == "false",
        )
        parts = self._parts = self._make(session, settings, catalyst)
        self._sessions.add(session)
        catalyst.adopt(session)
        with self._guard("track sessions"):
            for java in self._bootstrap.sessions():
                catalyst.registry.adopt(java)
        with self._guard("report writes"):
            parts.reporter.start(session)
        parts.worker.start()

    def _make(self, session: Session, settings: SparkSettings, catalyst: Catalyst) -> _Parts:
        application = Application(
            application=str(session._sc.appName),
            application_id=str(session._sc.applicationId),
            user=str(session._sc.sparkUser()),
            host=socket.gethostname(),
            pid=self._pid,
            spark=self._spark,
        )
        outbox = WriteOutbox(
            driver=secrets.token_bytes(16), metastore=settings.metastore, probe=True
        )
        clients = ConnectSessions(self._sessions, guard=self._guard, accept=catalyst.accept)
        planning = self._planning(session, settings, catalyst.registry)
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
                queue=Queue(self._bootstrap.listener(), sessions=catalyst.registry),
            ),
        )

    def _planning(self, session: Session, settings: SparkSettings, registry: Any) -> Planning:
        """Return the part that lets Spark plan from memory; it has no thread yet."""
        jvm, why = session._jvm, why_not(conf_of(session))
        return Planning(
            lambda: Router.of(jvm, registry),
            settings=PlanningSettings(
                bytes_max=bytes_of_share(settings.budget_bytes, PLANNING_SHARE),
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
        self, settings: SparkSettings, application: Application, outbox: WriteOutbox
    ) -> Subscriber:
        """Return a subscriber that sends what is in the outbox; it is not open yet."""
        return Subscriber(
            settings.statestores,
            budget=_share_of_subscriber(settings),
            timeout_s=SUBSCRIBER_TIMEOUT_S,
            key_file=settings.key_file,
            name=application.driver,
            outbox=outbox,
            driver_facts=lambda: self._facts(application, outbox),
        )

    def _facts(self, application: Application, outbox: WriteOutbox) -> Facts:
        """Return what operators see of this driver. Cost: no call into the JVM."""
        parts = self._parts
        plans = parts.planning.facts(now=False) if parts is not None else PlanningFacts()
        return facts_of(
            application,
            self._refresher,
            condition=self._condition(),
            planning=plans.state,
            endpoint=plans.endpoint,
            memory_reads=plans.answered,
            endpoint_reads=plans.endpoint_answered,
            direct_reads=sum(plans.originals.values()),
            metastore_calls_saved=plans.calls_saved,
            writes_refused=plans.refused,
            writes=parts.reporter.status() if parts is not None else "",
            writes_reported=outbox.ended,
            errors=self._guard.errors,
            last_error=self._guard.last_error,
        )

    def _condition(self) -> tuple[str, str]:
        """Return the state of the driver, and the reason for it."""
        if self._parts is None:
            return UNSUPPORTED, self._reason
        state, reason = self._parts.worker.condition
        return state, "; ".join(filter(None, (reason, self._reason)))


def _not_refreshed(tables: Sequence[str], timeout_s: float) -> str:
    """Return the text of the error that names the ``tables`` a refresh still works on."""
    if not tables:
        return f"not refreshed within {timeout_s} s"
    named = ", ".join("all" if table == "*" else table for table in tables[:NAMED_MAX])
    more = f" and {len(tables) - NAMED_MAX} more" if len(tables) > NAMED_MAX else ""
    return (
        f"not refreshed within {timeout_s} s: Spark still lists files, or makes cached data, of "
        f"{named}{more}: does the file system of each answer?"
    )


def _share_of_subscriber(settings: SparkSettings) -> int:
    """Return the budget of the subscriber: the driver's, less what the router may keep."""
    budget_bytes = settings.budget_bytes
    planning_bytes = bytes_of_share(budget_bytes, PLANNING_SHARE) if settings.planning else 0
    return max(budget_bytes - planning_bytes, 1)
