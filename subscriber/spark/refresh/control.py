"""Control: what operators know a driver by, what they see of it, and what it is to be."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ....topics.objects.rules import STATES
from .refresher import Refresher

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Whose driver it is."""

    application: str
    application_id: str
    user: str
    host: str
    pid: int
    spark: str

    @property
    def names(self) -> tuple[str, ...]:
        """What the patterns of operators are matched with."""
        return self.application, self.application_id


def least(said: str, wanted: str) -> str:
    """Return the state in which the driver does less: either side can switch it off."""
    return min(said, wanted, key=STATES.index)


def facts_of(application: Application, refresher: Refresher, **others: Cell) -> Mapping[str, Cell]:
    """Return what operators see; any thread may ask."""
    counts = refresher.counts
    return {
        **asdict(application),
        "state": refresher.control,
        "sessions": refresher.sessions,
        "refreshes": counts.renewed,
        "stale_reads_avoided": counts.reread,
        "would_refresh": counts.would,
        **others,
    }
