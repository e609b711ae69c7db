"""A driver as hubs and operators see it, without Spark: a process that ends when its input does.

python -m topicast.tests.integration.driver_like STATESTORES APPLICATION [REASON [TABLE]]
"""

import os
import sys

from topicast.subscriber import Subscriber


def main(statestores: str, application: str, reason: str = "", table: str = "") -> None:
    """Follow ``statestores``, and answer for ``application`` until standard input ends.

    ``reason``: what it lacks though it is live, as an attached driver says of a small budget.
    ``table``: what it reads once it is open.
    """

    def facts() -> dict[str, str | int]:
        return {
            "driver": f"{application}@here:{os.getpid()}",
            "application": application,
            "application_id": application,
            "pid": os.getpid(),
            "state": "live",
            "reason": reason,
            "control": made.driver.wanted(application),
        }

    made = Subscriber(statestores, name=f"{application}@here:1", timeout_s=30, driver_facts=facts)
    with made:
        if table:
            made.partitions(table)
        print("open", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
