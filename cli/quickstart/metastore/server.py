"""Embedded: a real Hive 2.3 metastore out of PySpark's jars, on Derby, on loopback only.

    Python ──Py4J, with a token──▶ JVM: HMSHandler ── TThreadPoolServer on 127.0.0.1 ◀── Thrift

Hive's own main class binds every interface, so this module puts the server together through Py4J.
The JVM reads our pipe and ends when the pipe breaks: it survives neither ``stop`` nor the death of
its parent, however that dies. A prepared database is kept in the cache folder and copied to new
folders; an archive of Java's classes beside it makes starts quick: 2.3 s of a processor instead of
3.7.
"""

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from zlib import crc32

from py4j.protocol import Py4JError, Py4JJavaError

from ....catalog.metastore.sample import Sample
from ....topics.backports import Self
from ....topics.errors import ConfigError, SourceError
from . import site
from .java import QUICK, Java, cache_folder, find_java, system_certificates
from .jvm import STOP_TIMEOUT_S, Jvm
from .listener import JAR_SHA256, fetch_by_ivy, listener_jar, pyspark_jars

HOST: Final = "127.0.0.1"
DATABASE_FREE_TIMEOUT_S: Final = 10.0  # measured: a killed parent's JVM is gone after 2.2 s
TEMPLATE_VERSION: Final = 1
ARCHIVE_TIMEOUT_S: Final = 60.0  # measured: writing the archive of classes takes 4 s of a processor
ARCHIVES_MAX: Final = 8  # of 60 MB each
NO_JVM_LOG: Final = "-Xlog:disable"  # the archive's log would go to a pipe that nobody reads
NOT_DURABLE: Final = ("-Dderby.system.durability=test",)
# A JVM looks for a missing class in all of PySpark's 280 jars. These hold no class of Hive's:
# without them it is up after 2.8 s of a processor instead of 3.6.
NOT_HIVES: Final = (
    *("arrow-", "breeze", "hk2-", "jersey-", "json4s-", "jackson-module-scala", "kubernetes-"),
    *("netty-", "scala-", "spark-", "spire", "vertx-", "volcano-"),
)
NO_SETTINGS: Final[Mapping[str, str]] = {}
TRUST_PASSWORD: Final = "topicast"  # PKCS12 demands a password; it guards public certificates


Listen = Callable[[Any, int], Any]
"""Called with the JVM's packages and a port; returns Thrift's server socket."""
Guard = Callable[[Any, Any], tuple[Any, Any]]
"""Called with the JVM's packages and the metastore's handler; returns the factory of transports and
the processor of a server, which decide whom it lets in."""


def listen_plainly(jvm: Any, port: int) -> Any:
    """Listen on ``port``, or on another port if that is taken, without TLS."""
    address = jvm.java.net.InetSocketAddress
    listen = jvm.org.apache.thrift.transport.TServerSocket
    try:
        return listen(address(HOST, port))
    except Py4JJavaError:
        if not port:
            raise
        return listen(address(HOST, 0))


def believe(jvm: Any, handler: Any) -> tuple[Any, Any]:
    """Believe every client the user name that it sends."""
    transport = jvm.org.apache.hadoop.hive.thrift.TUGIContainingTransport.Factory()
    return transport, jvm.org.apache.hadoop.hive.metastore.TUGIBasedProcessor(handler)


