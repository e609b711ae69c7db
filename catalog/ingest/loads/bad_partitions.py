"""BadPartitions: finds the partitions of one table that the metastore cannot read.

    refused together ──▶ suspects ──half is read──▶ the rest of them … ──one is refused──▶ bad
                                                     read ◀──after a longer pause each time──┘

If the metastore cannot read one partition, it refuses the whole call, and does not say which
partition it is. So catalogd reads half of the call, and finds the partition in log2(n) reads.
Nothing else decides when a bad partition is read again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Final

from ....topics.clock import Clock
from ....topics.objects.selector import Selector
from ....topics.objects.tables import Column

BAD_MAX: Final = 32  # of one table; with more the table is unreadable
BAD_RETRY_S: Final = 1.0  # until a bad partition is read again; doubled up to
BAD_RETRY_S_MAX: Final = 60.0


@dataclass(slots=True)
class _Bad:
    """A partition that the metastore cannot read."""

    error: str
    tries: int  # how often the metastore refused it
    retry_at: float


class BadPartitions(Collection[str]):
    """The bad partitions of one table, and the suspects, at least one of which is bad."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bad: dict[str, _Bad] = {}  # at most BAD_MAX
        self.suspects: tuple[str, ...] = ()  # the metastore refused these in one call

    def __contains__(self, name: object) -> bool:
        return name in self._bad

    def __iter__(self) -> Iterator[str]:
        return iter(self._bad)

    def __len__(self) -> int:
        return len(self._bad)

    @property
    def errors(self) -> Mapping[str, str]:
        """Why each bad partition cannot be read."""
        return {name: one.error for name, one in self._bad.items()}

    @property
    def retry_at(self) -> float:
        """When to read the next bad partition again; infinite: there is none."""
        return min((one.retry_at for one in self._bad.values()), default=inf)

    def of(self, selector: Selector | None, columns: Sequence[Column]) -> str:
        """Return a bad partition that ``selector`` selects, with the reason; "": there is none.

        ``selector`` None: every partition.

        Raises:
            UsageError: the selector is not valid for a table with these partition ``columns``.
        """
        matches = selector.matches(columns) if selector is not None and self._bad else None
        found = (name for name in self._bad if matches is None or matches(name))
        return next((f"{name}: {self._bad[name].error}" for name in found), "")

    def next(self, is_unread: Callable[[str], bool]) -> tuple[str, ...]:
        """Return half of the unread suspects; without any, a bad partition that is due."""
        self.suspects = tuple(filter(is_unread, self.suspects))
        if self.suspects:
            return self.suspects[: max(len(self.suspects) // 2, 1)]
        due = (name for name, one in self._bad.items() if one.retry_at <= self._clock.now)
        return tuple(islice(due, 1))

    def on_changed(self, name: str) -> None:
        """Read ``name`` soon, if it is bad: the change may have mended it."""
        if name in self._bad:
            self._bad[name].retry_at = -inf

    def on_read(self, names: Collection[str]) -> None:
        """Note that the metastore could read ``names``."""
        read = set(names)
        for name in self._bad.keys() & read:
            del self._bad[name]
        self.suspects = tuple(name for name in self.suspects if name not in read)

    def on_refused(self, names: tuple[str, ...], error: str) -> str | None:
        """Suspect ``names``, which the metastore refused in one call; return a single name: bad."""
        self.suspects = names
        if len(names) > 1:
            return None
        (name,), self.suspects = names, ()
        tries = self._bad[name].tries + 1 if name in self._bad else 1
        pause_s = min(BAD_RETRY_S * 2 ** min(tries - 1, 16), BAD_RETRY_S_MAX)
        self._bad[name] = _Bad(error, tries, self._clock.now + pause_s)
        return name
