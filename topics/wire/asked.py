"""What is asked of catalogd, and its answers; said on the catalog service."""

from dataclasses import dataclass
from typing import Final

from ..entries import Entry

SELECT_TABLE: Final = 0  # selectors in Pull: the table's own entry
SELECT_BLOCKS: Final = 1  # the table and all its blocks
SELECT_FILTER: Final = 2  # the table and the blocks in which partitions match a filter
SELECT_NAMES: Final = 3  # the table and the blocks in which partitions of these names may stand
SELECT_VALUES: Final = 4  # the table and the blocks of partitions that have these values

INTENT: Final = 0  # states of a Write: it begins; catalogd takes it for done if its driver is lost
WRITTEN: Final = 1
FAILED: Final = 2  # it ended in an error: what it changed is not known
ABANDONED: Final = 3  # it never began, or changed nothing
OVERWRITTEN: Final = 4  # done, and files that were there are gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """A reader to catalogd, on a new start: is what I hold of your lineage? (topic, version)"""

    request: int
    epoch: int
    start: int
    versions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The answer to Compare: accepted, or ahead (a new epoch was minted)."""

    request: int
    accepted: bool
    epoch: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Ask catalogd for a table (and blocks). ``held``: (block key, version) pairs held.

    ``filter``, ``names`` and ``values`` are those of their selectors, else empty; of values, the
    first ones of a partition's, "" stands for any. ``names_only``: the names of the selected
    partitions, and nothing of their content. ``bytes_max``: at most about so much, 0: what
    catalogd gives at most. ``after``: the cursor of the answer to be continued. ``version``: not
    0: only if nothing of the table has changed since this version of its topic, in ``epoch``.
    ``beside``: claims made in ``epoch``, about tables of the topic.
    """

    request: int
    db: str
    table: str
    selector: int
    credit: int
    held: tuple[tuple[bytes, int], ...] = ()
    filter: str = ""
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    names_only: bool = False
    bytes_max: int = 0
    after: bytes = b""
    epoch: int = 0
    version: int = 0
    beside: tuple["Claimed", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A part of the answer to Pull; all parts are of one topic version.

    ``found`` false: no such table, as of ``namespace_version``. ``gone``: keys of those held
    that exist no more, or are stale and not selected; those held that are neither here nor in
    ``entries`` are current. ``names``: where only names were asked for, packed
    (topics/objects/listing.py). ``cursor``: of the last part, from where to continue; empty:
    nothing is left. ``moved``: the table is not as it was at the version asked for. ``stale``:
    the places of the claims beside that are not true at ``topic_version``.
    """

    request: int
    sequence: int
    last: bool
    found: bool
    epoch: int
    start: int
    topic: int
    topic_version: int
    namespace_version: int
    incarnation: int
    gone: tuple[bytes, ...]
    entries: tuple[Entry, ...]
    names: bytes = b""
    cursor: bytes = b""
    moved: bool = False
    stale: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What somebody knows of a table: nothing that changed after ``version`` of its topic.

    ``whole``: of the table with its partitions, else of the table's own entry.
    """

    db: str
    table: str
    version: int
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate:
    """Ask catalogd which of these claims, made in ``epoch``, are true no more."""

    request: int
    epoch: int
    claims: tuple[Claimed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The answer to Validate: places of stale claims with versions, as of one moment.

    A claim of that version, made in ``epoch``, would be true; 0: there is none that would be.
    """

    request: int
    epoch: int
    start: int
    stale: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Ask catalogd to finish everything that HMS had committed when this arrived."""

    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to Sync: reach these versions (by topic_ids) and it is visible."""

    request: int
    epoch: int
    start: int
    event_id: int
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Tell catalogd to do something; answered by Inspected when it is done.

    ``who``: the sender's own word, for the history. Orders: docs/protocol.md.
    """

    request: int
    who: str
    order: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """Ask for a table of facts about the process: ``what`` names it."""

    request: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """The answer to Inspect and Order: rows of text, integers, floats, booleans or None."""

    request: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | bool | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a driver did, or is about to do, to the data of ``object``: a table or a path.

    ``number`` rises with each write of the driver; the same number is the same write, at each
    of its states. ``partitions``: names, or (with a slash at the end) how they begin; none:
    anything of the table may have changed.
    """

    number: int
    state: int
    object: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A driver to catalogd: I wrote. Repeated until it is answered.

    ``driver``: its registration. ``metastore``: the URIs that it uses, to tell that catalogd
    follows the same one. ``settled``: it asks no more for writes below this number.
    """

    request: int
    driver: bytes
    metastore: str
    settled: int
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a write: done as of ``version`` of a topic, or ``problem`` says why not.

    An intent that is noted has version 0 and no problem.
    """

    number: int
    topic: int
    version: int
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The answer to Report, once it is committed: a verdict for each write."""

    request: int
    epoch: int
    start: int
    verdicts: tuple[Verdict, ...]
