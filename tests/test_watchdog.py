"""A test that cleans up for ever ends its process, with the stacks; others never do."""

import subprocess
import sys
from textwrap import dedent

import pytest

from topicast.tests.watchdog import ENDED


def run(body: str) -> subprocess.CompletedProcess[str]:
    """Run ``body`` with a watchdog ``dog`` that has 0.2 s for fixtures."""
    head = (
        "import time\nfrom topicast.tests.watchdog import Watchdog\n"
        "dog = Watchdog(0.2, look_s=0.05)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", head + dedent(body)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_process_ends_with_stacks_of_what_does_not_end() -> None:
    ended = run("""
        def cleans_up():
            time.sleep(3600)
        with dog.watch(0.1):
            cleans_up()
    """)
    assert ended.returncode == ENDED
    assert "a test has not ended in time" in ended.stderr
    assert "in cleans_up" in ended.stderr


@pytest.mark.parametrize("within", ["pass", "raise KeyboardInterrupt"])
def test_what_has_ended_is_left_alone(within: str) -> None:
    ended = run(f"""
        try:
            with dog.watch(0.1):
                {within}
        except KeyboardInterrupt:
            pass
        time.sleep(0.6)
        print("went on")
    """)
    assert (ended.returncode, ended.stdout) == (0, "went on\n"), ended.stderr
