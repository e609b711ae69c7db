"""Unsendable: finds the events that a metastore cannot send, even if a poll requests no others.

    NEWEST ──answers──▶ FIRST ──▶ WIDEN ──answers──▶ NARROW ──one id is left──▶ CONFIRM ──fails──▶
       └─fails─▶ over: no event is sent at all       over: it was a hiccup ◀──answers──┘      found

Each step is a poll for events after ``after``. WIDEN tries 1, 2, 4, … ids further, NARROW halves
what is left, so that n events that were not read take 2 log2(n) polls, and 4 more. A metastore
that limits its query fails only where the first event is bad; Hive 2.3 reads all events after an
id, and fails up to the last bad event. The search finds both as the first id that is answered.

Invariant: polls after ``low`` have failed, polls after ``high`` were answered (from NARROW on).
"""

from enum import Enum


class Step(Enum):
    """The question that the running poll answers."""

    NEWEST = "NEWEST"  # whether the metastore answers at all
    FIRST = "FIRST"  # whether the bad event is one that catalogd had read before
    WIDEN = "WIDEN"
    NARROW = "NARROW"
    CONFIRM = "CONFIRM"  # whether the poll for the bad event still fails
    OVER = "OVER"


class UnsendableSearch:
    """One search; ``found`` is the last id to pass, once it is known."""

    def __init__(self, *, begins: int, read: int, newest: int) -> None:
        """``begins``: the id after which polls fail; ``read``: the newest event that was read.

        ``newest``: the metastore's newest.
        """
        self.step = Step.NEWEST if newest > begins else Step.OVER
        self.low = begins
        self.high = newest
        self.found: int | None = None
        self.origin = begins  # the id after which events are passed
        self._read = read
        self._ahead = 1  # how far beyond ``origin`` WIDEN looks

    @property
    def over(self) -> bool:
        """Whether no poll is to follow."""
        return self.step is Step.OVER

    @property
    def after(self) -> int:
        """The id after which the next poll reads."""
        match self.step:
            case Step.NEWEST:
                return self.high
            case Step.FIRST:
                return self._read
            case Step.WIDEN:
                return min(self.origin + self._ahead, self.high)
            case Step.NARROW:
                return (self.low + self.high) // 2
            case _:
                return self.origin

    def on_answer(self) -> None:
        """Note that the poll after ``after`` was answered."""
        match self.step:
            case Step.NEWEST:
                self.step = Step.FIRST if self.origin < self._read < self.high else Step.WIDEN
            case Step.FIRST:  # an event that was read before: no poll that reads it again succeeds
                self.step = Step.WIDEN
            case Step.WIDEN | Step.NARROW:
                self.high = self.after
                self._narrow()
            case _:
                self.step = Step.OVER

    def on_failure(self) -> None:
        """Note that the metastore could not answer the poll after ``after``."""
        match self.step:
            case Step.FIRST:
                self.origin = self.low = self._read
                self.step = Step.WIDEN
            case Step.WIDEN:
                self.low = self.after
                self._ahead *= 2
                if self.low == self.high:
                    self.step = Step.OVER
            case Step.NARROW:
                self.low = self.after
                self._narrow()
            case _:
                self.found = self.high if self.step is Step.CONFIRM else None
                self.step = Step.OVER

    def _narrow(self) -> None:
        self.step = Step.NARROW if self.high - self.low > 1 else Step.CONFIRM
