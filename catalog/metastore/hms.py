"""Hms: the port on a real Hive metastore, 2.3 to 4.x, through hmsclient.

The boundary for foreign exceptions: any error of hmsclient, Thrift or the socket leaves as
``SourceError``: ``ObjectGone`` when the metastore answers that the object does not exist,
``SourceRefused`` when it answers with another exception.

    a method of the port ──▶ Hms ──call, once more if the server died──▶ HmsConnection ──▶ server
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final, TypeVar

from hmsclient.genthrift.hive_metastore.ttypes import (
    NoSuchObjectException,
    PartitionsStatsRequest,
    TableStatsRequest,
    UnknownDBException,
    UnknownTableException,
)
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from ...topics.errors import ObjectGone, SourceError, SourceRefused, UsageError
from ...topics.objects.encoding.structs import Structs
from ...topics.objects.metastore_facts import ColumnStatistics, Function
from ...topics.objects.names import partition_name
from .addresses import AddressDied, Addresses
from .calls import Calls
from .capture import REPLY_BYTES_MAX, ReplyTooLong
from .facts import functions_of, statistics_of
from .hive_site import MetastoreFlags, metastore_client
from .hms_connection import (
    ANSWER_S_MAX,
    HmsConnection,
    introduced,
    user_name,
)
from .port import PARTITIONS_PER_CALL_MAX, SAYS_NOTHING, TABLES_PER_CALL_MAX, RawEvent

T = TypeVar("T")
SizedT = TypeVar("SizedT", bound=Sized)
GONE: Final = (NoSuchObjectException, UnknownDBException, UnknownTableException)
ALL_PARTITIONS: Final = -1
TYPES: Final = ("EXTERNAL_TABLE", "MANAGED_TABLE", "VIRTUAL_VIEW", "MATERIALIZED_VIEW")
_PLAIN: Final = re.compile(r"(\w+=[\w.+-]+)(/\w+=[\w.+-]+)*", re.ASCII)
"""Names of partitions that every metastore makes of their values; others escape more, or less."""
LAST_ANSWER_S_MAX: Final = 5.0  # for an introduction where no other address is left: it may be slow
EVENT_ID_S_MAX: Final = 4.0  # for the newest id or the UUID: probes do not notice all hangs
EVENT_ID_LATE_S_MAX: Final = 128.0  # for these, once they have been late several times
LISTENER: Final = "DbNotificationListener"  # its own; another may record events, too
EXCLUDE_SETTINGS: Final = (
    "hive.metastore.notification.parameters.exclude.patterns",
    "metastore.notification.parameters.exclude.patterns",
)
LISTENER_SETTINGS: Final = (
    "hive.metastore.transactional.event.listeners",
    "hive.metastore.event.listeners",
    "metastore.transactional.event.listeners",  # Hive 3 has both names; 2.3 refuses this name
    "metastore.event.listeners",
)
CLOSED: Final = (  # 3.1 and 4.0 say so in their own log only
    "; if it answers other calls, this user may not read events: set "
    "hive.metastore.event.db.notification.api.auth=false in the metastore's hive-site.xml, or let "
    "{user} be a proxy user (hadoop.proxyuser.{user}.hosts and .groups in its core-site.xml)"
)


class Hms:
    """A Hive metastore, used by one thread; connects at the first call, and again after errors."""

    def __init__(
        self, uris: str | Addresses, *, timeout_s: float, calls: Calls | None = None
    ) -> None:
        """Read ``uris`` (tried in turn) and set the limit for each wait for an answer.

        Connections that share one ``Addresses`` share which of them has died. ``calls`` counts
        what this one calls.

        Raises:
            ConfigError: ``uris`` is not a comma list of ``thrift://host:port``.
        """
        self._addresses = Addresses(uris) if isinstance(uris, str) else uris
        self._timeout_s = timeout_s
        self._calls = Calls() if calls is None else calls
        self._connection: HmsConnection | None = None
        self._tables_batch = _Batch(TABLES_PER_CALL_MAX)
        self._partitions_batch = _Batch(PARTITIONS_PER_CALL_MAX)
        self.connections = 0  # that were made
        self._at_once_s = EVENT_ID_S_MAX  # more while these are late

    def uuid(self) -> str:
        """Return the UUID of the metastore's database; empty if the server refuses to say."""
        try:
            return self._call(
                "read its UUID",
                lambda to: to.uuid(),
                method="get_metastore_db_uuid",
                at_once=True,
            )
        except SourceRefused:
            return ""

    def release(self) -> str:
        """Return the release; empty if the server refuses to say, or says what all said once."""
        try:
            found = self._call(
                "read its release",
                lambda to: str(to.client.getVersion()),
                method="getVersion",
                at_once=True,
            )
        except SourceRefused:
            return ""
        return "" if found == SAYS_NOTHING else found

    def current_event_id(self) -> int:
        """Return the id of the newest event."""
        try:
            return self._call(
                "read the current event id",
                lambda to: int(to.client.get_current_notificationEventId().eventId),
                method="get_current_notificationEventId",
                at_once=True,
            )
        except SourceRefused as exc:
            raise SourceRefused(f"{exc}{CLOSED.format(user=user_name() or 'it')}") from exc

    def records_events(self) -> bool | None:
        """Return whether a listener is set that records events; None: it does not say."""
        known = []
        for name in LISTENER_SETTINGS:
            value = self._setting(name)
            if value is not None and LISTENER in value:
                return True
            known += [] if value is None else [value]
        return None if any(known) or not known else False

    def tells_all(self) -> bool:
        """Return whether no pattern is set of parameters that events leave out."""
        known = [self._setting(name) for name in EXCLUDE_SETTINGS]
        return any(value is not None for value in known) and not any(known)

    def events_after(self, event_id: int, *, events_max: int) -> tuple[RawEvent, ...]:
        """Return the events with ids above ``event_id``."""
        read = partial(HmsConnection.events, event_id=event_id, events_max=events_max)
        return self._call(f"read events after {event_id}", read, method="get_next_notification")

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases."""
        return self._call(
            "list databases",
            lambda to: tuple(to.client.get_all_databases()),
            method="get_all_databases",
        )

    def database(self, name: str) -> bytes:
        """Return the ``Database`` struct."""
        return self._call(
            f"read database {name}", lambda to: to.database(name), method="get_database"
        )

    def table_names(self, db: str) -> tuple[tuple[str, str], ...]:
        """Return (name, type) of every table and view.

        Not by ``get_table_meta``: for that the metastore reads the parameters of one table after
        the other, which takes Derby 6 s for 20,000, and may take longer than a call is waited for.
        """
        names = self.names(db)
        types: dict[str, str] = {}
        for kind in TYPES if names else ():
            with suppress(SourceRefused):  # a release that does not know this type
                found = self._call(
                    f"list tables of {db} that are {kind}",
                    partial(HmsConnection.names_of_type, db=db, kind=kind),
                    method="get_tables_by_type",
                )
                types.update(dict.fromkeys(found, kind))
        return tuple([(name, types.get(name, "")) for name in names])

    def names(self, db: str) -> tuple[str, ...]:
        """Return the name of every table and view."""
        return self._call(
            f"list names of {db}",
            lambda to: tuple(to.client.get_all_tables(db)),
            method="get_all_tables",
        )

    def tables(self, db: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ``Table`` structs of those of ``names`` that exist."""

        def read(some: list[str]) -> dict[str, bytes]:
            what = f"read {len(some)} tables of {db}"
            return self._call(
                what,
                partial(HmsConnection.tables, db=db, names=some),
                method="get_table_objects_by_name",
            )

        replies = self._in_batches(names, self._tables_batch, read)
        return {name: struct for reply in replies for name, struct in reply.items()}

    def partition_names(self, db: str, table: str) -> tuple[str, ...]:
        """Return the names of all partitions."""
        return self._call_of_table(
            "list partitions",
            lambda to: tuple(to.client.get_partition_names(db, table, ALL_PARTITIONS)),
            method="get_partition_names",
            db=db,
            table=table,
        )

    def all_partitions(
        self, db: str, table: str, keys: Sequence[str], *, partitions_max: int
    ) -> tuple[tuple[str, ...], Mapping[str, bytes] | None]:
        """Return the names of all partitions, and their structs unless they are too many.

        One call has both, unless the metastore refuses it, for its limit of a request or for a
        partition that it cannot read; or the names are not certain. Then names are read first.
        """
        found, refused = None, False
        batch = self._partitions_batch
        fits = batch.size >= min(partitions_max, batch.size_max)
        if keys and fits and not (self._connection and self._connection.refuses_all):
            try:
                found = self._first_partitions(db, table, partitions_max + 1)
            except SourceRefused:
                refused = True
            except _TooLong:
                batch.size //= 2
        named: Mapping[str, bytes] | None = None
        if found is not None and len(found) <= partitions_max:
            named = _named(keys, found)
        if named is not None and all(map(_PLAIN.fullmatch, named)):
            return tuple(named), named
        names = self.partition_names(db, table)
        if len(names) > partitions_max:
            return names, None
        if named is None or named.keys() != set(names):
            named = self.partitions(db, table, names)
        if refused and self._connection is not None:
            self._connection.refuses_all = True  # only that call, whatever the table
        return names, named

    def _first_partitions(self, db: str, table: str, count: int) -> list[tuple[list[str], bytes]]:
        return self._call_of_table(
            f"read {count} partitions",
            partial(HmsConnection.first_partitions, db=db, table=table, partitions_max=count),
            method="get_partitions",
            db=db,
            table=table,
        )

    def partitions(self, db: str, table: str, names: Sequence[str]) -> Structs:
        """Return the ``Partition`` structs of those of ``names`` that exist."""

        def read(some: list[str]) -> dict[str, bytes]:
            call = partial(HmsConnection.partitions, db=db, table=table, names=some)
            return self._call_of_table(
                f"read {len(some)} partitions",
                call,
                method="get_partitions_by_names",
                db=db,
                table=table,
            )

        found = Structs()
        for reply in self._in_batches(sorted(names), self._partitions_batch, read):
            found.add(reply)
        return found

    def functions(self, db: str) -> tuple[Function, ...]:
        """Return the permanent functions of ``db``; one call reads those of all databases."""
        found = self._call(
            "read functions",
            lambda to: to.client.get_all_functions().functions or [],
            method="get_all_functions",
        )
        return functions_of(db, found)

    def statistics(
        self, db: str, table: str, columns: Sequence[str], *, partitions: Sequence[str] = ()
    ) -> tuple[ColumnStatistics, ...]:
        """Return those statistics of ``columns`` that there are, in one call."""
        names = [*columns]
        if not partitions:
            request = TableStatsRequest(db, table, names)
            found = self._call_of_table(
                "read statistics",
                lambda to: to.client.get_table_statistics_req(request).tableStats or [],
                method="get_table_statistics_req",
                db=db,
                table=table,
            )
            return tuple(statistics_of("", found))
        of_parts = PartitionsStatsRequest(db, table, names, [*partitions])
        by_partition = self._call_of_table(
            f"read statistics of {len(partitions)} partitions",
            lambda to: to.client.get_partitions_statistics_req(of_parts).partStats or {},
            method="get_partitions_statistics_req",
            db=db,
            table=table,
        )
        return tuple(
            one for name in sorted(by_partition) for one in statistics_of(name, by_partition[name])
        )

    def _in_batches(
        self, names: Sequence[str], batch: "_Batch", read: Callable[[list[str]], dict[str, bytes]]
    ) -> Iterator[dict[str, bytes]]:
        """Yield the replies of ``read`` about ``names``, each about fewer while they are long."""
        rest = list(names)
        while rest:
            some = rest[: batch.size]
            try:
                reply = read(some)
            except _TooLong:
                if len(some) == 1:
                    raise
                batch.size = len(some) // 2
                continue
            rest = rest[len(some) :]
            if self._connection is None or self._connection.reply_was_short:
                batch.size = min(2 * batch.size, batch.size_max)
            elif self._connection.reply_was_long:
                batch.size = max(len(some) // 2, 1)
            yield reply

    def setting(self, *names: str) -> str | None:
        """Return a setting by the first of its ``names`` that the metastore takes; empty: not set.

        None: it takes none of them, or does not say.
        """
        return next((found for one in names if (found := self._setting(one)) is not None), None)

    def _setting(self, name: str) -> str | None:
        """Return a setting of the metastore, empty if it is not set; None: it does not say."""
        try:
            return self._call(
                f"read the setting {name}",
                lambda to: str(to.client.get_config_value(name, "")),
                method="get_config_value",
                at_once=True,
            ).strip()
        except SourceError:
            return None

    def close(self) -> None:
        """Close the connection; a later call makes a new connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.capture.close()

    def _call_of_table(
        self,
        what: str,
        call: "Callable[[HmsConnection], SizedT]",
        *,
        method: str,
        db: str,
        table: str,
    ) -> SizedT:
        """Call as ``_call`` does, and raise ObjectGone if the table is gone.

        Metastores answer with nothing then, or refuse: in 2.3 with an internal error.
        """
        found, refusal = None, None
        try:
            found = self._call(f"{what} of {db}.{table}", call, method=method)
        except SourceRefused as exc:
            refusal = exc
        if not found and not self.tables(db, (table,)):
            raise ObjectGone(f"table {db}.{table} does not exist") from refusal
        if found is None:
            assert refusal is not None
            raise refusal
        return found

    def _call(
        self,
        what: str,
        call: "Callable[[HmsConnection], T]",
        *,
        method: str,
        at_once: bool = False,
    ) -> T:
        """Call over the open connection; over a new connection if that, or its server, has died.

        ``at_once``: a metastore has the answer at hand. If it is late, the next such call waits
        twice as long, as the server may work on for each connection that was given up: 4.0.1 has
        one lock for all new connections, and holds it while it waits for its own database.
        """
        reused = self._connection is not None
        try:
            found = self._once(what, call, method=method, at_once=at_once)
        except _Lost as lost:
            if not (len(self._addresses.all) > 1 if lost.server_died else reused):
                raise
            found = self._once(what, call, method=method, at_once=at_once)
        if at_once:
            self._at_once_s = EVENT_ID_S_MAX
        return found

    def _once(
        self, what: str, call: "Callable[[HmsConnection], T]", *, method: str, at_once: bool
    ) -> T:
        connection = self._connected()
        timeout_s = min(self._at_once_s if at_once else inf, self._timeout_s)
        connection.capture.timeout_s = timeout_s
        connection.capture.reply_bytes_max = REPLY_BYTES_MAX
        connection.capture.begin_reply()
        failed = f"cannot {what} at {connection.uri}"
        try:
            with self._calls.timed(method):
                return call(connection)
        except GONE as exc:
            raise ObjectGone(f"{failed}: {exc.message}") from exc
        except TApplicationException as exc:
            raise SourceRefused(f"{failed}: {exc.message}") from exc
        except AddressDied as exc:
            self.close()
            raise _Lost(f"{failed}: timed out", server_died=True) from exc
        except ReplyTooLong as exc:  # the rest of it is still under way
            self.close()
            raise _TooLong(f"{failed}: {exc}") from exc
        except Exception as exc:  # malformed bytes make Thrift's C decoder raise anything
            if isinstance(exc, TException) and hasattr(exc, "thrift_spec"):
                raise SourceRefused(f"{failed}: {_reason(exc)}") from exc
            died_idle = not connection.capture.received_bytes and _is_hangup(exc)
            self.close()
            if died_idle:
                raise _Lost(f"{failed}: {_reason(exc)}", server_died=False) from exc
            connection.address.fail()
            if at_once and isinstance(exc, TimeoutError):
                self._at_once_s = min(2 * self._at_once_s, EVENT_ID_LATE_S_MAX)
            raise SourceError(f"{failed}: {_reason(exc)}") from exc
        finally:
            connection.capture.end_reply()

    def _connected(self) -> "HmsConnection":
        held = self._connection
        if held is not None and not held.is_outlived and held.address is self._addresses.used:
            return held
        self.close()
        refusals = []
        left = len(self._addresses.all)
        for address in self._addresses.in_turn():
            left -= 1
            answer_s = min(ANSWER_S_MAX if left else LAST_ANSWER_S_MAX, self._timeout_s)
            began = time.monotonic()
            try:
                self._connection = introduced(address, answer_s)
                self.connections += 1
                self._addresses.use(address)
            except OSError as exc:
                address.die(since=began)
                refusals.append(f"{address} ({_reason(exc)})")
            else:
                return self._connection
        raise SourceError(f"no metastore reached: {', '.join(refusals)}")


def connection(flags: MetastoreFlags) -> Hms:
    """Return a metastore by its settings, which another process can be handed.

    Raises:
        ConfigError: a value is not allowed, or a file that is named cannot be read.
    """
    client = metastore_client(flags)
    addresses = Addresses(client.uris, tls=client.tls, login=client.login)
    return Hms(addresses, timeout_s=client.timeout_s)


def _named(
    keys: Sequence[str], found: Sequence[tuple[Sequence[str], bytes]]
) -> dict[str, bytes] | None:
    """Return partitions by the names that their values make; None: these columns have no such."""
    try:
        named = {partition_name(keys, values): struct for values, struct in found}
    except UsageError:
        return None
    return named if len(named) == len(found) else None


class _Batch:
    """How many objects one call reads: ``size``, which is less while they are large."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.size = size_max


class _TooLong(SourceError):
    """A reply was too long: a request for less may be answered."""


class _Lost(SourceError):
    """No answer will come, and the request may be sent again.

    ``server_died``: the server did not answer a probe; else the connection died while idle.
    """

    def __init__(self, text: str, *, server_died: bool) -> None:
        super().__init__(text)
        self.server_died = server_died


def _is_hangup(exc: Exception) -> bool:
    return isinstance(exc, EOFError | ConnectionError | TTransportException)


def _reason(exc: BaseException) -> str:
    if isinstance(exc, TimeoutError):
        return "timed out"
    text = getattr(exc, "message", None) or str(exc) or type(exc).__name__
    return str(text).strip().splitlines()[0]
