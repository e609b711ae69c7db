"""Settings of an attached driver: which source takes precedence, and what is refused."""

import inspect
import re
from typing import Final

import pytest

from topicast.subscriber.declared import declarations
from topicast.subscriber.spark.config import (
    PLANNING_SHARE,
    SparkSettings,
    bytes_of_share,
    settings_of,
)
from topicast.subscriber.spark.driver.handle import attach
from topicast.topics.errors import ConfigError
from topicast.topics.memory.system_memory import usable_bytes
from topicast.topics.objects.rules import DRY_RUN, OFF, ON

ARGUMENTS: Final = [one.argument for one in declarations(SparkSettings).values()]
HUB = "tcp://127.0.0.1:24000"


def read(
    given: dict[str, object] | None = None,
    conf: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
) -> SparkSettings:
    return settings_of(given or {}, conf=(conf or {}).get, environ=environ or {})


def test_defaults_are_on_and_leave_the_users_data_alone() -> None:
    assert read(environ={"TOPICAST_STATESTORES": HUB}) == SparkSettings(
        statestores=HUB,
        budget_bytes=64 << 20,
        control=ON,
        refresh_existing=False,
        refresh_cached=False,
        planning=True,
    )


def test_arguments_come_before_spark_and_spark_before_the_environment() -> None:
    conf = {"spark.topicast.control": DRY_RUN, "spark.topicast.statestores": HUB}
    environ = {"TOPICAST_CONTROL": OFF, "TOPICAST_STATESTORES": "tcp://elsewhere:1"}
    assert read({"control": ON}, conf, environ).control == ON
    assert read({}, conf, environ).control == DRY_RUN
    assert read({}, conf, environ).statestores == HUB
    assert read({"statestores": HUB}, {}, environ).control == OFF


@pytest.mark.parametrize(
    ("budget_bytes", "for_plans"), [(16 << 10, 0), (1 << 20, 0), (3 << 20, 1 << 20)]
)
def test_names_come_before_plans_in_a_small_budget(budget_bytes: int, for_plans: int) -> None:
    assert bytes_of_share(budget_bytes, PLANNING_SHARE) == for_plans


def test_everything_can_be_said_in_every_place() -> None:
    said = SparkSettings(
        statestores=HUB,
        budget_bytes=usable_bytes() * 5 // 100,
        control=OFF,
        refresh_existing=True,
        refresh_cached=True,
        planning=False,
        max_staleness_s=1.5,
        validate="hms",
    )
    conf = {
        "spark.topicast.statestores": HUB,
        "spark.topicast.budget": "5%",
        "spark.topicast.control": OFF,
        "spark.topicast.refreshExisting": "true",
        "spark.topicast.refreshCached": "TRUE",
        "spark.topicast.planning": "off",
        "spark.topicast.maxStaleness": "1.5s",
        "spark.topicast.validate": "hms",
    }
    environ = {
        "TOPICAST_STATESTORES": HUB,
        "TOPICAST_BUDGET": "5%",
        "TOPICAST_CONTROL": OFF,
        "TOPICAST_REFRESH_EXISTING": "1",
        "TOPICAST_REFRESH_CACHED": "true",
        "TOPICAST_PLANNING": "off",
        "TOPICAST_MAX_STALENESS": "1.5s",
        "TOPICAST_VALIDATE": "hms",
    }
    given = {
        "statestores": HUB,
        "budget": "5%",
        "control": OFF,
        "refresh_existing": True,
        "refresh_cached": True,
        "planning": "off",
        "max_staleness": "1.5s",
        "validate": "hms",
    }
    assert read(conf=conf) == read(environ=environ) == read(given) == said


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("spark.topicast.statestores", ""),
        ("spark.topicast.statestores", "127.0.0.1:24000"),
        ("spark.topicast.budget", "much"),
        ("spark.topicast.control", "away"),
        ("spark.topicast.refreshExisting", "perhaps"),
        ("spark.topicast.refreshCached", ""),
        ("spark.topicast.planning", "perhaps"),
        ("spark.topicast.maxStaleness", "long"),
        ("spark.topicast.maxStaleness", "0s"),
        ("spark.topicast.validate", "catalog"),
    ],
)
def test_value_that_is_not_allowed_is_refused_by_its_name(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key):
        read(conf={"spark.topicast.statestores": HUB, key: text})


@pytest.mark.parametrize("nonsense", [b"\0", -1, 10**400, float("nan"), [], {"a": 1}, object()])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_argument_of_another_type_is_refused(name: str, nonsense: object) -> None:
    with pytest.raises(ConfigError, match=name):
        read({"statestores": HUB, name: nonsense})


@pytest.mark.parametrize("name", ["refresh_existing", "refresh_cached"])
def test_text_is_a_boolean_as_an_argument_too(name: str) -> None:
    """It would be true, whatever it says, if it was not read."""
    for text, value in (("false", False), ("true", True)):
        assert getattr(read({"statestores": HUB, name: text}), name) is value
    with pytest.raises(ConfigError, match=f"{name}='perhaps' is not valid: true or false"):
        read({"statestores": HUB, name: "perhaps"})


def test_error_names_every_place_of_a_setting_that_is_missing() -> None:
    places = "statestores or spark.topicast.statestores or TOPICAST_STATESTORES"
    with pytest.raises(ConfigError, match=f"^{places}='' is not valid: at least one address"):
        read()


def test_attach_has_the_arguments_that_are_declared_and_its_docstring_explains_each() -> None:
    _, *arguments = inspect.signature(attach).parameters
    assert arguments == ARGUMENTS
    explained = re.findall(r"^        (\w+): ", attach.__doc__ or "", re.MULTILINE)
    assert explained == ["spark", *ARGUMENTS]
