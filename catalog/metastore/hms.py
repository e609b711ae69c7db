"""Hms: the port on a real Hive metastore, 2.3 to 4.x, through hmsclient.

The boundary for foreign exceptions: any error of hmsclient, Thrift or the socket leaves as
``SourceError``: ``ObjectGone`` when the metastore answers that the object does not exist,
``SourceRefused`` when it answers with another exception.

Structs are not decoded. Thrift's C decoder reads the reply, but is given no specification of the
structs, except the one or two fields that name them: it skips the rest in C, builds no objects,
and the structs are cut out of the recorded bytes at the marks. Measured on 5,000 partitions of 20
columns (4.5 MB): 12 ms, against 170 ms for decoding, and every field survives, known here or not.

    socket ──▶ Capture (records) ──▶ C decoder (skips, marks) ──▶ Slicer.read ──▶ [(naming, bytes)]
"""

import getpass
import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence, Sized
from contextlib import suppress
from functools import partial
from io import BytesIO
from math import inf
from typing import Any, Final, TypeVar

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import (
    ClientCapabilities,
    GetTableRequest,
    GetTablesRequest,
    MetaException,
    NoSuchObjectException,
    NotificationEvent,
    NotificationEventRequest,
    NotificationEventResponse,
    PartitionsStatsRequest,
    TableStatsRequest,
    UnknownDBException,
    UnknownTableException,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TException, TMessageType, TType
from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from ...topics.errors import ConfigError, ObjectGone, SourceError, SourceRefused
from ...topics.objects.metastore_facts import ColumnStatistics, Function
from ...topics.objects.names import partition_keys, partition_name
from ...topics.objects.thrift import fields, read_text
from .addresses import AddressDied, Addresses, MetastoreAddress
from .calls import Calls
from .facts import functions_of, statistics_of
from .hive_site import MetastoreFlags, metastore_client
from .port import PARTITIONS_PER_CALL_MAX, SAYS_NOTHING, TABLES_PER_CALL_MAX, RawEvent
from .sasl import Frames, Login, negotiation

T = TypeVar("T")
SizedT = TypeVar("SizedT", bound=Sized)

CAPABILITIES: Final = ClientCapabilities(values=[2])  # Hive 3: insert-only tables, or a batch fails
GONE: Final = (NoSuchObjectException, UnknownDBException, UnknownTableException)
ALL_PARTITIONS: Final = -1
CONNECT_S_MAX: Final = 2.0  # for a connection; a network that loses a packet sends it after 1 s
ANSWER_S_MAX: Final = 2.0  # for what costs a server nothing: the introduction, a probe
LAST_ANSWER_S_MAX: Final = 5.0  # the same where no other address is left: it may be slow
EVENT_ID_S_MAX: Final = 4.0  # for the newest id or the UUID: probes do not notice all hangs
LISTENER: Final = "DbNotificationListener"  # its own; another may record events, too
EXCLUDE_SETTINGS: Final = (
    "hive.metastore.notification.parameters.exclude.patterns",
    "metastore.notification.parameters.exclude.patterns",
)
LISTENER_SETTINGS: Final = (
    "hive.metastore.transactional.event.listeners",
    "hive.metastore.event.listeners",
    "metastore.transactional.event.listeners",  # Hive 3 has both names; 2.3 refuses this one
    "metastore.event.listeners",
)
CLOSED: Final = (  # 3.1 and 4.0 say so in their own log only
    "; if it answers other calls, this user may not read events: set "
    "hive.metastore.event.db.notification.api.auth=false in the metastore's hive-site.xml, or let "
    "{user} be a proxy user (hadoop.proxyuser.{user}.hosts and .groups in its core-site.xml)"
)
SLICE_S: Final = 0.5  # of a wait for an answer; between two the address may be found dead
SLICE_S_MIN: Final = 0.001  # the last one; 0 would not wait at all
RECV_BYTES: Final = 256 << 10
REPLY_BYTES_MAX: Final = 1 << 30  # one ADD_PARTITION message of 100,000 partitions is 230 MB
OBJECTS_REPLY_BYTES_MAX: Final = 128 << 20  # one struct takes 100 MB; of several, fewer are read
STRING_BYTES_MAX: Final = REPLY_BYTES_MAX  # Thrift's own default, 16 MB, is less than one message
ITEMS_MAX: Final = 1 << 26  # of one list or map: more do not fit into REPLY_BYTES_MAX

NAME_ONLY: Final = (None, (1, TType.STRING, "naming", "UTF8", None))
VALUES_ONLY: Final = (None, (1, TType.LIST, "naming", (TType.STRING, "UTF8", False), None))

CATALOG_DEFAULT: Final = "hive"  # of a server that does not say
DB_CATALOG: Final = 8  # its field in the Thrift struct of a database
EVENT: Final = (*NotificationEvent.thrift_spec, (8, TType.STRING, "catName", "UTF8", None))
EVENTS: Final = (
    None,
    (1, TType.LIST, "events", (TType.STRUCT, [NotificationEvent, EVENT], False), None),
)
EVENTS_RESULT: Final = ((0, TType.STRUCT, "success", [NotificationEventResponse, EVENTS], None),)

Spec = tuple[Any, ...]  # a thrift_spec; hmsclient's generated code is untyped

log = logging.getLogger(__name__)


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
        self._connection: _Connection | None = None
        self._tables_batch = _Batch(TABLES_PER_CALL_MAX)
        self._partitions_batch = _Batch(PARTITIONS_PER_CALL_MAX)
        self.connections = 0  # that were made

    def uuid(self) -> str:
        """Return the UUID of the metastore's database; empty if the server refuses to say."""
        try:
            return self._call(
                "read its UUID",
                lambda to: to.uuid(),
                method="get_metastore_db_uuid",
                timeout_s=EVENT_ID_S_MAX,
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
                timeout_s=EVENT_ID_S_MAX,
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
                timeout_s=EVENT_ID_S_MAX,
            )
        except SourceRefused as exc:
            raise SourceRefused(f"{exc}{CLOSED.format(user=_user() or 'it')}") from exc

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
        read = partial(_Connection.events, event_id=event_id, events_max=events_max)
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
        """Return (name, type) of every table and view."""
        return self._call(
            f"list tables of {db}", lambda to: to.table_names(db), method="get_table_meta"
        )

    def tables(self, db: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ``Table`` structs of those of ``names`` that exist."""

        def read(some: list[str]) -> dict[str, bytes]:
            what = f"read {len(some)} tables of {db}"
            return self._call(
                what,
                partial(_Connection.tables, db=db, names=some),
                method="get_table_objects_by_name",
            )

        return self._in_batches(names, self._tables_batch, read)

    def partition_names(self, db: str, table: str) -> tuple[str, ...]:
        """Return the names of all partitions."""
        return self._call_of_table(
            "list partitions",
            lambda to: tuple(to.client.get_partition_names(db, table, ALL_PARTITIONS)),
            method="get_partition_names",
            db=db,
            table=table,
        )

    def partitions(self, db: str, table: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ``Partition`` structs of those of ``names`` that exist."""

        def read(some: list[str]) -> dict[str, bytes]:
            call = partial(_Connection.partitions, db=db, table=table, names=some)
            return self._call_of_table(
                f"read {len(some)} partitions",
                call,
                method="get_partitions_by_names",
                db=db,
                table=table,
            )

        return self._in_batches(names, self._partitions_batch, read)

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
    ) -> dict[str, bytes]:
        """Return what ``read`` returns for ``names``, fewer at once while replies are too long."""
        found: dict[str, bytes] = {}
        rest = list(names)
        while rest:
            some = rest[: batch.size]
            try:
                found.update(read(some))
            except _TooLong:
                if len(some) == 1:
                    raise
                batch.size = len(some) // 2
                continue
            rest = rest[len(some) :]
            received_bytes = self._connection.capture.received_bytes if self._connection else 0
            if received_bytes < OBJECTS_REPLY_BYTES_MAX // 4:
                batch.size = min(2 * batch.size, batch.size_max)
        return found

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
                timeout_s=EVENT_ID_S_MAX,
            ).strip()
        except SourceError:
            return None

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.capture.close()

    def _call_of_table(
        self,
        what: str,
        call: "Callable[[_Connection], SizedT]",
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
        call: "Callable[[_Connection], T]",
        *,
        method: str,
        timeout_s: float = inf,
    ) -> T:
        """Call over the open connection; over a new one if that had died, or its server has."""
        reused = self._connection is not None
        timeout_s = min(timeout_s, self._timeout_s)
        try:
            return self._once(what, call, method=method, timeout_s=timeout_s)
        except _Lost as lost:
            if not (len(self._addresses.all) > 1 if lost.server_died else reused):
                raise
            return self._once(what, call, method=method, timeout_s=timeout_s)

    def _once(
        self, what: str, call: "Callable[[_Connection], T]", *, method: str, timeout_s: float
    ) -> T:
        connection = self._connected()
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
        except _ReplyTooLong as exc:  # the rest of it is still under way
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
            raise SourceError(f"{failed}: {_reason(exc)}") from exc

    def _connected(self) -> "_Connection":
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
                self._connection = _introduced(address, answer_s)
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


