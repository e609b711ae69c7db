"""Driver: checks of Spark itself, by its own command with a probe in the application's place.

spark-submit --conf … app.py ──▶ spark-submit --conf … probe.py ──▶ facts in a file
"""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, Final

from ...topics.errors import TopicastError, UsageError
from ...topics.objects.drivers import LIVE, PLAIN, UNSUPPORTED
from ..launch.environment import STATESTORES
from ..launch.spark_commands import SUBMIT, application_at, is_of_the_jvm, refuse_cluster
from .checks import Answer, ok, warning, wrong

START_S: Final = 120.0  # Spark starts, and the probe waits for catalogd
LINES_MAX: Final = 3  # of the output of a command that failed
SESSION_CATALOG: Final = "spark.sql.catalog.spark_catalog"
CACHE: Final = "spark.sql.filesourceTableRelationCacheSize"
ON: Final = "on"
BY_JAR: Final = "the jar on its class path attaches the application, too"
BY_RUN: Final = (
    "no jar attaches the application: call attach(spark) in it, or start it by "
    "topicast run -- COMMAND"
)

# Any Python may run it, also a Python without Topicast.
PROBE: Final = """\
import json, platform, sys
facts = {{"python": platform.python_version(), "executable": sys.executable}}
try:
    from topicast.subscriber.spark.driver.probe import look
except Exception as error:
    facts["missing"] = str(error)
else:
    facts.update(look())
with open({path!r}, "w") as file:
    json.dump(facts, file)
"""


class DriverChecks:
    """The checks of one application; ``command``: starts it; empty: none was given."""

    def __init__(self, command: Sequence[str], *, statestores: str) -> None:
        self._command = command
        self._hubs = statestores
        self._environ = {**os.environ, STATESTORES: statestores}
        self._facts: dict[str, Any] = {}  # once the probe has run

    def application(self) -> Answer:
        """Run the probe with the application's command.

        Raises:
            UsageError: it is not spark-submit or python, or its driver runs on another host.
            TopicastError: the command failed; says how.
        """
        with TemporaryDirectory(prefix="topicast-doctor-") as folder:
            found, script = Path(folder, "facts.json"), Path(folder, "probe.py")
            script.write_text(PROBE.format(path=str(found)), "utf-8")
            printed = self._run(_with_probe(self._command, str(script)))
            if not found.exists():
                lines = "; ".join(printed.strip().splitlines()[-LINES_MAX:])
                raise TopicastError(f"the command wrote no facts, and printed: {lines}")
            self._facts = json.loads(found.read_text("utf-8"))
        where = f"Python {self._facts['python']} at {self._facts['executable']}"
        if "missing" in self._facts:
            return wrong(
                f"{where}: {self._facts['missing']}",
                f"{self._facts['executable']} -m pip install topicast",
            )
        return ok(f"{where}, Spark {self._status('spark')}")

    def attached(self) -> Answer:
        """Check whether the driver was attached, and to which servers."""
        state, reason = self._status("state"), self._status("reason")
        if state in (UNSUPPORTED, PLAIN):
            return wrong(f"{state}: {reason}")
        if state != LIVE:
            problem = self._status("connection_problem") or reason or "no hub has answered"
            return wrong(
                f"{state}: {problem}",
                f"name the hubs so: --conf spark.topicast.statestores={self._hubs}",
            )
        if reason:
            mends = (
                ("budget", "give the application --conf spark.topicast.budget with this size"),
                ("tried with Spark", "use one of these versions of Spark"),
            )
            fitting = (how for part, how in mends if part in reason)
            return warning(f"{state}; {reason}", next(fitting, ""))
        if self._status("control") != ON:
            return warning(
                f"control is {self._status('control')}: nothing is refreshed",
                "give the application --conf spark.topicast.control=on, or, if operators have "
                "switched it, topicast drivers on --all",
            )
        how = BY_JAR if self._facts["jar"] else BY_RUN
        return ok(f"{state}, by {self._status('statestores')}; {how}")

    def writes(self) -> Answer:
        """Check whether the driver's writes are reported, which depends on its metastore."""
        writes = self._status("writes")
        if writes == "reported":
            return ok("reported: catalogd follows this driver's metastore")
        if "follows" in writes:
            return wrong(
                writes,
                "set hive.metastore.uris to that metastore (--conf "
                "spark.hadoop.hive.metastore.uris=URIS); if it is the same one under another name, "
                "--conf spark.topicast.metastore=URIS, as catalogd's --hive_metastore_uris",
            )
        if "embedded" in writes or "in-memory" in writes:
            return warning(
                writes,
                "unless the application does so in its code, give it catalogd's "
                "--hive_metastore_uris: --conf spark.sql.catalogImplementation=hive "
                "--conf spark.hadoop.hive.metastore.uris=URIS",
            )
        return warning(writes, "topicast drivers shows whether it stays so")

    def session_catalog(self) -> Answer:
        """Check whether another format's catalog replaces Spark's own."""
        replaced = self._facts["conf"].get(SESSION_CATALOG)
        if replaced:
            return warning(
                f"{SESSION_CATALOG} is {replaced}",
                "tables of its own format are refreshed as docs/spark.md says; others as usual",
            )
        return ok("Spark's own")

    def caches(self) -> Answer:
        """Check whether Spark caches relations, which is what Topicast refreshes."""
        size = self._facts["conf"].get(CACHE, "")
        if size == "0":
            return warning(
                f"{CACHE}=0: Spark caches no relations, so there is nothing to refresh",
                f"remove this setting, or give another: --conf {CACHE}=1000",
            )
        return ok("Spark caches relations")

    def _status(self, name: str) -> str:
        return str(self._facts["status"][name])

    def _run(self, command: Sequence[str]) -> str:
        """Run ``command``, and return its output; end all processes that it has started."""
        try:
            process = subprocess.Popen(
                command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as exc:
            raise TopicastError(f"{command[0]}: {exc.strerror}") from exc
        try:
            return process.communicate(timeout=START_S)[0]
        except subprocess.TimeoutExpired:
            raise TopicastError(f"no end within {START_S:g} s: {' '.join(command)}") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


def _with_probe(command: Sequence[str], probe: str) -> list[str]:
    """Return ``command`` with ``probe`` in place of its application and its arguments."""
    refuse_cluster(command)
    if is_of_the_jvm(command):
        raise UsageError(
            "it is an application of the JVM: run it, and topicast drivers shows whether it is "
            "attached"
        )
    name = PurePath(command[0]).name
    if name == SUBMIT:
        return [*command[: application_at(command)], probe]
    if name.startswith("python"):
        return [command[0], probe]
    raise UsageError(f"{name} cannot be checked: give spark-submit or python with an application")
