"""Hasty: the daemons, but what a driver means to write lapses 3 s after its last word, not 30."""

import runpy

from topicast.catalog.sources import reports

if __name__ == "__main__":
    reports.LEASE_S = 3.0  # type: ignore[misc]  # no other process is so hasty
    runpy.run_module("topicast.cli.daemons", run_name="__main__", alter_sys=True)
