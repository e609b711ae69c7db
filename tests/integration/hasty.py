"""Hasty: the daemons, but what a driver intends to write lapses LEASE_S after its last message.

That is 3 s instead of 30, unless the environment has another value.
"""

import os
import runpy

from topicast.catalog.ingest.writes import reports

if __name__ == "__main__":
    reports.LEASE_S = float(os.environ.get("LEASE_S", "3"))  # type: ignore[misc]  # no other process is so hasty
    runpy.run_module("topicast.cli.daemons", run_name="__main__", alter_sys=True)
