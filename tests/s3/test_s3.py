"""The pipelines on an object store: moto's S3 server, behind Hadoop's file system ``s3a``.

Folders are only names there: they have no times, a rename copies, a listing has whole objects only.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import steady_port
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until

INSTALLED: Final = Path(__file__).parents[2] / ".venv" / "s3"
HOST: Final = "127.0.0.1"
BUCKET: Final = "lake"
SIGNED: Final = {  # moto wants a signature, and does not check it
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20261101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}
PROVIDER: Final = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
PRELUDE: Final = """
import os
from topicast.pipeline.convert import convert
from topicast.pipeline.export import export
from topicast.pipeline.files import files

os.environ["TOPICAST_STATESTORES"] = {address!r}
"""


@dataclass
class Store:
    """An S3 server with one bucket."""

    url: str

    def request(self, method: str, key: str = "", data: bytes | None = None) -> bytes:
        """Put, get or delete an object without Spark and without the metastore."""
        address = f"{self.url}/{BUCKET}/{key}"
        request = Request(address, data, headers=SIGNED, method=method)
        with urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def is_up(self) -> bool:
        try:
            self.request("PUT")
        except OSError:
            return False
        return True

    def settings(self) -> dict[str, str]:
        """Return the settings that Hadoop needs to reach it."""
        return {
            "fs.s3a.endpoint": self.url,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.aws.credentials.provider": PROVIDER,
            "fs.s3a.access.key": "test",
            "fs.s3a.secret.key": "test",
        }


@dataclass
class Lake:
    """An application with its tables in the store."""

    one: Application
    store: Store
    daemons: Daemons

    def do(self, call: str) -> Any:
        """Run a pipeline over all that the application has done; return its report."""
        with Subscriber(self.daemons.hub_address, timeout_s=60) as catalog:
            catalog.sync()
        return self.one.do(f"{call}.as_dict()")

    def objects(self, folder: str) -> list[str]:
        """Return the keys of the files below ``folder``."""
        found = f"spark.read.format('binaryFile').load('s3a://{BUCKET}/{folder}').select('path')"
        paths = self.one.do(f"[row[0] for row in {found}.collect()]")
        return sorted(path.removeprefix(f"s3a://{BUCKET}/") for path in paths)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    assert INSTALLED.exists(), "run make compat-s3, which installs what this needs"
    port = steady_port()
    store = Store(f"http://{HOST}:{port}")
    with (tmp_path / "moto.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)],
            env={**os.environ, "PYTHONPATH": str(INSTALLED / "python")},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    jars = sorted((INSTALLED / "jars").glob("*.jar"))
    own = [str(jar) for jar in jars if not jar.name.startswith(("netty-", "slf4j-"))]
    settings = {f"spark.hadoop.{name}": value for name, value in store.settings().items()}
    conf = {**settings, "spark.jars": ",".join(own)}
    try:
        until(store.is_up, timeout_s=60, what="the S3 server")
        with (
            EmbeddedMetastore(
                tmp_path / "hive", durable=False, jars=jars, settings=store.settings()
            ) as hive,
            both_daemons(tmp_path, hive.uri) as daemons,
            applications(tmp_path, hive.uri, one=conf) as started,
        ):
            started["one"].do(PRELUDE.format(address=daemons.hub_address))
            yield Lake(started["one"], store, daemons)
    finally:
        server.kill()
        server.wait()


def test_files_convert_and_export_on_an_object_store(lake: Lake) -> None:
    one, store = lake.one, lake.store
    one.sql(
        f"CREATE DATABASE raw LOCATION 's3a://{BUCKET}/raw'",
        f"CREATE DATABASE lake LOCATION 's3a://{BUCKET}/lake'",
        "CREATE TABLE raw.events (id INT, city STRING, ds STRING) USING csv PARTITIONED BY (ds)",
        "INSERT INTO raw.events VALUES (1, 'a', '1'), (2, 'b', '2')",
    )
    first = lake.do("files(spark, 'raw.*')")
    assert (first["partitions"], first["files"], first["unreadable"]) == (2, 2, {})
    assert first["requests"] == first["requests_predicted"]
    (part,) = lake.objects("raw/events/ds=1")
    store.request("PUT", "raw/events/ds=1/by_hand.csv", store.request("GET", part))
    assert lake.do("files(spark, 'raw.*')")["listed"] == 0  # nothing there says that it changed
    assert lake.do("files(spark, 'raw.*', full=True)")["changed"] == ["raw.events/ds=1"]
    assert lake.do("files(spark, 'raw.*', full=True)")["changed"] == []
    store.request("DELETE", part)
    assert lake.do("files(spark, 'raw.*', full=True)")["changed"] == ["raw.events/ds=1"]

    def twin_is_source() -> bool:
        one.sql("REFRESH TABLE raw.events", "REFRESH TABLE lake.events")
        source, copy = (one.rows(f"SELECT id, city, ds FROM {db}.events") for db in ("raw", "lake"))
        return bool(source and copy == source)

    converted = lake.do("convert(spark, 'raw.events', 'lake.events', once=True)")
    assert (len(converted["created"]), converted["quarantined"]) == (2, {})
    assert twin_is_source()
    one.sql("INSERT INTO raw.events VALUES (3, 'c', '2'), (4, 'd', '3')")
    converted = lake.do("convert(spark, 'raw.events', 'lake.events', once=True)")
    assert (converted["created"], converted["replaced"]) == (["ds=3"], ["ds=2"])
    assert twin_is_source()

    path = f"s3a://{BUCKET}/catalog"
    report = lake.do(f"export(spark, {path!r})")
    assert report["rows"]["partitions"] == 6
    one.sql("ALTER TABLE raw.events DROP PARTITION (ds = '3')")
    changes = lake.do(f"export(spark, {path!r}, changes_only=True)")
    assert (changes["since"], changes["history_gone"]) == (report["snapshot_version"], "")
    exported = f"SELECT kind, table, partition FROM parquet.`{path}/v1/changes`"
    assert ["dropped", "events", "ds=3"] in one.rows(exported)
