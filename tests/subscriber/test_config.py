import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.config import TIMEOUT_S, Settings, budget_for, inbox_within, settings_of
from topicast.subscriber.declared import declarations
from topicast.topics.errors import ConfigError
from topicast.topics.memory.system_memory import usable_bytes
from topicast.topics.settings import parse_size

HUB = "tcp://127.0.0.1:24000"


def _settings(**given: object) -> Settings:
    arguments = {"statestores": HUB, "environ": {}, "default_name": "host:1", **given}
    return settings_of(**arguments)  # type: ignore[arg-type]  # each test names its own


@pytest.mark.parametrize(
    ("budget", "inbox_bytes"),
    [
        pytest.param("256MB", 16 << 20, id="a sixteenth"),
        pytest.param("100GB", 64 << 20, id="at most 64 MB"),
        pytest.param("16MB", 1 << 20, id="the least"),
        pytest.param("15MB", 0, id="the least is no part of so small a budget"),
    ],
)
def test_inbox_has_a_share_of_the_budget(budget: str, inbox_bytes: int) -> None:
    assert _settings(budget=budget).inbox_bytes == inbox_bytes


def test_arguments_stand_and_the_rest_has_defaults() -> None:
    settings = _settings()
    assert settings.statestores == (HUB,)
    assert settings.budget_bytes == parse_size("256MB")
    assert (settings.timeout_s, settings.name) == (TIMEOUT_S, "host:1")
    assert settings.max_staleness_s is None
    assert settings.automatic
    assert not _settings(levels="full").automatic
    settings = _settings(budget=1000, timeout_s=3.0, name="me", max_staleness_s=2.0)
    assert (settings.budget_bytes, settings.timeout_s) == (1000, 3.0)
    assert (settings.name, settings.max_staleness_s) == ("me", 2.0)


def test_self_audit_is_once_a_minute_unless_it_is_off_and_none_of_a_command() -> None:
    assert _settings().self_audit_s == 60.0
    assert _settings(self_audit_s=0.0).self_audit_s == 0.0
    assert _settings(environ={"TOPICAST_SELF_AUDIT": "0s"}).self_audit_s == 0.0
    assert _settings(command=True).self_audit_s == 0.0


@pytest.mark.parametrize(
    ("text", "size"), [("256MB", 256 << 20), ("1g", 1 << 30), ("512 kib", 512 << 10), (4096, 4096)]
)
def test_budget_is_written_as_people_write_sizes(text: str | int, size: int) -> None:
    assert _settings(budget=text).budget_bytes == size


def test_budget_may_be_a_share_of_what_this_process_may_use() -> None:
    assert _settings(budget="5%").budget_bytes == usable_bytes() * 5 // 100
    with pytest.raises(ConfigError, match="budget"):
        _settings(budget="101%")


def test_environment_gives_what_no_argument_does() -> None:
    environ = {
        "TOPICAST_STATESTORES": f"{HUB},tcp://127.0.0.1:24010",
        "TOPICAST_BUDGET": "1MB",
        "TOPICAST_NAME": "driver",
        "TOPICAST_LEVELS": "full",
        "TOPICAST_ALWAYS": "Finance.*, sales.orders",
        "TOPICAST_NEVER": "tmp_*.*",
        "TOPICAST_MAX_STALENESS": "500ms",
        "TOPICAST_SELF_AUDIT": "5m",
    }
    settings = _settings(statestores=None, environ=environ)
    assert len(settings.statestores) == 2
    assert (settings.budget_bytes, settings.name) == (1 << 20, "driver")
    assert (settings.max_staleness_s, settings.self_audit_s) == (0.5, 300.0)
    assert not settings.automatic
    assert settings.always == ("finance.*", "sales.orders")
    assert settings.never == ("tmp_*.*",)
    assert _settings(always="", never="*.*", environ=environ).always == ()
    settings = _settings(statestores=HUB, budget="2MB", max_staleness_s=1.0, environ=environ)
    assert (settings.statestores, settings.budget_bytes) == ((HUB,), 2 << 20)
    assert settings.max_staleness_s == 1.0


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"statestores": None}, "^statestores or TOPICAST_STATESTORES=''"),
        ({"statestores": "nonsense"}, "statestores"),
        ({"budget": 0}, "budget"),
        ({"budget": "a lot"}, "budget"),
        ({"levels": "half"}, "levels"),
        ({"environ": {"TOPICAST_LEVELS": "all"}}, "TOPICAST_LEVELS"),
        ({"environ": {"TOPICAST_BUDGET": "a lot"}}, "TOPICAST_BUDGET"),
        ({"environ": {"TOPICAST_NAME": "a\nb"}}, "TOPICAST_NAME"),
        ({"environ": {"TOPICAST_METASTORE": "m" * 5000}}, "TOPICAST_METASTORE"),
        *(({"always": text}, "always") for text in ("finance", "a.b,", ".b", "a.", "a.b\n.c")),
        ({"never": ",".join(f"a.b{number}" for number in range(101))}, "never.*at most 100"),
        ({"never": "a.b,.c"}, "never.*'.c'"),
        ({"environ": {"TOPICAST_ALWAYS": "a b.c"}}, "TOPICAST_ALWAYS"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": float("inf")}, "timeout_s"),
        ({"max_staleness_s": -1.0}, "max_staleness_s"),
        ({"max_staleness_s": float("nan")}, "max_staleness_s"),
        ({"environ": {"TOPICAST_MAX_STALENESS": "soon"}}, "TOPICAST_MAX_STALENESS"),
        ({"environ": {"TOPICAST_MAX_STALENESS": "0s"}}, "TOPICAST_MAX_STALENESS='0s'"),
        ({"self_audit_s": 59.0}, "self_audit_s"),
        ({"self_audit_s": -1.0}, "self_audit_s"),
        ({"environ": {"TOPICAST_SELF_AUDIT": "often"}}, "TOPICAST_SELF_AUDIT"),
    ],
)
def test_setting_that_is_not_allowed_is_named(given: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        _settings(**given)


@given(st.integers(0, 4 << 30))
def test_budget_for_bytes_is_the_least_that_leaves_them_beside_the_inbox(held: int) -> None:
    budget = budget_for(held)
    assert budget - inbox_within(budget) >= held
    less = budget - 1
    assert less - inbox_within(less) < held or inbox_within(held) == 0


def test_arguments_are_those_that_are_declared_and_the_docstring_explains_each() -> None:
    declared = {one.argument for one in declarations(Settings).values()}
    parts = {"credential", "outbox", "driver_facts"}  # objects, which stand nowhere else
    arguments = list(inspect.signature(Subscriber).parameters)
    assert set(arguments) == declared | parts
    about = (Subscriber.__init__.__doc__ or "").partition("Raises:")[0]
    assert re.findall(r"^            (\w+): ", about, re.MULTILINE) == arguments
