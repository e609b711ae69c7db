"""What deploy/ holds, checked as far as that goes without a systemd or a cluster that runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from topicast.catalog.config import CatalogdConfig
from topicast.statestore.config import StatestoredConfig

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
BIN = Path(sys.executable).parent
INSTALLED = "/opt/topicast/bin"
EXPOSURE_MAX = 1.5  # of 10, as systemd-analyze counts it


@pytest.fixture(params=UNITS, ids=lambda path: path.name)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a unit that starts what is installed here."""
    path = tmp_path / request.param.name
    text = request.param.read_text(encoding="utf-8")
    assert INSTALLED in text
    path.write_text(text.replace(INSTALLED, str(BIN)))
    return path


def done(*command: object) -> str:
    """Run a command that succeeds; return what it says."""
    run = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_systemd_finds_no_fault_in_a_unit(unit: Path) -> None:
    assert done("systemd-analyze", "verify", "--man=no", unit) == ""


def test_daemon_may_do_little_else_than_serve(unit: Path) -> None:
    found = done("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    level = re.search(r"exposure level for .*: ([\d.]+)", found)
    assert level is not None
    assert float(level[1]) <= EXPOSURE_MAX


def test_flags_of_units_are_the_daemons_own(unit: Path) -> None:
    (start,) = re.findall(r"^ExecStart=(\S+) (.*)$", unit.read_text(), re.MULTILINE)
    usage = done(start[0], "--help")
    for flag in start[1].split():
        assert flag.partition("=")[0] in usage


def test_manifests_are_valid() -> None:
    plain = [path for path in MANIFESTS if path.name != "kustomization.yaml"]
    found = done(sys.executable, "-m", "kubernetes_validate", "--strict", *plain)
    assert found.count("passed for resource") == 6


def test_hub_has_its_name_before_it_is_ready_and_waits_as_long_as_catalogd() -> None:
    """It is ready once catalogd, which finds it by that name, has sent it the catalog."""
    hub, catalogd = (
        (ROOT / "deploy" / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8")
        for name in ("statestored", "catalogd")
    )
    service, _, pods = hub.partition("\n---\n")
    assert "publishNotReadyAddresses: true" in service
    waits = re.compile(r"startupProbe:.*?failureThreshold: (\d+)", re.DOTALL)
    assert waits.findall(pods) == waits.findall(catalogd) == ["720"]


def test_settings_of_manifests_are_the_daemons_own() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in MANIFESTS)
    usage = "".join(done(BIN / daemon, "--help") for daemon in ("statestored", "catalogd"))
    named = set(re.findall(r"name: (TOPICAST_\w+)", text))
    assert len(named) > 5
    assert [one for one in named if one not in usage] == []


def test_network_policy_opens_the_three_ports_and_no_other() -> None:
    text = (ROOT / "deploy" / "kubernetes" / "networkpolicy.yaml").read_text(encoding="utf-8")
    hub, catalogd = StatestoredConfig().state_store_port, CatalogdConfig().catalog_service_port
    opened = [int(port) for port in re.findall(r"- port: (\d+)", text)]
    assert opened == [hub, hub + 1, catalogd]
    assert text.count("policyTypes: [Ingress]") == 2, "outgoing connections are free"