class EmbeddedMetastore:
    """A metastore in ``folder``, running from ``start`` (or ``with``) to ``stop``.

    ``durable=False`` gives up safety against power cuts for speed. ``optimized=True`` gives up a
    quick start for speed later on, as a metastore has it that has run for weeks. ``events=False``
    leaves out the listener that records events, as Hive does by default. ``listen`` and ``guard``
    may make it a server that speaks TLS or demands a login, with ``options`` of Java. ``jars`` and
    ``settings`` are for a file system that Hadoop does not bring. ``progress`` is called with a
    line before each long step.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        java: Path | None = None,
        durable: bool,
        optimized: bool = False,
        events: bool = True,
        listen: Listen = listen_plainly,
        guard: Guard = believe,
        options: Sequence[str] = (),
        jars: Sequence[Path] = (),
        settings: Mapping[str, str] = NO_SETTINGS,
        progress: Callable[[str], None] = lambda _text: None,
        cache: Path | None = None,
    ) -> None:
        self._folder = folder.absolute()
        self._port = port
        self._java_named = java
        speed = (*(() if optimized else QUICK), *(() if durable else NOT_DURABLE))
        self._options = (*speed, *options)
        self._events = events
        self._listen = listen
        self._guard = guard
        self._jars = jars
        self._settings = settings
        self._progress = progress
        self._cache = cache or cache_folder()
        self._server: _Server | None = None

    def start(self) -> None:
        """Return when the metastore answers.

        Raises:
            ConfigError: no Java, no PySpark, or the folder is unusable or in use.
            SourceError: the listener's jar could not be fetched, or the metastore did not start.
        """
        if ";" in str(self._folder):
            raise ConfigError("folder", str(self._folder), "a path without semicolon")
        java = find_java(self._java_named)
        jar = listener_jar(self._cache, fetch=lambda into: self._fetch(into, java))
        template, classes = _prepared(self._cache, java, jar=jar, progress=self._progress)
        fresh = not (self._folder / "db").exists()
        if fresh:
            self._copy(template)
        self._progress("starting the Hive metastore")
        options = (*self._options, f"-XX:SharedArchiveFile={classes}", NO_JVM_LOG)
        self._server = _Server(
            self._folder,
            java,
            jars=(jar, *self._jars),
            options=options,
            settings={**site.settings(self._folder, events=self._events), **self._settings},
        )
        try:
            if fresh:
                self._server.sql(site.MOVE_DEFAULT_DATABASE, site.warehouse(self._folder))
            got = self._server.serve(self._port, listen=self._listen, guard=self._guard)
        except BaseException:
            self.stop()
            raise
        if self._port not in {0, got}:
            self._progress(f"port {self._port} is taken: the metastore listens on {got}")
        self._port = got

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the metastore; if it is durable, the next start has all that it had committed.

        It has ``timeout_s`` to close its database, and as long to end, before it is killed.
        """
        server, self._server = self._server, None
        if server is not None:
            server.close(timeout_s=timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def uri(self) -> str:
        """The address for ``hive.metastore.uris``."""
        return f"thrift://{HOST}:{self._port}"

    @property
    def warehouse(self) -> str:
        """The location under which databases and managed tables lie."""
        return site.warehouse(self._folder)

    def sql(self, *statements: str) -> None:
        """Run statements on the database of the metastore, which must be running."""
        assert self._server is not None
        for one in statements:
            self._server.sql(one)

    @property
    def pid(self) -> int | None:
        """The process id of the JVM; None while it does not run."""
        return self._server.pid if self._server is not None else None

    def _fetch(self, folder: Path, java: Java) -> None:
        self._progress("fetching Hive's notification listener from Maven Central (72 KB, once)")
        options: Sequence[str] = ()
        bundle = system_certificates()
        if java.bundled and bundle is not None:
            trusted = folder / "trusted.p12"
            write_truststore(bundle, trusted, java=java)
            options = (
                f"-Djavax.net.ssl.trustStore={trusted}",
                f"-Djavax.net.ssl.trustStorePassword={TRUST_PASSWORD}",
            )
        fetch_by_ivy(folder, cache=self._cache, java=java.executable, options=options)

    def _copy(self, template: Path) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._folder) as half:
                copied = shutil.copytree(template, Path(half, "db"))
                copied.replace(self._folder / "db")
        except OSError as exc:
            raise ConfigError("folder", str(self._folder), f"a writable folder ({exc})") from exc


def _prepared(
    cache: Path, java: Java, *, jar: Path, progress: Callable[[str], None]
) -> tuple[Path, Path]:
    """Return an empty metastore database in ``cache`` and the archive of classes; make both once.

    A JVM maps the archive instead of loading classes, unless another Java has made it. The file is
    empty if this Java cannot make an archive.
    """
    jars = next(pyspark_jars().glob("hive-metastore-*.jar")).stem
    template = cache / f"{jars}-{JAR_SHA256[:8]}-{TEMPLATE_VERSION}"
    classes = cache / f"classes-{_fingerprint(jar)}.jsa"
    both = template, classes
    if not all(one.exists() for one in both):
        with (cache / "preparing").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several that start at once, the first makes both
            if not all(one.exists() for one in both):
                progress("preparing a metastore's empty database and its classes (once)")
                _prepare(template, classes, java, jar=jar)
    with suppress(OSError):  # a cache that may only be read
        os.utime(classes)  # the archives that were used longest ago are removed first
    return both


