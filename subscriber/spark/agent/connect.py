"""ConnectSessions: the sessions of clients of Spark Connect, if the driver's JVM has the server.

    is its class loaded? ──▶ its map of sessions ──another hash──▶ new sessions: registered;
       every SEEK_S            one call every POLL_S               ended sessions: released

A client's session registers itself by the extensions that it inherits; only sessions from before
the attach are registered here. But the server keeps a cache of plans for each session, and these
hold relations, so the worker has to discard the plans of changed tables.

An adapter. It reads the server's own map: a session that is requested by its key counts as used, so
that it would never expire. It loads no class and creates nothing of Spark's; without a server it
costs three calls every SEEK_S. It holds the cache of plans of a session as long as the server has
the session, and POLL_S more.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from ..guard import Guard
from ..sessions import Sessions

POLL_S: Final = 0.1  # between two looks at the server's map
SEEK_S: Final = 10.0  # between two looks for its class; most are loaded before we attach
RETRY_S: Final = 2.0  # after a failure; doubled up to
RETRY_S_MAX: Final = 60.0

_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"
_CLOSED: Final = "InaccessibleObjectException"
_MANAGER: Final = "sessionManager"  # of 4.x
_STORE: Final = "sessionStore"
_CACHE: Final = "userSessionMapping"  # of 3.5: a cache of Guava's, instead of both


class ConnectServer:
    """The server of Spark Connect in the driver's JVM, read by its private fields."""

    def __init__(self, service: Any) -> None:
        """``service`` is the class of the server."""
        self._fields = {field.getName(): field for field in service.getDeclaredFields()}
        self._module = self._value(self._fields["MODULE$"], None)
        self._store: Any = None

    def sessions(self) -> Any:
        """Return the server's map from keys to holders of sessions; None: it has had no session."""
        if self._store is None and _MANAGER in self._fields:
            manager = self._value(self._fields[_MANAGER], self._module)
            if manager is not None:
                fields = {one.getName(): one for one in manager.getClass().getDeclaredFields()}
                self._store = self._value(fields[_STORE], manager)
        elif self._store is None:
            self._store = self._value(self._fields[_CACHE], self._module).asMap()
        return self._store

    def plans(self, holder: Any) -> Any:
        """Return the cache of plans of a session; None: it has no cache."""
        if _MANAGER not in self._fields:
            return None
        plans = holder.getPlanCache()
        return plans.get() if plans.isDefined() else None

    @staticmethod
    def _value(field: Any, of: Any) -> Any:
        field.setAccessible(True)
        return field.get(of)


class Seeker:
    """Looks for the server's class among the classes that the JVM has loaded."""

    def __init__(self) -> None:
        self._look: Callable[[Any], Any] | None = None
        self._loaders: list[Any] = []

    def __call__(self, base: Any) -> ConnectServer | None:
        """Return the server; None: its class is not loaded. ``base``: any session of the JVM."""
        if self._look is None:
            self._look = self._prepared(base)
        for loader in self._loaders:
            found = self._look(loader)
            if found is not None:
                return ConnectServer(found)
        return None

    def _prepared(self, base: Any) -> Callable[[Any], Any]:
        from py4j.protocol import Py4JError

        lang, array = base._jvm.java.lang, base._sc._gateway.new_array
        kinds, names = array(lang.Class, 1), array(lang.Object, 1)
        kinds[0], names[0] = lang.Class.forName("java.lang.String"), _SERVICE
        of = lang.Class.forName("java.lang.ClassLoader")
        find = of.getDeclaredMethod("findLoadedClass", kinds)
        try:
            find.setAccessible(True)  # Spark's launcher opens java.lang to Spark
        except Py4JError as error:
            if _CLOSED not in str(error):
                raise
            return lambda _: None  # such a JVM's sessions are registered as they execute something
        loader = lang.Thread.currentThread().getContextClassLoader()
        while loader is not None:
            self._loaders.append(loader)
            loader = loader.getParent()
        return lambda loader: find.invoke(loader, names)


class ConnectSessions:
    """The sessions of clients, and the cache of plans of each. For one thread."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        guard: Guard,
        accept: Callable[[Any], None],
        seek: Callable[[Any], ConnectServer | None] | None = None,
    ) -> None:
        """Hold nothing yet.

        Args:
            sessions: The sessions of this process; any of them gives access to the JVM.
            guard: Logs and counts failures.
            accept: Registers a session of the JVM, so that it is refreshed like all others.
            seek: Finds the server, given a classic session; None: a ``Seeker`` does.
        """
        self._sessions = sessions
        self._guard = guard
        self._accept = accept
        self._seek = seek or Seeker()
        self._server: ConnectServer | None = None  # None: its class was not found yet
        self._plans: dict[str, Any] = {}  # by the session's id, its cache of plans; None: no cache
        self._hash: int | None = 0  # of the map when it was read last; None: it is to be read again
        self._due = 0.0  # when the server is looked at again, on the monotonic clock
        self._retry_s = RETRY_S  # the pause after the next failure

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def pause_s(self) -> float:
        """Seconds until ``poll`` looks at the server again; 0.0: it would now."""
        return max(self._due - time.monotonic(), 0.0)

    def poll(self, *, at_once: bool = False) -> None:
        """Look for sessions that have come or gone, if that is due, or ``at_once``."""
        now = time.monotonic()
        if now < self._due and not at_once:
            return
        pause_s = None
        with self._guard("look for sessions of Spark Connect"):
            base = self._sessions.current()
            if base is None:
                self.release()
            elif self._server is None:
                self._server = self._seek(base)
            if base is None or self._server is None:
                pause_s = SEEK_S
            else:
                self._look(self._server)
                pause_s = POLL_S if self._hash is not None else None
        self._due = now + (pause_s or self._retry_s)
        self._retry_s = RETRY_S if pause_s else min(self._retry_s * 2, RETRY_S_MAX)

    def discard_plans(self, session: str) -> None:
        """Discard the plans that the server has cached for ``session``, which hold relations."""
        plans = self._plans.get(session)
        if plans is not None:
            plans.invalidateAll()

    def release(self) -> None:
        """Release all caches of plans; the next ``poll`` reads the server's map again."""
        self._plans.clear()
        self._hash = None
        self._due = 0.0

    def _look(self, server: ConnectServer) -> None:
        """Read the server's map of sessions if its hash differs from the last look's."""
        store = server.sessions()
        if store is None:
            self._hash = 0  # that of an empty cache
            return
        found = int(store.hashCode())
        if found == self._hash:
            return
        holders = {}
        for entry in store.entrySet().toArray():
            holder = entry.getValue()
            holders[str(holder.session().sessionUUID())] = holder
        self._plans = {name: plans for name, plans in self._plans.items() if name in holders}
        for name in holders.keys() - self._plans.keys():
            with self._guard("look after a session of Spark Connect"):
                self._accept(holders[name].session())
                self._plans[name] = server.plans(holders[name])
        self._hash = found if len(self._plans) == len(holders) else None
