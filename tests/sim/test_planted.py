"""Faults planted in the production cores: a scenario, or a seed, must find every one of them."""

import pytest

from topicast.tests.cluster.violation import Violation
from topicast.tests.sim import (
    faults_identity,
    faults_levels,
    faults_policies,
    faults_protocol,
    faults_watches,
    faults_writes,
    scenario,
)
from topicast.tests.sim.fault import SEEDS, Fault
from topicast.tests.sim.model import MODEL
from topicast.tests.sim.run import Run
from topicast.tests.sim.test_scenarios import FOLDER

EVERY = (
    *faults_protocol.FAULTS,
    *faults_levels.FAULTS,
    *faults_writes.FAULTS,
    *faults_identity.FAULTS,
    *faults_policies.FAULTS,
    *faults_watches.FAULTS,
)
MISTAKES = NameError, TypeError  # of the fault itself


def _fails(text: str) -> bool:
    try:
        return scenario.run(text) != text
    except MISTAKES:
        raise
    except Exception:  # noqa: BLE001 - what a broken core raises notices it as well
        return True


def _seed_fails(seed: int, *, watched: bool = False) -> bool:
    try:
        Run(seed, watched=watched).go()
    except Violation as found:
        if isinstance(found.__cause__, MISTAKES):
            raise
        return True
    return False


def _marks(fault: Fault) -> list[pytest.MarkDecorator]:
    """Mark what takes seconds, and faults that only seeds find."""
    quick = fault.scenario and not fault.thorough
    return [] if quick else [pytest.mark.thorough, pytest.mark.nightly]


@pytest.mark.parametrize(
    "fault", [pytest.param(one, marks=_marks(one), id=one.rule) for one in EVERY]
)
def test_planted_fault_is_found_by_its_scenario_or_a_seed(fault: Fault) -> None:
    with fault.planted():
        if fault.scenario:
            assert _fails((FOLDER / f"{fault.scenario}.txt").read_text())
        else:
            seeds = (fault.likely_seed, *SEEDS)
            assert any(_seed_fails(seed, watched=fault.watched) for seed in seeds)


def test_every_rule_of_the_model_has_its_faults() -> None:
    rules = [fault.rule for fault in EVERY]
    assert len(rules) == len(set(rules))
    missing = {row: [one for one in found if one not in rules] for row, found in MODEL.items()}
    assert {row: left for row, left in missing.items() if left} == {}
    assert all(MODEL.values())
