"""hive-site.xml: what it sets for catalogd's connections, and what is refused."""

import ssl
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from xml.sax.saxutils import escape

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
)
from cryptography.x509 import load_pem_x509_certificate

from topicast.catalog.metastore.hive_site import (
    TIMEOUT_S_DEFAULT,
    URIS_DEFAULT,
    MetastoreClient,
    MetastoreFlags,
    metastore_client,
    read_hive_site,
)
from topicast.catalog.metastore.sasl import Kerberos, Plain
from topicast.cli.quickstart.metastore.java import find_java
from topicast.topics.errors import ConfigError

PASSWORD = "secret-word"


def site(folder: Path, properties: Mapping[str, str]) -> Path:
    """Write a hive-site.xml."""
    rows = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    path = folder / "hive-site.xml"
    path.write_text(f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n')
    return path


def client(folder: Path, properties: Mapping[str, str] | None = None, **flags: object):  # type: ignore[no-untyped-def]
    path = None if properties is None else site(folder, properties)
    known = {field.name for field in fields(MetastoreFlags)}
    named = {n if n in known else f"hive_metastore_{n}": value for n, value in flags.items()}
    return metastore_client(MetastoreFlags(hive_site=path, **named))  # type: ignore[arg-type]


def test_without_a_file_everything_is_as_by_default(tmp_path: Path) -> None:
    assert client(tmp_path) == MetastoreClient(
        uris=URIS_DEFAULT, timeout_s=TIMEOUT_S_DEFAULT, tls=None
    )


def test_uris_and_timeout_come_from_the_file_and_flags_come_first(tmp_path: Path) -> None:
    properties = {
        "hive.metastore.uris": " thrift://${host}:9083,thrift://b:9083 ",
        "host": "a",
        "hive.metastore.client.socket.timeout": "10min",
        "unrelated": "${not.there}",
    }
    found = client(tmp_path, properties)
    assert (found.uris, found.timeout_s) == ("thrift://a:9083,thrift://b:9083", 600.0)
    assert client(tmp_path, properties, uris="thrift://c:1").uris == "thrift://c:1"
    assert read_hive_site(site(tmp_path, properties))["unrelated"] == "${not.there}"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("600", 600),
        ("600s", 600),
        ("9 sec", 9),
        ("1500ms", 1.5),
        ("2m", 120),
        ("3 Min", 180),
        ("1h", 3600),
    ],
)
def test_timeout_is_read_in_every_unit_of_hive(tmp_path: Path, text: str, seconds: float) -> None:
    found = client(tmp_path, {"metastore.client.socket.timeout": text})
    assert found.timeout_s == pytest.approx(seconds)


def test_random_selection_uses_every_address(tmp_path: Path) -> None:
    uris = ",".join(f"thrift://h{n}:9083" for n in range(8))
    properties = {"hive.metastore.uris": uris, "hive.metastore.uri.selection": "RANDOM"}
    orders = {client(tmp_path, properties).uris for _ in range(20)}
    assert len(orders) > 1
    assert {tuple(sorted(order.split(","))) for order in orders} == {tuple(uris.split(","))}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"hive.metastore.client.auth.mode": "PLAIN"}, "hive_metastore_user"),
        ({"hive.metastore.uri.selection": "NEAREST"}, "'NEAREST'.*SEQUENTIAL or RANDOM"),
        ({"hive.metastore.client.auth.mode": "JWT"}, "NOSASL or PLAIN, not JWT"),
        ({"hive.metastore.client.socket.timeout": "soon"}, "a time as Hive writes it"),
        ({"hive.metastore.client.socket.timeout": "0"}, "a time as Hive writes it"),
        (
            {"hive.metastore.use.SSL": "true", "hive.metastore.truststore.path": "/no/such"},
            "hive_metastore_truststore='/no/such' .*readable",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(
    tmp_path: Path, properties: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        client(tmp_path, properties)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"uris=thrift://a", "XML"), (b"<site/>", "not <site>"), (b"", "XML")],
)
def test_file_that_is_none_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "hive-site.xml"
    with pytest.raises(ConfigError, match=r"readable"):
        read_hive_site(path)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        read_hive_site(path)


def trusted(tls: ssl.SSLContext | None) -> int:
    """Return how many certificates are trusted."""
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    return len(tls.get_ca_certs())


