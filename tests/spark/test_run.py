"""An ordinary application under ``topicast run -- spark-submit``: attached, else as it was.

So is an application that is typed into ``pyspark`` or ``ipython``, or in a kernel of Jupyter.
``spark-submit`` is that of a distribution of Spark (SPARK_HOME), whose Python has no PySpark.
"""

import os
import re
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest

from topicast.tests.cli.processes import command
from topicast.tests.spark.applications import quick_environment

BIN = Path(pyspark.__file__).parent / "bin"
SCRIPTS = Path(sys.executable).parent
REQUIRED = ("click", "msgpack", "zmq", "pyzmq.libs", "sortedcontainers", "zstandard")
APPLICATION = """
import os, sys
OURS = ("topicast.", "topicast_")
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from topicast.subscriber.spark import attach
status = attach(spark).status()
print("it is", status.state, status.statestores, status.control)
ours = lambda _: [one for one in (*sys.modules, *os.environ) if one.lower().startswith(OURS)]
print("workers", spark.sparkContext.parallelize([1], 1).map(ours).collect())
print("settings", os.environ.get("TOPICAST_BUDGET"))
sys.exit(3)
"""


def bare_python(folder: Path) -> Path:
    """Return a Python that has us and what we require: neither PySpark nor py4j."""
    venv.create(folder, symlinks=True)
    here = next(folder.glob("lib/*/site-packages"))
    there = Path(pytest.__file__).parents[1]
    for name in REQUIRED:
        if (there / name).exists():
            (here / name).symlink_to(there / name)
    (here / "topicast").symlink_to(Path(__file__).parents[2])
    return folder / "bin" / "python"


# As ``jupyter run``, which waits 10 s for output: a slow machine starts Spark in more.
KERNEL = """
import sys
from pathlib import Path
from jupyter_client import run_kernel
with run_kernel(kernel_name="python3") as client:
    reply = client.execute_interactive(Path(sys.argv[1]).read_text(), timeout=90)
sys.exit(reply["content"]["status"] != "ok")
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(("bare", BIN / "spark-submit", "app.py"), 3, id="spark-submit"),
        pytest.param(
            (BIN / "pyspark", "--master", "local[1]"), 3, id="pyspark", marks=pytest.mark.nightly
        ),
        pytest.param((SCRIPTS / "ipython", "app.py"), 3, id="ipython", marks=pytest.mark.nightly),
        # Whatever happens in a cell of a notebook, the kernel ends with 1.
        pytest.param(
            (sys.executable, "kernel.py", "app.py"), 1, id="jupyter", marks=pytest.mark.nightly
        ),
    ],
)
def test_application_is_attached_without_code_and_its_workers_are_not(
    words: Sequence[str | Path], code: int, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    (tmp_path / "kernel.py").write_text(KERNEL)
    python, environment = sys.executable, {**os.environ, **quick_environment()}
    if words[0] == "bare":
        python, words = str(bare_python(tmp_path / "bare")), words[1:]
        environment["SPARK_HOME"] = str(BIN.parent)
    run = ["--control=dry-run", "--statestores=tcp://127.0.0.1:1", "--", *map(str, words)]
    done = subprocess.run(
        [python, *command("start", "run", *run)[1:]],
        cwd=tmp_path,
        env={
            **environment,
            "PYSPARK_PYTHON": python,
            "TOPICAST_BUDGET": "32MB",
            "IPYTHONDIR": str(tmp_path / "ipython"),  # else they write into the user's home
            "JUPYTER_DATA_DIR": str(tmp_path / "jupyter"),
            "JUPYTER_CONFIG_DIR": str(tmp_path / "jupyter"),
        },
        input=APPLICATION,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == code, done.stderr[-2000:]
    # Plain: its agent has found by now, on a slow machine, that nobody is there.
    assert re.search(r"it is (connecting|plain) tcp://127\.0\.0\.1:1 dry-run", done.stdout)
    assert "workers [[]]" in done.stdout
    assert "settings 32MB" in done.stdout
    assert "not attached" not in done.stderr
