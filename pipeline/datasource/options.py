"""Options: the options of the data source, checked before anything is connected."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from ...topics.errors import ConfigError
from ...topics.objects.names import TableId, table_name, table_pattern
from ...topics.settings import STATESTORES_DEFAULT, Address, parse_addresses
from .conditions import Conditions
from .snapshot_versions import SnapshotVersion, parse_snapshot_version
from .views import CATALOG, CHANGES

NAMES: Final = (
    "view",
    "statestores",
    "tables",
    "asOf",
    "startingVersion",
    "failOnDataLoss",
    "latestState",
    "maxEntriesPerTrigger",
    "notLoaded",
    "unreadable",
    "keyFile",
)
OF_CHANGES: Final = ("startingVersion", "failOnDataLoss", "latestState", "maxEntriesPerTrigger")
EVERY: Final = "*"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COUNT_MAX: Final = (1 << 31) - 1
FAIL: Final = "fail"
SKIP: Final = "skip"
PULL: Final = "pull"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """``tables``: a pattern of ``db.table``. ``as_of`` None: as everything is when it is planned.

    ``starting``: the version after which changes are read: EARLIEST, LATEST, or "" for the default.
    ``fail_on_data_loss``: missing changes end the read; else present objects are read instead.
    ``latest_state``: a stream begins with what there is, and a batch has the last change of each
    object only. ``entries_max``: of one batch of a stream; None: all.
    ``conditions``: those of the query on names.
    ``pull_missing``: tables that were not loaded then have the rows of now; else the read fails.
    ``skip_unreadable``: tables that catalogd cannot read have no rows; else the read fails.
    """

    view: str
    statestores: tuple[Address, ...]
    tables: str = EVERY
    as_of: SnapshotVersion | None = None
    starting: SnapshotVersion | str = ""
    fail_on_data_loss: bool = True
    latest_state: bool = False
    entries_max: int | None = None
    pull_missing: bool = True
    skip_unreadable: bool = False
    key_file: str | None = None
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def narrow(self) -> bool:
        """Whether only some tables are wanted."""
        return self.tables != EVERY or bool(self.conditions)

    def selects(self, table: TableId) -> bool:
        """Return whether rows about ``table`` are wanted."""
        return self.conditions.allow(table) and fnmatchcase(table_name(*table), self.tables)


def read_options(
    given: Mapping[str, str], views: tuple[str, ...], environ: Mapping[str, str] = os.environ
) -> SourceOptions:
    """Return the options of ``spark.read``; their names are in lower case, as Spark hands them on.

    Raises:
        ConfigError: there is no such option, or not with such a value; says which.
    """
    known = {name.lower(): name for name in NAMES}
    options = {name.lower(): value for name, value in given.items()}
    for name in options.keys() - known.keys():
        raise ConfigError("option", name, f"one of {', '.join(NAMES)}")
    view = options.get("view", "tables")
    if view not in views:
        raise ConfigError("view", view, f"one of {', '.join(views)}")
    unreadable = options.get("unreadable", FAIL)
    if unreadable not in (FAIL, SKIP):
        raise ConfigError("unreadable", unreadable, f"{FAIL} or {SKIP}")
    not_loaded = options.get("notloaded", FAIL if "asof" in options else PULL)
    if not_loaded not in (FAIL, PULL):
        raise ConfigError("notLoaded", not_loaded, f"{FAIL} or {PULL}")
    hubs = hubs_of(options.get("statestores"), environ)
    as_of = options.get("asof")
    starting = options.get("startingversion", "")
    latest_state = _flag(options, "latestState", usual=False)
    fail_on_data_loss = _flag(options, "failOnDataLoss", usual=not latest_state)
    if latest_state and (starting or fail_on_data_loss):
        name = "startingVersion" if starting else "failOnDataLoss"
        allowed = "not to be given with latestState, which begins with what there is"
        raise ConfigError(name, starting or "true", allowed)
    entries_max = _count(options, "maxEntriesPerTrigger")
    _check_view(view, options)
    return SourceOptions(
        view=view,
        statestores=parse_addresses(hubs, setting="statestores"),
        tables=table_pattern(options.get("tables", EVERY)),
        as_of=None if as_of is None else parse_snapshot_version(as_of),
        starting=starting
        if starting in ("", EARLIEST, LATEST)
        else parse_snapshot_version(starting, setting="startingVersion"),
        fail_on_data_loss=fail_on_data_loss,
        latest_state=latest_state,
        entries_max=entries_max,
        pull_missing=not_loaded == PULL,
        skip_unreadable=unreadable == SKIP,
        key_file=options.get("keyfile"),
    )


def _check_view(view: str, options: Mapping[str, str]) -> None:
    """Raise ConfigError for an option that would change nothing of what ``view`` shows."""
    for name in OF_CHANGES:
        if name.lower() in options and view != CHANGES.name:
            raise ConfigError(name, options[name.lower()], f"for view={CHANGES.name}, not {view}")
    dated = (*CATALOG, CHANGES.name)
    if "asof" in options and view not in dated:
        allowed = f"for the views {', '.join(dated)}: {view} is as of now"
        raise ConfigError("asOf", options["asof"][:40], allowed)


def _flag(options: Mapping[str, str], name: str, *, usual: bool) -> bool:
    text = options.get(name.lower(), str(usual)).lower()
    if text not in ("true", "false"):
        raise ConfigError(name, text, "true or false")
    return text == "true"


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= COUNT_MAX):
        raise ConfigError(name, text, f"a number from 1 to {COUNT_MAX}")
    return int(text)


def hubs_of(given: str | None, environ: Mapping[str, str]) -> str:
    """Return the addresses of hubs: ``given``, else the environment's, else this machine's."""
    return given or environ.get("TOPICAST_STATESTORES") or STATESTORES_DEFAULT
