"""HmsConnection: one open connection to a metastore, and the calls that its server has.

address ──▶ introduced ──▶ HmsConnection ──client──▶ decoded answers
                                ├──slicer──▶ structs as bytes
                                └──watch──▶ probes of the address, while an answer is late
"""

import getpass
import logging
import time
from contextlib import suppress
from typing import Any, Final

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
    UnknownDBException,
)
from thrift.Thrift import TApplicationException, TMessageType, TType

from ...topics.objects.encoding.thrift import fields, read_text
from ...topics.objects.names import partition_keys, partition_name
from .addresses import MetastoreAddress
from .capture import Capture
from .port import RawEvent
from .slicer import NAME_ONLY, VALUES_ONLY, Slicer, accelerated, begin_result

CAPABILITIES: Final = ClientCapabilities(values=[2])  # Hive 3: insert-only tables, or a batch fails
ANSWER_S_MAX: Final = 2.0  # for what costs a server nothing: the introduction, a probe
LONG_REPLY_BYTES: Final = 16 << 20  # about objects: the next request is for fewer
OBJECTS_REPLY_BYTES_MAX: Final = 32 << 20  # about several objects, which are then read in parts
OBJECT_REPLY_BYTES_MAX: Final = 128 << 20  # about one object: a struct may take 100 MB
CATALOG_DEFAULT: Final = "hive"  # of a server that does not say
DB_CATALOG: Final = 8  # its field in the Thrift struct of a database
EVENT: Final = (*NotificationEvent.thrift_spec, (8, TType.STRING, "catName", "UTF8", None))
EVENTS: Final = (
    None,
    (1, TType.LIST, "events", (TType.STRUCT, [NotificationEvent, EVENT], False), None),
)
EVENTS_RESULT: Final = ((0, TType.STRUCT, "success", [NotificationEventResponse, EVENTS], None),)
log = logging.getLogger(__name__)


def introduced(address: MetastoreAddress, answer_s: float) -> "HmsConnection":
    """Return a connection to ``address`` that has named its user, if the server accepts that."""
    connection = HmsConnection(address, timeout_s=answer_s)
    try:
        connection.introduce()
    except OSError:
        connection.capture.close()
        raise
    except Exception as exc:  # noqa: BLE001  reads work without set_ugi, whatever its error
        log.info("metastore refuses set_ugi: address=%s reason=%s", address, exc)
        connection.capture.close()
        connection = HmsConnection(address, timeout_s=answer_s)
    address.answered_at = time.monotonic()
    connection.begin_watch()
    return connection


def _probe(address: MetastoreAddress) -> None:
    """Make a call that every server answers at once.

    Raises:
        OSError: ``address`` does not answer.
    """
    connection = HmsConnection(address, timeout_s=ANSWER_S_MAX)
    try:
        connection.client.getStatus()
    except OSError:
        raise
    except Exception as exc:  # noqa: BLE001  any answer will do
        log.debug("metastore refuses getStatus: address=%s reason=%s", address, exc)
    finally:
        connection.capture.close()


