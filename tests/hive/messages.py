"""Messages: those of a bulk alter, made by a release of Hive whose server no registry has.

Run: JAVA_HOME=… python -m topicast.tests.hive.messages 4.2.0, with a JDK of at least 21. It fetches
Hive's own classes through Maven (90 MB) into a folder that it deletes, and writes
tests/hive/messages-4.2.0.txt anew. 4.0 and earlier have no such event.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyspark

from topicast.tests.hive.install import fetch

JARS: Final = Path(pyspark.__file__).parent / "jars"  # Thrift, Jackson and Hadoop


def main(version: str) -> None:
    """Write the messages of ``version``."""
    here = Path(__file__).parent
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    with TemporaryDirectory() as folder:
        fetch(f"org.apache.hive:hive-exec:{version}", Path(folder))
        made = subprocess.run(
            [java, "-cp", f"{folder}/*:{JARS}/*", here / "Messages.java"],
            capture_output=True,
            text=True,
            check=True,
        )
    (here / f"messages-{version}.txt").write_text(made.stdout, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
