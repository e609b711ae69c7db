"""Story: what the quickstart shows, in the order in which things happen.

metastore, statestored, writer, reader start side by side
──▶ catalogd ──▶ one change after another: committed, seen ──▶ summary ──▶ until Ctrl-C
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NoReturn

from ...catalog.metastore.java import cache_folder, java_home_for_spark
from ...topics.errors import NotReady
from ...topics.settings import parse_addresses
from ..operator import Operator
from ..output import aligned
from .chapters import BEGIN, CHAPTERS, STAY, TURNS, followed, lines_of
from .ports import usual_or_any
from .spark_settings import spark_environment
from .stack import Ended, Line, Stack
from .steps import QUERY, STEPS

METASTORE: Final = "metastore"
STATESTORED: Final = "statestored"
CATALOGD: Final = "catalogd"
WRITER: Final = "writer"
READER: Final = "reader"
EXPLORER: Final = "explorer"

PORTS: Final = {  # the usual ones; statestored takes the next one for data as well
    METASTORE: 9083,
    STATESTORED: 24000,
    CATALOGD: 26000,
    "statestored's pages": 25010,
    "catalogd's pages": 25020,
}
START_TIMEOUT_S: Final = 240.0  # the first start of all fetches a jar and prepares a database
STEP_TIMEOUT_S: Final = 30.0
TURN_S: Final = 1.0
WIDTH_MAX: Final = 96

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One step as it went: what was done, how long after the commit it was visible."""

    title: str
    saw: str
    after_s: float


