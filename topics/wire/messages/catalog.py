"""The catalog service: pulls, scans, syncs, claims, and clients' keys and leases."""

from dataclasses import dataclass
from typing import Final

from ...objects.selector import Selector
from ...topic import Entry
from .fields import U16, U64, Content, Key, Message, Registration

USED_MAX: Final = 1000  # tables that a Used names: 40 KB


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Message):
    """A reader to catalogd, on a new start: does what it holds belong to the lineage?"""

    request: U64
    epoch: U64
    start: U64
    versions: tuple[tuple[U16, U64], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(Message):
    """The answer to Compare: accepted, or ahead (a new epoch was minted)."""

    request: U64
    accepted: bool
    epoch: U64
    start: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claim about a table: nothing of it has changed after ``version`` of its topic.

    ``whole``: of the table with its partitions, else of the table's own entry.
    """

    db: str
    table: str
    version: U64
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull(Message):
    """Request a table (and blocks) of catalogd. ``held``: (block key, version) pairs held.

    ``names_only``: the names of the selected partitions without their content.
    ``bytes_max``: about how long the answer may be; 0: catalogd's own limit.
    ``after``: the cursor of the answer to be continued. ``version`` not 0: only if nothing of the
    table has changed since this version of its topic, in ``epoch``. ``claims``: made in ``epoch``,
    about tables of the topic, and judged with the answer.
    """

    request: U64
    db: str
    table: str
    selector: Selector
    credit: U64
    held: tuple[tuple[Key, U64], ...] = ()
    names_only: bool = False
    bytes_max: U64 = 0
    after: Key = b""
    epoch: U64 = 0
    version: U64 = 0
    claims: tuple[Claimed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled(Message):
    """A part of the answer to Pull; all parts are of one topic version.

    ``found`` false: no such table, as of ``namespace_version``. ``gone``: keys of those held
    that exist no more, or are stale and not selected; keys that are neither here nor in
    ``entries`` are current. ``names``: where only names were requested, packed, see
    topics/objects/encoding/values.py. ``cursor``: of the last part, from where to continue; empty:
    nothing is left. ``moved``: the table has changed since the requested version. ``stale``: the
    indexes of the claims that are not true at ``topic_version``. Adjacent entries of one key are
    pieces of one value, whose length is the ``size`` of each.
    """

    request: U64
    sequence: U64
    last: bool
    found: bool
    epoch: U64
    start: U64
    topic: U16
    topic_version: U64
    namespace_version: U64
    incarnation: U64
    gone: tuple[Key, ...]
    entries: tuple[Entry, ...]
    names: Content = b""
    cursor: Key = b""
    moved: bool = False
    stale: tuple[U64, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(Message):
    """Request a page of the entries of ``topic`` as of ``version`` in ``epoch``, sorted by key.

    The page begins behind the key ``after``, or inside of the value of the key behind it: at
    ``offset``, if that is not 0. It ends before the key ``until``; empty: at the topic's end.
    """

    request: U64
    epoch: U64
    topic: U16
    version: U64
    after: Key = b""
    offset: U64 = 0
    until: Key = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned(Message):
    """The answer to Scan: values; keys without a value are left out, as if they were not there.

    The next page begins at ``after`` and ``offset``; empty and 0: nothing is left. An entry whose
    ``size`` is above that of its value is a piece, and the only entry.
    """

    request: U64
    entries: tuple[Entry, ...]
    after: Key
    offset: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Message):
    """Request which of these claims, made in ``epoch``, are no longer true."""

    request: U64
    epoch: U64
    claims: tuple[Claimed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated(Message):
    """The answer to Validate: indexes of stale claims with versions, as of one moment.

    A claim of that version, made in ``epoch``, would be true; 0: there is none that would be.
    """

    request: U64
    epoch: U64
    start: U64
    stale: tuple[tuple[U64, U64], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Message):
    """Request that catalogd finish what HMS had committed when this arrived.

    ``scope``: of one table (db.table) or database; empty: of everything.
    """

    request: U64
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced(Message):
    """The answer to Sync: reach these versions (by topic_ids) and it is visible."""

    request: U64
    epoch: U64
    start: U64
    event_id: U64
    versions: tuple[U64, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(Message):
    """A client to catalogd: admit the key ``public`` of a process of the client, to read only."""

    request: U64
    public: str
    lease_s: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Message):
    """The answer to Grant: the key is admitted for so long, and renewed by the same Grant."""

    request: U64
    lease_s: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(Message):
    """A client to catalogd: let nobody else change the table for ``lease_s``; 0 ends the lease.

    ``holder``: drawn by the client anew each time that it begins. ``owner``: its name for
    people. ``renew``: only if nobody else has held the lease since this holder took it.
    """

    request: U64
    db: str
    table: str
    holder: Registration
    owner: str
    lease_s: U64
    renew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased(Message):
    """The answer to Lease: the lease is the holder's for so long; 0: it is not."""

    request: U64
    lease_s: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Used(Message):
    """A reader to catalogd: tables that it has used since its last Used. It is not answered.

    A table was used if it was read, however it was answered, or is pinned.
    """

    tables: tuple[tuple[str, str], ...]
