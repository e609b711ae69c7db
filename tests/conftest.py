"""What all tests share: one real Hive metastore for a process, properties without a clock.

``make test`` runs processes side by side: a file's tests stay together and in their order.
"""

import fcntl
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from topicast.tests.net.namespaces import missing
from topicast.tests.orphans import end_with_this_process
from topicast.tests.watchdog import Watchdog

if TYPE_CHECKING:
    from topicast.tests.hive.releases import RealMetastore

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs have it
    signal.signal(signal.SIGINT, signal.default_int_handler)

SETTINGS: Final = "TOPICAST_"  # how variables of the environment with our settings begin
OF_TESTS: Final = "TOPICAST_TEST_"  # which targets of the Makefile set
for name in [one for one in os.environ if one.startswith(SETTINGS)]:
    if not name.startswith(OF_TESTS):
        del os.environ[name]  # a setting of the caller's: tests and their processes set their own

WATCHDOG: Final = pytest.StashKey[Watchdog]()
ROOT = Path(__file__).resolve().parent.parent
SERVED = ("admin", "debug", "drivers", "keys", "show", "status", "topics")  # by one pair of daemons
GROUPS = {  # files that one process runs, by folder and by how their names begin
    "tests/spark/": {  # a group shares two drivers; what is in no group has its own
        "": ("test_key_content.py", "test_planning", "test_run.py"),
        "drivers": ("test_", "jvm/"),
    },
    "tests/cli/": {
        "edge": (
            "test_daemons",
            "client/test_operator",
            "terminal/test_schemas",
            "doctor/",
            *(f"commands/test_{one}" for one in SERVED),
        )
    },
    "tests/integration/": {
        "own metastore": ("test_endpoint.py", "test_metastore_fa", "test_rubbish", "test_verdicts")
    },
}
NAMED = (
    "tests/lakes",
    "tests/dbt",
    "tests/kerberos",
    "tests/deploy",
    "tests/s3",
)  # run by make compat-…, which installs what they need
NET = "tests/net"  # on hosts of its own: where there can be none, make nightly alone names it
NOT_UNITS = tuple(
    ROOT / "tests" / name
    for name in (
        *("spark", "lakes", "dbt", "net", "kerberos", "deploy", "s3", "integration", "bench"),
        *("catalog/metastore", "test_walks.py", "foreign/test_run.py"),
        *("cli/quickstart/test_comparison.py", "cli/quickstart/metastore/test_server.py"),
        *(f"cli/quickstart/processes/{one}.py" for one in ("test_class_archive", "test_stack")),
        *("cli/commands/test_local.py", "cli/commands/test_run.py"),
        *("cli/commands/pipeline/test_frame.py", "pipeline/test_session.py"),
        "pipeline/test_file_facts.py",
        *(
            "cli/terminal/test_extras.py",
            "cli/terminal/test_unwritable.py",
            "cli/test_daemons.py",
            "cli/commands/test_keys.py",
        ),
        *("cli/doctor/test_doctor.py", "cli/commands/test_show.py"),
        *("cli/launch/test_ahead.py", "cli/commands/test_completion.py"),
        "subscriber/spark/agent/test_process.py",
    )
)
assert all(map(Path.exists, NOT_UNITS)), "a name that NOT_UNITS leaves out is no more"
AT_FIRST = tuple(
    str(ROOT / "tests" / name)
    for name in (
        *("spark/test_refresh", "net", "cli/doctor", "cli/commands/test_show"),
        "integration/test_faults",
    )
)
# The default (700, 10, 10) visits all objects 37 times in tests/subscriber: a second more.
GARBAGE: Final = (700, 10, 100)
REAL_FIXTURES = {"hive", "real_place", "home", "both"}  # fixtures that start processes

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "suite",
    settings.get_profile("shared"),
    max_examples=int(os.environ.get("EXAMPLES", "25")),  # make nightly tries 1,000
)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let what is recorded in files be written as it is now; the diff is read like code."""
    parser.addoption("--rewrite", action="store_true", help="write tests/sim/scenarios/*.txt anew")
    parser.addoption(
        "--unit", action="store_true", help="only what needs no metastore, no Spark and no process"
    )
    parser.addoption(
        "--nightly", action="store_true", help="only what is marked so, which make test leaves out"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say that a folder is left out, and why."""
    why = missing()
    return f"{NET} left out, as there are {why}: make nightly fails by it" if why else None


