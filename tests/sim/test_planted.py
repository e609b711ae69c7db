"""Faults planted in the production cores: a scenario, or a seed, must find every one of them."""

import pytest

from topicast.tests.sim import scenario
from topicast.tests.sim.planting import Plant
from topicast.tests.sim.plants import PLANTS, SEEDS
from topicast.tests.sim.run import Run
from topicast.tests.sim.test_scenarios import FOLDER


def _fails(plant: Plant, text: str) -> bool:
    with plant.planted():
        try:
            return scenario.run(text) != text
        except Exception:  # noqa: BLE001 - what a broken core raises notices it as well
            return True


def _seed_fails(seed: int) -> bool:
    try:
        Run(seed).go()
    except Exception:  # noqa: BLE001 - likewise
        return True
    return False


@pytest.mark.parametrize(
    "plant", [one for one in PLANTS if one.scenario], ids=lambda plant: plant.rule
)
def test_planted_fault_is_found_by_its_scenario(plant: Plant) -> None:
    assert _fails(plant, (FOLDER / f"{plant.scenario}.txt").read_text())


@pytest.mark.parametrize(
    "plant", [one for one in PLANTS if not one.scenario], ids=lambda plant: plant.rule
)
def test_planted_fault_is_found_by_a_seed(plant: Plant) -> None:
    with plant.planted():
        assert any(map(_seed_fails, SEEDS))
