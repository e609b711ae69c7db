"""What all tests share: one real Hive metastore for a process, properties without a clock.

``make test`` runs two processes side by side: a file's tests stay together and in their order.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from topicast.tests.orphans import end_with_this_process

if TYPE_CHECKING:
    from topicast.tests.hive.releases import RealMetastore

ROOT = Path(__file__).resolve().parent.parent
SPARK = "tests/spark/"
LAKES = (
    "tests/lakes"  # with runtimes that are downloaded: make compat-lakes, which names the folder
)
NOT_UNITS = tuple(
    ROOT / "tests" / name
    for name in (
        *("spark", "lakes", "integration", "bench", "catalog/metastore", "test_walks.py"),
        *("cli/quickstart/test_comparison.py", "cli/quickstart/test_class_archive.py"),
        *("cli/quickstart/test_stack.py", "cli/commands/test_local.py", "cli/commands/test_run.py"),
        *("cli/test_extras.py", "cli/test_daemons.py"),
    )
)
REAL_FIXTURES = {"hive", "real_place", "home"}  # fixtures that start processes

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("units", settings.get_profile("shared"), max_examples=25)
settings.load_profile("shared")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let what is recorded in files be written as it is now; the diff is read like code."""
    parser.addoption("--rewrite", action="store_true", help="write tests/sim/scenarios/*.txt anew")
    parser.addoption(
        "--unit", action="store_true", help="only what needs no metastore, no Spark and no process"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let no process outlive those that run tests; try fewer examples where units are wanted."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.add_cleanup(end_with_this_process())
    if config.getoption("--unit"):
        settings.load_profile("units")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what nobody has named and make test does not have, and where units are wanted."""
    if collection_path == ROOT / LAKES and not any(LAKES in one for one in config.args):
        return True
    if not config.getoption("--unit"):
        return None
    return True if any(collection_path.is_relative_to(one) for one in NOT_UNITS) else None


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Deal out whole files, in the order of the collection; those of Spark share its drivers."""
    from xdist.scheduler import LoadScopeScheduling

    if config.getoption("dist") != "load":  # another way was asked for
        return None

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return SPARK if file.startswith(SPARK) else file

    config.option.loadscopereorder = False
    return Files(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose units if wanted; let two processes begin with Spark's tests, which take longest."""
    if config.getoption("--unit"):
        left_out = [item for item in items if not _is_unit(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _is_unit(item)]
    if _shared_folder(config):
        alone = {item.path for item in items if item.get_closest_marker("alone")}
        spark = ROOT / SPARK
        items.sort(key=lambda item: (item.path in alone, spark not in item.path.parents))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """While a test that is marked as ``alone`` runs, with its fixtures, no other one does."""
    if not (folder := _shared_folder(item.config)):
        return (yield)
    room = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(room, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        return (yield)
    finally:
        os.close(room)


def _is_unit(item: pytest.Item) -> bool:
    """Tell whether a test needs no metastore, no Spark, and none of the daemons' processes."""
    if item.get_closest_marker("real") or item.get_closest_marker("thorough"):
        return False
    parameters = getattr(item, "callspec", None)
    if parameters is not None and "real" in parameters.params.values():
        return False  # of the port: the same behaviour on the real metastore
    return not REAL_FIXTURES & set(getattr(item, "fixturenames", ()))


def _shared_folder(config: pytest.Config) -> Path | None:
    """Return the folder of all processes of this run, if there are several."""
    return Path(config.option.basetemp).parent if hasattr(config, "workerinput") else None


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let this process, and those that it starts, keep their keys in a folder of their own."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator["RealMetastore"]:
    """A real metastore on loopback: tests share it, so each uses databases of its own."""
    from topicast.tests.hive.releases import real_metastore

    with real_metastore(tmp_path_factory.mktemp("hive"), durable=False) as metastore:
        yield metastore
