"""A real metastore that demands Kerberos, with a real KDC: make compat-kerberos."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import gssapi
import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.addresses import Addresses, parse_uris
from topicast.catalog.metastore.capture import Capture
from topicast.catalog.metastore.hms import Hms
from topicast.catalog.metastore.sasl import Kerberos
from topicast.catalog.metastore.slicer import accelerated
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import catalogd, statestored, topicast
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.hive.secured import ServerPrincipal, demanding_kerberos
from topicast.tests.kerberos.conftest import JARS, Realm, named
from topicast.tests.kerberos.kdc import REALM, kdc
from topicast.tests.waiting import until
from topicast.topics.errors import SourceError

SERVER = f"hive/_HOST@{REALM}"
ME = f"topicast@{REALM}"
TICKET_S = 5
PARTITIONS = 3000  # a reply of 1.5 MB


def login(realm: Realm, **other: object) -> Kerberos:
    given = {"server": SERVER, "principal": ME, "keytab": realm.mine}
    return Kerberos(**{**given, **other})  # type: ignore[arg-type]


def connected(uri: str, given: Kerberos | None) -> "closing[Hms]":
    return closing(Hms(Addresses(uri, login=given), timeout_s=10))


@contextmanager
def writer(uri: str, given: Kerberos) -> Iterator[HMSClient]:
    (host, port), *_ = parse_uris(uri)
    with closing(Capture(host, port, timeout_s=60, login=given)) as transport:
        yield HMSClient(iprot=accelerated(transport))


def cached(keytab: Path, path: Path) -> str:
    """Put tickets of ME into the file ``path``, as kinit does; return its name as a cache."""
    cache = f"FILE:{path}"
    name = gssapi.Name(ME, gssapi.NameType.kerberos_principal)
    store = {"client_keytab": f"FILE:{keytab}", "ccache": cache}
    assert gssapi.Credentials(name=name, usage="initiate", store=store).lifetime
    return cache


def is_expired(cache: str) -> bool:
    try:
        return gssapi.Credentials(usage="initiate", store={"ccache": cache}).lifetime == 0
    except gssapi.exceptions.ExpiredCredentialsError:
        return True


@pytest.fixture(scope="module", params=["authentication", "integrity", "privacy"])
def layered(
    request: pytest.FixtureRequest,
    server: ServerPrincipal,
    realm: Realm,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Realm]:
    if request.param == server.protection:
        yield realm
        return
    folder = tmp_path_factory.mktemp(request.param)
    given = ServerPrincipal(
        name=server.name, keytab=server.keytab, conf=server.conf, protection=request.param
    )
    with demanding_kerberos(folder, given) as metastore:
        yield Realm(realm.kdc, metastore, realm.mine)


def test_requests_and_replies_of_any_size_pass_every_layer(layered: Realm, tmp_path: Path) -> None:
    given = login(layered)
    table = make_table("d", "t", location=f"file:{tmp_path}/d/t", keys=("ds",))
    with writer(layered.uri, given) as client:
        client.create_database(Database("d", "", f"file:{tmp_path}/d", {}))
        client.create_table(table)
        client.add_partitions([make_partition(table, [f"{n:05}"]) for n in range(PARTITIONS)])
    with connected(layered.uri, given) as hms:
        assert set(hms.databases()) == {"default", "d"}
        names = hms.partition_names("d", "t")
        assert len(names) == PARTITIONS
        assert len(hms.partitions("d", "t", names)) == PARTITIONS
        assert hms.current_event_id() == 3


def test_server_believes_no_other_name(realm: Realm) -> None:
    with connected(realm.uri, None) as hms, pytest.raises(SourceError, match="hive_metastore_auth"):
        hms.databases()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"server": f"hive/elsewhere@{REALM}"}, "ticket for hive/elsewhere@.* not found"),
        ({"principal": f"nobody@{REALM}"}, "nobody@.* by the keytab /.*topicast.keytab: No cred"),
        ({"keytab": None, "principal": ""}, "anybody by the ticket cache of this user: No cred"),
    ],
)
def test_what_the_kdc_does_not_know_is_said_in_its_words(
    realm: Realm, other: dict[str, object], said: str
) -> None:
    wrong = pytest.raises(SourceError, match=f"no Kerberos, .*{said}")
    with connected(realm.uri, login(realm, **other)) as hms, wrong:
        hms.databases()


def test_metastore_without_kerberos_is_said(realm: Realm, hive: EmbeddedMetastore) -> None:
    said = "no answer to GSSAPI: is its hive.metastore.sasl.enabled set"
    with connected(named(hive), login(realm)) as hms, pytest.raises(SourceError, match=said):
        hms.databases()


def test_tickets_of_the_users_cache_are_used(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", cached(realm.mine, tmp_path / "tickets"))
    with connected(realm.uri, Kerberos(server=SERVER)) as hms:
        assert "default" in hms.databases()


def test_catalogd_follows_it_as_hive_site_says(realm: Realm, tmp_path: Path) -> None:
    properties = {
        "hive.metastore.uris": realm.uri,
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": SERVER,
    }
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    site = tmp_path / "hive-site.xml"
    site.write_text(f"<configuration>{rows}</configuration>")
    flags = (f"--hive_site={site}", f"--keytab_file={realm.mine}", f"--principal={ME}")
    with (
        statestored(tmp_path) as hub,
        catalogd(tmp_path, *flags, hive=realm.uri, statestores=hub.ready["address"]),
    ):
        hubs = f"--statestores={hub.ready['address']}"
        with writer(realm.uri, login(realm)) as client:
            client.create_database(Database("seen", "", f"file:{tmp_path}/seen", {}))
            client.create_table(make_table("seen", "t", location=f"file:{tmp_path}/seen/t"))
        for command in (("sync",), ("describe", "seen.t")):
            done = topicast(*command, hubs)
            assert done.returncode == 0, done.stderr
        assert f"{tmp_path}/seen/t" in done.stdout


def test_keytab_is_asked_again_when_its_tickets_have_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kdc(JARS, tmp_path / "kdc", ticket_s=TICKET_S) as short:
        monkeypatch.setenv("KRB5_CONFIG", str(short.conf))
        name = f"hive/localhost@{REALM}"
        server = ServerPrincipal(name=name, keytab=short.keytab("hive/localhost"), conf=short.conf)
        given = Kerberos(server=SERVER, principal=ME, keytab=short.keytab("topicast"))
        with demanding_kerberos(tmp_path / "hive", server) as metastore:
            with connected(named(metastore), given) as hms:
                assert "default" in hms.databases()
            as_old = cached(given.keytab, tmp_path / "tickets")
            until(lambda: is_expired(as_old), what="the end of the tickets")
            with connected(named(metastore), given) as hms:
                assert "default" in hms.databases()
