"""The demonstration of the quickstart, in the order in which things happen.

metastore, statestored, writer, reader start side by side ──▶ catalogd
──▶ job and report: plain in the writer's and the reader's Spark, and attached; spark-sql, both
──▶ both reports again: their calls of the metastore are counted, then the metastore is away
──▶ one change after another: committed, seen ──▶ summary ──▶ explorer ──▶ until Ctrl-C
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from ...topics.errors import NotReady
from ...topics.settings import parse_addresses
from ...topics.wire.messages.answers import NamedFacts
from ...topics.wire.messages.questions import ReadTopics
from ..client.operator import Operator
from .comparison import ATTACHED, FIRST, JOB, PLAIN, REPEATED, ROUNDS, Repeated, Round, RoundAnswers
from .console import Seen, commands, read_ready, shortened, width
from .explorer_phases import BEGIN, MODES, PHASES, STAY, followed, lines_of
from .metastore.java import cache_folder, java_home_for_spark
from .metastore.listener import pyspark_jars
from .processes.class_archive import MADE_S_MAX, application_environment
from .processes.counting import Counting
from .processes.ports import usual_or_any
from .processes.spark_settings import properties_file, submit_arguments
from .processes.stack import ChildLine, Ended, Stack
from .sql_shell import SqlShell, question
from .writer_steps import QUERY, STEPS

LISTENING: Final = "listening "  # the line of a daemon begins so when clients may connect
READY: Final = "ready "  # the line of a process begins so when it serves
METASTORE: Final = "metastore"
STATESTORED: Final = "statestored"
CATALOGD: Final = "catalogd"
WRITER: Final = "writer"
READER: Final = "reader"
EXPLORER: Final = "explorer"
REPORT: Final = "report"
SQL: Final = "spark-sql"  # plain
SQL_RUN: Final = "sql report"  # under topicast run
REPORTS: Final = (READER, REPORT, SQL, SQL_RUN)
TOPICAST_RUN: Final = (sys.executable, "-m", "topicast.cli.main", "run")
CLASSES: Final = "spark"  # the process that prepares Spark's classes
PREPARED: Final = "Spark's classes"  # for which the demonstration waits

PORTS: Final = {  # the usual ports; statestored takes the next port for data as well
    METASTORE: 9083,
    STATESTORED: 24000,
    CATALOGD: 26000,
    "statestored's pages": 25010,
    "catalogd's pages": 25020,
}
START_TIMEOUT_S: Final = 240.0  # the first start on a machine fetches a jar and prepares a database
STEP_TIMEOUT_S: Final = 30.0
RIGHT_S: Final = 10.0  # for the attached report to answer right; its query is repeated
AWAY_S: Final = 60.0  # for the plain report to end: Spark tries to reach the metastore for 5 s
METASTORE_IS: Final = (
    "TOPICAST_METASTORE"  # for a driver that reaches the metastore by ``Counting``
)
TURN_S: Final = 1.0
QUIET_S: Final = 3.5  # without a line; then a line says what the demonstration waits for

Say = Callable[[str], None]


class Demo:
    """Runs the demonstration on one stack, with all files in ``folder``."""

    def __init__(self, stack: Stack, folder: Path, *, say: Say) -> None:
        self._stack = stack
        self._folder = folder
        self._say = say
        self._begun = time.monotonic()
        self._said_at = self._begun
        self._facts: dict[str, list[dict[str, Any]]] = {
            name: [] for name in (WRITER, READER, EXPLORER, JOB, REPORT, SQL, SQL_RUN)
        }
        self._shells = {SQL: SqlShell(), SQL_RUN: SqlShell()}
        self._environment: dict[str, str] = {}  # of Spark applications
        self._up = ExitStack()
        self._ways: dict[str, Counting] = {}  # between the reports and the metastore
        self.addresses: dict[str, dict[str, str]] = {}
        self._ready = set[str]()  # the processes that serve
        self._classes_ended: Ended | None = None  # the process that prepares Spark's classes

    def begin(self) -> None:
        """Start every process; return when all of them serve.

        Raises:
            TopicastError: a child ended; it names the child, its last line and its log.
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
        say = partial(self._print, CLASSES)
        environment = self._environment = application_environment(
            java_home, say=say, run=self._run, wait=lambda: self._turn(PREPARED)
        )
        self._start_app(WRITER, environment)
        self._until(lambda: STATESTORED in self.addresses, what=STATESTORED)
        self._start_app(READER, environment, self.statestores)
        self._until(lambda: METASTORE in self.addresses, what="the metastore")
        for report in (READER, REPORT):
            self._ways[report] = self._up.enter_context(Counting(self.metastore_uri))
        self._stack.write(WRITER, self.metastore_uri)
        self._stack.write(READER, self._ways[READER].uri)
        self._start_daemon(
            CATALOGD,
            catalog_service_port=ports[CATALOGD],
            webserver_port=ports["catalogd's pages"],
            hive_metastore_uris=self.metastore_uri,
            statestores=self.statestores,
            state_dir=self._folder / "catalogd",
        )
        self._start_attached(JOB, ATTACHED, uri=self.metastore_uri)
        self._start_attached(REPORT, uri=self._ways[REPORT].uri)
        for shell in self._shells:
            self._start_shell(shell)
        for report in REPORTS:
            for query in FIRST:
                self._ask(report, query)
        self._until(lambda: {CATALOGD, STATESTORED} <= self._ready, what=CATALOGD)
        self._until(lambda: self._has(READER, "ready"), what="the reader's subscriber")
        self._until(lambda: self._has(WRITER, "ready"), what="the writer's Spark")

    def run_steps(self) -> list[Seen]:
        """Run every step, one after the other; return what the reader saw of each."""
        self._until(lambda: self._has(READER, "begun"), what="the reader's sync")
        return [self._run_step(number) for number in range(len(STEPS))]

    def run_query(self) -> str:
        """Return the answer of the reader's own Spark to its query."""
        self._print(READER, f"queries its own Spark: {QUERY}")
        self._until(lambda: self._has(READER, "answer"), what="the reader's Spark")
        answer = str(self._fact(READER, "answer")["answer"])
        self._print(READER, answer)
        return answer

    def start_explorer(self) -> None:
        """Start the driver with the small budget; it creates the tables that it reads."""
        self._start_app(EXPLORER, {}, self.statestores, what="and creates tables to read")
        self._stack.write(EXPLORER, self.metastore_uri)
        self._stack.write(EXPLORER, BEGIN)

    def explore(self) -> Iterator[list[str]]:
        """Run each phase of the explorer; yield its result as lines."""
        for word, title in PHASES:
            if word in MODES:
                self._order("mode", word)
            if word != BEGIN:
                self._stack.write(EXPLORER, word)
            done = partial(self._has, EXPLORER, "did", word)
            self._until(done, what=f"the explorer ({word})")
            facts = self._fact(EXPLORER, "did", word)
            yield lines_of(title, facts, all_bytes=self._bytes_at_full())
        self._stack.write(EXPLORER, STAY)

    def compare(self) -> Iterator[tuple[RoundAnswers, RoundAnswers]]:
        """Run each round: the jobs write, then the reports answer, the plain reports last.

        Yield its answers, and the answers of spark-sql.
        """
        for report in REPORTS:
            begun = partial(self._has_answered, report, len(FIRST))
            self._until(begun, what=f"the first queries of the {report}'s Spark")
        for one in ROUNDS:
            self._print(JOB, f"{one.did}; the report: {one.asks}")
            for job in (WRITER, JOB):  # Hive 2.3 logs no event of tables that change at once
                self._stack.write(job, one.step)
                self._await_step(job, one.step)
            done_at = time.monotonic()
            attached = [
                (self._query_until_right(one, report), time.monotonic() - done_at)
                for report in (REPORT, SQL_RUN)
            ]
            plain = [self._query(report, one.query.format(PLAIN)) for report in (READER, SQL)]
            ours, in_sql = (
                RoundAnswers(round=one, plain=its, attached=answer, after_s=after_s)
                for its, (answer, after_s) in zip(plain, attached, strict=True)
            )
            yield ours, in_sql

    def repeat(self) -> Repeated:
        """Let both reports run the last query again and again, then without a metastore."""
        self._print(REPORT, f"its last query {REPEATED} times more, then without a metastore")
        one = ROUNDS[-1]
        queries = {READER: one.query.format(PLAIN), REPORT: one.query.format(ATTACHED)}
        self._until_held(queries[REPORT])
        calls = {report: self._calls(report, query) for report, query in queries.items()}
        for way in self._ways.values():
            way.close()
        answers = {name: self._query(name, query, AWAY_S) for name, query in queries.items()}
        for way in self._ways.values():
            way.is_open = True
        return Repeated(
            plain_calls=calls[READER],
            attached_calls=calls[REPORT],
            plain_away=answers[READER],
            attached_away=answers[REPORT],
        )

    def end_applications(self) -> None:
        """End the jobs and reports, because each attached one takes half a gigabyte."""
        for plain in (READER, WRITER):
            self._stack.write(plain, "")
        self._stack.finish(REPORT, JOB, *self._shells)

    def end_writer(self) -> None:
        """End the writer, whose work is done. The reader prints further changes until Ctrl-C."""
        self._stack.finish(WRITER)
        self._up.close()

    def keep_up(self) -> NoReturn:
        """Print every further change, until an interrupt."""
        while True:
            happened = self._stack.next(TURN_S)
            if isinstance(happened, Ended):
                self._print_end(happened)
            elif isinstance(happened, ChildLine) and not happened.error:
                self._print_news(happened.name, json.loads(happened.text))

    def _print_news(self, name: str, news: dict[str, Any]) -> None:
        if "object" in news:
            self._print(name, f"saw {news['object']}: {news['kind']}")
        elif "trouble" in news:
            self._print(name, f"waits: {news['trouble']}")
        elif "follows" in news:
            self._print(name, followed(news))

    def commands_to_try(self) -> list[str]:
        """Return commands to try, which work when pasted."""
        return commands(
            self.statestores,
            metastore_uri=self.metastore_uri,
            usual=self.statestores.endswith(f":{PORTS[STATESTORED]}"),
        )

    @property
    def pages(self) -> list[str]:
        """The addresses at which the daemons serve their pages, health and metrics."""
        return [self.addresses[name]["web"] for name in (STATESTORED, CATALOGD)]

    @property
    def metastore_uri(self) -> str:
        """The address of the metastore."""
        return self.addresses[METASTORE]["uri"]

    @property
    def statestores(self) -> str:
        """The address of the statestored."""
        return self.addresses[STATESTORED]["address"]

    def _port(self, name: str) -> int:
        usual = PORTS[name]
        port = usual_or_any(usual, following=1 if name == STATESTORED else 0)
        if not port:
            self._print(name, f"port {usual} is in use: it gets another")
        return port

    def _start_metastore(self, port: int) -> None:
        module = [sys.executable, "-m", "topicast.cli.main", "metastore", "start"]
        folder = self._folder / METASTORE
        self._stack.start(METASTORE, [*module, f"--folder={folder}", f"--port={port}"])

    def _start_daemon(self, name: str, **flags: object) -> None:
        given = [f"--{flag}={value}" for flag, value in flags.items()]
        self._print(name, "starts")
        self._stack.start(name, [sys.executable, "-m", "topicast.cli.daemons", name, *given])

    def _start_app(
        self, name: str, environment: dict[str, str], *more: str, what: str = "Spark"
    ) -> None:
        self._print(name, f"starts {what}")
        folder = self._folder / name
        (folder / "scratch").mkdir(parents=True, exist_ok=True)
        module = f"topicast.cli.quickstart.apps.{name}"
        command = [sys.executable, "-m", module, str(folder), *more]
        self._stack.start(name, command, environment=environment)

    def _start_attached(self, name: str, *arguments: str, uri: str) -> None:
        script = Path(__file__).parent / "apps" / f"orders_{name}.py"
        words = " ".join(("topicast run -- python", script.name, *arguments))
        self._print(name, f"starts: {words}")
        folder = self._folder / name
        (folder / "scratch").mkdir(parents=True, exist_ok=True)
        run = [*TOPICAST_RUN, "--statestores", self.statestores]
        command = ["nice", *run, "--", sys.executable, str(script), *arguments]
        settings = {
            "PYSPARK_SUBMIT_ARGS": submit_arguments(folder, uri),
            METASTORE_IS: self.metastore_uri,
        }
        self._stack.start(name, command, environment=self._environment | settings)

    def _start_shell(self, name: str) -> None:
        """Start a spark-sql, which is fed with queries."""
        folder = self._folder / name.replace(" ", "-")
        (folder / "scratch").mkdir(parents=True, exist_ok=True)
        run: list[str] = []
        if name == SQL_RUN:
            self._print(name, "starts: topicast run -- spark-sql")
            run = [*TOPICAST_RUN, "--statestores", self.statestores, "--"]
        program = str(pyspark_jars().parent / "bin" / SQL)
        file = str(properties_file(folder, self.metastore_uri))
        command = ["nice", *run, program, "--properties-file", file]
        self._stack.start(name, command, environment=self._environment)

    def _await_step(self, job: str, step: str) -> None:
        self._until(lambda: self._has(job, "did", step), what=f"the {job}'s step {step!r}")

    def _query_until_right(self, one: Round, report: str) -> str:
        """Return the answer of an attached report; repeat its query while it is wrong."""
        deadline = time.monotonic() + RIGHT_S
        while True:
            answer = self._query(report, one.query.format(ATTACHED))
            if answer == one.right or time.monotonic() > deadline:
                return answer

    def _until_held(self, query: str) -> None:
        """Let the attached report repeat ``query`` until it makes no call, for RIGHT_S at most."""
        deadline = time.monotonic() + RIGHT_S
        while self._calls(REPORT, query, times=1) and time.monotonic() < deadline:
            pass

    def _calls(self, report: str, query: str, *, times: int = REPEATED) -> int:
        """Return how many calls of the metastore ``times`` of a query make."""
        self._ways[report].take()
        for _ in range(times):
            self._query(report, query)
        return sum(self._ways[report].take().values())

    def _query(self, report: str, query: str, timeout_s: float = STEP_TIMEOUT_S) -> str:
        answers = self._facts[report]
        known = len(answers)
        self._ask(report, query)
        self._until(
            lambda: any("answered" in fact for fact in answers[known:]),
            what=f"the {report}'s answer to {query}",
            timeout_s=timeout_s,
        )
        return str(next(f["answered"] for f in answers[known:] if "answered" in f))

    def _ask(self, report: str, query: str) -> None:
        self._stack.write(report, question(query) if report in self._shells else query)

    def _order(self, *words: str) -> None:
        with Operator(parse_addresses(self.statestores), timeout_s=STEP_TIMEOUT_S) as visit:
            visit.order(words[0], words[1:], NamedFacts, sender="quickstart")

    def _bytes_at_full(self) -> int:
        """Return the bytes of all topics at level full, from the hub."""
        with Operator(parse_addresses(self.statestores), timeout_s=STEP_TIMEOUT_S) as visit:
            topics = visit.hub(ReadTopics())
        at = topics.columns.index("full_bytes")
        return sum(int(row[at] or 0) for row in topics.rows)

    def _run_step(self, number: int) -> Seen:
        step = STEPS[number]
        self._stack.write(WRITER, str(number))
        self._until(
            lambda: self._has(WRITER, "step", number) and self._has(READER, "step", number),
            what=f"step {number + 1} ({step.title})",
            timeout_s=STEP_TIMEOUT_S,
        )
        committed, saw = self._fact(WRITER, "step", number), self._fact(READER, "step", number)
        after_s = max(0, saw["seen_us"] - committed["committed_us"]) / 1e6
        self._print(WRITER, shortened(step.statement, width()))
        self._print(READER, shortened(f"{after_s:.3f} s later: {saw['saw']}", width()))
        return Seen(title=step.title, saw=saw["saw"], after_s=after_s)

    def _until(
        self, done: Callable[[], bool], *, what: str, timeout_s: float = START_TIMEOUT_S
    ) -> None:
        """Take the lines of the children until ``done``."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise NotReady(f"{what} did not come within {timeout_s:g} s: see {self._folder}")
            self._turn(what)

    def _turn(self, what: str) -> None:
        """Take the next line or end of a child; after a silence, print that ``what`` is awaited."""
        happened = self._stack.next(TURN_S)
        if isinstance(happened, ChildLine):
            self._take(happened)
        elif happened is not None and happened.name == CLASSES:
            self._classes_ended = happened
        elif happened is not None:
            raise self._stack.failure(happened)
        if time.monotonic() - self._said_at > QUIET_S:
            self._print("", f"waits for {what}")

    def _run(self, command: Sequence[str], _folder: Path, environment: Mapping[str, str]) -> bool:
        """Run a command that prepares Spark's classes; return whether it has ended well."""
        self._classes_ended = None
        self._stack.start(CLASSES, command, environment=environment)
        with suppress(NotReady):
            self._until(lambda: bool(self._classes_ended), what=PREPARED, timeout_s=MADE_S_MAX)
        self._stack.end_one(CLASSES)
        return self._classes_ended_well()

    def _classes_ended_well(self) -> bool:
        ended = self._classes_ended
        return ended is not None and ended.code == 0

    def _take(self, line: ChildLine) -> None:
        if line.name in self._shells:
            answer = self._shells[line.name].take(line.text, error=line.error)
            if answer:
                self._facts[line.name].append({"answered": answer})
        elif line.name == METASTORE and line.error:
            self._print(METASTORE, line.text)
        elif line.error:
            return  # the log of the child has it
        elif line.text.startswith(LISTENING):
            self.addresses[line.name] = read_ready(line.text)
        elif line.text.startswith(READY):
            self.addresses[line.name] = read_ready(line.text)
            self._ready.add(line.name)
            self._print(line.name, line.text)
        elif line.name in self._facts:
            self._facts[line.name].append(json.loads(line.text))
            if "ready" in self._facts[line.name][-1]:
                self._print(line.name, "is ready")

    def _has_answered(self, name: str, count: int) -> bool:
        return sum("answered" in fact for fact in self._facts[name]) >= count

    def _has(self, name: str, key: str, value: object = None) -> bool:
        return any(key in f and value in {None, f[key]} for f in self._facts[name])

    def _fact(self, name: str, key: str, value: object = None) -> dict[str, Any]:
        return next(f for f in self._facts[name] if key in f and value in {None, f[key]})

    def _print(self, name: str, text: str) -> None:
        self._said_at = time.monotonic()
        self._say(f"{self._said_at - self._begun:6.1f} s  {name:<11}  {text}")

    def _print_end(self, ended: Ended) -> None:
        self._print(ended.name, str(self._stack.failure(ended)))
        command = " ".join(self._stack.command(ended.name))
        self._print(ended.name, f"restart it with: {command}")
