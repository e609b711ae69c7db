"""Every command of README and docs/quickstart.md works, while there is a real ``make run``.

Left out are ``make test`` itself, ``make run ARGS=--once``, which test_quickstart.py runs, and the
wheel, which tests/deploy/test_follow.py builds and installs on hosts of its own.
"""

import getpass
import os
import pty
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from topicast.cli.quickstart.console import read_ready
from topicast.cli.quickstart.demo import PORTS
from topicast.cli.quickstart.metastore.java import cache_folder, java_home_for_spark
from topicast.cli.quickstart.processes.class_archive import application_environment
from topicast.cli.terminal.exit_codes import DEGRADED
from topicast.tests.integration.demonstration import check_demonstration
from topicast.tests.integration.marked import END_S, Marked, marked
from topicast.tests.waiting import until

ROOT: Final = Path(__file__).resolve().parent.parent.parent
DOCUMENTS: Final = ("README.md", "docs/quickstart.md")
WHEEL: Final = "dist/topicast-0.1.0-py3-none-any.whl"
ELSEWHERE: Final = (
    *("make run", "make run ARGS=--once", "make test"),
    *("make dist", f"pip install {WHEEL}", f"pip install '{WHEEL}[catalog]'"),
    "topicast run --statestores tcp://statestored:24000 -- spark-submit app.py",
)
STAYS: Final = ("statestored", "catalogd", "watch")  # until they are interrupted
ARRIVING: Final = "## Convert text files that arrive\n"  # a chapter whose commands need each other
LAKE: Final = "/tmp/topicast-lake"
BLOCK: Final = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL: Final = {  # a user's: without what the make around us hands down
    name: value
    for name, value in os.environ.items()
    if name not in {"MAKEFLAGS", "MAKELEVEL", "ARGS"}
}
UP: Final = "Ctrl-C ends everything"

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.skipif(
        not any(ROOT.glob(".venv/installed-*")), reason="what 'make install' makes is not here"
    ),
]


def parts(document: str) -> tuple[str, str]:
    """Return the text of a document without the chapter ARRIVING, and that chapter."""
    before, _, behind = (ROOT / document).read_text(encoding="utf-8").partition(ARRIVING)
    chapter, heading, after = behind.partition("\n## ")
    return before + heading + after, chapter


def commands(document: str) -> list[str]:
    """Return the command lines of a document, Python blocks as one command each."""
    found = []
    for language, block in BLOCK.findall(parts(document)[0]):
        if language == "python":
            found.append(f".venv/bin/python -c {shlex.quote(block)}")
        else:
            found += [shlex.join(shlex.split(line, comments=True)) for line in block.splitlines()]
    assert "make run" in found, f"{document} does not start what its other commands need"
    wanted = [command for command in found if command not in {"", *ELSEWHERE}]
    assert wanted, f"{document} has no command"
    return wanted


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marked]:
    """What ``make run`` has started; Ctrl-C ends it, and nothing of it is left."""
    output = tmp_path_factory.mktemp("run") / "output"
    with marked(["make", "run"], output, cwd=ROOT, environment=SHELL) as running:
        running.says(UP, timeout_s=200)
        yield running
        ports = re.findall(r"://127\.0\.0\.1:(\d+)", running.printed())
        running.interrupt()
        running.process.wait(END_S)
        assert running.living() == []
        assert "every process has ended" in running.printed()
        # Another quickstart may take a usual port as soon as it is free, and ends as well.
        until(lambda: not any(is_open(int(port)) for port in ports), timeout_s=60, what="the ports")


@pytest.fixture(scope="module")
def environment(stack: Marked) -> dict[str, str]:
    """What a reader of the documents has set where ports were taken and Java is not at hand."""
    return {
        **quick_shell(),
        "TOPICAST_STATESTORES": ready(stack, "statestored")["address"],
        "JAVA_HOME": str(java_home_for_spark(cache_folder())),
    }


def quick_shell() -> dict[str, str]:
    """Return ``SHELL`` with options for the JVM alone: each Spark takes half the time."""
    found = application_environment(java_home_for_spark(cache_folder()), say=print)
    return {**SHELL, **{name: found[name] for name in found if name.endswith("_OPTS")}}


def ready(stack: Marked, name: str) -> dict[str, str]:
    lines = stack.printed().splitlines()
    return read_ready(next(line for line in lines if re.search(rf"\b{name} +ready ", line)))


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def at_hand(command: str, stack: Marked) -> str:
    """Return ``command`` with the ports that this run got in the place of the usual ports."""
    got = {
        PORTS["metastore"]: ready(stack, "metastore")["uri"],
        PORTS["statestored"]: ready(stack, "statestored")["address"],
    }
    for usual, address in got.items():
        command = command.replace(f"127.0.0.1:{usual}", address.partition("://")[2])
    return command


