"""Ctrl-C and SIGTERM while a pipeline's command starts Spark, or waits for it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from topicast.tests.spark.applications import quick_environment

COMMAND = """
import os, signal, sys
from topicast.cli.commands.pipeline.frame import Frame, run_pipeline
from topicast.pipeline.options import RunOptions
from topicast.pipeline.session import open_session

def work(spark, **_):
    print("works", flush=True)
    spark._jvm.java.lang.Thread.sleep(600_000)

frame = Frame(master="local[1]", conf=("spark.ui.enabled=false", "spark.driver.host=127.0.0.1"))
sys.exit(run_pipeline(
    "sleep", work, RunOptions(statestores="tcp://h:1"), frame=frame, metastore=False,
    sessions=open_session,
))
"""


@pytest.fixture
def job(tmp_path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **quick_environment()},
        cwd=tmp_path,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_call_of_spark_ends_the_command_without_a_traceback(
    job: "subprocess.Popen[str]", number: signal.Signals
) -> None:
    assert job.stdout is not None
    assert job.stdout.readline() == "works\n"
    if number is signal.SIGINT:
        os.killpg(job.pid, number)  # a terminal's Ctrl-C is for Spark's JVM, too
    else:
        job.send_signal(number)
    _, said = job.communicate(timeout=60)
    assert "Traceback" not in said
    assert "error: interrupted: finished work stays; run it again for the rest\n" in said
    assert job.returncode == 130


def test_command_that_is_interrupted_while_spark_starts_says_when_it_ends(
    job: "subprocess.Popen[str]",
) -> None:
    assert job.stderr is not None
    said = job.stderr.readline()  # Spark's launcher has begun
    job.send_signal(signal.SIGTERM)
    printed, rest = job.communicate(timeout=60)
    said += rest
    assert "interrupted while Spark starts: the run ends as soon as Spark has started" in said
    assert "error: interrupted: finished work stays" in said
    assert ("Traceback" not in said, printed, job.returncode) == (True, "", 130)
