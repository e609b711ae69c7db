"""What the line of ``topicast hook install`` costs a Python that starts and has nothing to do.

unset    the variable is not set: what every Python pays
set      it is: what a Python pays that makes no Spark session
worker   it is, in a Python worker of an executor

Beside it stands a Python without the line; each pair takes turns, and ratios are of pairs.
Run: make bench ARGS=tests/bench/bench_hook.py
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter

from topicast.cli.launch import hooks
from topicast.tests.bench.report import beside, quantile, say, target
from topicast.tests.cli.homes import Home

PAIRS = 60
COST_MS_MAX = 5.0
SET_MS_MAX = 25.0  # with an address: what an attach needs is imported
ADDRESS = {hooks.VARIABLE: "tcp://127.0.0.1:1"}


def ms(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return (perf_counter() - begin) * 1000


def bench_start(plain: Home, hooked: Home, *, name: str, environ: Mapping[str, str]) -> None:
    pairs = [
        (
            ms(lambda: plain.python("-c", "pass", **environ)),
            ms(lambda: hooked.python("-c", "pass", **environ)),
        )
        for _ in range(PAIRS)
    ]
    cost = quantile([ours - its for its, ours in pairs], 0.5)
    its = quantile([its for its, _ in pairs], 0.5)
    reached = target(cost, at_most=COST_MS_MAX if name == "unset" else SET_MS_MAX)
    against = beside("python -c pass, ms", ours=its + cost, its=its)
    say("hook", name, n=PAIRS, cost_ms=cost, **against, **reached)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        plain, hooked = Home(Path(temporary, "plain")), Home(Path(temporary, "hooked"))
        (hooked.site / hooks.NAME).write_text(hooks.LINE)
        bench_start(plain, hooked, name="unset", environ={})
        bench_start(plain, hooked, name="set", environ=ADDRESS)
        worker = {**ADDRESS, "PYTHON_WORKER_FACTORY_SECRET": "x"}
        bench_start(plain, hooked, name="worker", environ=worker)


if __name__ == "__main__":
    main()
