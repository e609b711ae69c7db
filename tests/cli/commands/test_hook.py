"""``topicast hook``: drivers of a Python are attached by a variable; Spark is a few lines here."""

import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from topicast.cli.commands.hook import hook
from topicast.cli.launch import hooks
from topicast.subscriber.spark.driver import launch
from topicast.tests.cli.homes import ROOT, Home
from topicast.tests.cli.processes import command, completed
from topicast.tests.subscriber.spark.driver.test_launch import APPLICATION
from topicast.topics.errors import TopicastError, UsageError

ADDRESS = "tcp://127.0.0.1:1"
SEEN = """
import json, os, sys
print(json.dumps({
    "ours": [name for name in (*sys.modules, *os.environ) if "topicast" in name.lower()],
    "finders": len([one for one in sys.meta_path if hasattr(one, "is_topicast")]),
    "path": [one for one in sys.path if "run" in one],
}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Where the hook has been installed."""
    home = Home(tmp_path_factory.mktemp("home"))
    done = home.hook("install")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"installed: {home.site / hooks.NAME}\n"
    return home


def test_driver_is_attached_by_a_variable(home: Home) -> None:
    printed = home.seen(APPLICATION, "-E", **{hooks.VARIABLE: ADDRESS})
    assert printed["names"] == ["first", "second"]
    assert "topicast.subscriber.spark.driver.handle" in printed["ours"]
    assert "Spark Connect" in printed["printed"], "this Spark has no JVM, and the log says so"


@pytest.mark.parametrize("value", [{}, {hooks.VARIABLE: ""}], ids=["unset", "empty"])
def test_python_without_the_variable_is_left_alone(home: Home, value: dict[str, str]) -> None:
    seen = home.seen(SEEN, **value)
    assert (seen["ours"], seen["finders"], seen["printed"]) == (list(value), 0, "")


def test_python_worker_sees_no_setting_of_ours(home: Home) -> None:
    worker = {hooks.VARIABLE: ADDRESS, "PYTHON_WORKER_FACTORY_SECRET": "x"}
    seen = home.seen(SEEN, **worker, TOPICAST_CONTROL="on")
    assert (seen["ours"], seen["finders"], seen["printed"]) == ([], 0, "")


def test_driver_with_both_hooks_is_attached_once_and_as_it_was_run(
    home: Home, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    launch.prepare(str(folder), {})
    environ = {hooks.VARIABLE: ADDRESS, "PYTHONPATH": str(folder)}
    assert home.seen(SEEN, **environ)["finders"] == 1
    printed = home.seen(APPLICATION, **environ)["printed"]
    assert printed.count("Spark Connect") == 1
    assert "Spark Connect" in launch.notes(str(folder))[launch.FAILED]
    worker = home.seen(SEEN, PYTHON_WORKER_FACTORY_SECRET="x", **environ)
    assert (worker["ours"], worker["finders"], worker["path"]) == ([], 0, [])


@pytest.mark.real
def test_topicast_that_is_gone_or_broken_harms_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (home.site / hooks.NAME).write_text(hooks.LINE)
    (home.libraries / "topicast").unlink()
    environ = {hooks.VARIABLE: ADDRESS}
    assert home.seen(SEEN, **environ)["printed"] == ""
    broken = home.libraries / "topicast" / "subscriber" / "spark"
    broken.mkdir(parents=True)
    (broken / "launch.py").write_text("1 / 0")
    assert home.seen(SEEN, **environ)["printed"] == ""


@pytest.mark.real
def test_removing_leaves_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    before = sorted(home.site.iterdir())
    assert home.hook("install").returncode == 0
    assert sorted(home.site.iterdir()) == sorted([*before, home.site / hooks.NAME])
    done = home.hook("remove")
    assert (done.returncode, done.stdout[:14]) == (0, "not installed:")
    assert sorted(home.site.iterdir()) == before
    assert home.hook("status").returncode == 1


def invoke(*words: str) -> BaseException | None:
    return CliRunner().invoke(hook, words).exception


def test_folder_that_may_not_be_written_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hooks.sysconfig, "get_path", lambda _: "/dev/null/site-packages")
    error = invoke("install")
    assert isinstance(error, TopicastError)
    assert str(error).startswith("/dev/null/site-packages/topicast.pth: Not a directory: ")
    assert "--user" in str(error)
    assert "topicast run" in str(error)


def test_folder_that_python_does_not_read_is_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hooks.sysconfig, "get_path", lambda _: str(tmp_path / "new"))
    error = invoke("install")
    assert isinstance(error, UsageError)
    assert f"{sys.executable} does not read {tmp_path / 'new'}" in str(error)
    assert list((tmp_path / "new").iterdir()) == []


def test_file_that_is_not_ours_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hooks.sysconfig, "get_path", lambda _: str(tmp_path))
    (tmp_path / hooks.NAME).write_text("/somewhere\n")
    assert "was not written by Topicast" in str(invoke("install"))
    invoke("remove")
    assert (tmp_path / hooks.NAME).read_text() == "/somewhere\n"


@pytest.mark.real
def test_topicast_in_an_archive_is_refused_with_a_remedy(tmp_path: Path) -> None:
    archive = tmp_path / "topicast.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for folder in ("", "cli", "topics", "subscriber", "catalog"):
            for path in sorted((ROOT / folder).glob("**/*.py" if folder else "*.py")):
                zipped.write(path, Path("topicast") / path.relative_to(ROOT))
    done = completed(command("main", "hook", "install"), PYTHONPATH=str(archive))
    assert done.returncode == 2, done.stderr
    assert "is run from an archive" in done.stderr
    assert "pip" in done.stderr
