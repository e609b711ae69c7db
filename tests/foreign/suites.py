"""Suites: one of PySpark's own test modules in this process; writes how each test ends.

    pyspark.sql.tests.test_catalog ──unittest──▶ a line of JSON for each test that begins, or ends

It knows nothing of Topicast: the process that starts it attaches its drivers, or does not.
Run: python -m topicast.tests.foreign.suites MODULE FILE
"""

import json
import os
import sys
import unittest
from pathlib import Path
from typing import IO, Any, Final

OK: Final = "ok"
SKIPPED: Final = "skipped"
UNENDED: Final = "never ended"
END_CHARS_MAX: Final = 200  # some tests put all that they have found into their message


class Result(unittest.TextTestResult):
    """Writes each test's end as it is known: ok, skipped, or what it raised."""

    file: IO[str]

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's names
        super().startTest(test)
        self._failed = False
        self._write(test, UNENDED)

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().addSuccess(test)
        if not self._failed:
            self._write(test, OK)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self._write(test, SKIPPED)

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """Write what was raised; ``test`` may stand for what sets up a class."""
        super().addError(test, err)
        self._fail(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._fail(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._fail(test, err)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self._write(test, "failed as expected")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().addUnexpectedSuccess(test)
        self._write(test, "unexpected success")

    def _fail(self, test: unittest.TestCase, err: Any) -> None:
        self._failed = True
        self._write(test, said(err[1]))

    def _write(self, test: unittest.TestCase, end: str) -> None:
        write(self.file, test=test.id(), end=end)


def write(file: IO[str], **fact: object) -> None:
    """Add a line, which is there even if this process is killed right after it."""
    file.write(json.dumps(fact) + "\n")
    file.flush()


def said(error: BaseException) -> str:
    """Return the class of an error and how its text begins."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"[:END_CHARS_MAX]


def cpu_s() -> float:
    """Return the processor time of this process, of its JVM, and of what they have waited for."""
    from pyspark import SparkContext

    gateway = vars(SparkContext)["_gateway"]  # PySpark's, of this process
    jvm = [gateway.proc.pid] if gateway is not None else []
    ticks = 0
    for pid in [os.getpid(), *jvm]:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # utime, stime, and those of children
    return ticks / os.sysconf("SC_CLK_TCK")


def main(module: str, answer: str) -> None:
    """Run the tests of ``module``; write into the file ``answer`` how each ends."""
    with Path(answer).open("w", encoding="utf-8") as Result.file:
        try:
            __import__(module)
        except Exception as error:  # noqa: BLE001 - whatever this PySpark lacks
            write(Result.file, not_loaded=said(error))
            return
        suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[module])
        unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
        write(Result.file, cpu_s=cpu_s())


if __name__ == "__main__":
    main(*sys.argv[1:])
