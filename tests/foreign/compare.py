"""Compare: how the tests of a suite end in a plain and in an attached driver.

A test that ends otherwise is run again. It differs if plain Spark ends twice alike; where plain
Spark itself ends in two ways, the test depends on something else, and is only named.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from topicast.tests.foreign.suites import OK, SKIPPED, UNENDED

NOT_RUN: Final = "not run"

Ends = Mapping[str, str]  # by the name of a test


@dataclass(frozen=True, slots=True)
class Ran:
    """What a suite came to in one driver.

    ``problem``: why it did not come to its end; ``not_loaded``: why it has no tests;
    ``memory_reads``: what the catalog was asked and answered from memory, of a driver that counts.
    """

    ends: Ends = field(default_factory=dict)
    cpu_s: float = 0.0
    problem: str = ""
    not_loaded: str = ""
    memory_reads: int = 0

    def __str__(self) -> str:
        """Return the counts of its tests."""
        ends = list(self.ends.values())
        ok, skipped = passed(ends), ends.count(SKIPPED)
        more = f", {self.memory_reads} reads from memory" if self.memory_reads else ""
        return f"{ok} ok, {len(ends) - ok - skipped} not ok, {skipped} skipped{more}"


Both = tuple[Ran, Ran]  # plain, attached


def ran(lines: Iterable[str], problem: str = "") -> Ran:
    """Return what a process wrote of its suite, and has ended with ``problem``."""
    facts = [json.loads(line) for line in lines if line.endswith("\n")]  # it may have been killed
    ends = {one["test"]: one["end"] for one in facts if "test" in one}
    last = facts[-1] if facts else {}
    if not problem and not last.keys() & {"cpu_s", "not_loaded"}:
        problem = "it ended before its last test"
    unended = [name for name, end in ends.items() if end == UNENDED]
    where = f", in {unended[-1]}" if problem and unended else ""
    return Ran(
        ends,
        last.get("cpu_s", 0.0),
        problem + where,
        last.get("not_loaded", ""),
        last.get("memory_reads", 0),
    )


def kind(end: str) -> str:
    """Return by what an end is compared: texts of errors contain paths and addresses."""
    return end.partition(":")[0]


def passed(ends: Iterable[str]) -> int:
    """Return how many ends are ok, whatever was answered."""
    return sum(end.partition(" ")[0] == OK for end in ends)


def differing(both: Both) -> list[str]:
    """Return the names of tests that ended otherwise when the driver was attached.

    If a driver did not come to the end of the suite, that counts, and not the tests left out.
    """
    plain, attached = both
    names = sorted({**plain.ends, **attached.ends})
    if plain.problem or attached.problem:
        names = [one for one in names if one in plain.ends and one in attached.ends]
    return [one for one in names if len({kind(end) for end in _ends(one, both)}) > 1]


def is_of_plain_spark(name: str, runs: Sequence[Both]) -> bool:
    """Return whether plain Spark itself ended the test in more than one way."""
    return len({kind(_ends(name, both)[0]) for both in runs}) > 1


def told(name: str, runs: Sequence[Both]) -> str:
    """Return how a test ended in each run of both drivers."""
    plain, attached = zip(*(_ends(name, both) for both in runs), strict=True)
    return f"{name}\n    plain: {'; '.join(plain)}\n    attached: {'; '.join(attached)}"


def summary(first: Mapping[str, Both], again: Mapping[str, Both]) -> tuple[int, list[str]]:
    """Return the exit code and the lines of what suites came to.

    ``again``: a further run of those in which a test ended otherwise.

    The exit code is 1 if a test differs, if a suite did not come to its end, or if none of its
    tests passed in plain Spark, which would prove nothing; 2 if no suite was loaded.
    """
    lines, failures, tests, ok, unsteady, unloaded = [], 0, 0, 0, 0, 0
    cpu_s = [0.0, 0.0]
    for suite, both in first.items():
        whys = [one.not_loaded for one in both if one.not_loaded]
        if len(whys) == len(both):
            lines.append(f"not loaded: {suite}: {whys[0]}")
            unloaded += 1
            continue
        runs = [both, *([again[suite]] if suite in again else [])]
        problems = [
            f"{suite}, {place}: {one.problem or one.not_loaded}"
            for run in runs
            for place, one in zip(("plain", "attached"), run, strict=True)
            if one.problem or one.not_loaded
        ]
        count = passed(both[0].ends.values())
        if not count:
            problems.append(f"{suite}: none of its tests passes in plain Spark")
        lines += [f"no end: {one}" for one in problems]
        failures += len(problems)
        for name in sorted({one for run in runs for one in differing(run)}):
            steady = not is_of_plain_spark(name, runs)
            lines.append(f"{'different' if steady else 'unsteady'}: {told(name, runs)}")
            failures += steady
            unsteady += not steady
        tests += len({**both[0].ends, **both[1].ends})
        ok += count
        cpu_s = [sum(pair) for pair in zip(cpu_s, (one.cpu_s for one in both), strict=True)]
    ran_ = len(first) - unloaded
    lines.append(
        f"{tests} tests of {ran_} suites: {ok} ok in plain Spark, {failures} different or"
        f" without an end, {unsteady} unsteady in plain Spark; {unloaded} suites not loaded"
    )
    more = f" ({100 * (cpu_s[1] / cpu_s[0] - 1):+.0f} %)" if cpu_s[0] else ""
    lines.append(f"processor time: plain {cpu_s[0]:.0f} s, attached {cpu_s[1]:.0f} s{more}")
    return (1 if failures else 0 if ran_ else 2), lines


def _ends(name: str, both: Both) -> tuple[str, str]:
    plain, attached = (one.ends.get(name, NOT_RUN) for one in both)
    return plain, attached
