"""The clock of a subscriber on a machine that has slept, as a time namespace may say of it."""

import subprocess
import sys

ASLEEP_S = 86_400
ASK = """
import time
from topicast.topics.clock import seconds
print(seconds() - time.monotonic())
"""


def test_time_passes_while_the_machine_sleeps() -> None:
    slept = ("--time", "--boottime", str(ASLEEP_S))
    command = ["unshare", "--user", "--map-root-user", *slept, "--fork", sys.executable, "-c", ASK]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(asked.stdout) > ASLEEP_S - 1
