"""Builds the jar that drivers in Scala, Java or SQL have on their class path, by Spark's compiler.

The build needs a Java runtime and the jars of any Spark from 3.5 on; the jar fits all of these. It
is built once for a user, and kept beside the classes that drivers compile.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ....topics.errors import ConfigError, SourceError
from ..compiled import CompiledClasses, jar_of
from ..guard import first_line
from .bootstrap import NAME, OWN, bootstrap_source
from .spark_home import HOME, add_py4j, spark_home

SERVICE: Final = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
COMMAND: Final = "topicast-agent"  # the jar's file with the command for an agent, by default
_FILES: Final = {SERVICE: f"{NAME}\n".encode()}


def build_jar(environ: Mapping[str, str]) -> bytes:
    """Return the content of a jar, which starts agents by this Python if no setting says how.

    Raises:
        ConfigError: there is no Spark, or no Java.
        SourceError: the compiler refuses the source; says why.
    """
    files = {**_FILES, COMMAND: f"{shlex.join(OWN)}\n".encode()}
    return jar_of(_compiled(spark_home(environ), environ), files)


def kept_jar(environ: Mapping[str, str], command: str) -> Path:
    """Return the path of this user's jar, which is built if there is none yet.

    ``command``: a command such as spark-submit; if it is of a Spark, that Spark compiles the jar.

    Raises:
        ConfigError: there is no Spark, no Java, or no folder in which the jar can be kept.
        SourceError: the compiler refuses the source; says why.
    """
    kept, key = CompiledClasses.of_user(environ), bootstrap_source()
    if kept is None:
        raise ConfigError("HOME", "", "a folder in which the jar can be kept")
    if kept.find(key) is None:
        kept.put(key, _compiled(spark_home(environ, command), environ), _FILES)
        if kept.find(key) is None:
            raise ConfigError("XDG_CACHE_HOME", str(kept.folder), "a folder of this user alone")
    return kept.file(key)


def _compiled(home: Path, environ: Mapping[str, str]) -> dict[str, bytes]:
    """Return the compiled classes by name; ``home``: the folder of Spark. Cost: a JVM, 2 s."""
    add_py4j({**environ, HOME: str(home)})
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JError

    java = str(Path(environ["JAVA_HOME"], "bin", "java")) if environ.get("JAVA_HOME") else "java"
    bridge = next((home / "jars").glob("py4j-*.jar"), None)
    if bridge is None:
        raise ConfigError(HOME, str(home), "a Spark with Py4J among its jars")
    with Path(os.devnull).open("wb") as nowhere:
        try:
            port, token, process = launch_gateway(
                jarpath=str(bridge),
                classpath=str(home / "jars" / "*"),
                java_path=java,
                die_on_exit=True,
                enable_auth=True,
                return_proc=True,
                redirect_stderr=nowhere,
            )
        except (OSError, ValueError) as exc:  # ValueError: the process has printed no port
            raise ConfigError("JAVA_HOME", environ.get("JAVA_HOME", ""), "a Java runtime") from exc
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(bootstrap_source())
        classes = compiler.getBytecodes()
        return {str(one): classes[one] for one in classes}
    except (Py4JError, TypeError) as exc:  # TypeError: there is no such class, so Py4J has no call
        raise SourceError(f"{home}: its compiler refuses {NAME}: {first_line(exc)}") from exc
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait()