class Story:
    """Tells the story of one stack, whose files lie in ``folder``."""

    def __init__(self, stack: Stack, folder: Path, *, say: Say) -> None:
        self._stack = stack
        self._folder = folder
        self._say = say
        self._begun = time.monotonic()
        self._facts: dict[str, list[dict[str, Any]]] = {WRITER: [], READER: [], EXPLORER: []}
        self.addresses: dict[str, dict[str, str]] = {}

    def begin(self) -> None:
        """Start everything; return when all of it serves.

        Raises:
            TopicastError: a child ended; names it, its last words and its log.
            NotReady: something took too long.
        """
        java_home = java_home_for_spark(cache_folder())
        ports = {name: self._port(name) for name in PORTS}
        self._start_metastore(ports[METASTORE])
        self._start_daemon(
            STATESTORED,
            state_store_port=ports[STATESTORED],
            webserver_port=ports["statestored's pages"],
        )
        environment = spark_environment(java_home)
        self._start_app(WRITER, environment)
        self._until(lambda: STATESTORED in self.addresses, what=STATESTORED)
        self._start_app(READER, environment, self.statestores)
        self._until(lambda: METASTORE in self.addresses, what="the metastore")
        for app in (WRITER, READER):
            self._stack.tell(app, self.metastore_uri)
        self._start_daemon(
            CATALOGD,
            catalog_service_port=ports[CATALOGD],
            webserver_port=ports["catalogd's pages"],
            hive_metastore_uris=self.metastore_uri,
            statestores=self.statestores,
            state_dir=self._folder / "catalogd",
        )
        self._until(lambda: CATALOGD in self.addresses, what=CATALOGD)
        self._until(lambda: self._said(READER, "ready"), what="the reader's subscriber")
        self._until(lambda: self._said(WRITER, "ready"), what="the writer's Spark")
        self._stack.tell(READER, "begin")
        self._until(lambda: self._said(READER, "begun"), what="the reader's first sync")

    def tell_steps(self) -> list[Seen]:
        """Run every step, one after the other; return how each went."""
        return [self._tell_step(number) for number in range(len(STEPS))]

    def tell_query(self) -> str:
        """Return what the reader's own Spark answered to its query."""
        self._tell(READER, f"asks its own Spark: {QUERY}")
        self._until(lambda: self._said(READER, "answer"), what="the reader's Spark")
        answer = str(self._fact(READER, "answer")["answer"])
        self._tell(READER, answer)
        return answer

    def start_explorer(self) -> None:
        """Start the driver with the small budget; it makes the tables that it is to read."""
        self._start_app(EXPLORER, {}, self.statestores, what="and makes tables to read")
        self._stack.tell(EXPLORER, self.metastore_uri)
        self._stack.tell(EXPLORER, BEGIN)

    def explore(self) -> Iterator[list[str]]:
        """Yield each chapter of the explorer as lines, once it is through with it."""
        for word, title in CHAPTERS:
            if word in TURNS:
                self._order("mode", word)
            if word != BEGIN:
                self._stack.tell(EXPLORER, word)
            done = partial(self._said, EXPLORER, "did", word)
            self._until(done, what=f"the explorer ({word})")
            told = self._fact(EXPLORER, "did", word)
            yield lines_of(title, told, all_bytes=self._bytes_at_full())
        self._stack.tell(EXPLORER, STAY)

    def end_writer(self) -> None:
        """Let the writer go: its work is done, and its Spark needs half a gigabyte."""
        self._stack.end_one(WRITER)

    def keep_up(self) -> NoReturn:
        """Show every further change, until somebody interrupts."""
        while True:
            happened = self._stack.next(TURN_S)
            if isinstance(happened, Ended):
                self._tell_end(happened)
            elif isinstance(happened, Line) and not happened.error:
                self._tell_news(happened.name, json.loads(happened.text))

    def _tell_news(self, name: str, news: dict[str, Any]) -> None:
        if "object" in news:
            self._tell(name, f"saw {news['object']}: {news['kind']}")
        elif "trouble" in news:
            self._tell(name, f"waits: {news['trouble']}")
        elif "follows" in news:
            self._tell(name, followed(news))

    @property
    def metastore_uri(self) -> str:
        """Where the metastore listens."""
        return self.addresses[METASTORE]["uri"]

    @property
    def statestores(self) -> str:
        """Where the statestored listens."""
        return self.addresses[STATESTORED]["address"]

    def _port(self, name: str) -> int:
        usual = PORTS[name]
        port = usual_or_any(usual, beside=1 if name == STATESTORED else 0)
        if not port:
            self._tell(name, f"port {usual} is taken: it gets another")
        return port

    def _start_metastore(self, port: int) -> None:
        module = [sys.executable, "-m", "topicast.cli.main", "metastore", "start"]
        folder = self._folder / METASTORE
        self._stack.start(METASTORE, [*module, f"--folder={folder}", f"--port={port}"])

    def _start_daemon(self, name: str, **flags: object) -> None:
        given = [f"--{flag}={value}" for flag, value in flags.items()]
        self._tell(name, "starts")
        self._stack.start(name, [sys.executable, "-m", "topicast.cli.daemons", name, *given])

    def _start_app(
        self, name: str, environment: dict[str, str], *more: str, what: str = "Spark"
    ) -> None:
        self._tell(name, f"starts {what}")
        folder = self._folder / name
        (folder / "scratch").mkdir(parents=True, exist_ok=True)
        module = f"topicast.cli.quickstart.{name}_app"
        command = [sys.executable, "-m", module, str(folder), *more]
        self._stack.start(name, command, environment=environment)

    def _order(self, *words: str) -> None:
        with Operator(parse_addresses(self.statestores), timeout_s=STEP_TIMEOUT_S) as visit:
            visit.order(words[0], words[1:], who="quickstart")

    def _bytes_at_full(self) -> int:
        """Return what everything takes at level full, as the hub knows it."""
        with Operator(parse_addresses(self.statestores), timeout_s=STEP_TIMEOUT_S) as visit:
            topics = visit.hub("topics")
        at = topics.columns.index("full_bytes")
        return sum(int(row[at] or 0) for row in topics.rows)

    def _tell_step(self, number: int) -> Seen:
        step = STEPS[number]
        self._stack.tell(WRITER, str(number))
        self._until(
            lambda: self._said(WRITER, "step", number) and self._said(READER, "step", number),
            what=f"step {number + 1} ({step.title})",
            timeout_s=STEP_TIMEOUT_S,
        )
        committed, saw = self._fact(WRITER, "step", number), self._fact(READER, "step", number)
        after_s = max(0, saw["seen_us"] - committed["committed_us"]) / 1e6
        self._tell(WRITER, shortened(step.statement))
        self._tell(READER, f"{after_s:.3f} s later: {shortened(saw['saw'])}")
        return Seen(title=step.title, saw=saw["saw"], after_s=after_s)

    def _until(
        self, done: Callable[[], bool], *, what: str, timeout_s: float = START_TIMEOUT_S
    ) -> None:
        """Take in what the children say until ``done``."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise NotReady(f"{what} did not come within {timeout_s:g} s: see {self._folder}")
            happened = self._stack.next(TURN_S)
            if isinstance(happened, Ended):
                raise self._stack.failure(happened)
            if happened is not None:
                self._take(happened)

    def _take(self, line: Line) -> None:
        if line.name == METASTORE and line.error:
            self._tell(METASTORE, line.text)
        elif line.error:
            return  # it is in the child's log
        elif line.text.startswith("ready "):
            self.addresses[line.name] = read_ready(line.text)
            self._tell(line.name, line.text)
        elif line.name in self._facts:
            self._facts[line.name].append(json.loads(line.text))
            if "ready" in self._facts[line.name][-1]:
                self._tell(line.name, "is ready")

    def _said(self, name: str, key: str, value: object = None) -> bool:
        return any(key in f and value in {None, f[key]} for f in self._facts[name])

    def _fact(self, name: str, key: str, value: object = None) -> dict[str, Any]:
        return next(f for f in self._facts[name] if key in f and value in {None, f[key]})

    def _tell(self, who: str, what: str) -> None:
        self._say(f"{time.monotonic() - self._begun:6.1f} s  {who:<11}  {what}")

    def _tell_end(self, ended: Ended) -> None:
        self._tell(ended.name, str(self._stack.failure(ended)))
        command = " ".join(self._stack.command(ended.name))
        self._tell(ended.name, f"start it again: {command}")


def summary(seen: Sequence[Seen]) -> list[str]:
    """Return the small table of times, and what they come to."""
    rows = [("what the writer did", "seen after its call returned")]
    rows += [(one.title, f"{one.after_s:.3f} s") for one in seen]
    times = [one.after_s for one in seen]
    return [
        *aligned(rows),
        "",
        f"{len(seen)} changes made in one Spark driver were seen in another one:",
        f"half of them within {median(times):.2f} s, all within {max(times):.2f} s.",
    ]


def what_next(story: Story) -> list[str]:
    """Return what to try, as commands that work when pasted."""
    topicast = _command("topicast")
    usual = story.statestores.endswith(f":{PORTS[STATESTORED]}")
    where = "" if usual else f" --statestores={story.statestores}"
    spark_sql = (
        f"PYSPARK_PYTHON={_near(Path(sys.executable))} SPARK_LOCAL_IP=127.0.0.1 "
        f"JAVA_HOME={java_home_for_spark(cache_folder())} {_command('spark-sql')} "
        f"--conf spark.hadoop.hive.metastore.uris={story.metastore_uri}"
    )
    return [
        f"{topicast} status{where}",
        f"{topicast} tables{where}",
        f"{topicast} describe shop.orders{where}",
        f"{topicast} partitions shop.orders \"ds >= '2026-11-03'\"{where}",
        f"{topicast} topics --why=explorer{where}",
        f"{topicast} mode minimal{where}",
        f"{topicast} mode mixed{where}",
        f"{topicast} watch '*'{where}",
        f'{spark_sql} -e "ALTER TABLE shop.orders ADD COLUMNS (channel STRING)"',
        f"curl {story.addresses[STATESTORED]['web']}/metrics",
    ]


def read_ready(line: str) -> dict[str, str]:
    """Return the addresses of a line ``ready name=address …``."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def shortened(text: str) -> str:
    """Return ``text`` so that it fits beside the time and the name."""
    return text if len(text) <= WIDTH_MAX else f"{text[: WIDTH_MAX - 1]}…"


def _command(name: str) -> str:
    """Return how the command ``name`` of this Python is called from where the user stands."""
    beside = Path(sys.executable).parent / name
    if not beside.exists():  # a tree that was not installed
        return f"{sys.executable} -m topicast.cli.main"
    return name if shutil.which(name) == str(beside) else _near(beside)


def _near(path: Path) -> str:
    """Return ``path`` as seen from the current folder, if it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
