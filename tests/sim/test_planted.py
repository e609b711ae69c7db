"""Faults planted in the production cores: a scenario, or a seed, must find every one of them."""

import pytest

from topicast.tests.cluster.violation import Violation
from topicast.tests.sim import scenario
from topicast.tests.sim.model import MODEL
from topicast.tests.sim.planting import Plant
from topicast.tests.sim.plants import PLANTS, SEEDS
from topicast.tests.sim.plants_levels import LEVEL_PLANTS
from topicast.tests.sim.plants_writes import WRITE_PLANTS
from topicast.tests.sim.run import Run
from topicast.tests.sim.test_scenarios import FOLDER

EVERY = (*PLANTS, *LEVEL_PLANTS, *WRITE_PLANTS)


def _fails(plant: Plant, text: str) -> bool:
    with plant.planted():
        try:
            return scenario.run(text) != text
        except NameError:  # of the fault itself
            raise
        except Exception:  # noqa: BLE001 - what a broken core raises notices it as well
            return True


def _seed_fails(seed: int) -> bool:
    try:
        Run(seed).go()
    except Violation as found:
        if isinstance(found.__cause__, NameError):
            raise  # of the fault itself
        return True
    return False


@pytest.mark.parametrize(
    "plant", [one for one in EVERY if one.scenario], ids=lambda plant: plant.rule
)
def test_planted_fault_is_found_by_its_scenario(plant: Plant) -> None:
    assert _fails(plant, (FOLDER / f"{plant.scenario}.txt").read_text())


@pytest.mark.parametrize(
    "plant", [one for one in EVERY if not one.scenario], ids=lambda plant: plant.rule
)
def test_planted_fault_is_found_by_a_seed(plant: Plant) -> None:
    with plant.planted():
        assert any(map(_seed_fails, SEEDS))


def test_every_rule_of_the_model_has_its_plants() -> None:
    rules = [plant.rule for plant in EVERY]
    assert len(rules) == len(set(rules))
    missing = {row: [one for one in found if one not in rules] for row, found in MODEL.items()}
    assert {row: left for row, left in missing.items() if left} == {}
    assert all(MODEL.values())
