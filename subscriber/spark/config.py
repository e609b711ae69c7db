"""Settings of an attached driver: arguments of attach, else spark.topicast.*, else TOPICAST_*."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...topics.errors import ConfigError
from ...topics.objects.rules import ON, STATES
from ...topics.settings import parse_addresses, parse_duration_s, parse_size
from ..config import bytes_of_budget, check_text

BUDGET: Final = "64MB"  # a driver that only refreshes holds the names, and 16 bytes a topic

SETTINGS: Final = {  # of Spark -> of the environment
    "spark.topicast.statestores": "TOPICAST_STATESTORES",
    "spark.topicast.budget": "TOPICAST_BUDGET",
    "spark.topicast.control": "TOPICAST_CONTROL",
    "spark.topicast.refreshExisting": "TOPICAST_REFRESH_EXISTING",
    "spark.topicast.refreshCached": "TOPICAST_REFRESH_CACHED",
    "spark.topicast.metastore": "TOPICAST_METASTORE",
    "spark.topicast.keyFile": "TOPICAST_KEY_FILE",
    "spark.topicast.planning": "TOPICAST_PLANNING",
    "spark.topicast.maxStaleness": "TOPICAST_MAX_STALENESS",
    "spark.topicast.validate": "TOPICAST_VALIDATE",
    "spark.topicast.endpoint": "TOPICAST_ENDPOINT",
}
PLANNING: Final = ("on", "off")  # plans from memory; the first value is the default
ENDPOINT: Final = ("on", "off")  # likewise, first reads from the subscriber
VALIDATE: Final = ("none", "catalogd", "hms")  # what confirms a table that is answered from memory
MAX_STALENESS: Final = "10s"  # catalogd or a hub may restart meanwhile
NAMES_BYTES: Final = 1 << 20  # of the budget, for names and topics first: 30,000 tables
PLANNING_SHARE: Final = 0.5  # of the rest, for objects in the JVM
_TEXTS: Final = (  # arguments
    *("statestores", "control", "metastore", "key_file"),
    *("planning", "max_staleness", "validate", "endpoint"),
)
_FLAGS: Final = ("refresh_existing", "refresh_cached")  # likewise
_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How a driver is attached.

    ``refresh_existing``: DataFrames that exist see new files, too. ``refresh_cached``: data that
    the user has cached is made anew, too. ``metastore``: the name in reports, empty:
    hive.metastore.uris. ``key_file``: what the driver joins with; None: the subscriber finds it.
    ``planning``: plans are made from memory, unless the hub or catalogd was silent for
    ``max_staleness_s``; ``validate``: what confirms a table of a plan: hms, by a comparison with
    the metastore's; catalogd, that it has no newer version; or none.
    ``endpoint``: what is read for the first time comes from the subscriber if it can.
    """

    statestores: str
    budget: str | int
    control: str
    refresh_existing: bool
    refresh_cached: bool
    metastore: str = ""
    key_file: str | None = None
    planning: bool = True
    max_staleness_s: float = 10.0
    validate: str = "none"
    endpoint: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachArguments:
    """The arguments of ``attach``; None: not given."""

    statestores: str | None = None
    budget: str | int | None = None
    control: str | None = None
    refresh_existing: bool | None = None
    refresh_cached: bool | None = None
    metastore: str | None = None
    key_file: str | None = None
    planning: str | None = None
    max_staleness: str | None = None
    validate: str | None = None
    endpoint: str | None = None


def settings_of(
    arguments: AttachArguments, *, conf: Callable[[str], str | None], environ: Mapping[str, str]
) -> SparkSettings:
    """Return the settings; ``conf`` looks into Spark's configuration.

    Raises:
        ConfigError: a setting is missing or has a value that is not allowed; says which.
    """
    _check_types(arguments)

    def configured(key: str) -> str | None:
        found = conf(key)
        return found if found is not None else environ.get(SETTINGS[key])

    def chosen(name: str, argument: str | None, allowed: tuple[str, ...]) -> str:
        """Return a value out of ``allowed``; the first is the default."""
        key = f"spark.topicast.{name}"
        text = _first(argument, configured(key), allowed[0])
        if text not in allowed:
            raise ConfigError(key, text, " or ".join(allowed))
        return text

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
        planning=chosen("planning", arguments.planning, PLANNING) == "on",
        max_staleness_s=_duration_s(arguments.max_staleness, configured),
        validate=chosen("validate", arguments.validate, VALIDATE),
        endpoint=chosen("endpoint", arguments.endpoint, ENDPOINT) == "on",
    )


def conf_of(session: Any) -> Callable[[str], str | None]:
    """Return a look into the context's configuration; the session's would make its state."""
    conf = session._sc._conf
    return lambda key: conf.get(key) if conf.contains(key) else None


def bytes_of_share(budget_bytes: int, share: float) -> int:
    """Return the bytes of a share of those above: of what a budget has beyond NAMES_BYTES."""
    return int(max(budget_bytes - NAMES_BYTES, 0) * share)


def control_of(text: str) -> str:
    """Return ``text`` if it is off, on or dry-run.

    Raises:
        ConfigError: it is not among them.
    """
    if text not in STATES:
        raise ConfigError("spark.topicast.control", text, ", ".join(STATES))
    return text


def _check_types(arguments: AttachArguments) -> None:
    """Raise ConfigError if an argument is of another type than it is declared."""
    for name in _TEXTS:
        check_text(name, getattr(arguments, name))
    for name in _FLAGS:
        flag = getattr(arguments, name)
        if not isinstance(flag, bool | None):
            shown = flag if isinstance(flag, str) else type(flag).__name__
            raise ConfigError(name, shown, "True or False, or None")
    if arguments.budget is not None:
        bytes_of_budget(arguments.budget)


def _first(argument: str | None, configured: str | None, default: str) -> str:
    if argument is not None:
        return argument
    return configured if configured is not None else default


def _duration_s(argument: str | None, configured: Callable[[str], str | None]) -> float:
    key = "spark.topicast.maxStaleness"
    text = _first(argument, configured(key), MAX_STALENESS)
    seconds = parse_duration_s(text, setting=key)
    if not seconds:
        raise ConfigError(key, text, "above 0")
    return seconds


def _boolean(argument: bool | None, configured: Callable[[str], str | None], *, key: str) -> bool:  # noqa: FBT001 - an argument is what it is
    if argument is not None:
        return argument
    text = configured(key)
    if text is None:
        return False
    if text.strip().lower() not in _BOOLEANS:
        raise ConfigError(key, text, "true or false")
    return _BOOLEANS[text.strip().lower()]
