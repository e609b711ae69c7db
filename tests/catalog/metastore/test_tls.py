"""A real metastore that speaks TLS, as Hive's does with hive.metastore.use.SSL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from topicast.catalog.metastore.addresses import Addresses
from topicast.catalog.metastore.hive_site import MetastoreFlags, metastore_client
from topicast.catalog.metastore.hms import Hms
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.hive.secured import speaking_tls
from topicast.topics.errors import SourceError

PASSWORD = "topicast"


def keystore(path: Path, made: trustme.LeafCert) -> Path:
    """Write the key of a server as the PKCS 12 file that its Java reads."""
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    certificate = load_pem_x509_certificate(made.cert_chain_pems[0].bytes())
    encryption = BestAvailableEncryption(PASSWORD.encode())
    path.write_bytes(
        serialize_key_and_certificates(b"hms", key, certificate, None, encryption)  # type: ignore[arg-type]
    )
    return path


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def encrypted(
    authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    folder = tmp_path_factory.mktemp("tls")
    made = keystore(folder / "key.p12", authority.issue_cert("127.0.0.1"))
    with speaking_tls(folder / "hive", made, PASSWORD) as metastore:
        yield metastore


def connected(uri: str, trusted: Path | None, *, use_ssl: bool = True) -> Hms:
    flags = MetastoreFlags(
        hive_metastore_uris=uri,
        hive_metastore_use_ssl=use_ssl,
        hive_metastore_truststore=trusted,
    )
    found = metastore_client(flags)
    return Hms(Addresses(found.uris, tls=found.tls), timeout_s=10)


def pem(authority: trustme.CA, folder: Path) -> Path:
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


def test_databases_are_read_by_tls(
    encrypted: EmbeddedMetastore, authority: trustme.CA, tmp_path: Path
) -> None:
    hms = connected(encrypted.uri, pem(authority, tmp_path))
    assert "default" in hms.databases()
    assert hms.current_event_id() >= 0
    hms.close()


def test_server_that_is_not_trusted_is_refused(
    encrypted: EmbeddedMetastore, tmp_path: Path
) -> None:
    hms = connected(encrypted.uri, pem(trustme.CA(), tmp_path))
    with pytest.raises(SourceError, match="its certificate is not accepted"):
        hms.databases()


def test_certificate_of_another_host_is_refused(
    encrypted: EmbeddedMetastore, authority: trustme.CA, tmp_path: Path
) -> None:
    hms = connected(encrypted.uri.replace("127.0.0.1", "localhost"), pem(authority, tmp_path))
    with pytest.raises(SourceError, match="not accepted: .*localhost"):
        hms.databases()


def test_metastore_without_tls_is_said(
    hive: EmbeddedMetastore, authority: trustme.CA, tmp_path: Path
) -> None:
    hms = connected(hive.uri, pem(authority, tmp_path))
    with pytest.raises(SourceError, match="no TLS there .*hive.metastore.use.SSL"):
        hms.databases()


def test_plain_connection_to_a_metastore_with_tls_ends(encrypted: EmbeddedMetastore) -> None:
    hms = connected(encrypted.uri, None, use_ssl=False)
    with pytest.raises(SourceError):
        hms.databases()
