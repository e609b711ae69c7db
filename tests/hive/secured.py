"""Real metastores as sites have them that trust no network: with TLS, and with Kerberos."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from topicast.cli.quickstart.metastore.server import HOST, EmbeddedMetastore


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPrincipal:
    """What a metastore needs to take part in Kerberos.

    ``name``: such as ``hive/localhost@EXAMPLE.COM``; ``conf``: a krb5.conf. ``protection``: what
    Hadoop calls the layers that are offered: authentication, integrity or privacy.
    """

    name: str
    keytab: Path
    conf: Path
    protection: str = "authentication"


def speaking_tls(folder: Path, keystore: Path, password: str) -> EmbeddedMetastore:
    """Return a metastore that speaks TLS; ``keystore``: a PKCS 12 file with its key."""
    listen = partial(_listen_encrypted, keystore=keystore, password=password)
    return EmbeddedMetastore(folder, durable=False, listen=listen)


def demanding_kerberos(folder: Path, principal: ServerPrincipal) -> EmbeddedMetastore:
    """Return a metastore that demands Kerberos."""
    options = (f"-Djava.security.krb5.conf={principal.conf}",)
    guard = partial(_guarded, principal=principal)
    return EmbeddedMetastore(folder, durable=False, guard=guard, options=options)


def _listen_encrypted(jvm: Any, port: int, *, keystore: Path, password: str) -> Any:
    """Listen as Hive does with ``hive.metastore.use.SSL``."""
    tls = jvm.org.apache.thrift.transport.TSSLTransportFactory
    parameters = tls.TSSLTransportParameters()
    parameters.setKeyStore(str(keystore), password, None, "PKCS12")
    host = jvm.java.net.InetAddress.getByName(HOST)
    return tls.getServerSocket(port, 0, host, parameters)


def _guarded(jvm: Any, handler: Any, *, principal: ServerPrincipal) -> tuple[Any, Any]:
    """Return transport factory and processor as Hive has them with Kerberos."""
    conf = jvm.org.apache.hadoop.conf.Configuration()
    conf.set("hadoop.security.authentication", "kerberos")
    conf.set("hadoop.rpc.protection", principal.protection)
    jvm.org.apache.hadoop.security.UserGroupInformation.setConfiguration(conf)
    bridge = jvm.org.apache.hadoop.hive.shims.ShimLoader.getHadoopThriftAuthBridge()
    server = bridge.createServer(str(principal.keytab), principal.name)
    layers = bridge.getHadoopSaslProperties(conf)
    api = jvm.org.apache.hadoop.hive.metastore.api
    processor = server.wrapProcessor(api.ThriftHiveMetastore.Processor(handler))
    return server.createTransportFactory(layers), processor