def pytest_configure(config: pytest.Config) -> None:
    """Let no process outlive those that run tests, and no test of several its limit."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.add_cleanup(end_with_this_process())
    if hasattr(config, "workerinput"):
        config.stash[WATCHDOG] = Watchdog()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what nobody has named and make test does not have, and where units are wanted."""
    for folder in NAMED:
        if collection_path == ROOT / folder and not any(folder in one for one in config.args):
            return True
    if collection_path == ROOT / NET and not any(NET in one for one in config.args) and missing():
        return True
    if not config.getoption("--unit"):
        return None
    return True if any(collection_path.is_relative_to(one) for one in NOT_UNITS) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Collect tests, and let the garbage collector visit none of what that leaves."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Deal out whole files, or GROUPS of them, in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    if config.getoption("dist") != "load":  # another way was asked for
        return None

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            found = (
                group
                for folder, groups in GROUPS.items()
                for group, names in groups.items()
                if file.startswith(tuple(folder + name for name in names))
            )
            return next(found, "") or file

    config.option.loadscopereorder = False
    return Files(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose units or what is for the night; begin with what takes longest."""
    if left_out := [item for item in items if not _is_wanted(item, config)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _is_wanted(item, config)]
    if _shared_folder(config):
        alone = {item.path for item in items if item.get_closest_marker("alone")}
        items.sort(key=lambda item: (item.path in alone, _rank(item.path)))


def _rank(path: Path) -> int:
    """Return when a file is dealt out: what takes longest first, so that processes end together.

    Before that, one group that needs Spark, and what needs it not: in a new clone Spark's classes
    are prepared meanwhile, for which all others would wait.
    """
    long = ("spark", "integration", "sim", "topics/link")
    folders = (*AT_FIRST, *(str(ROOT / "tests" / name) for name in long), *map(str, NOT_UNITS))
    within = (number for number, one in enumerate(folders) if str(path).startswith(one))
    return next(within, len(folders))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """While a test that is marked as ``alone`` runs, with its fixtures, no other test does."""
    if not (folder := _shared_folder(item.config)):
        return (yield)
    with (
        _room(folder, alone=item.get_closest_marker("alone") is not None),
        item.config.stash[WATCHDOG].watch(_limit_s(item)),
    ):
        return (yield)


def _limit_s(item: pytest.Item) -> float:
    """Return the seconds that pytest-timeout gives a test."""
    if marker := item.get_closest_marker("timeout"):
        return float(marker.args[0])
    return float(item.config.getoption("timeout") or item.config.getini("timeout"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure at once: a run that somebody ends has printed no summary."""
    if report.failed and not os.environ.get("PYTEST_XDIST_WORKER"):
        what = getattr(getattr(report.longrepr, "reprcrash", None), "message", report.longrepr)
        first = next(iter(str(what).splitlines()), "")
        print(f"\n{report.nodeid}: {report.when} failed: {first}", file=sys.stderr, flush=True)


@contextmanager
def _room(folder: Path, *, alone: bool) -> Iterator[None]:
    """Hold the room, alone or with others.

    A test waits for it in the door, and no other begins meanwhile: else a test that wants to be
    alone would wait until no other test is left.
    """
    with (folder / "door").open("w") as door, (folder / "room").open("a+") as room:
        fcntl.lockf(door, fcntl.LOCK_EX)  # of this process: flock() would be its forked children's
        fcntl.lockf(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.lockf(door, fcntl.LOCK_UN)
        yield


def _is_wanted(item: pytest.Item, config: pytest.Config) -> bool:
    """Tell whether the options ask for a test."""
    if (item.get_closest_marker("nightly") is not None) != config.getoption("--nightly"):
        return False
    return not config.getoption("--unit") or _is_unit(item)


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
