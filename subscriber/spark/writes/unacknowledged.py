"""Untold: what this driver wrote, kept until a subscriber has told it, whichever that is.

wrote ──▶ kept ──▶ the subscriber of now ──told──▶ forgotten
           └─ it has ended: the next one is told all that is kept
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from ....topics.errors import LinkError, UsageError
from ...client.write_reports import WriteIntent

KEPT_MAX: Final = 10_000  # 2 MB; as many as a subscriber keeps while catalogd is away


class Teller(Protocol):
    """A subscriber, as far as it is known here."""

    def write_intent(self, wanted: str, partitions: Iterable[str] = ()) -> WriteIntent:
        """Tell that a write begins."""

    def report_write(
        self,
        wanted: str,
        partitions: Iterable[str] = (),
        *,
        failed: bool = False,
        overwritten: bool = False,
    ) -> object:
        """Tell of a write that is over."""

    def flush(self, timeout_s: float) -> bool:
        """Return within that time whether every write is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote:
    """A write that is over."""

    object: str
    partitions: tuple[str, ...]
    failed: bool
    overwritten: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A write that has begun; ``writing`` is None if nobody could be told of it.

    ``overwrites``: if it succeeds, files that were there are gone.
    """

    object: str
    partitions: tuple[str, ...]
    writing: WriteIntent | None
    teller: Teller | None
    overwrites: bool = False


class Untold:
    """For any thread; ``live`` returns the subscriber that there is now, or None."""

    def __init__(self, live: Callable[[], Teller | None]) -> None:
        self.count = 0  # of all writes, since the start
        self.lost = 0
        self._live = live
        self._lock = threading.Lock()
        self._kept: dict[int, Wrote] = {}  # by number, oldest first
        self._last: Teller | None = None  # who was told all that is kept

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, wanted: str, partitions: tuple[str, ...], *, overwrites: bool = False) -> Begun:
        """Tell that a write begins, if there is a subscriber."""
        writing = None
        live = self._of_now()
        if live is not None:
            with suppress(LinkError, UsageError):  # it has just ended: the write's end is told
                writing = live.write_intent(wanted, partitions)
        return Begun(
            object=wanted,
            partitions=partitions,
            writing=writing,
            teller=live,
            overwrites=overwrites,
        )

    def end(self, begun: Begun, *, failed: bool, overwritten: bool = False) -> None:
        """Tell how a write ended."""
        wrote = Wrote(
            object=begun.object,
            partitions=begun.partitions,
            failed=failed,
            overwritten=overwritten,
        )
        if begun.writing is None or self._live() is not begun.teller:
            self.wrote(wrote)
            return
        with self._telling():
            begun.writing.end(failed=failed, overwritten=overwritten)
        self._keep(wrote)

    def wait(self, begun: Begun, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether catalogd has a write that has ended.

        Raises:
            UsageError: the metastore is not the one that is followed; or no subscriber is open.
        """
        return begun.writing is not None and begun.writing.wait(timeout_s)

    def wrote(self, *writes: Wrote) -> None:
        """Tell of writes that are over."""
        live = self._of_now()
        if live is not None and live is self._last:
            with self._telling():
                for write in writes:
                    _tell(live, write)
        self._keep(*writes)

    def settle(self) -> None:
        """Tell a new subscriber what is kept; forget what is told."""
        if not self._kept:
            return
        live, last = self._of_now(), self.count
        if live is None:
            return
        if live is not self._last:
            with self._lock:
                kept = tuple(self._kept.values())
            self._last = live
            with self._telling():
                for write in kept:
                    _tell(live, write)
        elif live.flush(0.0):
            with self._lock:
                for number in [one for one in self._kept if one <= last]:
                    del self._kept[number]

    def _of_now(self) -> Teller | None:
        """Return the subscriber of now; with nothing kept it knows all that there is."""
        live = self._live()
        if not self._kept and live is not None:
            self._last = live
        return live

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell in the block; a subscriber that is not open (yet, or any more) is told later."""
        try:
            yield
        except (LinkError, UsageError):
            self._last = None

    def _keep(self, *writes: Wrote) -> None:
        with self._lock:
            for write in writes:
                self.count += 1
                self._kept[self.count] = write
            while len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
                self.lost += self._live() is None


def _tell(live: Teller, write: Wrote) -> None:
    live.report_write(
        write.object, write.partitions, failed=write.failed, overwritten=write.overwritten
    )