class _Batch:
    """How many objects one call reads: ``size``, which is less while they are large."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.size = size_max


class _ReplyTooLong(OverflowError):
    """A reply has more bytes than its request allows."""


class _TooLong(SourceError):
    """A reply was too long: a request for less may be answered."""


class _Lost(SourceError):
    """No answer will come, and the request may be sent again.

    ``server_died``: the server did not answer a probe; else the connection died while idle.
    """

    def __init__(self, text: str, *, server_died: bool) -> None:
        super().__init__(text)
        self.server_died = server_died


def _introduced(address: MetastoreAddress, answer_s: float) -> "_Connection":
    """Return a connection to ``address`` that has named its user, if the server accepts that."""
    connection = _Connection(address, timeout_s=answer_s)
    try:
        connection.introduce()
    except OSError:
        connection.capture.close()
        raise
    except Exception as exc:  # noqa: BLE001  reads work without set_ugi, whatever its error
        log.info("metastore refuses set_ugi: address=%s reason=%s", address, exc)
        connection.capture.close()
        connection = _Connection(address, timeout_s=answer_s)
    address.answered_at = time.monotonic()
    connection.begin_watch()
    return connection


def _probe(address: MetastoreAddress) -> None:
    """Make a call that every server answers at once.

    Raises:
        OSError: ``address`` does not answer.
    """
    connection = _Connection(address, timeout_s=ANSWER_S_MAX)
    try:
        connection.client.getStatus()
    except OSError:
        raise
    except Exception as exc:  # noqa: BLE001  any answer will do
        log.debug("metastore refuses getStatus: address=%s reason=%s", address, exc)
    finally:
        connection.capture.close()


class _Connection:
    """An open connection, and the methods that the server behind it lacks."""

    def __init__(self, address: MetastoreAddress, *, timeout_s: float) -> None:
        self.address = address
        self.uri = str(address)
        self._born = address.deaths
        self.capture = Capture(
            address.host, address.port, tls=address.tls, login=address.login, timeout_s=timeout_s
        )
        protocol = self._protocol = accelerated(self.capture)
        self.client = HMSClient(iprot=protocol)
        self.slicer = Slicer(protocol)
        self._catalog = ""  # that is followed; empty: not read yet
        self._lists_meta = True
        self._table_readers = [self._tables_by_request, self._tables_by_name, self._table_by_table]

    @property
    def is_outlived(self) -> bool:
        """Whether the address has been found dead since this connection was made."""
        return self.address.deaths != self._born

    def begin_watch(self) -> None:
        """From now on, end a wait when the address is found dead."""

        def note() -> None:
            self.address.answered_at = time.monotonic()

        def check() -> None:
            self.address.check_alive(self._born, lambda: _probe(self.address))

        self.capture.watch(received=note, waiting=check)

    def introduce(self) -> None:
        """Send the user's name to a server that believes one, as Hive's own client does."""
        user = _user()
        if user is None or self.address.login is not None:
            return
        try:
            self.client.set_ugi(user, [user])
        except (TApplicationException, MetaException) as exc:
            log.info("metastore refuses set_ugi: address=%s reason=%s", self.address, exc)

    def uuid(self) -> str:
        """Read the database's UUID by hand: hmsclient does not know the call, of Hive 3."""
        protocol = self._protocol
        protocol.writeMessageBegin("get_metastore_db_uuid", TMessageType.CALL, 0)
        protocol.writeFieldStop()  # no arguments
        protocol.trans.flush()
        _begin_result(protocol)
        _, _, number = protocol.readFieldBegin()
        if number != 0:
            refusal = MetaException()
            refusal.read(protocol)
            raise refusal
        found = str(protocol.readString())
        protocol.readFieldBegin()  # the end, so that none of the reply is left
        return found

    def events(self, *, event_id: int, events_max: int) -> tuple[RawEvent, ...]:
        """Read events with the catalogs that they are of, which hmsclient does not know."""
        request = NotificationEventRequest(lastEvent=event_id, maxEvents=events_max)
        self.client.send_get_next_notification(request)
        _begin_result(self._protocol)
        reply = ThriftHiveMetastore.get_next_notification_result()
        self._protocol._fast_decode(reply, self._protocol, [type(reply), EVENTS_RESULT])
        if reply.success is None:
            raise TApplicationException(TApplicationException.MISSING_RESULT, "no result")
        events = reply.success.events or ()
        followed = self._followed() if any(map(_catalog_of, events)) else ""
        return tuple(_raw(event, followed=followed) for event in events)

    def _followed(self) -> str:
        """Return the catalog that calls without one are about: that of the default database."""
        if not self._catalog:
            self.capture.begin_reply()
            found: list[str] = []
            with suppress(NoSuchObjectException):
                struct = self.database("default")
                found = [read_text(struct, one) for one in fields(struct) if one.id == DB_CATALOG]
            self._catalog = found[0] if found else CATALOG_DEFAULT
        return self._catalog

    def database(self, name: str) -> bytes:
        self.client.send_get_database(name)
        ((_, struct),) = self.slicer.read(ThriftHiveMetastore.get_database_result, NAME_ONLY)
        return struct

    def table_names(self, db: str) -> tuple[tuple[str, str], ...]:
        if self._lists_meta:
            try:
                metas = self.client.get_table_meta(db, "*", None)
                return tuple([(m.tableName, m.tableType or "") for m in metas if m.dbName == db])
            except TApplicationException as exc:
                _demand_unknown_method(exc)
                self._lists_meta = False
                self.capture.begin_reply()
        return tuple([(name, "") for name in self.client.get_all_tables(db)])

    def tables(self, db: str, names: list[str]) -> dict[str, bytes]:
        """Read tables by the first way that this server has."""
        self.capture.reply_bytes_max = OBJECTS_REPLY_BYTES_MAX
        while True:
            try:
                return dict(self._table_readers[0](db, names))
            except UnknownDBException:
                return {}
            except TApplicationException as exc:
                _demand_unknown_method(exc)
                if len(self._table_readers) == 1:
                    raise
                del self._table_readers[0]
                self.capture.begin_reply()

    def _tables_by_request(self, db: str, names: list[str]) -> list[tuple[str, bytes]]:
        self.client.send_get_table_objects_by_name_req(
            GetTablesRequest(dbName=db, tblNames=names, capabilities=CAPABILITIES)
        )
        result = ThriftHiveMetastore.get_table_objects_by_name_req_result
        return self.slicer.read(result, NAME_ONLY, wrapped=True)

    def _tables_by_name(self, db: str, names: list[str]) -> list[tuple[str, bytes]]:
        self.client.send_get_table_objects_by_name(db, names)
        return self.slicer.read(ThriftHiveMetastore.get_table_objects_by_name_result, NAME_ONLY)

    def _table_by_table(self, db: str, names: list[str]) -> list[tuple[str, bytes]]:
        """Read each of ``names`` by a call of its own, but those that are gone."""
        result = ThriftHiveMetastore.get_table_req_result
        found: list[tuple[str, bytes]] = []
        for name in names:
            self.capture.begin_reply()
            request = GetTableRequest(dbName=db, tblName=name, capabilities=CAPABILITIES)
            self.client.send_get_table_req(request)
            with suppress(NoSuchObjectException):
                found += self.slicer.read(result, NAME_ONLY, wrapped=True)
        return found

    def partitions(self, db: str, table: str, names: list[str]) -> dict[str, bytes]:
        self.capture.reply_bytes_max = OBJECTS_REPLY_BYTES_MAX
        wanted = set(names)
        found = self._partitions_by_names(db, table, names)
        if found.keys() <= wanted:
            return found
        # one was renamed while it was read, or this metastore escapes names in another way
        several = {name: struct for name, struct in found.items() if name in wanted}
        for name in wanted - several.keys():
            self.capture.begin_reply()
            # not get_partition_by_name: it returns the values in the name, not those of the object
            for struct in self._partitions_by_names(db, table, [name]).values():
                several[name] = struct
        return several

    def _partitions_by_names(self, db: str, table: str, names: list[str]) -> dict[str, bytes]:
        """Read partitions by one call; the names are those that their values make."""
        self.client.send_get_partitions_by_names(db, table, names)
        slices = self.slicer.read(ThriftHiveMetastore.get_partitions_by_names_result, VALUES_ONLY)
        keys = partition_keys(names[0])
        return {partition_name(keys, values): struct for values, struct in slices}


