"""Attach: from a session to a driver that is refreshed by push; one handle for a process.

attach ──▶ settings ──▶ probe ──▶ worker, in the background ──▶ live
              └────────────┴─ not possible ─▶ plain Spark, the status says why
"""

import os
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from ....topics.errors import ConfigError, NotReady
from ....topics.objects.rules import ON
from ...client.subscriber import Subscriber
from ...engine.driver import Facts
from ..config import Arguments, SparkSettings, control_of, settings_of
from ..guard import Guard
from ..refresh.catalyst import VERSIONS, Catalyst, Session, Unsupported
from ..refresh.control import Application, facts_of
from ..refresh.refresher import Refresher
from ..refresh.worker import Worker, staleness_s
from ..sessions import Sessions, made_before
from ..status import DETACHED, UNSUPPORTED, Status
from ..writes.plans import metastore_at_attach
from ..writes.reporter import Reporter
from .connect import Connect
from .hook import forget, listen, once

SYNC_S: Final = 10.0
SUBSCRIBER_TIMEOUT_S: Final = 10.0


class Handle:
    """An attached driver; what is asked of it never harms the application."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._guard = Guard()
        self._sessions = Sessions()
        self._refresher = Refresher()
        self._connect: Connect | None = None
        self._worker: Worker | None = None
        self._reporter: Reporter | None = None
        self._settings: SparkSettings | None = None
        self._spark = ""
        self._primitives = ""
        self._reason = ""
        self._deafen: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    def found(self, session: object) -> None:
        """Look after ``session``, too."""
        with self._guard("track a session"):
            self._sessions.found(session)

    def status(self) -> Status:
        """Return how it stands; in a notebook a table."""
        worker, counts = self._worker, self._refresher.counts
        here = self._pid == os.getpid()
        return Status(
            state=self._state(),
            reason=self._reason if here else "this process was forked: attach in its parent",
            control=self._refresher.control,
            spark=self._spark,
            primitives=self._primitives,
            statestores=self._settings.statestores if self._settings is not None else "",
            staleness_s=staleness_s(worker.subscriber if worker is not None and here else None),
            sessions=self._refresher.sessions,
            connect_sessions=len(self._connect) if self._connect is not None else 0,
            relations=self._refresher.relations,
            changes=counts.changes,
            spared=counts.spared,
            refreshes=counts.renewed,
            stale_reads_avoided=counts.reread,
            would_refresh=counts.would,
            losses=counts.losses,
            writes=self._reporter.standing() if self._reporter is not None else "",
            writes_reported=self._reporter.untold.count if self._reporter is not None else 0,
            errors=self._guard.errors,
            last_error=self._guard.last,
        )

    def control(self, control: str) -> None:
        """Turn it ``off`` (plain Spark), ``on``, or to a ``dry-run`` that only counts.

        Raises:
            ConfigError: it is none of these.
        """
        wanted = control_of(control)
        if self._worker is not None:
            self._worker.control = wanted

    def sync(self, timeout_s: float = SYNC_S) -> None:
        """Return once all that the metastore had committed before the call is refreshed here.

        Raises:
            NotReady: not within ``timeout_s``, or the driver is not attached.
        """
        worker, deadline = self._worker, time.monotonic() + timeout_s
        if worker is None or self._pid != os.getpid():
            raise NotReady(f"the driver is {self._state()}: {self._reason}")
        if not worker.connected.wait(timeout_s) or worker.subscriber is None:
            raise NotReady(f"no contact with {self.status().statestores} within {timeout_s} s")
        worker.subscriber.sync(max(deadline - time.monotonic(), 0.0))
        if not worker.caught_up(timeout_s=max(deadline - time.monotonic(), 0.0)):
            raise NotReady(f"not refreshed within {timeout_s} s")

    def detach(self) -> None:
        """Let go: plain Spark from now on; a second time, or in a forked child, nothing."""
        if self._pid != os.getpid():
            return
        with self._guard("detach"):
            forget(self)
            self._deafen()
            if self._reporter is not None:
                self._reporter.stop()
            if self._worker is not None:
                self._worker.stop()

    def begin(self, session: Session, arguments: Arguments) -> None:
        """Start, or note why that is not possible."""
        with self._guard("attach"):
            try:
                self._start(session, arguments)
            except (ConfigError, Unsupported) as error:
                self._reason = str(error)
                raise

    def _start(self, session: Session, arguments: Arguments) -> None:
        catalyst = Catalyst.probe(session)
        settings = settings_of(arguments, conf=_conf_of(session), environ=os.environ)
        self._settings, self._primitives = settings, catalyst.primitives
        self._spark = str(session._sc.version)
        if not self._spark.startswith(VERSIONS):
            self._reason = f"tried with Spark {', '.join(VERSIONS)} only"
        self._refresher = Refresher(
            control=settings.control,
            refresh_existing=settings.refresh_existing,
            refresh_cached=settings.refresh_cached,
        )
        metastore = metastore_at_attach(session, conf=_conf_of(session), said=settings.metastore)
        application = Application(
            application=str(session._sc.appName),
            application_id=str(session._sc.applicationId),
            user=str(session._sc.sparkUser()),
            host=socket.gethostname(),
            pid=os.getpid(),
            spark=self._spark,
        )
        connect = self._connect = self._clients(catalyst)
        worker = Worker(
            self._refresher,
            caches=catalyst,
            sessions=self._sessions,
            others=connect,
            guard=self._guard,
            make=lambda: self._subscriber(settings, application, metastore=metastore.uris),
            names=application.names,
        )
        self._deafen = listen(type(session), self.found)
        for found in made_before(type(session)):
            self._sessions.found(found)
        self._worker = worker
        self._reporter = Reporter(
            self._sessions,
            guard=self._guard,
            live=lambda: worker.subscriber,
            metastore=metastore,
            said=settings.metastore,
            is_on=lambda: worker.is_on,
        )
        with self._guard("report writes"):
            self._reporter.start(session)
        worker.start()

    def _clients(self, catalyst: Catalyst) -> Connect:
        """Return what finds the sessions of clients of Spark Connect."""
        return Connect(
            self._sessions,
            guard=self._guard,
            renew=catalyst.renew_all,
            is_on=lambda: self._refresher.control == ON,
        )

    def _subscriber(
        self, settings: SparkSettings, application: Application, *, metastore: str
    ) -> Subscriber:
        """Return one that operators can ask about this driver; it is not open yet."""
        subscriber = Subscriber(
            settings.statestores,
            budget=settings.budget,
            timeout_s=SUBSCRIBER_TIMEOUT_S,
            name=f"{application.application_id}@{application.host}:{application.pid}",
            metastore=metastore,
        )
        subscriber.driver.tells(lambda: self._facts(application))
        return subscriber

    def _facts(self, application: Application) -> Facts:
        told = self._reporter.untold.count if self._reporter is not None else 0
        guard = self._guard
        return facts_of(
            application,
            self._refresher,
            writes_reported=told,
            errors=guard.errors,
            last_error=guard.last,
        )

    def _state(self) -> str:
        if self._pid != os.getpid():
            return DETACHED
        return UNSUPPORTED if self._worker is None else self._worker.state


def attach(
    spark: Session,
    statestores: str | None = None,
    *,
    budget: str | int | None = None,
    control: str | None = None,
    refresh_existing: bool | None = None,
    refresh_cached: bool | None = None,
    metastore: str | None = None,
) -> Handle:
    """Return the handle of this process, whose sessions are refreshed by push from now on.

    It never raises and asks the metastore nothing: where it cannot work the driver is plain Spark,
    and ``status()`` says why. What is not said here is taken from Spark's configuration
    (``spark.topicast.*``), else from the environment: `config`. A second call changes nothing.

    Args:
        spark: A classic session; others of the process are found.
        statestores: Addresses, separated by commas.
        budget: Bytes that may be held, as 1000, "64MB" or "5%" of the machine's memory.
        control: on, off, or dry-run.
        refresh_existing: Let DataFrames that exist see what others append, too.
        refresh_cached: Make cached data (CACHE TABLE, ``df.cache()``) of a changed table anew.
        metastore: What this driver writes to, as catalogd names it; else hive.metastore.uris.

    Cost: the first contact with statestored, which is waited for up to half a second.
    """
    arguments = Arguments(
        statestores=statestores,
        budget=budget,
        control=control,
        refresh_existing=refresh_existing,
        refresh_cached=refresh_cached,
        metastore=metastore,
    )

    def make() -> Handle:
        handle = Handle()
        handle.begin(spark, arguments)
        return handle

    handle = once(Handle, make)
    handle.found(spark)
    return handle


def _conf_of(session: Session) -> Callable[[str], str | None]:
    """Return a look into the context's configuration; the session's would make its state."""
    conf = session._sc._conf
    return lambda key: conf.get(key) if conf.contains(key) else None
