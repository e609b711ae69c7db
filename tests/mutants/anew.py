"""Run tests in a new process, which imports a mutant: prints the first that fails.

Slow: everything is imported and collected again. It reads a Trial from stdin, as JSON.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Final

import pytest
from making import ROOT, Mutant
from swapping import ENDLESS, QUICK

ENDED: Final = (0, 1, 2, 4)  # 2, 4: a module cannot be imported


class FirstFailure:
    """A plugin of pytest that keeps the id of the first test that fails."""

    test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it."""
        if report.failed:
            self.test = self.test or report.nodeid


def first_failure(mutant: Mutant, tests: Sequence[str], *, cpu_s: int) -> str:
    """Return the first of ``tests`` that fails, or why there is none; empty: all pass."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([mutant.path, mutant.code, list(tests), cpu_s]),
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode < 0:
        return ENDLESS
    assert done.returncode in ENDED, done.stderr
    return done.stdout.strip() if done.returncode < 2 else f"exit code {done.returncode}"


def main() -> int:
    """Run the tests of the Trial."""
    path, code, tests, cpu_s = json.load(sys.stdin)
    file, get_code = str(ROOT / path), SourceFileLoader.get_code
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))

    def mutated(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if self.path == file:
            return compile(code, file, "exec", dont_inherit=True)  # type: ignore[no-any-return]
        return get_code(self, fullname)

    SourceFileLoader.get_code = mutated  # type: ignore[method-assign]  # of this process
    first = FirstFailure()
    with redirect_stdout(sys.stderr):
        ended = pytest.main(["-n0", "-xq", *QUICK, *tests], plugins=[first])
    print(first.test)
    return int(ended)


if __name__ == "__main__":
    sys.exit(main())
