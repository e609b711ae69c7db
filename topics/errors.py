"""Every error that leaves Topicast; the type says which side broke the rule.

TopicastError
├── UsageError          our caller broke a contract: fix the caller
│   ├── NoSuchObject    (also a KeyError) no such database, table or partition
│   │   └── NotVisible  our key may not see such an object, whether it exists or not
│   ├── LeaseHeld       another client has the lease of a table
│   └── OverBudget      needs more bytes than the budget leaves
├── ConfigError         the operator's settings: setting, value, what is allowed
├── WireError           the peer sent bytes that we refuse: they are dropped
│   └── VersionMismatch ours and theirs
├── StaleMetadata       retriable: metadata changed between plan and use
├── LinkError           transport down: retriable
│   ├── NotReady        first contact, or an answer, not made in time
│   └── AuthRefused     not retriable
├── StoreError          the state folder: locked, unreadable, of another shape
│   ├── StoreFull       its disk has no room: retriable
│   └── StoreMoved      its files are no longer in the folder: retriable
├── HistoryGone         the change history begins later than the requested version
└── SourceError         the metastore failed: retriable
    ├── SourceRefused   it answered with an exception: the same request may fail again
    └── ObjectGone      dropped between list and read: an ordinary delete
"""

from collections.abc import Callable, Sequence


class TopicastError(Exception):
    """Root of every error that Topicast raises. It can be pickled and copied, with its facts."""

    retriable = False

    def __reduce__(self) -> tuple[object, ...]:
        return _unraised, (type(self), self.args), self.__dict__


def _unraised(cls: type[TopicastError], args: tuple[object, ...]) -> TopicastError:
    """Return an error without its facts; ``args`` are not always those of its constructor."""
    return cls.__new__(cls, *args)


class UsageError(TopicastError):
    """The caller broke a contract."""


class NoSuchObject(UsageError, KeyError):
    """The named database, table or partition does not exist.

    ``near``: names that exist and differ little, as far as it is known.
    """

    def __init__(self, name: str, near: Callable[[], Sequence[str]] = tuple) -> None:
        """``near`` is called only if somebody looks: not every caller shows the error."""
        super().__init__(name)
        self.name = name
        self._find = near

    @property
    def near(self) -> tuple[str, ...]:
        """Names that exist and differ little from ``name``, the nearest first."""
        return tuple(self._find())

    def __str__(self) -> str:
        near = self.near
        return f"no such object: {self.name}" + (f" (near it: {', '.join(near)})" if near else "")

    def __reduce__(self) -> tuple[object, ...]:
        facts = {name: fact for name, fact in self.__dict__.items() if name != "_find"}
        return _no_such_object, (self.name, self.near), facts


def _no_such_object(name: str, near: tuple[str, ...]) -> NoSuchObject:
    return NoSuchObject(name, lambda: near)


class NotVisible(NoSuchObject):
    """Our key has databases, and the named database is not among them, be it there or not."""

    def __init__(self, name: str, why: str) -> None:
        """``why``: the whole message."""
        super().__init__(name)
        self.why = why

    def __str__(self) -> str:
        return self.why

    def __reduce__(self) -> tuple[object, ...]:
        facts = {name: fact for name, fact in self.__dict__.items() if name != "_find"}
        return NotVisible, (self.name, self.why), facts


class LeaseHeld(UsageError):
    """Another client has the lease of the table, or has had it since the caller took it."""


class OverBudget(UsageError):
    """A request needs more bytes than the budget leaves."""

    def __init__(self, what: str, *, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(
            f"{what} needs {needed_bytes} bytes and the budget leaves {free_bytes}: "
            "raise the budget or drop a topic"
        )
        self.what = what
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes


class ConfigError(TopicastError):
    """A setting has a value that is not allowed."""

    def __init__(self, setting: str, value: object, allowed: str) -> None:
        super().__init__(f"{setting}={value!r} is not valid: {allowed}")
        self.setting = setting
        self.value = value
        self.allowed = allowed


class WireError(TopicastError):
    """A peer sent bytes that break the protocol; none of them was applied."""


class VersionMismatch(WireError):
    """The peer speaks no protocol version that we speak."""

    def __init__(self, ours: str, theirs: str) -> None:
        super().__init__(f"protocol version {theirs} offered, {ours} spoken here: upgrade one side")
        self.ours = ours
        self.theirs = theirs


class StaleMetadata(TopicastError):
    """Metadata changed between plan and use; plan again."""

    retriable = True


class LinkError(TopicastError):
    """The transport is down, or the peer refused for a passing reason."""

    retriable = True


class NotReady(LinkError):
    """First contact, or an answer, was not made in time."""


class AuthRefused(LinkError):
    """The peer refuses our credentials; trying again does not help."""

    retriable = False


class StoreError(TopicastError):
    """The state folder cannot be used: locked, unreadable, or of another shape."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class StoreFull(StoreError):
    """The disk of the state folder has no room; nothing of the commit was stored."""

    retriable = True


class StoreMoved(StoreError):
    """A file of the state folder was deleted, moved or replaced; nothing of the commit was stored.

    A commit to the file that is still open would be gone at the next start.
    """

    retriable = True


class HistoryGone(TopicastError):
    """The change history does not go back to the requested version."""


class SourceError(TopicastError):
    """The metastore failed to answer."""

    retriable = True


class SourceRefused(SourceError):
    """The metastore answered with an exception; the connection is still good."""


class ObjectGone(SourceError):
    """Dropped between list and read: an ordinary delete."""