def truststore(folder: Path, kind: str) -> Path:
    """Write one certificate as a truststore of ``kind``."""
    pem = trustme.CA().cert_pem.bytes()
    path = folder / f"trusted.{kind}"
    if kind == "pem":
        path.write_bytes(pem)
    elif kind == "p12":
        one = PKCS12Certificate(load_pem_x509_certificate(pem), b"ca")
        encryption = BestAvailableEncryption(PASSWORD.encode())
        path.write_bytes(serialize_java_truststore([one], encryption))
    else:
        (folder / "ca.pem").write_bytes(pem)
        keytool = find_java(None).executable.with_name("keytool")
        command = f"-importcert -noprompt -alias ca -file {folder}/ca.pem -storetype JKS"
        command += f" -storepass {PASSWORD} -keystore {path}"
        subprocess.run([keytool, *command.split()], check=True, capture_output=True)
    return path


@pytest.mark.parametrize("kind", ["pem", "p12", "jks"])
def test_truststore_is_read_from_the_file_or_by_flags(tmp_path: Path, kind: str) -> None:
    path = truststore(tmp_path, kind)
    properties = {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.truststore.path": str(path),
        "hive.metastore.truststore.password": PASSWORD,
    }
    assert trusted(client(tmp_path, properties).tls) == 1
    assert client(tmp_path, properties, use_ssl=False).tls is None
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    flags = {"use_ssl": True, "truststore": path, "truststore_password_file": secret}
    assert trusted(client(tmp_path, **flags).tls) == 1


@pytest.mark.parametrize("kind", ["p12", "jks"])
def test_truststore_with_a_wrong_password_or_damaged_is_refused(tmp_path: Path, kind: str) -> None:
    path = truststore(tmp_path, kind)
    secret = tmp_path / "password"
    secret.write_text("another")
    flags = {"use_ssl": True, "truststore": path, "truststore_password_file": secret}
    with pytest.raises(ConfigError, match=r"PEM, PKCS 12 or JKS file, and its password"):
        client(tmp_path, **flags)
    secret.write_text(PASSWORD)
    whole = path.read_bytes()
    for damaged in (whole[:100], whole[:-1], b"", b"\xfe\xed\xfe\xed"):
        path.write_bytes(damaged)
        with pytest.raises(ConfigError, match="hive_metastore_truststore"):
            client(tmp_path, **flags)


def test_without_a_truststore_the_system_is_trusted(tmp_path: Path) -> None:
    tls = client(tmp_path, use_ssl=True).tls
    assert tls is not None
    assert tls.verify_mode == ssl.CERT_REQUIRED


def test_password_comes_from_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    properties = {
        "hive.metastore.client.auth.mode": "PLAIN",
        "hive.metastore.client.plain.username": "etl",
    }
    secret = tmp_path / "password"
    with pytest.raises(ConfigError, match="hive_metastore_password_file.*a file that exists"):
        client(tmp_path, properties, password_file=secret)
    secret.write_text("right\n")
    with pytest.raises(ConfigError, match="chmod 600"):
        client(tmp_path, properties, password_file=secret)
    secret.chmod(0o600)
    assert client(tmp_path, properties, password_file=secret).login == Plain("etl", "right")
    assert client(tmp_path, properties, auth="none").login is None
    secret.write_text("")
    with pytest.raises(ConfigError, match="a file with a password"):
        client(tmp_path, properties, password_file=secret)


def test_kerberos_needs_the_metastores_principal_a_keytab_that_is_there_and_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"hive.metastore.sasl.enabled": "TRUE"}
    for wrong in ({}, {"kerberos_principal": "hive@EXAMPLE.COM"}):
        with pytest.raises(ConfigError, match="hive_metastore_kerberos_principal"):
            client(tmp_path, properties, **wrong)
    named = {"kerberos_principal": "hive/_HOST@EXAMPLE.COM"}
    with pytest.raises(ConfigError, match="keytab_file=.*readable"):
        client(tmp_path, properties, **named, keytab_file=tmp_path / "none")
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"pip install 'topicast\[kerberos\]'"):
        client(tmp_path, properties, **named)
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    found = client(tmp_path, properties, **named, principal="me@EXAMPLE.COM").login
    assert found == Kerberos(server=named["kerberos_principal"], principal="me@EXAMPLE.COM")


def test_way_to_log_in_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hive_metastore_auth='ldap' .*none, plain, kerberos"):
        client(tmp_path, auth="ldap")
