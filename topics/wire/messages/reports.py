"""Reports to catalogd: writes of drivers, and what sweeps have found of the files of tables."""

from dataclasses import dataclass

from ...backports import IntEnum, StrEnum
from .fields import U8, U16, U64, Message, Registration


class WriteState(IntEnum):
    """The state of a Write."""

    INTENT = 0  # it begins; catalogd counts it as done if its driver is lost
    WRITTEN = 1
    FAILED = 2  # it ended in an error: what it changed is not known
    ABANDONED = 3  # it never began, or changed nothing
    OVERWRITTEN = 4  # done, and files that were there are gone
    ALTERED = 5  # no data: the table is described otherwise, or partitions came or went
    NAMED = 6  # no data: the table was created, dropped or renamed


INTENT, WRITTEN, FAILED, ABANDONED, OVERWRITTEN, ALTERED, NAMED = WriteState


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A driver's write, or intent to write, of the data of ``object``: a table or a path.

    ``number`` rises with each write of the driver; the same number is the same write, at each
    of its states. ``partitions``: names, or (with a slash at the end) how they begin; none:
    anything of the table may have changed.
    """

    number: U64
    state: U8
    object: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Message):
    """A driver to catalogd: its writes. Repeated until it is answered.

    ``driver``: its registration. ``metastore``: the URIs that it uses, which tell whether catalogd
    follows the same metastore. ``finished``: writes below this number are not reported again.
    """

    request: U64
    driver: Registration
    metastore: str
    finished: U64
    writes: tuple[Write, ...]


class WriteProblem(StrEnum):
    """The codes of a WriteOutcome: why a write is not recorded."""

    MALFORMED = "MALFORMED"
    NO_OBJECT = "NO_OBJECT"  # neither a known table nor a path in a table's folder
    NOT_VISIBLE = "NOT_VISIBLE"  # the driver's key may not see the table
    TOO_MANY = "TOO_MANY"  # intents of the driver are open


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """The outcome of a write: done as of ``version`` of a topic, or ``code`` and why it is not.

    An intent that is recorded has version 0 and no code. ``code`` is a plain text on the wire: a
    newer catalogd may send a problem that is not in WriteProblem.
    """

    number: U64
    topic: U16
    version: U64
    code: str = ""
    message: str = ""

    @property
    def problem(self) -> str:
        """Why the write is not recorded, with its code; empty: it is."""
        return f"{self.code}: {self.message}" if self.code else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Message):
    """The answer to Report, once it is committed: an outcome for each write."""

    request: U64
    epoch: U64
    start: U64
    outcomes: tuple[WriteOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The files of a partition, or with an empty name those of a table that has none.

    ``fingerprint``: another one whenever a file is added, removed or rewritten. ``small``: how many
    of ``files`` are small. ``newest_ms``: when the newest change was, by the file system's clock.
    ``folder_ms``: when the folder last got or lost an entry, by the same clock; 0: not known.
    """

    partition: str
    fingerprint: U64
    files: U64
    bytes: U64
    small: U64
    newest_ms: U64
    folder_ms: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Message):
    """A client to catalogd: the files of a table, which it compared with ``revision`` of them.

    ``changed``: partitions whose data is other than was known, without a report or an event;
    an empty name: any of them. ``overwritten``: files that were there may be gone. ``removed``:
    partitions of which nothing is to be known any more.

    ``as_of``: the number that the next line of catalogd's log had when the run began. As of then
    the run knows all partitions up to ``until``, or with ``last`` all of the table. 0: the sweep
    says nothing about partitions that it does not name. ``whole``: the run lists the partitions
    behind ``until`` even if the log has no change of them.
    """

    request: U64
    db: str
    table: str
    revision: U64
    facts: tuple[FileFacts, ...]
    changed: tuple[str, ...]
    overwritten: bool
    removed: tuple[str, ...]
    as_of: U64 = 0
    until: str = ""
    last: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(Message):
    """The answer to Sweep, once it is committed: what is known of the files is of ``revision`` now.

    ``version`` of its topic: at which the table has changed; 0: it has not. ``kept`` False: the
    sweep was compared with another revision, and nothing of it was kept.
    """

    request: U64
    revision: U64
    version: U64
    kept: bool