def _user() -> str | None:
    """Return the user's name; None for a container's user without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def _demand_unknown_method(refusal: TApplicationException) -> None:
    if refusal.type != TApplicationException.UNKNOWN_METHOD:
        raise refusal


def _begin_result(protocol: Any) -> None:
    """Read up to the result of a call; raise what the server answers instead of one."""
    _, kind, _ = protocol.readMessageBegin()
    if kind == TMessageType.EXCEPTION:
        refusal = TApplicationException()
        refusal.read(protocol)
        raise refusal


def _catalog_of(event: Any) -> str:
    return getattr(event, "catName", None) or ""  # 2.3 has no catalogs


def _raw(event: Any, *, followed: str) -> RawEvent:
    catalog = _catalog_of(event)
    return RawEvent(
        id=event.eventId,
        type=event.eventType or "",
        db=event.dbName or "",
        table=event.tableName or "",
        message=event.message or "",
        message_format=event.messageFormat or "",
        catalog="" if catalog == followed else catalog,
        at_s=event.eventTime or 0,
    )


def _is_hangup(exc: Exception) -> bool:
    return isinstance(exc, EOFError | ConnectionError | TTransportException)


def _reason(exc: BaseException) -> str:
    if isinstance(exc, TimeoutError):
        return "timed out"
    text = getattr(exc, "message", None) or str(exc) or type(exc).__name__
    return str(text).strip().splitlines()[0]


class Capture(TTransportBase, CReadableTransport):  # type: ignore[misc]  # thrift is untyped
    """A socket as a Thrift transport, which records every byte since ``begin_reply``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> None:
        """Connect; ``timeout_s`` limits each wait for bytes, and may be changed.

        Raises:
            OSError: nobody listens there, or not within CONNECT_S_MAX; or ``tls`` does not trust
                the server, or the server has none; or it does not accept ``login``.
        """
        self.timeout_s = timeout_s
        self.reply_bytes_max = REPLY_BYTES_MAX  # of the next replies
        self._received: Callable[[], None] = lambda: None
        self._waiting: Callable[[], None] = lambda: None
        self._socket = socket.create_connection((host, port), min(timeout_s, CONNECT_S_MAX))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if tls is not None:
            self._socket = _encrypted(self._socket, host, tls)
        self._request: list[bytes] = []
        self._frames: Frames | None = None
        self._has_answered = False
        self.begin_reply()
        if login is not None:
            self._log_in(login, host)

    def watch(self, *, received: Callable[[], None], waiting: Callable[[], None]) -> None:
        """Call ``received`` at each arrival; ``waiting`` every SLICE_S without: it may raise."""
        self._received, self._waiting = received, waiting

    def begin_reply(self) -> None:
        """Discard the recording; the next byte read has position 0."""
        self._chunks: list[bytes] = []
        self.received_bytes = 0
        self._buffer = BytesIO()
        self._buffer_at = 0

    def position(self) -> int:
        """Return how many bytes of the reply have been read."""
        return self._buffer_at + self._buffer.tell()

    def recorded(self) -> bytes:
        """Return every byte received since ``begin_reply``."""
        self._chunks = [b"".join(self._chunks)]
        return self._chunks[0]

    def write(self, buf: bytes) -> None:
        """Add to the request; nothing leaves before ``flush``."""
        self._request.append(bytes(buf))

    def flush(self) -> None:
        """Send the request."""
        request, self._request = b"".join(self._request), []
        self._socket.settimeout(self.timeout_s)
        self._socket.sendall(request if self._frames is None else self._frames.sent(request))

    def read(self, sz: int) -> bytes:
        """Return at least one byte and at most ``sz``."""
        return self._buffer.read(sz) or self.cstringio_refill(b"", 1).read(sz)

    @property
    def cstringio_buf(self) -> BytesIO:
        """The buffer that the C decoder reads from, by Thrift's contract."""
        return self._buffer

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> BytesIO:
        """Return a buffer that starts with ``partialread`` and holds ``reqlen`` bytes or more."""
        parts, held = [partialread], len(partialread)
        while held < reqlen:
            chunk = self._receive()
            if not chunk:
                raise EOFError(self._closed())
            self.received_bytes += len(chunk)
            if self.received_bytes > self.reply_bytes_max:
                raise _ReplyTooLong(f"reply of more than {self.reply_bytes_max} bytes")
            self._chunks.append(chunk)
            parts.append(chunk)
            held += len(chunk)
        self._buffer = BytesIO(b"".join(parts))
        self._buffer_at = self.received_bytes - held
        return self._buffer

    def _closed(self) -> str:
        if self._has_answered:
            return "the metastore closed the connection"
        return "it closed the connection unanswered: does it demand TLS or hive_metastore_auth?"

    def _receive(self) -> bytes:
        ends_at = time.monotonic() + self.timeout_s
        while True:
            self._socket.settimeout(max(min(SLICE_S, ends_at - time.monotonic()), SLICE_S_MIN))
            try:
                chunk = self._socket.recv(RECV_BYTES)
            except TimeoutError:
                if time.monotonic() >= ends_at:
                    raise
                self._waiting()
                continue
            self._received()
            self._has_answered = self._has_answered or bool(chunk)
            content = chunk if self._frames is None else self._frames.received(chunk)
            if content or not chunk:
                return content
            ends_at = time.monotonic() + self.timeout_s

    def _log_in(self, login: Login, host: str) -> None:
        """Authenticate the client; each wait for the server is as short as for a connection."""
        self._socket.settimeout(min(self.timeout_s, CONNECT_S_MAX))
        steps = negotiation(login, host)
        try:
            step = next(steps)
            while True:
                if isinstance(step, int):
                    step = steps.send(self._exactly(step))
                else:
                    self._socket.sendall(step)
                    step = next(steps)
        except StopIteration as end:
            self._frames = Frames(end.value, frame_bytes_max=REPLY_BYTES_MAX)
        except TimeoutError as exc:
            self.close()
            text = f"no answer to {login.mechanism}: is its hive.metastore.sasl.enabled set?"
            raise ConnectionRefusedError(text) from exc
        except OSError:
            self.close()
            raise

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            chunk = self._socket.recv(count - len(found))
            if not chunk:
                raise ConnectionRefusedError("it closed the connection during the login")
            found += chunk
        return found

    def close(self) -> None:
        """Close the socket; a thread that waits for a reply gets its end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _encrypted(plain: socket.socket, host: str, tls: ssl.SSLContext) -> ssl.SSLSocket:
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except OSError as exc:
        plain.close()
        if isinstance(exc, ssl.SSLCertVerificationError):
            why = f"its certificate is not accepted: {exc.verify_message}"
        else:
            why = f"no TLS there ({exc}): is hive.metastore.use.SSL set at it?"
        raise ConnectionRefusedError(why) from exc


def accelerated(transport: Capture) -> Any:
    """Return the binary protocol in C over ``transport``.

    Raises:
        ConfigError: the installed ``thrift`` has no C accelerator.
    """
    try:
        return TBinaryProtocolAccelerated(
            transport,
            string_length_limit=STRING_BYTES_MAX,
            container_length_limit=ITEMS_MAX,
            fallback=False,
        )
    except ImportError as exc:
        raise ConfigError(
            "thrift", "without its C accelerator", "install a binary wheel of thrift"
        ) from exc


class Slicer:
    """Reads replies that hold structs; returns each as (the fields that name it, its bytes)."""

    def __init__(self, protocol: Any) -> None:
        """Work on ``protocol``, which comes from ``accelerated``."""
        capture: Capture = protocol.trans

        class Start:
            """Stands for a struct; the decoder makes it just before it reads the first field."""

            __slots__ = ("at", "naming")

            def __init__(self) -> None:
                self.at = capture.position()
                self.naming: Any = None

        class Holder:
            """Holds structs; the decoder sets ``held`` just after it has read the last of them."""

            end = 0
            structs: Any = None

            @property
            def held(self) -> Any:
                return self.structs

            @held.setter
            def held(self, structs: Any) -> None:
                self.structs, self.end = structs, capture.position()

        self._protocol, self._capture = protocol, capture
        self._start, self._holder = Start, Holder

    def read(self, result: Any, naming: Spec, *, wrapped: bool = False) -> list[tuple[Any, bytes]]:
        """Read the reply to the request that was sent last.

        Args:
            result: hmsclient's generated ``*_result`` class; its exceptions are raised.
            naming: What to decode of each struct: ``NAME_ONLY`` or ``VALUES_ONLY``.
            wrapped: The structs are not the result itself, but field 1 of a struct that is.

        Raises:
            TException: what the server declared.
        """
        _begin_result(self._protocol)
        success, *declared = result.thrift_spec
        marked = self._wrapping(success, naming) if wrapped else self._marking(success, naming)
        holder = self._holder()
        self._protocol._fast_decode(holder, self._protocol, [self._holder, (marked, *declared)])
        for field in vars(holder).values():
            if isinstance(field, Exception):
                raise field
        if wrapped and holder.held is not None:
            holder = holder.held
        if holder.held is None:
            raise TApplicationException(TApplicationException.MISSING_RESULT, "no result")
        return self._slices(holder.held, holder.end)

    def _wrapping(self, field: Spec, naming: Spec) -> Spec:
        """Return the spec of a struct whose first field holds what is to be marked."""
        number, kind, _, (wrapper, _), default = field
        inner = (None, self._marking(wrapper.thrift_spec[1], naming))
        return (number, kind, "held", [self._holder, inner], default)

    def _marking(self, field: Spec, naming: Spec) -> Spec:
        """Return the spec of ``field`` with our marks in the place of its structs."""
        number, kind, _, _, default = field
        mark = [self._start, naming]
        if kind == TType.LIST:
            return (number, kind, "held", (TType.STRUCT, mark, False), default)
        return (number, kind, "held", mark, default)

    def _slices(self, held: Any, end: int) -> list[tuple[Any, bytes]]:
        starts = held if isinstance(held, list) else [held]
        ends = [*(start.at for start in starts[1:]), end]
        reply = self._capture.recorded()
        return [(s.naming, reply[s.at : stop]) for s, stop in zip(starts, ends, strict=False)]