def done_at_last(
    words: Sequence[str], environment: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a command in ROOT; again while it says that a daemon is degraded.

    It is for a minute after a client with another key has tried its usual port, as other tests may.
    """
    found: list[subprocess.CompletedProcess[str]] = []

    def is_over() -> bool:
        found.append(
            subprocess.run(
                words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
        )
        return found[-1].returncode != DEGRADED

    with suppress(AssertionError):  # what it says in the end is shown by the caller
        until(is_over, timeout_s=90)
    return found[-1]


@pytest.mark.timeout(600)
def test_demonstration_shows_what_it_has_to(stack: Marked) -> None:
    check_demonstration(stack.printed())


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "document",
    ["README.md", pytest.param("docs/quickstart.md", marks=pytest.mark.nightly)],
)
def test_every_command_works(
    document: str, stack: Marked, environment: dict[str, str], tmp_path: Path
) -> None:
    with ExitStack() as up:
        watches: list[Marked] = []
        for number, command in enumerate(commands(document)):
            run = ["bash", "-c", at_hand(command, stack)]
            if not any(word in STAYS for word in re.findall(r"\w+", command.partition(" --")[0])):
                done = done_at_last(run, environment)
                assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
                continue
            output = tmp_path / str(number)
            running = up.enter_context(marked(run, output, cwd=ROOT, environment=environment))
            if "watch" in command:
                watches.append(running)
                running.says("watching ", timeout_s=60)
            else:
                running.says("listening ", timeout_s=60)
        for watch in watches:
            watch.says("shop.orders  schema", timeout_s=60)
            watch.interrupt()
            assert watch.process.wait(60) == 0


@pytest.mark.nightly  # the README has most of its commands
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "with_sql",
    [
        pytest.param(False, id="all but spark-sql"),  # which the documents have
        pytest.param(True, id="spark-sql"),
    ],
)
def test_what_to_try_next_works_when_pasted(
    stack: Marked, environment: dict[str, str], with_sql: bool
) -> None:
    """As printed, without any variable of ours or Spark's set."""
    shell = quick_shell()
    printed = stack.printed().partition("Try, in another terminal:\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in printed.splitlines()]
    assert len(lines) >= 6
    for command in lines:
        if " watch " in command or ("spark-sql" in command) != with_sql:
            continue  # a watch stays until Ctrl-C, and is run as the quickstart's own
        done = done_at_last(["bash", "-c", command], shell)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    if with_sql:
        stack.says("saw shop.orders: schema", timeout_s=60)


@pytest.mark.nightly  # test_pipeline_files has a watch, test_convert the command and the copy
@pytest.mark.timeout(400)
def test_text_files_that_arrive_are_read_from_the_copy(
    stack: Marked, environment: dict[str, str], tmp_path: Path
) -> None:
    """The chapter of docs/quickstart.md, in its order, and then another file."""

    def here(text: str) -> str:
        return at_hand(text, stack).replace(LAKE, f"{tmp_path}/lake")

    def shell(text: str) -> None:
        subprocess.run(["bash", "-ec", text], cwd=ROOT, env=environment, check=True)

    blocks = [here(block) for _, block in BLOCK.findall(parts("docs/quickstart.md")[1])]
    create, stay, put, read, small = blocks
    shell(create)
    with ExitStack() as up:
        watch, convert = (
            up.enter_context(
                marked(shlex.split(line), tmp_path / name, cwd=ROOT, environment=environment)
            )
            for name, line in zip(("watch", "convert"), stay.splitlines(), strict=True)
        )
        shell(put)
        watch.says("changed: raw.events/ds=2026-11-01", timeout_s=100)
        session = up.enter_context(typed(tmp_path / "session", environment))
        session(read)
        ask = read.splitlines()[-1]
        until(lambda: "Rome" in session(ask), timeout_s=30, what="the row in the copy")
        shell(put.replace("a.csv", "b.csv").replace("1,Rome", "3,Bonn"))
        until(lambda: "Bonn" in session(ask), timeout_s=60, what="the other file's row")
        until(lambda: "|raw|events|" in session(small), timeout_s=30, what="small files")
        for one in (watch, convert):
            one.interrupt()
            assert one.process.wait(60) == 130, one.printed()


@pytest.mark.nightly  # it starts a Spark driver
@pytest.mark.timeout(400)
def test_four_questions_are_answered_as_the_page_shows(
    stack: Marked, environment: dict[str, str], tmp_path: Path
) -> None:
    """docs/operations.md: each by one command of 24 lines at most, on 80 columns."""
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    chapter = page.partition("## Four questions\n")[2].partition("\n## ")[0]
    asked = re.findall(
        r"^```text\n\$ (topicast [^\n]*)\n(.*?)^```$", chapter, re.MULTILINE | re.DOTALL
    )
    assert len(asked) == 4

    def answer(line: str) -> str:
        return on_a_terminal(
            [f".venv/bin/{shlex.split(line)[0]}", *shlex.split(line)[1:]], environment
        )

    with driver(tmp_path / "etl", stack, environment) as etl:
        etl.says("altered", timeout_s=100)
        questions = dict(asked)
        restart = next(line for line in questions if "status" in line)
        for line in (restart, *(line for line in questions if line != restart)):
            until(
                lambda line=line: shape(questions[line]) <= shape(answer(line)),  # type: ignore[misc]
                timeout_s=30,
                what=f"{questions[line]}\nfrom {line}: {answer(line)}",
            )
            lines = answer(line).splitlines()
            assert len(lines) <= 24
            assert max(map(len, lines)) <= 80
            if line == restart:  # from then on the verdict has changed
                answer("topicast drivers off --app nightly-etl")
        answer("topicast drivers on --app nightly-etl")


@contextmanager
def driver(output: Path, stack: Marked, environment: dict[str, str]) -> Iterator[Marked]:
    """Run an attached application named nightly-etl, which has added a column to shop.orders."""
    metastore = ready(stack, "metastore")["uri"]
    script = output.with_suffix(".py")
    script.write_text(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "built = SparkSession.builder.appName('nightly-etl').master('local[1]')\n"
        f"built = built.config('hive.metastore.uris', {metastore!r}).enableHiveSupport()\n"
        "spark = built.config('spark.ui.enabled', 'false').getOrCreate()\n"
        "spark.sql('ALTER TABLE shop.orders ADD COLUMNS (paid BOOLEAN)')\n"
        "print('altered', flush=True)\n"
        "sys.stdin.read()\n"
    )
    run = (".venv/bin/topicast", "run", "--", ".venv/bin/python", str(script))
    words = {**environment, "SPARK_LOCAL_IP": "127.0.0.1"}
    # "sleep" stands for whoever types: the driver reads until it is ended.
    held = ("bash", "-c", f"sleep 300 | {shlex.join(run)}")
    with marked(held, output, cwd=ROOT, environment=words) as running:
        yield running


def on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Return what a command prints on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment, "COLUMNS": "80"},
            stdout=theirs,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        printed = b""
        with suppress(OSError):  # the end of a terminal
            while some := os.read(ours, 1 << 16):
                printed += some
        done.wait(60)
    finally:
        os.close(ours)
    return printed.decode().replace("\r\n", "\n")


def shape(printed: str) -> set[str]:
    """Return the lines without their numbers, names of this machine, and empty columns."""
    for name, shown in ((getpass.getuser(), "ann"), (socket.gethostname(), "node1")):
        printed = re.sub(rf"\b{re.escape(name)}\b", shown, printed)
    words = [re.sub(r"\d+(\.\d+)?", "0", line).split() for line in printed.splitlines()]
    return {" ".join(word for word in line if word not in {"-", "partition"}) for line in words}


@contextmanager
def typed(output: Path, environment: dict[str, str]) -> Iterator[Callable[[str], str]]:
    """Run Python as in a terminal; yield what types lines and returns all that was printed."""
    with (
        output.open("wb") as to,
        subprocess.Popen(
            [".venv/bin/python", "-iq"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=to,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        numbers = count()

        def enter(lines: str) -> str:
            """Type ``lines``; return all that was printed until they were done."""
            end = f"done {next(numbers)}"
            assert process.stdin is not None
            process.stdin.write(f"{lines}\nprint({end!r}, flush=True)\n")
            process.stdin.flush()
            until(lambda: f"{end}\n" in output.read_text(), timeout_s=100, what=lines)
            return output.read_text()

        yield enter
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def test_pages_that_are_named_answer(stack: Marked) -> None:
    named = re.search(r"In a browser: (\S+) and (\S+);", stack.printed())
    assert named is not None
    for page in named.groups():
        for path in ("/", "/healthz", "/metrics"):
            with urlopen(page + path) as answer:
                assert answer.status == 200
