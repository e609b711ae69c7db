"""Report: the JSON line of a result, and how times are taken.

A line has a ``name``, which stands for the result over the years, and numbers. ``ratio`` is ours
divided by that of ``beside``, both measured in the same run; ``met`` is whether a number to reach
was reached. A line without a target says by ``reference`` what it is for. ``tests/bench/run.py``
adds the name of the bench, and compares lines with those of ``results.jsonl``.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Final

RUNS: Final = 5
Facts = Mapping[str, object]


def say(name: str, *parts: Facts, **facts: object) -> None:
    """Print one result, with ``facts`` and those of ``parts``."""
    for part in parts:
        facts |= part
    rounded = {key: significant(fact) for key, fact in facts.items()}
    print(json.dumps({"name": name, **rounded}), flush=True)


def significant(fact: object) -> object:
    """Return a float with four digits, and anything else as it is."""
    if not isinstance(fact, float):
        return fact
    return round(fact) if abs(fact) >= 1000 else float(f"{fact:.4g}")


def beside(
    what: str, ours: float, its: float, *, most: float | None = None, least: float | None = None
) -> Facts:
    """Return the facts that set a number of ours beside that of ``what``, with its bound."""
    bound = {} if most is None else at_most(ours / its, most)
    bound = bound if least is None else at_least(ours / its, least)
    return {"beside": what, "its": its, "ratio": ours / its, **bound}


def at_most(value: float, bound: float) -> Facts:
    """Return the facts that show whether a number to reach was reached."""
    return {"target": bound, "met": value <= bound}


def at_least(value: float, bound: float) -> Facts:
    """Return the facts that show whether a number was reached that is to be exceeded."""
    return {"target": bound, "least": True, "met": value >= bound}


def both_at_most(*pairs: tuple[float, float]) -> Facts:
    """Return the facts that show whether several numbers, each with its bound, were reached."""
    return {"target": [most for _, most in pairs], "met": all(one <= most for one, most in pairs)}


def reference(why: str) -> Facts:
    """Return the fact that says what a line is for that has no number to reach."""
    return {"reference": why}


def best_s(work: Callable[[], object], *, calls: int = 1, runs: int = RUNS) -> float:
    """Return the seconds of one call of ``work``: the best of ``runs`` rounds of ``calls``."""
    return min(timed_s(work, calls=calls) for _ in range(runs))


def timed_s(work: Callable[[], object], *, calls: int = 1) -> float:
    """Return the seconds of one call of ``work``, over ``calls``."""
    begin = perf_counter()
    for _ in range(calls):
        work()
    return (perf_counter() - begin) / calls


def best_us(work: Callable[[], object], *, calls: int = 1, runs: int = RUNS) -> float:
    """Return the microseconds of one call: as ``best_s``."""
    return best_s(work, calls=calls, runs=runs) * 1e6


def quantile(values: Iterable[float], part: float) -> float:
    """Return the value below which ``part`` of ``values`` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def percentiles(values_ms: Iterable[float]) -> dict[str, float]:
    """Return how many values there are, their p50 and p99."""
    values = tuple(values_ms)
    p50, p99 = quantile(values, 0.5), quantile(values, 0.99)
    return {"n": len(values), "p50_ms": p50, "p99_ms": p99}
