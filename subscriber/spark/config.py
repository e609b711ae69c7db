"""Settings of an attached driver: arguments of attach, else spark.topicast.*, else TOPICAST_*.

Each setting is declared once, as a field of ``SparkSettings``: the names of the argument, of
Spark's key and of the variable follow from the name of the field.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...topics.objects.rules import ON, STATES
from ...topics.settings import parse_addresses
from ..config import read_budget, read_carried, read_staleness
from ..declared import (
    Declaration,
    declared,
    either,
    environment,
    one_of,
    read_flag,
    read_text,
    values_of,
)

NAMES_BYTES: Final = 1 << 20  # of the budget, taken first, for names and topics: 30,000 tables
PLANNING_SHARE: Final = 0.5  # of the rest of the budget, for what the router keeps in the JVM


def spark_key(argument: str) -> str:
    """Return the key of ``argument`` in Spark's configuration, as ``spark.topicast.keyFile``."""
    return "spark.topicast." + re.sub("_(.)", lambda found: found[1].upper(), argument)


read_control: Final = one_of(*STATES)


def _read_addresses(value: object, setting: str) -> str:
    text = read_text(value, setting)
    parse_addresses(text, setting=setting)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The settings of an attached driver.

    ``refresh_existing``: DataFrames that exist see new files, too. ``refresh_cached``: data that
    the user has cached is computed again, too. ``metastore``: the name of the metastore in reports
    of writes; empty: the value of hive.metastore.uris. ``key_file``: the file with the driver's
    key; None: the subscriber finds the key. ``planning``: whether Spark plans from memory, as long
    as neither the hub nor catalogd was silent for ``max_staleness_s``. ``validate``: what confirms
    a table of a plan: hms (the router compares it with the metastore's), catalogd (it has no newer
    version) or none. ``endpoint``: whether the subscriber answers, before the metastore, what Spark
    reads for the first time.
    """

    statestores: str = declared("", _read_addresses, is_required=True)
    budget_bytes: int = declared(  # most drivers only refresh: they hold names, 16 bytes a topic
        "64MB", read_budget, argument="budget", needs_text=False
    )
    control: str = declared(ON, read_control)
    refresh_existing: bool = declared("false", read_flag)
    refresh_cached: bool = declared("false", read_flag)
    metastore: str = declared("", read_carried)
    key_file: str | None = declared(  # the subscriber itself looks into the environment for it
        None, needs_text=False, in_environment=False
    )
    planning: bool = declared("on", either("on", "off"))
    max_staleness_s: float = declared(  # catalogd or a hub may restart meanwhile
        "10s", read_staleness, argument="max_staleness"
    )
    validate: str = declared("none", one_of("none", "catalogd", "hms"))
    endpoint: bool = declared("on", either("on", "off"))


def settings_of(
    given: Mapping[str, object],
    *,
    conf: Callable[[str], str | None],
    environ: Mapping[str, str],
) -> SparkSettings:
    """Return the settings of a driver.

    Args:
        given: The arguments of ``attach``, which take precedence; None: not given.
        conf: Returns the value of a key in Spark's configuration, which comes next; None: not set.
        environ: The environment, which comes last.

    Raises:
        ConfigError: a setting is missing or has a value that is not allowed; says which.
    """

    def configuration(own: Declaration) -> tuple[str, str | None]:
        key = spark_key(own.argument)
        return key, conf(key)

    return SparkSettings(**values_of(SparkSettings, given, configuration, environment(environ)))


def conf_of(session: Any) -> Callable[[str], str | None]:
    """Return a function that looks a key up in the configuration of the session's context.

    The configuration of the session itself would have Spark create the session's state.
    """
    conf = session._sc._conf
    return lambda key: conf.get(key) if conf.contains(key) else None


def bytes_of_share(budget_bytes: int, share: float) -> int:
    """Return ``share`` of the bytes that a budget has beyond NAMES_BYTES."""
    return int(max(budget_bytes - NAMES_BYTES, 0) * share)
