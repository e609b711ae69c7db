"""Which Python the Spark of a pipeline runs."""

import sys

import pytest

from topicast.pipeline.session import DRIVER_PYTHON, PYTHON, choose_python


@pytest.mark.parametrize("master", [None, "local[2]", "local-cluster[2,1,1024]"])
def test_spark_on_this_machine_runs_this_python(master: str | None) -> None:
    environ: dict[str, str] = {}
    choose_python(environ, master=master)
    assert environ == {DRIVER_PYTHON: sys.executable, PYTHON: sys.executable}


def test_executors_elsewhere_have_their_own_python() -> None:
    environ: dict[str, str] = {}
    choose_python(environ, master="spark://spark-1:7077")
    assert environ == {DRIVER_PYTHON: sys.executable}


def test_python_that_is_named_is_run() -> None:
    environ = {PYTHON: "/opt/python"}
    choose_python(environ, master="local[2]")
    assert environ == {PYTHON: "/opt/python"}
    environ = {DRIVER_PYTHON: "/opt/python"}
    choose_python(environ, master=None)
    assert environ == {DRIVER_PYTHON: "/opt/python", PYTHON: "/opt/python"}
