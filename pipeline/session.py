"""Session: the Spark session of a pipeline that a command starts."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from ..subscriber.spark import attach
from ..subscriber.spark.writes.metastores import URIS
from ..subscriber.spark.writes.plans import metastore_in_use
from ..topics.errors import ConfigError

log = logging.getLogger(__name__)

DEPLOY_MODE: Final = "spark.submit.deployMode"
MASTER: Final = "spark.master"
DRIVER_PYTHON, PYTHON = "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"
PY4J: Final = ("java_gateway", "clientserver")  # its modules that log a failed call


@contextmanager
def open_session(
    name: str,
    *,
    statestores: str,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    packages: str | None = None,
    metastore: bool = True,
) -> Iterator[SparkSession]:
    """Start Spark under the application name ``name``, and stop it at the end.

    A session with a metastore is attached. A session without a metastore has no table that can
    change, and its agent would only warn of that.

    Args:
        name: The name that Spark's pages show.
        statestores: Addresses of hubs, separated by commas.
        master: As spark-submit has it; None: as Spark is configured, else local[*].
        conf: Properties of Spark; they override those of its files.
        packages: Coordinates that Spark fetches, separated by commas.
        metastore: Whether the session needs a metastore, other than the one that Spark makes in
            the working directory.

    Raises:
        ConfigError: the driver would run on another host, or Spark has no metastore.
    """
    given = dict(conf or {})
    if given.get(DEPLOY_MODE, "client") != "client":
        raise ConfigError(DEPLOY_MODE, given[DEPLOY_MODE], "client: the pipeline runs here")
    choose_python(os.environ, master=given.get(MASTER) if master is None else master)
    builder = SparkSession.builder.appName(name)
    if metastore:
        builder = builder.enableHiveSupport()
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for key, value in given.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    if packages:
        builder = builder.config("spark.jars.packages", packages)
    received: list[int] = []
    with _held_back(received):
        spark = builder.getOrCreate()
    with _interruptible():
        try:
            for number in received:
                signal.raise_signal(number)
            if not metastore:
                yield spark
                return
            _check_metastore(spark)
            handle = attach(spark, statestores)
            try:
                yield spark
            finally:
                handle.detach()
        finally:
            spark.stop()


@contextmanager
def _held_back(received: list[int]) -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM in ``received`` until the block has ended.

    An interrupted start of PySpark deletes the file that its JVM is about to write. Then the JVM
    fails, does not notice that Python has ended, and stays for good.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return

    def keep(number: int, _frame: object) -> None:
        if not received:
            log.warning("interrupted while Spark starts: the run ends as soon as Spark has started")
        received.append(number)

    before = {number: signal.signal(number, keep) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is keep:  # PySpark has a handler of its own by now
                signal.signal(number, handler)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt a call of Spark, and log nothing of it.

    PySpark's own handler calls Spark over the connection whose answer the interrupted call awaits:
    both fail, and Py4J logs the tracebacks. Without that handler, the end of the session ends the
    jobs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def is_not_of_py4j(record: logging.LogRecord) -> bool:
        return record.module not in PY4J  # Py4J also raises the errors that it logs

    loggers = [logging.getLogger(), *(logging.getLogger(f"py4j.{one}") for one in PY4J)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    for one in loggers:
        one.addFilter(is_not_of_py4j)
    try:
        yield
    finally:
        for one in loggers:
            one.removeFilter(is_not_of_py4j)
        signal.signal(signal.SIGINT, before)


def choose_python(environ: MutableMapping[str, str], *, master: str | None) -> None:
    """Let Spark run this Python, which has the package, unless ``environ`` names another.

    Spark would run ``python3`` of the PATH, which lacks an environment that was not activated.
    Executors on other hosts have a Python of their own, so nothing is set for them.
    """
    if PYTHON in environ:
        return
    environ.setdefault(DRIVER_PYTHON, sys.executable)
    if master is None or master.startswith("local"):
        environ[PYTHON] = environ[DRIVER_PYTHON]


def metastore_uris(spark: SparkSession) -> str:
    """Return ``hive.metastore.uris`` of a session's configuration; empty if it is not set."""
    context = spark._jsparkSession.sparkContext()
    return str(context.conf().get(URIS, "") or context.hadoopConfiguration().get(URIS) or "")


def _check_metastore(spark: SparkSession) -> None:
    """Raise ConfigError if Spark would make a metastore of its own in this folder."""
    if not metastore_in_use(spark._jsparkSession, made=False, configured="").uris:
        allowed = (
            "where the metastore is: --conf spark.hadoop.hive.metastore.uris=thrift://HOST:9083, "
            "or hive-site.xml next to Spark's configuration"
        )
        raise ConfigError("hive.metastore.uris", "", allowed)
