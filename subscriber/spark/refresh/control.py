"""The facts of refreshing that operators read of a driver, and the rule by which it refreshes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .... import __version__
from ....topics.objects.rules import OFF, ON, STATES
from .refresher import Refresher

Cell = str | int | float | bool | None


class Control:
    """The less of what the application and the operators want: on, dry-run or off.

    Any thread reads it; either side can switch the driver off.
    """

    def __init__(self, application: str = ON) -> None:
        self.application = application  # set by the application's threads
        self.operators = ON  # as the last push said; set by the worker's thread

    @property
    def state(self) -> str:
        """On, dry-run or off."""
        return min(self.application, self.operators, key=STATES.index)

    @property
    def is_on(self) -> bool:
        """Whether this is more than plain Spark."""
        return self.state != OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The application whose driver it is."""

    application: str
    application_id: str
    user: str
    host: str
    pid: int
    spark: str

    @property
    def driver(self) -> str:
        """Its id, which no other process has, and no other application of this process."""
        return f"{self.application_id}@{self.host}:{self.pid}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names with which operators' patterns are matched."""
        return self.application, self.application_id


def facts_of(
    application: Application,
    refresher: Refresher,
    *,
    condition: tuple[str, str],
    **others: Cell,
) -> Mapping[str, Cell]:
    """Return what operators see of a driver; any thread may call it.

    ``condition``: its state, and the reason for that.
    """
    counts = refresher.counts
    return {
        "driver": application.driver,
        **asdict(application),
        "release": __version__,
        "state": condition[0],
        "reason": condition[1],
        "control": refresher.control,
        "sessions": refresher.sessions,
        "refreshes": counts.renewed,
        "stale_reads_avoided": counts.reread,
        "would_refresh": counts.would_renew,
        **others,
    }
