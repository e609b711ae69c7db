"""Hasty: the daemons, but what a driver intends to write lapses 3 s after its last message."""

import runpy

from topicast.catalog.ingest.writes import reports

if __name__ == "__main__":
    reports.INTENT_LAPSES_S = 3.0  # type: ignore[misc]  # no other process is so hasty
    runpy.run_module("topicast.cli.daemons", run_name="__main__", alter_sys=True)
