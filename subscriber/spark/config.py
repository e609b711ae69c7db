"""Settings of an attached driver: arguments of attach, else spark.topicast.*, else TOPICAST_*.

Each is declared once, as a field of ``AttachArguments``: its name gives those of the argument, of
Spark's key and of the variable, and beside it stand its default and how it is checked and read.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ...topics.errors import ConfigError
from ...topics.objects.rules import ON, STATES
from ...topics.settings import parse_addresses, parse_duration_s, parse_size
from ..config import bytes_of_budget, check_text

NAMES_BYTES: Final = 1 << 20  # of the budget, for names and topics first: 30,000 tables
PLANNING_SHARE: Final = 0.5  # of the rest, for objects in the JVM
_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
_SETTING: Final = "setting"  # of the metadata of a field


@dataclass(frozen=True, slots=True)
class Setting:
    """What holds for one setting in all places where it may be given."""

    default: str | None  # None: then the value is None, too
    read: Callable[[str, str], object]  # returns the value of a text; an error names the second
    check: Callable[[str, object], None] = check_text  # raises for an argument of another type
    needs_text: bool = True  # else an empty text is as good as none
    in_environment: bool = True
    value_name: str = ""  # the field of ``SparkSettings``; empty: the name of the argument


def setting_of(name: str) -> Setting:
    """Return the declaration of the argument ``name``."""
    found = next(one for one in fields(AttachArguments) if one.name == name)
    declared: Setting = found.metadata[_SETTING]
    return declared


def spark_key(name: str) -> str:
    """Return the key of an argument in Spark's configuration: ``spark.topicast.keyFile``."""
    return "spark.topicast." + re.sub("_(.)", lambda found: found[1].upper(), name)


def variable(name: str) -> str:
    """Return the variable of an argument in the environment: ``TOPICAST_KEY_FILE``."""
    return f"TOPICAST_{name.upper()}"


def control_of(text: str, setting: str = "spark.topicast.control") -> str:
    """Return ``text`` if it is off, on or dry-run.

    Raises:
        ConfigError: it is not among them.
    """
    if text not in STATES:
        raise ConfigError(setting, text, ", ".join(STATES))
    return text


def _addresses(text: str, setting: str) -> str:
    parse_addresses(text, setting=setting)
    return text


def _budget(text: str, setting: str) -> str:
    if not text.strip().endswith("%"):  # of a memory that is known later
        parse_size(text, setting=setting)
    return text


def _check_budget(_: str, value: object) -> None:
    bytes_of_budget(value)  # type: ignore[arg-type]  # it refuses what is neither


def _flag(text: str, setting: str) -> bool:
    if text.strip().lower() not in _BOOLEANS:
        raise ConfigError(setting, text, "true or false")
    return _BOOLEANS[text.strip().lower()]


def _check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        shown = value if isinstance(value, str) else type(value).__name__
        raise ConfigError(name, shown, "True or False, or None")


def _switch(text: str, setting: str) -> bool:
    return _one_of("on", "off")(text, setting) == "on"


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    def read(text: str, setting: str) -> str:
        if text not in allowed:
            raise ConfigError(setting, text, " or ".join(allowed))
        return text

    return read


def _duration_s(text: str, setting: str) -> float:
    seconds = parse_duration_s(text, setting=setting)
    if not seconds:
        raise ConfigError(setting, text, "above 0")
    return seconds


def _as_it_is(text: str, _: str) -> str:
    return text


def _declared(default: str | None, read: Callable[[str, str], object], **more: Any) -> Any:
    return field(default=None, metadata={_SETTING: Setting(default, read, **more)})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachArguments:
    """The arguments of ``attach``; None: not given."""

    statestores: str | None = _declared("", _addresses)
    budget: str | int | None = _declared(  # most drivers only refresh: names, 16 bytes a topic
        "64MB", _budget, check=_check_budget, needs_text=False
    )
    control: str | None = _declared(ON, control_of)
    refresh_existing: bool | None = _declared("false", _flag, check=_check_flag)
    refresh_cached: bool | None = _declared("false", _flag, check=_check_flag)
    metastore: str | None = _declared("", _as_it_is)
    key_file: str | None = _declared(  # in the environment the subscriber finds it
        None, _as_it_is, needs_text=False, in_environment=False
    )
    planning: str | None = _declared("on", _switch)
    max_staleness: str | None = _declared(  # catalogd or a hub may restart meanwhile
        "10s", _duration_s, value_name="max_staleness_s"
    )
    validate: str | None = _declared("none", _one_of("none", "catalogd", "hms"))
    endpoint: str | None = _declared("on", _switch)


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


def settings_of(
    arguments: AttachArguments, *, conf: Callable[[str], str | None], environ: Mapping[str, str]
) -> SparkSettings:
    """Return the settings; ``conf`` looks into Spark's configuration.

    Raises:
        ConfigError: a setting is missing or has a value that is not allowed; says which.
    """
    given = {one.name: getattr(arguments, one.name) for one in fields(arguments)}
    for name, value in given.items():
        if value is not None:
            setting_of(name).check(name, value)
    values: dict[str, Any] = {}
    for name, value in given.items():
        setting, key = setting_of(name), spark_key(name)
        places = value, conf(key), environ.get(variable(name)) if setting.in_environment else None
        missing = (None,) if setting.needs_text else (None, "")
        found = next((one for one in places if one not in missing), setting.default)
        values[setting.value_name or name] = (
            setting.read(found, key) if isinstance(found, str) else found
        )
    return SparkSettings(**values)


def conf_of(session: Any) -> Callable[[str], str | None]:
    """Return a look into the context's configuration; the session's would make its state."""
    conf = session._sc._conf
    return lambda key: conf.get(key) if conf.contains(key) else None


def bytes_of_share(budget_bytes: int, share: float) -> int:
    """Return the bytes of a share of those above: of what a budget has beyond NAMES_BYTES."""
    return int(max(budget_bytes - NAMES_BYTES, 0) * share)
