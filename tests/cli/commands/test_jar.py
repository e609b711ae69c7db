"""``topicast jar``: the file that drivers have on their class path."""

import json
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from topicast.tests.cli.documents import assert_of_schema
from topicast.tests.cli.processes import topicast

SERVICE = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"


@pytest.mark.real
def test_jar_has_the_class_that_its_service_names_for_the_oldest_java(tmp_path: Path) -> None:
    out = tmp_path / "topicast.jar"
    done = topicast("jar", f"--out={out}", "--output=json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"file": str(out), "bytes": out.stat().st_size}
    assert_of_schema("jar", json.loads(done.stdout))
    with ZipFile(out) as jar:
        named = jar.read(SERVICE).decode().strip()
        agent = jar.read("topicast-agent").decode()
        classes = [one for one in jar.namelist() if one.endswith(".class")]
        versions = {int.from_bytes(jar.read(one)[6:8], "big") for one in classes}
    assert agent == f"{sys.executable} -m topicast.cli.start agent\n"
    assert f"{named}.class" in classes
    assert all(one.startswith("Topicast") for one in classes)
    assert max(versions) <= 52, "of Java 8"


@pytest.mark.real
def test_file_that_cannot_be_written_is_named() -> None:
    done = topicast("jar", "--out=/proc/topicast.jar")
    assert done.returncode == 1
    assert done.stderr == "error: /proc/topicast.jar: No such file or directory\n"


@pytest.mark.real
def test_spark_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    done = topicast("jar", f"--out={tmp_path}/topicast.jar", SPARK_HOME=str(tmp_path))
    assert done.returncode == 2
    assert f"SPARK_HOME='{tmp_path}' is not valid: a Spark with Py4J among its jars" in done.stderr
    assert not (tmp_path / "topicast.jar").exists()
