"""The alarms of deploy/prometheus: of metrics that there are, explained, raised by their causes."""

import ast
import json
import re
import subprocess
from pathlib import Path
from shutil import which
from typing import Final

import pytest
from prometheus_client import generate_latest

from topicast.cli.pages.metrics import (
    CATALOGD,
    COUNTER,
    HISTOGRAMS,
    STATESTORED,
    VERDICT,
    Histograms,
    Table,
    metric_name,
    registry_of,
)
from topicast.cli.pages.parts.document import SEE
from topicast.tests.cli.alarm_cases import (
    ALERTS,
    CASES,
    LINES_MAX,
    METRIC,
    WIDTH,
    Case,
    metrics_of_alarms,
    text_of,
)
from topicast.topics.histogram import Histogram
from topicast.topics.verdict import Reason, Serving, Verdict, verdict_of

ROOT: Final = Path(__file__).resolve().parents[3]
DASHBOARD: Final = ROOT / "deploy" / "grafana.json"
FILE: Final = ROOT / "docs" / "alarms.md"
PAGE: Final = FILE.read_text(encoding="utf-8")
LOOKS: Final = "## As they look\n"
DAEMONS: Final = {"statestored": STATESTORED, "catalogd": CATALOGD}
FOLDERS: Final = ("topics", "statestore", "catalog", "cli")
WITHOUT_PANEL: Final = {
    *("topicast_statestored_serving", "topicast_catalogd_serving"),  # the panel of the verdict
    "topicast_statestored_certificate_left_seconds",  # the pages may be served by HTTP
    "topicast_catalogd_certificate_left_seconds",
}
ABOUT_OLD: Final = {"metastore"}  # what a command makes of a daemon that has no verdict yet


def metrics_of(daemon: str, table: Table) -> set[str]:
    counted = {name for name, (kind, _) in table.items() if kind == COUNTER}
    names = {*table, *VERDICT}
    return {metric_name(daemon, name) + ("_total" if name in counted else "") for name in names}


def known_metrics() -> set[str]:
    known = set().union(*(metrics_of(*one) for one in DAEMONS.items()))
    return known | {
        f"{metric_name(daemon, name)}_bucket" for daemon in DAEMONS for name in HISTOGRAMS[daemon]
    }


def metrics_of_panels() -> set[str]:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    return {name for text in expressions for name in METRIC.findall(text)}


def test_alarms_are_of_metrics_that_there_are() -> None:
    assert len(metrics_of_alarms()) > 10
    assert metrics_of_alarms() <= known_metrics()


def test_dashboard_shows_what_alarms_are_about() -> None:
    assert metrics_of_alarms() - metrics_of_panels() == WITHOUT_PANEL


def test_panels_of_the_dashboard_are_of_metrics_that_there_are_and_none_is_there_twice() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len(panels) >= 10
    assert metrics_of_panels() <= known_metrics()
    for of_panels in ("id", "title"):
        assert len({panel[of_panels] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)


def test_each_alarm_is_explained() -> None:
    alarms = re.findall(r"alert: (\w+)", ALERTS.read_text())
    assert re.findall(r"^\| `(Topicast\w+)` \|", PAGE, re.MULTILINE) == alarms


def test_each_reason_is_explained() -> None:
    codes = {
        keyword.value.value
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Reason"
        for keyword in call.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    explained = set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE))
    assert codes - ABOUT_OLD == explained - {"code"}


def test_page_shows_each_reason_and_each_alarm_as_it_looks(pytestconfig: pytest.Config) -> None:
    """By what commands print of its facts; --rewrite writes the page."""
    head, _, told = PAGE.partition(LOOKS)
    about = told.partition("\n###")[0]
    made = "\n\n".join([about.rstrip("\n"), *map(text_of, CASES), ""]).replace("\n\n\n", "\n\n")
    if pytestconfig.getoption("--rewrite"):
        FILE.write_text(f"{head}{LOOKS}{made}", encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == f"{head}{LOOKS}{made}"


def test_each_reason_and_each_alarm_looks_like_something_that_fits_a_terminal() -> None:
    shown = [name for case in CASES for name in case.names]
    explained = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(shown) == sorted(name for name in explained if name != "code")
    for case in CASES:
        output = case.output()
        assert len(output) <= LINES_MAX, case.names
        long = [line for line in output if len(line) > WIDTH]
        assert not [line for line in long if " " in line.strip()], "no line but for one long word"


@pytest.mark.parametrize("case", CASES, ids=[case.names[-1] for case in CASES])
def test_reason_shows_in_the_verdict(case: Case) -> None:
    """In each of these cases one thing is wrong, and nothing else."""
    command, state, *_ = case.output()
    if not case.names[-1].startswith("Topicast"):
        assert (command, state == "serving") == ("$ topicast status", False)


def test_each_reason_leads_to_a_page() -> None:
    explained = set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE))
    assert set(SEE) == explained - {"code"}


def test_process_is_measured() -> None:
    registry = registry_of("catalogd", CATALOGD, dict)
    assert b"process_resident_memory_bytes" in generate_latest(registry)


def some_histograms(daemon: str) -> Histograms:
    made = Histogram()
    made.add(0.2)
    known = HISTOGRAMS[daemon]
    return {name: {"x" if label else "": made.facts()} for name, (label, _) in known.items()}


@pytest.mark.nightly
@pytest.mark.parametrize("daemon", DAEMONS)
def test_metrics_are_as_prometheus_wants_them(daemon: str) -> None:
    def verdict() -> Verdict:
        return verdict_of([Reason(state=Serving.DEGRADED, code="x", what="it is", mend="wait")])

    facts = dict.fromkeys(DAEMONS[daemon], 1) | {"refused_WIRE": 2}
    registry = registry_of(
        daemon,
        DAEMONS[daemon],
        lambda: facts,
        verdict=verdict,
        histograms=lambda: some_histograms(daemon),
    )
    promtool("check", "metrics", text=generate_latest(registry))


@pytest.mark.nightly
def test_each_alarm_is_raised_by_its_cause_and_by_no_other() -> None:
    promtool("check", "rules", str(ALERTS))
    promtool("test", "rules", str(ALERTS.with_name("alerts_test.yml")))


def promtool(*words: str, text: bytes = b"") -> None:
    assert which("promtool"), "promtool is missing: apt-get install prometheus"
    done = subprocess.run(("promtool", *words), input=text, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert done.stderr == b""
