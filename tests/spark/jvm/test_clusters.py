"""Drivers that a cluster starts on its own machines (deploy mode cluster), attached by settings.

The application has no terminal there: it takes its statements from a pipe. On YARN the agent comes
with it, in an archive.
"""

import os
import shutil
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any, Final

import pytest

from topicast.subscriber.spark.jar.builder import kept_jar
from topicast.tests.keys import user_keys
from topicast.tests.spark.jvm.scene import Scene, started
from topicast.tests.spark.jvm.shells import BIN, FarDriver
from topicast.tests.spark.jvm.yarn import yarn
from topicast.tests.spark.standalone import HOST, cluster
from topicast.topics.keys.folder import DRIVER

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

ROOT: Final = Path(__file__).parents[3]
PACKED: Final = (  # what pip installs with Topicast, and Py4J
    *("click", "msgpack", "zmq", "pyzmq.libs", "sortedcontainers", "zstandard", "py4j"),
)
OPENED: Final = (  # Spark 3.5 does not open for such a driver what it needs; java.lang stays closed
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED"
)
LEFT_OUT: Final = shutil.ignore_patterns(
    ".*", "__pycache__", "tests", "docs", "build", "*.egg-info"
)


def far(
    scene: Scene, folder: Path, application: Path, *, settings: dict[str, str], **more: Any
) -> None:
    """Check that a driver which a cluster starts is fresh, and reports."""
    name = f"far away {folder.name}"
    conf = {
        "spark.submit.deployMode": "cluster",
        "spark.app.name": name,
        "spark.driver.memory": "512m",
        "spark.topicast.statestores": scene.hub,
        **settings,
    }
    program = ("spark-submit", "--class", "LineByLine", str(application))
    how = {"under": (), "program": program, "settings": conf, **more}
    with started(FarDriver, folder / "driver", scene, **how) as driver:
        assert driver.sql("SELECT 1") == [["1"]]
        scene.live(name)
        scene.is_fresh(f"far_{folder.name}", driver.sql)


def test_driver_that_a_stand_alone_cluster_starts_is_fresh(
    scene: Scene, application: Path, tmp_path: Path
) -> None:
    folder = _made(tmp_path / "stand_alone")
    with cluster(_made(folder / "cluster")) as found:
        settings = {
            **found.settings(),
            "spark.driver.extraJavaOptions": OPENED,
            "spark.cores.max": "1",  # the other worker has the driver
            "spark.standalone.submit.waitAppCompletion": "true",
            "spark.driver.extraClassPath": str(kept_jar(os.environ, "spark-submit")),
            "spark.topicast.agent": f"{sys.executable} -m topicast.cli.start agent",
            "spark.topicast.keyFile": str(_key(folder)),
        }
        far(scene, folder, application, settings=settings)


def test_driver_that_yarn_starts_is_fresh_with_an_agent_that_came_with_it(
    scene: Scene, application: Path, tmp_path: Path
) -> None:
    folder = _made(tmp_path / "yarn")
    jar = shutil.copy(kept_jar(os.environ, "spark-submit"), folder / "topicast.jar")
    with yarn(_made(folder / "cluster")) as site:
        settings = {
            "spark.master": "yarn",
            "spark.yarn.jars": f"local:{BIN.parent}/jars/*",
            "spark.yarn.stagingDir": str(_made(folder / "staging")),
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": HOST,  # else it has its host's name
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.jars": str(jar),
            "spark.archives": f"{_packed(folder)}#topicast",
            "spark.files": str(_key(folder)),
            "spark.topicast.agent": "./topicast/bin/python -m topicast.cli.start agent",
            "spark.topicast.keyFile": "driver.key",
        }
        environment = {"HADOOP_CONF_DIR": str(site), "YARN_CONF_DIR": str(site)}
        far(scene, folder, application, settings=settings, environment=environment)


def _key(folder: Path) -> Path:
    """Return a copy of the driver's key: the machines of a cluster have none."""
    there = folder / "driver.key"
    shutil.copy(user_keys(DRIVER).folder.path / there.name, there)
    return there


def _packed(folder: Path) -> Path:
    """Return an archive of a Python with Topicast, as ``venv-pack`` or ``conda-pack`` make one."""
    home, packed = folder / "environment", folder / "environment.tar.gz"
    venv.create(home, symlinks=True)
    (there,) = home.glob("lib/*/site-packages")
    here = Path(pytest.__file__).parents[1]
    for name in PACKED:
        if (here / name).exists():
            shutil.copytree(here / name, there / name)
    shutil.copytree(ROOT, there / "topicast", ignore=LEFT_OUT)
    with tarfile.open(packed, "w:gz", compresslevel=1) as archive:
        archive.add(home, ".")
    return packed


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
