"""The command that writes the jar for drivers of all languages."""

import os
from pathlib import Path

import click

from ...subscriber.spark.jar.builder import build_jar
from ...topics.errors import TopicastError
from ..options.flags import command, prints
from ..terminal.exit_codes import DONE
from ..terminal.output import Output, WrittenFile, checked_place, written


@command()
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Its file."
)
@prints(lambda: {"": WrittenFile})
def jar(*, out: Path, output: str) -> int:
    """Write the jar that attaches drivers in Python, spark-sql, Thrift servers and all others.

    Put it on the class path of drivers, or into the folder jars of a Spark. It does nothing in a
    driver that names no statestores. Its agents run with this Python, if that is on the driver's
    host and no setting names another command. The jar fits Spark 3.5 and later, and is built by the
    compiler of the Spark in SPARK_HOME, of the spark-submit on the PATH, or of PySpark.
    """
    checked_place(out)
    content = build_jar(os.environ)
    try:
        out.write_bytes(content)
    except OSError as exc:
        raise TopicastError(f"{out}: {exc.strerror}") from exc
    written(out, len(content), Output(output))
    return DONE
