"""A metastore in virtual time: concurrent writers, a history of every table, events as Hive's.

Each mutation has a revision of its own that stands in the object, so that whatever a reader is
answered can be found in the history. Two events may have one id, as on Hive 2.3, and writers act
between the calls of one read.
"""

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from topicast.catalog.metastore.port import RawEvent
from topicast.topics.errors import ObjectGone, SourceError, SourceRefused
from topicast.topics.objects.names import partition_values

State = tuple[int, tuple[tuple[str, int], ...]] | None  # revision, its partitions' revisions
TableId = tuple[str, str]
DBS = ("a", "b")
NAMES = ("t", "u", "v")
PARTS = tuple(f"ds={n}" for n in range(6))


def _text(number: int, text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">bhi", 11, number, len(raw)) + raw


def _moments(number: int, **moments: int) -> bytes:
    texts = [text for name, moment in moments.items() for text in (name, str(moment))]
    pairs = b"".join(struct.pack(">i", len(text)) + text.encode() for text in texts)
    return struct.pack(">bhbbi", 13, number, 11, 11, len(moments)) + pairs


def _sd(number: int, location: str) -> bytes:
    return struct.pack(">bh", 12, number) + _text(2, location) + b"\0"


def table_bytes(db: str, name: str, table: "SimTable") -> bytes:
    keys = b""
    if table.partitioned:
        keys = struct.pack(">bhbi", 15, 8, 12, 1) + _text(1, "ds") + _text(2, "string") + b"\0"
    head = _text(1, name) + _text(2, db) + struct.pack(">bhi", 8, 4, table.born)
    head += _sd(7, f"/{db}/{name}/{table.shape}")
    moments = _moments(9, rev=table.rev, born=table.born)
    if table.life:
        moments = _moments(9, rev=table.rev, born=table.born, life=table.life)
    return head + keys + moments + _text(12, "MANAGED_TABLE") + b"\0"


def partition_bytes(db: str, table: str, name: str, rev: int) -> bytes:
    (value,) = partition_values(name)
    values = struct.pack(">bhbi", 15, 1, 11, 1) + struct.pack(">i", len(value)) + value.encode()
    head = values + _text(2, db) + _text(3, table) + _sd(6, f"/{db}/{table}/{name}")
    return head + _moments(7, rev=rev) + b"\0"


@dataclass(slots=True)
class SimTable:
    """A table; ``born``: the moment at which its name became it.

    ``life``: of the metastore that it is in.
    """

    rev: int
    partitioned: bool
    shape: int
    born: int
    parts: dict[str, int] = field(default_factory=dict)
    life: int = 0

    def state(self) -> State:
        """Return what readers may see of it."""
        return self.rev, tuple(sorted(self.parts.items()))


@dataclass(frozen=True, slots=True)
class Copy:
    """What a copy of the metastore's database holds."""

    dbs: dict[str, None]
    tables: dict[TableId, SimTable]
    events: list[RawEvent]
    last_id: int