def _prepare(template: Path, classes: Path, java: Java, *, jar: Path) -> None:
    """Make those of the two that are missing, with a metastore that runs only for that."""
    with TemporaryDirectory(dir=template.parent) as half:
        made = Path(half, "classes.jsa")
        options = (*QUICK, f"-XX:ArchiveClassesAtExit={made}", NO_JVM_LOG)
        own = site.settings(Path(half))
        server = _Server(Path(half), java, jars=[jar], options=options, settings=own)
        try:
            server.sql(site.CREATE_NOTIFICATION_LOG)
            port = server.serve(0)
            Sample(f"thrift://{HOST}:{port}", "touched", location=f"file:{half}/touched").touch()
            for statement in site.DELETE_EVENTS:
                server.sql(statement)
        finally:
            server.close(timeout_s=ARCHIVE_TIMEOUT_S)
        if not template.exists():
            Path(half, "db").rename(template)
        made.touch()
        made.replace(classes)
    archives = sorted(classes.parent.glob("classes-*.jsa"), key=lambda one: one.stat().st_mtime)
    for archive in archives[:-ARCHIVES_MAX]:
        archive.unlink()


def _fingerprint(listener: Path) -> str:
    """Return a digest of the class path's jars, because an archive fits only these."""
    known = f"{_classpath(listener)} {pyspark_jars().stat().st_mtime_ns}"
    return f"{crc32(known.encode()):08x}"


def _classpath(listener: Path) -> str:
    """Return the jars in which the JVM looks for classes."""
    jars = (one for one in pyspark_jars().glob("*.jar") if not one.name.startswith(NOT_HIVES))
    return ":".join(map(str, (listener, *sorted(jars))))


