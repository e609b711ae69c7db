"""Installs a release of Hive's metastore for tests: jars through Maven, and an empty database.

Run: python tests/hive/install.py 3.1.3 .venv/hive-3.1.3 (80 MB, 220 MB of 4.0.1), as
``make compat-hive`` does. It needs mvn and a JDK, and leaves nothing behind when it fails. The
servers of 4.1.0 and 4.2.0, which no registry has, run from hive-exec on the libraries of 4.0.1.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from topicast.tests.hive.releases import (
    RELEASES,
    Release,
    command,
    settings,
    write_settings,
)
from topicast.tests.installing import installed

NEEDED: Final = ("mvn", "java", "javac")
REPLACED: Final = (
    *("hive-standalone-metastore-*.jar", "hive-storage-api-*.jar", "libthrift-*.jar"),
    "datanucleus-*.jar",
)
SCHEMA: Final = "metastore/upgrade/derby/hive-schema-4.0.0.derby.sql"
# 4.1 has taken these columns away, and puts nothing into them.
LATER_SCHEMA: Final = "".join(
    f'\nALTER TABLE "APP"."{table}" ALTER COLUMN "{column}" NULL;\n'
    for table in ("TAB_COL_STATS", "PART_COL_STATS")
    for column in ("CAT_NAME", "DB_NAME", "TABLE_NAME", "PARTITION_NAME")
    if (table, column) != ("TAB_COL_STATS", "PARTITION_NAME")
)
PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def main(version: str, folder: Path) -> int:
    """Install ``version`` into ``folder``; return 2 if it is unknown or a tool is missing."""
    if version not in RELEASES:
        print(f"no Hive {version}: HIVES is some of {', '.join(RELEASES)}", file=sys.stderr)
        return 2
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        print(f"make compat-hive needs {', '.join(missing)}", file=sys.stderr)
        return 2
    with installed(folder) as home:
        install(RELEASES[version], home)
    return 0


def install(release: Release, home: Path) -> None:
    """Put into ``home`` the folders lib and conf of ``release``, ext, and a template."""
    ext = home / "ext"
    ext.mkdir(parents=True)
    fetch(release.server, home)
    (archive,) = home.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    archive.unlink()
    (unpacked,) = (one for one in home.iterdir() if one != ext)
    for name in ("lib", "conf", "scripts"):
        (unpacked / name).rename(home / name)
    shutil.rmtree(unpacked)
    for jar in release.jars:
        fetch(jar, ext)
    for jar in release.client:
        fetch(jar, home / "client")
    if release.within:
        (script,) = home.glob(f"scripts/{SCHEMA}")
        with script.open("a", encoding="utf-8") as appended:
            appended.write(LATER_SCHEMA)
    prepare(release, home)
    if release.within:
        for jar in (one for name in REPLACED for one in home.glob(f"lib/{name}")):
            jar.unlink()
        fetch(release.within, home / "lib")
    if release.source:
        compile_listener(Path(__file__).with_name(release.source), home)
    if release.java:
        pip = sys.executable, "-m", "pip", "install", "--disable-pip-version-check"
        run(*pip, "--target", str(home / "java"), release.java)


def fetch(artifact: str, folder: Path) -> None:
    """Fetch ``artifact`` from the repositories that Maven is set up for."""
    print(f"      {artifact}", flush=True)
    run("mvn", "-q", "-B", PLUGIN, f"-DoutputDirectory={folder}", f"-Dartifact={artifact}")


def compile_listener(source: Path, home: Path) -> None:
    """Put the classes of ``source`` into a jar in ext."""
    jars = ":".join(map(str, (*home.glob("lib/*.jar"), *home.glob("ext/*.jar"))))
    classes = home / "classes"
    run("javac", "-nowarn", "-proc:none", "-cp", jars, "-d", str(classes), str(source))
    shutil.make_archive(str(home / "listener"), "zip", classes)
    (home / "listener.zip").rename(home / "ext" / "listener.jar")
    shutil.rmtree(classes)


def prepare(release: Release, home: Path) -> None:
    """Make the empty database that each metastore begins with."""
    template = home / "template"
    template.mkdir()
    write_settings(template, settings(release, template, events=False, guarded=False))
    made = command(home, template, release.schema_tool, "-dbType", "derby", "-initSchema")
    run("env", f"METASTORE_HOME={home.absolute()}", *made)


def run(*command_line: str) -> None:
    """Run a command, quietly unless it fails."""
    done = subprocess.run(command_line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n", file=sys.stderr)
        raise SystemExit(f"{command_line[0]} failed: {' '.join(command_line)[:300]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
