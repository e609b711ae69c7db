"""Kdc: a real key distribution centre of Kerberos, Apache Kerby's, on loopback, in its own JVM."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from topicast.cli.quickstart.metastore.java import QUICK, find_java
from topicast.cli.quickstart.metastore.jvm import Jvm
from topicast.cli.quickstart.metastore.listener import pyspark_jars
from topicast.tests.cli.processes import steady_port

REALM: Final = "TOPICAST.TEST"
HOST: Final = "127.0.0.1"
CONF: Final = f"""[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {REALM} = {{
    kdc = {HOST}:%d
  }}
"""


class Kdc:
    """A KDC that runs; ``conf`` is the krb5.conf of its clients, C's and Java's."""

    def __init__(self, view: Any, folder: Path, *, ticket_s: int) -> None:
        port = steady_port()
        kdc = self._kdc = view.org.apache.kerby.kerberos.kerb.server.SimpleKdcServer()
        kdc.setWorkDir(view.java.io.File(str(folder)))
        kdc.setKdcRealm(REALM)
        kdc.setKdcHost(HOST)
        kdc.setKdcTcpPort(port)
        kdc.setAllowUdp(False)
        lifetime = view.org.apache.kerby.kerberos.kerb.server.KdcConfigKey.MAXIMUM_TICKET_LIFETIME
        kdc.getKdcConfig().setLong(lifetime, ticket_s)
        kdc.init()
        kdc.start()
        self._view = view
        self._folder = folder
        self.conf = folder / "clients.conf"
        self.conf.write_text(CONF % port, encoding="utf-8")

    def keytab(self, principal: str) -> Path:
        """Make ``principal`` and return a new file with its keys."""
        path = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._kdc.createPrincipal(principal)
        self._kdc.exportPrincipal(f"{principal}@{REALM}", self._view.java.io.File(str(path)))
        return path


@contextmanager
def kdc(jars: Path, folder: Path, *, ticket_s: int = 3600) -> Iterator[Kdc]:
    """Run a KDC whose tickets last ``ticket_s``, with the jars in a folder."""
    folder.mkdir(parents=True)
    paths = (*jars.glob("*.jar"), *pyspark_jars().glob("py4j-*.jar"))
    classpath = ":".join(map(str, paths))
    jvm = Jvm(find_java(), classpath=classpath, options=QUICK, log=folder / "kdc.log")
    try:
        yield Kdc(jvm.view, folder, ticket_s=ticket_s)
    finally:
        jvm.close()
