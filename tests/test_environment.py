"""The environment of the tests: no setting of the caller's reaches them."""

import os
import subprocess
import sys


def test_settings_of_the_callers_environment_do_not_reach_tests() -> None:
    shown = "import os, topicast.tests.conftest; print(*sorted(os.environ))"
    own = {"TOPICAST_BUDGET": "1KB", "TOPICAST_FOO": "1", "TOPICAST_TEST_HIVE": "/h"}
    done = subprocess.run(
        [sys.executable, "-c", shown],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {name for name in done.stdout.split() if name.startswith("TOPICAST_")} == {
        "TOPICAST_TEST_HIVE"
    }