class SimMetastore:
    """The state, its history and its log; the port's calls may be raced and may fail."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.moment = 0
        self.last_id = 0
        self.dbs: dict[str, None] = {}
        self.held: dict[TableId, SimTable] = {}  # the tables that exist
        self.history: dict[TableId, list[tuple[int, State]]] = {
            (db, name): [(0, None)] for db in DBS for name in NAMES
        }
        self.databases_history: dict[TableId, list[tuple[int, State]]] = {
            (db, ""): [(0, None)] for db in DBS
        }
        self.events: list[RawEvent] = []
        self.counts: Counter[str] = Counter()
        self.away = False
        self.unsendable: set[int] = set()  # ids of events at which it fails
        self.unreadable: set[tuple[TableId, str]] = set()  # partitions at which it fails
        self.connections = 1
        self.known_as = ""  # its UUID
        self.logs = True  # whether it records events
        self.tells = False  # whether its events have all of an object, and it says so
        self.says = False  # whether it answers when it is asked for that
        self.life = 0  # grows whenever another metastore takes its place
        self._copy: Copy | None = None
        self.race: Callable[[], None] = lambda: None

    # -- what operators do

    def save(self) -> None:
        """Keep a copy of its database."""
        tables = {
            name: replace(table, parts=dict(table.parts)) for name, table in self.held.items()
        }
        self._copy = Copy(dict(self.dbs), tables, list(self.events), self.last_id)

    def restore(self) -> None:
        """Put the copy back, if there is a copy: what was done since is undone."""
        copy, self._copy = self._copy, None
        if copy is None:
            return
        self._step("put back")
        self.connections += 1
        self._hold(copy.dbs, copy.tables)
        self.events, self.last_id = copy.events, copy.last_id

    def replace(self, last_id: int, tables: Iterable[TableId], *, known_as: str = "") -> None:
        """Let another metastore be here, with these tables and as many events as ids."""
        self._copy = None
        self.unsendable.clear()
        self._step("replace")
        self.connections += 1
        self.life += 1
        self.known_as = known_as
        new = SimTable(self.moment, False, self.moment, self.moment)
        self._hold(dict.fromkeys(DBS), {name: replace(new) for name in tables})
        self.events, self.last_id = [], 0
        while self.last_id < last_id:
            self._log("CREATE_DATABASE", DBS[0])

    def clean_log(self) -> None:
        """Discard every event, as it does with those of yesterday, and all connections."""
        self.events.clear()
        self.connections += 1

    def lose_newest(self) -> None:
        """Discard the newest event: its id is given, and nothing tells what it was."""
        self.events.pop()

    def _hold(self, dbs: dict[str, None], tables: dict[TableId, "SimTable"]) -> None:
        for db in DBS:
            self.databases_history[db, ""].append((self.moment, (0, ()) if db in dbs else None))
        self.dbs = dbs
        for db, name in self.history:
            self._set(db, name, tables.get((db, name)))

    # -- what writers do

    def random_write(self) -> None:
        """Do one operation that applies."""
        db, name = self.rng.choice(DBS), self.rng.choice(NAMES)
        table = self.held.get((db, name))
        if db not in self.dbs:
            self.set_database(db, True)
        elif table is None:
            self._create(db, name)
        else:
            kinds = [self.alter, self.set_parameter, self.drop, self._recreate, self._rename]
            weights = [1, 2, 1, 1, 1]
            if table.partitioned:
                kinds += [self._add, self._change, self._remove]
                weights += [4, 3, 2]
            if self.rng.random() < 0.03:
                self._cascade(db)
            else:
                self.rng.choices(kinds, weights)[0](db, name)

    def set_database(self, db: str, exists: bool) -> None:
        self._step("create database" if exists else "drop database")
        self.databases_history[db, ""].append((self.moment, (0, ()) if exists else None))
        if exists:
            self.dbs[db] = None
        else:
            self.dbs.pop(db)
        self._log("CREATE_DATABASE" if exists else "DROP_DATABASE", db)

    def _create(self, db: str, name: str) -> None:
        partitioned = self.rng.random() < 0.75
        parts = tuple(p for p in PARTS if partitioned and self.rng.random() < 0.3)
        self.create(db, name, parts if partitioned else None)

    def create(self, db: str, name: str, parts: tuple[str, ...] | None) -> None:
        """Create a table; ``parts`` None: it has no partition columns."""
        self._step("create")
        table = SimTable(self.moment, parts is not None, self.moment, self.moment)
        table.parts = dict.fromkeys(parts or (), self.moment)
        self._set(db, name, table)
        self._log("CREATE_TABLE", db, name)
        if table.parts:
            self._log_parts("ADD_PARTITION", (db, name), tuple(table.parts))

    def alter(self, db: str, name: str) -> None:
        self._step("alter cascade")
        table = self.held[db, name]
        before = self._json(db, name, table)
        table.rev = table.shape = self.moment
        table.parts = dict.fromkeys(table.parts, self.moment)
        self._set(db, name, table)
        self._log_alter(db, name, before, self._json(db, name, table))

    def set_parameter(self, db: str, name: str) -> None:
        self._step("set parameter")
        table = self.held[db, name]
        before = self._json(db, name, table)
        table.rev = self.moment
        self._set(db, name, table)
        self._log_alter(db, name, before, self._json(db, name, table))

    def drop(self, db: str, name: str) -> None:
        self._step("drop")
        self._set(db, name, None)
        self._log("DROP_TABLE", db, name)

    def _recreate(self, db: str, name: str) -> None:
        self.drop(db, name)
        self._create(db, name)

    def _rename(self, db: str, name: str) -> None:
        free = [t for t in self.history if t not in self.held and t[0] in self.dbs]
        if free:
            self.rename(db, name, self.rng.choice(free))

    def rename(self, db: str, name: str, target: TableId) -> None:
        """Give a table another name."""
        self._step("rename")
        table = self.held[db, name]
        before = self._json(db, name, table)
        moved = SimTable(self.moment, table.partitioned, self.moment, self.moment)
        moved.parts = dict.fromkeys(table.parts, self.moment)
        self._set(db, name, None)
        self._set(*target, moved)
        self._log_alter(*target, before, self._json(*target, moved))

    def _add(self, db: str, name: str) -> None:
        table = self.held[db, name]
        new = [p for p in PARTS if p not in table.parts][: self.rng.randint(1, 3)]
        if new:
            self.set_partitions(
                "add partitions", (db, name), dict.fromkeys(new, 1), "ADD_PARTITION"
            )

    def _change(self, db: str, name: str) -> None:
        table = self.held[db, name]
        for part in list(table.parts)[: self.rng.randint(1, 2)]:
            self.set_partitions("alter partition", (db, name), {part: 1}, "ALTER_PARTITION")

    def _remove(self, db: str, name: str) -> None:
        table = self.held[db, name]
        if table.parts:
            part = self.rng.choice(sorted(table.parts))
            self.set_partitions("drop partition", (db, name), {part: 0}, "DROP_PARTITION")

    def _cascade(self, db: str) -> None:
        self.counts["cascade"] += 1
        for table in [t for t in self.held if t[0] == db]:
            self.drop(*table)
        self.set_database(db, False)

    def set_partitions(self, kind: str, id_: TableId, changes: dict[str, int], event: str) -> None:
        self._step(kind)
        table = self.held[id_]
        before = dict(table.parts)
        for part, keep in changes.items():
            if keep:
                table.parts[part] = self.moment
            else:
                table.parts.pop(part)
        self._set(*id_, table)
        self._log_parts(event, id_, tuple(changes), before=before)

    def _step(self, kind: str) -> None:
        self.moment += 1
        self.counts[kind] += 1

    def _set(self, db: str, name: str, table: SimTable | None) -> None:
        if table is None:
            self.held.pop((db, name), None)
        else:
            table.life = self.life
            self.held[db, name] = table
        self.history[db, name].append((self.moment, table.state() if table else None))

    # -- the log

    def _json(self, db: str, name: str, table: SimTable) -> str:
        keys = ["rec", 1, {"1": {"str": "ds"}, "2": {"str": "string"}}]
        found = {
            "1": {"str": name},
            "2": {"str": db},
            "7": {"rec": {"2": {"str": str(table.shape)}}},
        }
        if table.partitioned:
            found["8"] = {"lst": keys}
        if self.tells:
            moments = {"rev": str(table.rev), "born": str(table.born)}
            if table.life:
                moments["life"] = str(table.life)
            found["4"] = {"i32": table.born}
            found["7"] = {"rec": {"2": {"str": f"/{db}/{name}/{table.shape}"}}}
            found["9"] = {"map": ["str", "str", len(moments), moments]}
            found["12"] = {"str": "MANAGED_TABLE"}
        return json.dumps(found)

    def _partition_json(self, id_: TableId, part: str, rev: int) -> str:
        (value,) = partition_values(part)
        found: dict[str, object] = {"1": {"lst": ["str", 1, value]}}
        if self.tells:
            where = "/".join(("", *id_, part))
            found |= {"2": {"str": id_[0]}, "3": {"str": id_[1]}}
            found["6"] = {"rec": {"2": {"str": where}}}
            found["7"] = {"map": ["str", "str", 1, {"rev": str(rev)}]}
        return json.dumps(found)

    def _log_alter(self, db: str, name: str, before: str, after: str) -> None:
        body = {"tableObjBeforeJson": before, "tableObjAfterJson": after, "isTruncateOp": "false"}
        self._log("ALTER_TABLE", db, name, **body)

    def _log_parts(
        self, event: str, id_: TableId, parts: tuple[str, ...], *, before: Mapping[str, int] = {}
    ) -> None:
        held = self.held[id_]
        table = self._json(*id_, held)
        named = {part: {"ds": partition_values(part)[0]} for part in parts}
        if event != "ALTER_PARTITION":
            body: dict[str, object] = {"tableObjJson": table, "partitions": list(named.values())}
            if event == "ADD_PARTITION" and self.tells:
                new = [self._partition_json(id_, part, held.parts[part]) for part in parts]
                body["partitionListJson"] = new
            self._log(event, *id_, **body)
            return
        for part, one in named.items():
            self._log(
                event,
                *id_,
                tableObjJson=table,
                keyValues=one,
                partitionObjBeforeJson=self._partition_json(id_, part, before[part]),
                partitionObjAfterJson=self._partition_json(id_, part, held.parts[part]),
            )

    def _log(self, type_: str, db: str, name: str = "", **body: object) -> None:
        if not self.logs:
            return
        if not self.last_id or self.rng.random() >= 0.15:  # else two writers got one id
            self.last_id += 1
        message = json.dumps({"db": db, "table": name, "moment": self.moment, **body})
        self.events.append(
            RawEvent(
                id=self.last_id,
                type=type_,
                db=db,
                table=name,
                message=message,
                message_format="json-0.2",
            )
        )

    # -- the port

    def uuid(self) -> str:
        self._begin_call()
        return self.known_as

    def release(self) -> str:
        return ""

    def tells_all(self) -> bool:
        return self.tells

    def current_event_id(self) -> int:
        self._begin_call()
        return self.last_id

    def records_events(self) -> bool | None:
        return self.logs if self.says else None

    def events_after(self, event_id: int, *, events_max: int) -> tuple[RawEvent, ...]:
        self._begin_call()
        found = tuple(e for e in self.events if e.id > event_id)[:events_max]
        if any(event.id in self.unsendable for event in found):
            raise SourceRefused("internal error")
        return found

    def databases(self) -> tuple[str, ...]:
        self._begin_call()
        return tuple(sorted(self.dbs))

    def database(self, name: str) -> bytes:
        self._begin_call()
        if name not in self.dbs:
            raise ObjectGone(name)
        return _text(1, name) + b"\0"

    def table_names(self, db: str) -> tuple[tuple[str, str], ...]:
        self._begin_call()
        return tuple((name, "MANAGED_TABLE") for d, name in sorted(self.held) if d == db)

    def names(self, db: str) -> tuple[str, ...]:
        return tuple(name for name, _ in self.table_names(db))

    def tables(self, db: str, names: Sequence[str]) -> dict[str, bytes]:
        self._begin_call()
        found = {name: self.held.get((db, name)) for name in names}
        return {name: table_bytes(db, name, t) for name, t in found.items() if t is not None}

    def partition_names(self, db: str, table: str) -> tuple[str, ...]:
        self._begin_call()
        return tuple(sorted(self._demand(db, table).parts))

    def all_partitions(
        self, db: str, table: str, keys: Sequence[str], *, partitions_max: int
    ) -> tuple[tuple[str, ...], dict[str, bytes] | None]:
        """Answer at once, or read the names first, as of a server that refuses such a call."""
        if self.rng.random() < 0.5:
            names = self.partition_names(db, table)
            few = len(names) <= partitions_max
            return names, self.partitions(db, table, names) if few else None
        self._begin_call()
        names = tuple(sorted(self._demand(db, table).parts))
        few = len(names) <= partitions_max
        return names, self._structs(db, table, names) if few else None

    def partitions(self, db: str, table: str, names: Sequence[str]) -> dict[str, bytes]:
        self._begin_call()
        return self._structs(db, table, names)

    def _structs(self, db: str, table: str, names: Sequence[str]) -> dict[str, bytes]:
        parts = self._demand(db, table).parts
        if any(((db, table), name) in self.unreadable and name in parts for name in names):
            raise SourceRefused("no such serde")
        return {n: partition_bytes(db, table, n, parts[n]) for n in names if n in parts}

    def close(self) -> None:
        """Nothing is open."""

    def _demand(self, db: str, table: str) -> SimTable:
        found = self.held.get((db, table))
        if found is None:
            raise ObjectGone(f"{db}.{table}")
        return found

    def _begin_call(self) -> None:
        """Let writers race a call, and fail it while the metastore is away."""
        self.race()
        if self.away:
            raise SourceError("away")