class _Server:
    """A JVM with a metastore in it."""

    def __init__(
        self,
        folder: Path,
        java: Java,
        *,
        jars: Sequence[Path],
        options: Sequence[str],
        settings: Mapping[str, str],
    ) -> None:
        """``jars``: the listener's, then others; PySpark's come between. ``settings``: HiveConf."""
        self._folder = folder
        self._settings = settings
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "metastore.log"
        log4j = folder / "log4j2.properties"
        log4j.write_text(site.LOG4J.format(log=log), encoding="utf-8")
        more = [
            f"-Dlog4j2.configurationFile={log4j}",
            f"-Dderby.stream.error.file={folder}/derby.log",
            "-Dderby.locks.deadlockTimeout=1",  # seconds; by default 20 and 60
            "-Dderby.locks.waitTimeout=5",
            "-XX:+UseSerialGC",  # measured: up in 2.7 s instead of 4.5 on a busy machine, no slower
        ]
        listener, *others = jars
        classpath = ":".join((_classpath(listener), *map(str, others)))
        self._jvm = Jvm(java, classpath=classpath, options=[*more, *options], log=log)
        self._thrift: Any = None

    @property
    def pid(self) -> int:
        return self._jvm.pid

    def sql(self, statement: str, *values: str) -> None:
        """Run one statement on the metastore's database."""
        try:
            connection = self._connected()
            prepared = connection.prepareStatement(statement)
            for position, value in enumerate(values, start=1):
                prepared.setString(position, value)
            prepared.execute()
            connection.close()
        except Py4JError as exc:
            raise SourceError(f"metastore in {self._folder}: {_reason(exc)}") from exc

    def serve(self, port: int, *, listen: Listen = listen_plainly, guard: Guard = believe) -> int:
        """Answer on ``port``, or on another port if that is taken; return the port."""
        try:
            self._connected().close()
            return self._serve(port, listen, guard)
        except Py4JError as exc:
            log = self._folder / "metastore.log"
            raise SourceError(f"the metastore did not start: {_reason(exc)}; see {log}") from exc

    def _serve(self, port: int, listen: Listen, guard: Guard) -> int:
        jvm = self._jvm.view
        named = jvm.java.lang.Class.forName
        metastore = jvm.org.apache.hadoop.hive.metastore
        conf = jvm.org.apache.hadoop.hive.conf.HiveConf(
            named("org.apache.hadoop.hive.metastore.HiveMetaStore")
        )
        for name, value in self._settings.items():
            conf.set(name, value)
        handler = metastore.HiveMetaStore.HMSHandler("topicast", conf, False)  # noqa: FBT003  Java
        proxy = metastore.RetryingHMSHandler.getProxy(conf, handler, False)  # noqa: FBT003  Java
        socket = listen(jvm, port)
        thrift = jvm.org.apache.thrift
        transport, processor = guard(jvm, proxy)
        args = (
            thrift.server.TThreadPoolServer.Args(socket)
            .processor(processor)
            .transportFactory(transport)
            .protocolFactory(thrift.protocol.TBinaryProtocol.Factory())
        )
        self._thrift = thrift.server.TThreadPoolServer(args)
        self._run_in_java(self._thrift, "serve")
        return int(socket.getServerSocket().getLocalPort())

    def _run_in_java(self, target: Any, method: str) -> None:
        """Call ``target.method()`` on a thread of the JVM, so that no thread of ours waits."""
        jvm = self._jvm.view
        invoke = jvm.java.lang.invoke
        handle = (
            invoke.MethodHandles.publicLookup()
            .findVirtual(
                target.getClass(), method, invoke.MethodType.methodType(jvm.java.lang.Void.TYPE)
            )
            .bindTo(target)
        )
        runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
        thread = jvm.java.lang.Thread(
            invoke.MethodHandleProxies.asInterfaceInstance(runnable, handle), "metastore"
        )
        thread.setDaemon(True)
        thread.start()

    def _connected(self) -> Any:
        """Open Derby; wait until a former process with the same folder has ended."""
        jvm = self._jvm.view
        jvm.java.lang.Class.forName("org.apache.derby.jdbc.EmbeddedDriver")
        deadline = time.monotonic() + DATABASE_FREE_TIMEOUT_S
        while True:
            try:
                return jvm.java.sql.DriverManager.getConnection(site.jdbc_url(self._folder))
            except Py4JJavaError as exc:
                if "another instance of Derby" not in str(exc).replace("Another", "another"):
                    raise
                if time.monotonic() > deadline:
                    raise ConfigError(
                        "folder", str(self._folder), "a folder that no other metastore uses"
                    ) from exc
            time.sleep(0.2)

    def close(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop listening and close the database, then end the JVM: each within ``timeout_s``.

        A database that is not closed by then is recovered at its next start.
        """
        stopping = threading.Thread(target=self._stop_serving, daemon=True)
        stopping.start()
        stopping.join(timeout_s)
        self._jvm.close(timeout_s=timeout_s)

    def _stop_serving(self) -> None:
        with suppress(
            Py4JError, OSError
        ):  # Derby raises at the end of a shutdown; Java may be dead
            if self._thrift is not None:
                self._thrift.stop()
            jvm = self._jvm.view
            jvm.java.sql.DriverManager.getConnection("jdbc:derby:;shutdown=true")


def write_truststore(bundle: Path, trusted: Path, *, java: Java) -> int:
    """Write the certificates of a PEM ``bundle`` as a Java trust store; return how many.

    Raises:
        SourceError: ``bundle`` holds something else.
    """
    classpath = str(next(pyspark_jars().glob("py4j-*.jar")))
    jvm = Jvm(java, classpath=classpath, options=(), log=trusted.with_suffix(".log"))
    try:
        java_ = jvm.view.java
        store = java_.security.KeyStore.getInstance("PKCS12")
        password = jvm.chars(TRUST_PASSWORD)
        store.load(None, password)
        source = java_.io.FileInputStream(str(bundle))
        found = java_.security.cert.CertificateFactory.getInstance("X.509")
        for number, certificate in enumerate(found.generateCertificates(source)):
            store.setCertificateEntry(str(number), certificate)
        source.close()
        target = java_.io.FileOutputStream(str(trusted))
        store.store(target, password)
        target.close()
        return int(store.size())
    except Py4JError as exc:
        raise SourceError(f"{bundle} is not a bundle of certificates: {_reason(exc)}") from exc
    finally:
        jvm.close()


def _reason(exc: Py4JError) -> str:
    """Return the root cause's own words, without Java's stack."""
    lines = [line.strip() for line in str(exc).splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    first = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])
    return causes[-1] if causes else first
