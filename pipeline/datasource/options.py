"""Options: the options of the data source, each declared once, and read before it connects."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from ...subscriber.declared import (
    declarations,
    declared,
    either,
    environment,
    one_of,
    read_flag,
    read_text,
    values_of,
)
from ...topics.errors import ConfigError
from ...topics.objects.names import TableId, table_name, table_pattern
from ...topics.settings import STATESTORES_DEFAULT, Address, parse_addresses
from .conditions import Conditions
from .snapshot_versions import SnapshotVersion, parse_snapshot_version
from .views import CATALOG, CHANGES, TABLES, VIEWS

OF_CHANGES: Final = ("startingVersion", "failOnDataLoss", "latestState", "maxEntriesPerTrigger")
EVERY: Final = "*"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COUNT_MAX: Final = (1 << 31) - 1
FAIL: Final = "fail"
SKIP: Final = "skip"
PULL: Final = "pull"


def _read_hubs(value: object, setting: str) -> tuple[Address, ...]:
    return parse_addresses(read_text(value, setting), setting=setting)


def _read_pattern(value: object, setting: str) -> str:
    return table_pattern(read_text(value, setting))


def _read_version(value: object, setting: str) -> SnapshotVersion:
    return parse_snapshot_version(read_text(value, setting), setting=setting)


def _read_start(value: object, setting: str) -> SnapshotVersion | str:
    return str(value) if value in ("", EARLIEST, LATEST) else _read_version(value, setting)


def _read_count(value: object, setting: str) -> int:
    text = read_text(value, setting)
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(COUNT_MAX))
    if not (is_number and 0 < int(text) <= COUNT_MAX):
        raise ConfigError(setting, text, f"a number from 1 to {COUNT_MAX}")
    return int(text)


_option: Final = partial(declared, in_environment=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a read. ``tables``: a pattern of ``db.table``.

    ``as_of``: the snapshot version that is read; None: the present version of the planning.
    ``starting``: the version after which changes are read: EARLIEST, LATEST, or "" for the default.
    ``fail_on_data_loss``: missing changes end the read; else present objects are read instead.
    ``latest_state``: a stream begins with the present objects, and a batch has only the last change
    of each object. ``entries_max``: of one batch of a stream; None: all.
    ``conditions``: the query's conditions on names.
    ``pull_missing``: tables that were not loaded in the version that is read have their present
    rows; else the read fails.
    ``skip_unreadable``: tables that catalogd cannot read have no rows; else the read fails.
    """

    view: str = _option(TABLES.name, one_of(*VIEWS))
    statestores: tuple[Address, ...] = declared(STATESTORES_DEFAULT, _read_hubs, needs_text=False)
    tables: str = _option(EVERY, _read_pattern)
    as_of: SnapshotVersion | None = _option(None, _read_version, argument="asOf")
    starting: SnapshotVersion | str = _option("", _read_start, argument="startingVersion")
    fail_on_data_loss: bool = _option("true", read_flag, argument="failOnDataLoss")
    entries_max: int | None = _option(None, _read_count, argument="maxEntriesPerTrigger")
    latest_state: bool = _option("false", read_flag, argument="latestState")
    pull_missing: bool = _option(PULL, either(PULL, FAIL), argument="notLoaded")
    skip_unreadable: bool = _option(FAIL, either(SKIP, FAIL), argument="unreadable")
    key_file: str | None = _option(None, argument="keyFile")
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def narrow(self) -> bool:
        """Whether only some tables are wanted."""
        return self.tables != EVERY or bool(self.conditions)

    def selects(self, table: TableId) -> bool:
        """Return whether rows about ``table`` are wanted."""
        return self.conditions.allow(table) and fnmatchcase(table_name(*table), self.tables)


def read_options(
    given: Mapping[str, str | None], environ: Mapping[str, str] = os.environ
) -> SourceOptions:
    """Return the options of ``spark.read``, whose names Spark gives in lower case.

    An option that is None counts as not given.

    Raises:
        ConfigError: there is no option of this name, or it cannot have this value; says which.
    """
    names = {own.argument.lower(): own.argument for own in declarations(SourceOptions).values()}
    texts = {name.lower(): value for name, value in given.items() if value is not None}
    for name in texts.keys() - names.keys():
        raise ConfigError("option", name, f"one of {', '.join(names.values())}")
    usual: dict[str, str] = {}  # defaults that follow from other options
    if "asof" in texts:
        usual["notloaded"] = FAIL
    if read_flag(texts.get("lateststate", "false"), "latestState"):
        usual["failondataloss"] = "false"
    found = SourceOptions(
        **values_of(
            SourceOptions,
            {},
            lambda own: (own.argument, texts.get(own.argument.lower())),
            environment(environ),
            lambda own: (own.argument, usual.get(own.argument.lower())),
        )
    )
    _check_together(found, {names[name]: text for name, text in texts.items()})
    return found


def _check_together(options: SourceOptions, given: Mapping[str, str]) -> None:
    """Raise ConfigError for an option that contradicts another, or that would change nothing."""
    if options.latest_state and (options.starting or options.fail_on_data_loss):
        name = "startingVersion" if options.starting else "failOnDataLoss"
        allowed = "not to be given with latestState, which begins with the present objects"
        raise ConfigError(name, given[name], allowed)
    view = options.view
    for name in OF_CHANGES:
        if name in given and view != CHANGES.name:
            raise ConfigError(name, given[name], f"for view={CHANGES.name}, not {view}")
    dated = (*CATALOG, CHANGES.name)
    if "asOf" in given and view not in dated:
        allowed = f"for the views {', '.join(dated)}: {view} is as of now"
        raise ConfigError("asOf", given["asOf"][:40], allowed)
