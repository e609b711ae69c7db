"""Spark's own tests are run, by a small checkout of our own, in real drivers."""

import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import psutil
import pyspark
import pytest

from topicast.tests.cli.processes import command, completed, is_gone
from topicast.tests.foreign.run import main
from topicast.tests.foreign.statements import INPUTS
from topicast.tests.waiting import until

RUN: Final = "topicast.tests.foreign.run"
SUITE: Final = """
import os, sys, unittest
from pyspark.sql import SparkSession

class Tests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spark = SparkSession.builder.getOrCreate()

    def test_alike(self):
        self.assertEqual(self.spark.sql("SHOW DATABASES").collect()[0][0], "default")
        self.assertEqual(self.spark.sparkContext.parallelize([1]).map(double).collect(), [2])
        self.assertTrue(os.path.exists("python/test_support/some.txt"))

    def test_fails(self):
        self.fail("in both")

    def test_differs(self):
        self.assertNotIn("topicast.subscriber.spark", sys.modules)

    def test_depends(self):
        self.assertTrue("topicast.subscriber.spark" in sys.modules or "first" in os.getcwd())

    @unittest.skip("in both")
    def test_skipped(self):
        pass

def double(one):
    return 2 * one
"""
HANGS: Final = """
import threading, unittest
from pathlib import Path
from pyspark.sql import SparkSession

class Tests(unittest.TestCase):
    def test_hangs(self):
        SparkSession.builder.getOrCreate()
        Path("hangs").touch()
        threading.Event().wait()
"""
STATEMENTS: Final = """
CREATE TABLE t (a INT) USING parquet PARTITIONED BY (b INT);
INSERT INTO t VALUES (1, 2), (3, 4);
SELECT * FROM t WHERE b > 2; -- read twice, of which once is from memory
SELECT * FROM t WHERE b > 2;
SHOW CREATE TABLE t;
SELECT * FROM missing;
SELECT java_method('java.lang.System', 'getProperty', 'user.dir') LIKE '%attached';
SELECT count(*) FROM testdata;
"""
MORE: Final = """
CREATE TABLE t USING parquet AS SELECT key FROM testdata;
SELECT * FROM t;
SELECT * FROM t;
"""
WITHIN_S: Final = 2.0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a suite that runs, another that hangs, a third without a module, and SQL."""
    package = tmp_path / "spark" / "python" / "pyspark"
    tests = package / "sql" / "tests"
    tests.mkdir(parents=True)
    (tests / "__init__.py").touch()
    (tests / "test_own.py").write_text(SUITE)
    (tests / "test_hangs.py").write_text(HANGS)
    (tests / "test_unknown.py").write_text("import nothing_of_this_name")
    (package / "version.py").write_text('__version__: str = "9.9.9"\n')
    (package / "testing").symlink_to(Path(pyspark.__file__).parent / "testing")
    (package.parent / "test_support").mkdir()
    (package.parent / "test_support" / "some.txt").touch()
    inputs = tmp_path / "spark" / INPUTS
    inputs.mkdir(parents=True)
    (inputs / "own.sql").write_text(STATEMENTS)
    (inputs / "more.sql").write_text(MORE)
    return tmp_path / "spark"


def test_folder_that_is_no_checkout_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"'{tmp_path}' is no checkout of Spark" in said
    assert "make foreign SPARK_SOURCE=DIR" in said


def test_suite_that_the_checkout_does_not_have_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(checkout), "test_other", "sql.own", "sql.other"]) == 2
    assert capsys.readouterr().err == "the checkout has no suite test_other, sql.other\n"


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_tests_run_in_both_drivers_and_a_test_that_ends_differently_fails(
    checkout: Path, tmp_path: Path
) -> None:
    suites = ("test_own", "test_unknown", "sql.[n-z]", "sql.more")
    done = completed(command(RUN, checkout, *suites, f"--work={tmp_path / 'work'}"), timeout_s=580)
    said = done.stdout
    print(said)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"tests of 9.9.9 on PySpark {pyspark.__version__}" in said
    assert "test_own: plain 3 ok, 1 not ok, 1 skipped; attached 2 ok, 2 not ok, 1 skipped" in said
    assert "not loaded: test_unknown: ModuleNotFoundError: No module named 'nothing_of" in said
    name = "pyspark.sql.tests.test_own.Tests"
    assert f"different: {name}.test_differs\n    plain: ok; ok\n    attached: AssertionErr" in said
    assert f"unsteady: {name}.test_depends\n    plain: ok; AssertionError: False is" in said
    assert "sql.[n-z]: plain 7 ok, 1 not ok, 0 skipped; attached 7 ok, 1 not ok, 0 skip" in said
    assert "sql.more: plain 3 ok, 0 not ok, 0 skipped; attached 3 ok, 0 not ok, 0 skip" in said
    assert "different: own.sql 7 SELECT java_method(" in said
    assert "16 tests of 3 suites: 13 ok in plain Spark, 2 different or without an end" in said


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_signal_ends_all_that_was_started_at_once(
    number: signal.Signals, checkout: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    process = subprocess.Popen(
        command(RUN, checkout, "test_hangs", f"--work={work}"), stdout=subprocess.DEVNULL
    )
    try:
        places = [work / "first" / one / "hangs" for one in ("plain", "attached")]
        until(lambda: all(one.exists() for one in places), timeout_s=200, what="both drivers")
        below = psutil.Process(process.pid).children(recursive=True)
        began_at = time.monotonic()
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        took_s = time.monotonic() - began_at
    finally:
        process.kill()
        process.wait()
    assert len(below) >= 9, "two metastores, two daemons, two suites with a JVM each, and a run"
    assert [one for one in below if not is_gone(one.pid)] == []
    assert took_s < WITHIN_S
