"""Every scenario goes as it is written; ``pytest --rewrite`` writes it as it goes."""

from difflib import unified_diff
from pathlib import Path

import pytest

from topicast.tests.sim import scenario

FOLDER = Path(__file__).parent / "scenarios"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_scenario_goes_as_it_is_written(name: str, request: pytest.FixtureRequest) -> None:
    path = FOLDER / f"{name}.txt"
    before = path.read_text()
    after = scenario.run(before)
    if request.config.getoption("--rewrite"):
        path.write_text(after)
        return
    diff = "".join(unified_diff(before.splitlines(True), after.splitlines(True), "was", "is"))
    assert before == after, f"read it, then pytest {__name__} --rewrite:\n{diff}"
