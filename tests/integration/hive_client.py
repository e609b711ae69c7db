"""A JVM with Hive's own client out of PySpark's jars, which asks as Spark's built-in does."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from topicast.cli.quickstart.metastore.java import QUICK, find_java
from topicast.cli.quickstart.metastore.jvm import Jvm
from topicast.cli.quickstart.metastore.listener import pyspark_jars

TOKEN_KEY = "topicast.token"
SETTINGS = {
    "hive.metastore.client.socket.timeout": "60s",
    "hive.metastore.connect.retries": "1",
    "hive.metastore.failure.retries": "0",
    "hive.metastore.schema.verification": "false",
}


class HiveClient:
    """One ``HiveMetaStoreClient``; a method of its own is called by Java's name."""

    def __init__(self, jvm: Jvm, client: Any) -> None:
        self._jvm = jvm
        self.java = client

    def bytes_of(self, method: str, *arguments: Any) -> Any:
        """Call a method; return the Thrift bytes of what it returns, of each item of a list."""
        given = [self.list_of(one) if isinstance(one, list) else one for one in arguments]
        return self._bytes(getattr(self.java, method)(*given))

    def set_meta_conf(self, key: str, value: str) -> bool:
        """Call ``setMetaConf``; return whether the server has accepted it."""
        try:
            self.java.setMetaConf(key, value)
        except Py4JJavaError:
            return False
        return True

    def list_of(self, items: Sequence[str]) -> Any:
        """Return Java's list of ``items``."""
        found = self._jvm.view.java.util.ArrayList()
        for item in items:
            found.add(item)
        return found

    def _bytes(self, found: Any) -> Any:
        if found is None or isinstance(found, str | int):
            return found
        if hasattr(found, "getClass") and found.getClass().getName().startswith("java.util."):
            return [self._bytes(one) for one in found]
        return bytes(self._jvm.view.org.apache.thrift.TSerializer().serialize(found))


class HiveClients:
    """Makes clients in one JVM."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm

    def connect(self, uri: str) -> HiveClient:
        """Return a client of the metastore at ``uri``."""
        kind = self.jvm.view.org.apache.hadoop.hive.metastore.HiveMetaStoreClient
        return HiveClient(self.jvm, kind(self.conf(uri)))

    def conf(self, uri: str) -> Any:
        """Return the settings of a client of the metastore at ``uri``."""
        found = self.jvm.view.org.apache.hadoop.hive.conf.HiveConf()
        for key, value in {**SETTINGS, "hive.metastore.uris": uri}.items():
            found.set(key, value)
        return found

    def admitted(self, uri: str, token: str) -> HiveClient:
        """Return a client of the endpoint at ``uri`` that has presented ``token``."""
        client = self.connect(uri)
        client.java.setMetaConf(TOKEN_KEY, token)
        return client


@contextmanager
def hive_clients(folder: Path) -> Iterator[HiveClients]:
    """Start the JVM; it ends with the block."""
    jars = [str(path) for path in sorted(pyspark_jars().glob("*.jar"))]
    jvm = Jvm(find_java(), classpath=":".join(jars), options=QUICK, log=folder / "client.log")
    try:
        yield HiveClients(jvm)
    finally:
        jvm.close()