class HmsConnection:
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
        self._lists_types = True
        self.refuses_all = False  # a call for all partitions of a table, for its limit of a request
        self._table_readers = [self._tables_by_request, self._tables_by_name, self._table_by_table]

    @property
    def is_outlived(self) -> bool:
        """Whether the address has been found dead since this connection was made."""
        return self.address.deaths != self._born

    @property
    def reply_was_short(self) -> bool:
        """Whether a reply about twice as many objects as the last is not long, as a rule."""
        return self.capture.received_bytes < LONG_REPLY_BYTES // 4

    @property
    def reply_was_long(self) -> bool:
        """Whether the next request is to be for fewer objects than the last."""
        return self.capture.received_bytes > LONG_REPLY_BYTES

    def begin_watch(self) -> None:
        """From now on, end a wait when the address is found dead."""

        def note() -> None:
            self.address.answered_at = time.monotonic()

        def check() -> None:
            self.address.check_alive(self._born, lambda: _probe(self.address))

        self.capture.watch(received=note, waiting=check)

    def introduce(self) -> None:
        """Send the user's name to a server that asks for no proof, as Hive's own client does."""
        user = user_name()
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
        begin_result(protocol)
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
        begin_result(self._protocol)
        reply = ThriftHiveMetastore.get_next_notification_result()
        self._protocol._fast_decode(reply, self._protocol, [type(reply), EVENTS_RESULT])
        if reply.success is None:
            raise TApplicationException(TApplicationException.MISSING_RESULT, "no result")
        events = reply.success.events or ()
        followed = self._followed() if any(map(_catalog_of, events)) else ""
        return tuple(_raw(event, followed=followed) for event in events)

    def _followed(self) -> str:
        """Return the catalog that a call means if it names none: that of the default database."""
        if not self._catalog:
            self.capture.begin_reply()
            found: list[str] = []
            with suppress(NoSuchObjectException):
                struct = self.database("default")
                found = [read_text(struct, one) for one in fields(struct) if one.id == DB_CATALOG]
            self._catalog = found[0] if found else CATALOG_DEFAULT
        return self._catalog

    def database(self, name: str) -> bytes:
        """Read the struct of a database."""
        self.client.send_get_database(name)
        ((_, struct),) = self.slicer.read(ThriftHiveMetastore.get_database_result, NAME_ONLY)
        return struct

    def names_of_type(self, db: str, kind: str) -> tuple[str, ...]:
        """Read the names of tables of one type; nothing if the server has no such call."""
        if not self._lists_types:
            return ()
        try:
            return tuple(self.client.get_tables_by_type(db, "*", kind))
        except TApplicationException as exc:
            _demand_unknown_method(exc)
            self._lists_types = False
            return ()

    def tables(self, db: str, names: list[str]) -> dict[str, bytes]:
        """Read tables by the first way that this server has."""
        self._limit_reply(len(names))
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
        """Read partitions by their names; those that are gone are missing."""
        wanted = set(names)
        found = self._partitions_by_names(db, table, names)
        if found.keys() <= wanted:
            return found
        # a partition was renamed while it was read, or this metastore escapes names in another way
        several = {name: struct for name, struct in found.items() if name in wanted}
        for name in wanted - several.keys():
            self.capture.begin_reply()
            # not get_partition_by_name: it returns the values in the name, not those of the object
            for struct in self._partitions_by_names(db, table, [name]).values():
                several[name] = struct
        return several

    def first_partitions(
        self, db: str, table: str, *, partitions_max: int
    ) -> list[tuple[list[str], bytes]]:
        """Read so many partitions; return each with its values."""
        self._limit_reply(partitions_max)
        self.client.send_get_partitions(db, table, partitions_max)
        return self.slicer.read(ThriftHiveMetastore.get_partitions_result, VALUES_ONLY)

    def _partitions_by_names(self, db: str, table: str, names: list[str]) -> dict[str, bytes]:
        """Read partitions by one call; the names are those that their values make."""
        self._limit_reply(len(names))
        self.client.send_get_partitions_by_names(db, table, names)
        slices = self.slicer.read(ThriftHiveMetastore.get_partitions_by_names_result, VALUES_ONLY)
        keys = partition_keys(names[0])
        return {partition_name(keys, values): struct for values, struct in slices}

    def _limit_reply(self, count: int) -> None:
        """Limit the next reply, which is about ``count`` objects; one cannot be read in parts."""
        limit = OBJECT_REPLY_BYTES_MAX if count == 1 else OBJECTS_REPLY_BYTES_MAX
        self.capture.reply_bytes_max = limit


def user_name() -> str | None:
    """Return the name of the process's user; None if the system knows no name for its id."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def _demand_unknown_method(refusal: TApplicationException) -> None:
    if refusal.type != TApplicationException.UNKNOWN_METHOD:
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
