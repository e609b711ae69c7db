"""SourceProblem: why changes of the metastore do not arrive, as all processes know it."""

from dataclasses import dataclass
from enum import IntEnum


class ProblemKind(IntEnum):
    """The reason why changes do not arrive; the number is that of the value in the namespace."""

    UNRECORDED = 1  # the metastore records no events
    UNREPORTED = 2  # something changed, and no event reported it
    REFUSED = 3  # the metastore refuses to return its events
    PAUSED = 4  # an operator has paused events
    OFF = 5  # catalogd is set to poll for no events
    WITHHELD = 6  # the reader's key has databases, and the text may name others


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Why changes of the metastore do not arrive; ``text`` is for people."""

    kind: ProblemKind
    text: str

    @property
    def is_followed_later(self) -> bool:
        """Whether what changes meanwhile is recorded, and is read as events once it is over."""
        return self.kind in (ProblemKind.REFUSED, ProblemKind.PAUSED)
