"""A driver is attached without code: Python itself loads us. Spark is a package of few lines."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from topicast.subscriber.spark.driver import launch

SPARK = """
class SparkSession:
    def __init__(self, name="first"):
        self.name = name
"""
APPLICATION = """
import json, os, sys
from pyspark.sql.session import SparkSession
from pyspark.sql import session
made = [SparkSession(), SparkSession(name="second")]
print(json.dumps({
    "names": [one.name for one in made],
    "loader": type(session.__loader__).__name__,
    "path": os.environ.get("PYTHONPATH"),
    "chained": "users_own" in sys.modules,
    "ours": sorted(m for m in sys.modules if m.startswith("topicast")),
}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What ``topicast run`` prepares, beside a Spark and a sitecustomize that a user has."""
    found = tmp_path / "run"
    found.mkdir()
    launch.prepare(str(found), {"statestores": "tcp://127.0.0.1:1"})
    package = tmp_path / "libraries" / "pyspark" / "sql"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "session.py").write_text(SPARK)
    (tmp_path / "libraries" / "sitecustomize.py").write_text("import users_own")
    (tmp_path / "libraries" / "users_own.py").touch()
    return found


def run(folder: Path, code: str = APPLICATION, **environment: str) -> dict[str, Any]:
    libraries = folder.parent / "libraries"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{libraries}", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout or "{}")
    return found


def test_first_session_is_attached_and_python_is_as_it_was(folder: Path) -> None:
    said = run(folder)
    assert said["names"] == ["first", "second"]
    assert said["loader"] == "SourceFileLoader"
    assert said["path"] == str(folder.parent / "libraries"), "processes started by it have no hook"
    assert said["chained"], "the user's own sitecustomize is run"
    assert "topicast.subscriber.spark.driver.handle" in said["ours"]
    noted = launch.notes(str(folder))
    assert "Spark Connect" in noted[launch.FAILED], "this Spark has no JVM, and the user hears it"
    assert len(list(folder.glob(f"{launch.FAILED}.*"))) == 1


def test_python_that_makes_no_session_loads_nothing_of_ours(folder: Path) -> None:
    code = "import json, sys; print(json.dumps([m for m in sys.modules if 'topicast.' in m]))"
    assert run(folder, code) == []
    assert launch.notes(str(folder)) == {launch.LOADED: ""}


CONTEXT = """
import sys
class SparkContext:
    _gateway = None
    @classmethod
    def _ensure_initialized(cls):
        import threading
        for one in threading.enumerate():
            if one.name == "topicast-load":
                one.join()
        cls._gateway = "topicast.subscriber.spark.driver.handle" in sys.modules
"""


def test_what_attaches_is_loaded_while_the_jvm_starts(folder: Path) -> None:
    package = folder.parent / "libraries" / "pyspark"
    (package / "context.py").write_text(CONTEXT)
    code = (
        "import json, sys, pyspark.context, pyspark.sql.session\n"
        "SparkContext = pyspark.context.SparkContext\n"
        "before = any('topicast.' in one for one in sys.modules)\n"
        "SparkContext._ensure_initialized()\n"
        "print(json.dumps([before, SparkContext._gateway]))"
    )
    assert run(folder, code) == [False, True]
    site = folder / "sitecustomize.py"
    site.write_text(site.read_text().replace("'topicast.subscriber.spark'", "'not.there'"))
    assert run(folder, code) == [False, False], "the application goes on"


def test_python_worker_of_an_executor_is_left_alone(folder: Path) -> None:
    said = run(folder, PYTHON_WORKER_FACTORY_SECRET="x")
    assert (said["names"], said["ours"], said["chained"]) == (["first", "second"], [], True)
    assert launch.notes(str(folder)) == {}


def test_attach_that_cannot_even_be_loaded_leaves_the_application_alone(folder: Path) -> None:
    site = folder / "sitecustomize.py"
    site.write_text(site.read_text().replace("'topicast.subscriber.spark'", "'not.there'"))
    assert run(folder)["names"] == ["first", "second"]
    assert "ModuleNotFoundError" in launch.notes(str(folder))[launch.FAILED]


def test_another_module_of_that_name_is_left_alone(folder: Path) -> None:
    (folder.parent / "libraries" / "pyspark" / "sql" / "session.py").write_text("x = 1")
    run(folder, "import pyspark.sql.session")
    assert launch.notes(str(folder)) == {launch.LOADED: ""}


def test_spark_that_is_not_there_is_not_found(folder: Path) -> None:
    (folder.parent / "libraries" / "pyspark" / "sql" / "session.py").unlink()
    code = "try:\n    import pyspark.sql.session\nexcept ImportError:\n    print('\"missing\"')"
    assert run(folder, code) == "missing"


def test_finder_and_loader_are_what_python_takes_them_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, so that what they do is seen line by line."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path", [str(folder.parent / "libraries"), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(folder))
    for name in ("sitecustomize", "users_own"):
        monkeypatch.setitem(sys.modules, name, sys)  # which is put back at the end
    launch.begin("not.there", str(folder))
    finder = sys.meta_path[0]
    assert finder.find_spec("json", None) is None
    spec = finder.find_spec("pyspark.sql.session", [f"{folder.parent}/libraries/pyspark/sql"])
    assert spec is not None
    assert spec.loader is not None
    assert finder not in sys.meta_path
    module = type(sys)("pyspark.sql.session")
    module.__spec__ = spec
    assert spec.loader.create_module(spec) is None
    spec.loader.exec_module(module)
    assert "PYTHONPATH" not in os.environ
    assert [module.SparkSession().name, module.SparkSession("b").name] == ["first", "b"]
    assert "No module named 'not'" in launch.notes(str(folder))[launch.FAILED]
