"""A KDC and a metastore that believes nobody, for a process."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.hive.secured import ServerPrincipal, demanding_kerberos
from topicast.tests.kerberos.kdc import REALM, Kdc, kdc

JARS = Path(__file__).resolve().parents[2] / ".venv" / "kerberos" / "jars"


@dataclass
class Realm:
    """A metastore in the realm of a KDC; ``mine``: the keytab of ``topicast``."""

    kdc: Kdc
    metastore: EmbeddedMetastore
    mine: Path

    @property
    def uri(self) -> str:
        """The address by the name that its principal has."""
        return named(self.metastore)


def named(metastore: EmbeddedMetastore) -> str:
    """Return the address of ``metastore`` by the name that its principal has."""
    return metastore.uri.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="session")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with (
        kdc(JARS, tmp_path_factory.mktemp("kdc") / "kdc") as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("KRB5_CONFIG", str(running.conf))
        patch.delenv("KRB5CCNAME", raising=False)
        yield running


@pytest.fixture(scope="session")
def server(centre: Kdc) -> ServerPrincipal:
    """Return the metastore's principal."""
    keytab = centre.keytab("hive/localhost")
    return ServerPrincipal(name=f"hive/localhost@{REALM}", keytab=keytab, conf=centre.conf)


@pytest.fixture(scope="session")
def mine(centre: Kdc) -> Path:
    """Return the keytab of ``topicast``."""
    return centre.keytab("topicast")


@pytest.fixture(scope="session")
def realm(
    centre: Kdc, server: ServerPrincipal, mine: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Realm]:
    folder = tmp_path_factory.mktemp("kerberos")
    with demanding_kerberos(folder, server) as metastore:
        yield Realm(centre, metastore, mine)
