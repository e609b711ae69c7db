"""Settings of an attached driver: arguments of attach, else spark.topicast.*, else TOPICAST_*."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ...topics.errors import ConfigError
from ...topics.objects.rules import ON, STATES
from ...topics.settings import parse_addresses, parse_size

BUDGET: Final = "64MB"  # a driver that only refreshes holds the names, and 64 bytes a topic

SETTINGS: Final = {  # of Spark -> of the environment
    "spark.topicast.statestores": "TOPICAST_STATESTORES",
    "spark.topicast.budget": "TOPICAST_BUDGET",
    "spark.topicast.control": "TOPICAST_CONTROL",
    "spark.topicast.refreshExisting": "TOPICAST_REFRESH_EXISTING",
    "spark.topicast.refreshCached": "TOPICAST_REFRESH_CACHED",
    "spark.topicast.metastore": "TOPICAST_METASTORE",
    "spark.topicast.keyFile": "TOPICAST_KEY_FILE",
}
_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How a driver is attached.

    ``refresh_existing``: DataFrames that exist see new files, too. ``refresh_cached``: data that
    the user has cached is made anew, too. ``metastore``: the one that reports name, empty:
    hive.metastore.uris. ``key_file``: what the driver joins with; None: the subscriber finds it.
    """

    statestores: str
    budget: str | int
    control: str
    refresh_existing: bool
    refresh_cached: bool
    metastore: str = ""
    key_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments of ``attach``; None: not given."""

    statestores: str | None = None
    budget: str | int | None = None
    control: str | None = None
    refresh_existing: bool | None = None
    refresh_cached: bool | None = None
    metastore: str | None = None
    key_file: str | None = None


def settings_of(
    arguments: Arguments, *, conf: Callable[[str], str | None], environ: Mapping[str, str]
) -> SparkSettings:
    """Return the settings; ``conf`` looks into Spark's configuration.

    Raises:
        ConfigError: a setting is missing or has a value that is not allowed; says which.
    """

    def configured(key: str) -> str | None:
        found = conf(key)
        return found if found is not None else environ.get(SETTINGS[key])

    statestores = _first(arguments.statestores, configured("spark.topicast.statestores"), "")
    parse_addresses(statestores, setting="spark.topicast.statestores")
    budget = arguments.budget
    if budget is None:
        budget = configured("spark.topicast.budget") or BUDGET
        if not budget.strip().endswith("%"):
            parse_size(budget, setting="spark.topicast.budget")
    control = _first(arguments.control, configured("spark.topicast.control"), ON)
    return SparkSettings(
        statestores=statestores,
        budget=budget,
        control=control_of(control),
        refresh_existing=_boolean(
            arguments.refresh_existing, configured, key="spark.topicast.refreshExisting"
        ),
        refresh_cached=_boolean(
            arguments.refresh_cached, configured, key="spark.topicast.refreshCached"
        ),
        metastore=_first(arguments.metastore, configured("spark.topicast.metastore"), ""),
        key_file=arguments.key_file or conf("spark.topicast.keyFile"),
    )


def control_of(text: str) -> str:
    """Return ``text`` if it is off, on or dry-run.

    Raises:
        ConfigError: it is not one of them.
    """
    if text not in STATES:
        raise ConfigError("spark.topicast.control", text, ", ".join(STATES))
    return text


def _first(argument: str | None, configured: str | None, default: str) -> str:
    if argument is not None:
        return argument
    return configured if configured is not None else default


def _boolean(argument: bool | None, configured: Callable[[str], str | None], *, key: str) -> bool:  # noqa: FBT001 - an argument is what it is
    if argument is not None:
        return argument
    text = configured(key)
    if text is None:
        return False
    if text.strip().lower() not in _BOOLEANS:
        raise ConfigError(key, text, "true or false")
    return _BOOLEANS[text.strip().lower()]
