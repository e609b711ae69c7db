"""Listener: the one jar that Hive's notification log needs and PySpark does not bring.

PySpark's own Ivy fetches the jar (72 KB, no dependencies). Its SHA-256 is checked, and it is kept
in the cache folder, so that later starts need no network.
"""

import fcntl
import subprocess
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ....topics.errors import ConfigError, SourceError

JAR: Final = "hive-hcatalog-server-extensions-2.3.10.jar"
JAR_SHA256: Final = "53e4576e6770356dbe3117d25baaaf7a7054d2af4f63acebf38bd26087ab4063"
GROUP: Final = "org.apache.hive.hcatalog"
ARTIFACT, _, VERSION = JAR.removesuffix(".jar").rpartition("-")
FETCH_TIMEOUT_S: Final = 120.0


def pyspark_jars() -> Path:
    """Return the folder of PySpark's jars, in which Hive's metastore and Derby are.

    Raises:
        ConfigError: PySpark is not installed, or without Hive.
    """
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("pyspark", "not installed", "pip install 'topicast[quickstart]'")
    jars = Path(spec.submodule_search_locations[0], "jars")
    if not any(jars.glob("hive-metastore-2.3.*.jar")):
        raise ConfigError("pyspark", str(jars), "a PySpark with Hive 2.3, as pip installs it")
    return jars


def listener_jar(cache: Path, *, fetch: Callable[[Path], None]) -> Path:
    """Return the checked jar in ``cache``; if it is absent, ``fetch`` puts it into a folder.

    Raises:
        ConfigError: the file in ``cache`` is not the jar.
        SourceError: the jar is absent, and cannot be fetched.
    """
    jar = cache / JAR
    if not jar.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "fetching").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # an archive of classes does not fit a second jar
            if not jar.exists():
                _put(jar, fetch)
    _check(jar)
    return jar


def _put(jar: Path, fetch: Callable[[Path], None]) -> None:
    with TemporaryDirectory(dir=jar.parent) as folder:
        fetch(Path(folder))
        fetched = Path(folder, JAR)
        if not fetched.exists():
            raise _not_fetched(jar, f"no {JAR} arrived")
        _check(fetched)
        fetched.replace(jar)


def fetch_by_ivy(folder: Path, *, cache: Path, java: Path, options: Sequence[str] = ()) -> None:
    """Fetch the jar into ``folder``, from Maven Central, with the Ivy among PySpark's jars.

    Raises:
        SourceError: the jar cannot be fetched: names the file, and where to put it.
    """
    ivy = next(pyspark_jars().glob("ivy-*.jar"), None)
    if ivy is None:
        raise _not_fetched(cache / JAR, "PySpark has no Ivy")
    command = [str(java), *options, "-jar", str(ivy), "-cache", str(folder / "ivy")]
    command += ["-dependency", GROUP, ARTIFACT, VERSION]
    command += ["-notransitive", "-types", "jar", "-confs", "default"]
    command += ["-retrieve", str(folder / "[artifact]-[revision].[ext]")]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=FETCH_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _not_fetched(cache / JAR, str(exc)) from exc
    if not Path(folder, JAR).exists():
        raise _not_fetched(cache / JAR, _reason(done.stdout + done.stderr))


def _check(jar: Path) -> None:
    digest = sha256(jar.read_bytes()).hexdigest()
    if digest != JAR_SHA256:
        raise ConfigError(str(jar), f"sha256 {digest}", f"sha256 {JAR_SHA256}; delete the file")


def _not_fetched(jar: Path, reason: str) -> SourceError:
    return SourceError(
        f"Hive's notification listener could not be fetched ({reason}): "
        f"download {GROUP}:{ARTIFACT}:{VERSION} (from Maven Central) elsewhere and put it at {jar}"
    )


def _reason(output: str) -> str:
    """Return the most useful line of Ivy's output: a line about TLS, else the first problem."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    problems = [
        after for line, after in pairwise(lines) if line in {":::: WARNINGS", ":::: ERRORS"}
    ]
    certificates = [line for line in lines if "SSL" in line or "certificat" in line]
    useful = [*certificates, *problems, *lines[-1:], "Ivy printed nothing"]
    return useful[0].partition(" url=")[0][:200]
