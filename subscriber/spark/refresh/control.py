"""Control: whether a driver refreshes, and the facts that operators see of the driver."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .... import __version__
from ....topics.objects.rules import OFF, ON, STATES
from .refresher import Refresher

Cell = str | int | float | bool | None


class Control:
    """The less of what the application and the operators want: on, dry-run or off.

    So either side can switch the driver off. Any thread may read it.
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
        """Whether the driver is not switched to plain Spark."""
        return self.state != OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The application of a driver, as operators see it; ``spark``: the version of its Spark."""

    application: str
    application_id: str
    user: str
    host: str
    pid: int
    spark: str

    @property
    def driver(self) -> str:
        """The id of the driver: no other process has it, nor another application of the process."""
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
    """Return the facts that operators see of a driver, by name; for any thread.

    ``condition``: the state of the driver, and the reason for it. ``others``: further facts.
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
