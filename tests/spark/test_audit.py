"""``topicast pipeline audit``: what the metastore and catalogd have is compared, and mended."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.spark.applications import SPARK, pipeline
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

DB = "audited"
NOWHERE = "thrift://127.0.0.1:1"
MEDDLE = """
import os
driver_pid = os.getpid()

def changed():
    from topicast.tests.integration.tables import connect
    with connect({uri!r}) as client:
        if "sales" in client.get_all_tables({db!r}):
            client.drop_table({db!r}, "sales", False)
            table = client.get_table({db!r}, "stock")
            table.parameters["rev"] = "three"
            client.alter_table({db!r}, "stock", table)

def dropping():  # in the task, when the tables to compare are known
    if os.getpid() != driver_pid:
        changed()
    return connection(MetastoreFlags(hive_metastore_uris={uri!r}))

def lost():
    here = os.getpid() == driver_pid
    return connection(MetastoreFlags(hive_metastore_uris={uri!r} if here else {nowhere!r}))
"""

pytestmark = pytest.mark.skipif(SPARK < (4, 0), reason="the planner's room needs Spark 4.0")


@pytest.mark.nightly  # integration/test_audit.py has the small tables
def test_differences_that_no_event_reported_are_found_by_property_and_mended(
    drivers: Drivers, hive: EmbeddedMetastore
) -> None:
    address = drivers.daemons.hub_address
    drivers.reader.do(
        f"""
from functools import partial
from topicast.catalog.metastore.hive_site import MetastoreFlags
from topicast.catalog.metastore.hms import connection
from topicast.cli.commands.pipeline.audit import mended
from topicast.pipeline.audit import audit
def audited(mend=False, uris={hive.uri!r}, pattern="{DB}.*", metastore=None, **how):
    how["repair"] = partial(mended, statestores={address!r}) if mend else None
    how["metastore"] = metastore or partial(connection, MetastoreFlags(hive_metastore_uris=uris))
    return audit(spark, pattern, statestores={address!r}, **how).as_dict()
"""
    )
    drivers.writer.sql(
        f"CREATE DATABASE {DB}",
        f"CREATE TABLE {DB}.sales (id INT) PARTITIONED BY (ds STRING) STORED AS PARQUET",
        f"ALTER TABLE {DB}.sales ADD PARTITION (ds = '1') PARTITION (ds = '2')",
        f"CREATE TABLE {DB}.stock (id INT) STORED AS PARQUET TBLPROPERTIES ('rev' = 'one')",
        f"CREATE VIEW {DB}.everything AS SELECT * FROM {DB}.sales",
    )
    with Subscriber(address, timeout_s=60) as catalog:
        catalog.sync()
        assert len(catalog.partitions(f"{DB}.sales")) == 2  # so it is loaded
        assert catalog.table(f"{DB}.stock").parameters["rev"] == "one"

    def audited(**how: Any) -> Any:
        return drivers.reader.do(f"audited(**{how!r})")

    equal = until(lambda: (one := audited())["not_loaded"] == 0 and one, what="all loaded")
    counts = equal["databases"], equal["tables"], equal["partitions"]
    assert (counts, equal["differing"], equal["differences"]) == ((1, 3, 2), 0, [])

    of_stock = "(SELECT TBL_ID FROM TBLS WHERE TBL_NAME = 'stock' AND DB_ID IN "
    of_stock += f"(SELECT DB_ID FROM DBS WHERE NAME = '{DB}'))"
    hive.sql(
        "UPDATE TABLE_PARAMS SET PARAM_VALUE = 'two' "
        f"WHERE PARAM_KEY = 'rev' AND TBL_ID IN {of_stock}"
    )
    hive.sql(f"UPDATE TBLS SET OWNER = 'somebody' WHERE TBL_ID IN {of_stock}")
    found = audited()
    said = [(one["object"], one["property"], one["value"]) for one in found["differences"]]
    stock = f"{DB}.stock"
    assert said == [(stock, "owner", "somebody"), (stock, "parameters[rev]", "two")]
    assert {one["side"] for one in found["differences"]} == {"metastore"}
    assert [one["tables"] for one in found["copies"]] == [3, 3]
    assert (found["differing"], found["differences"][1]["catalogd"]) == (1, "one")

    mended = audited(mend=True)
    assert (mended["mended"], mended["differing"]) == ([stock], 0)
    assert audited()["differing"] == 0
    try:  # catalogd leaves this database out, so nothing finds it before the audit
        drivers.writer.sql("CREATE DATABASE sys", "CREATE TABLE sys.only_there (id INT)")
        only_there = audited(pattern="sys.*", blacklisted_dbs="")["differences"]
    finally:
        drivers.writer.sql("DROP DATABASE sys CASCADE")
    lacks = [(one["object"], one["property"], one["catalogd"]) for one in only_there]
    assert lacks == [("sys", "exists", None), ("sys.only_there", "exists", None)]
    drivers.reader.do(MEDDLE.format(uri=hive.uri, db=DB, nowhere=NOWHERE))
    meddled = drivers.reader.do("audited(metastore=dropping)")
    assert (meddled["differing"], meddled["unread"], meddled["tables"]) == (0, {}, 3)
    with Subscriber(address, timeout_s=60) as catalog:
        catalog.sync()
        assert catalog.tables(DB) == ("everything", "stock")
        assert catalog.table(f"{DB}.stock").parameters["rev"] == "three"
    with pytest.raises(Exception, match="LinkError: the comparison has ended: no metastore"):
        drivers.reader.do("audited(metastore=lost)")
    with pytest.raises(Exception, match="LinkError: the comparison has ended: no metastore"):
        audited(uris=NOWHERE)


@pytest.mark.nightly  # integration/test_audit.py has the audit
def test_the_metastore_is_the_named_one_else_sparks_else_catalogds(
    drivers: Drivers, hive: EmbeddedMetastore
) -> None:
    drivers.reader.do(
        f"""
from topicast.catalog.metastore.hive_site import MetastoreFlags
from topicast.cli.commands.pipeline.audit import named
def uris(given=None):
    flags = MetastoreFlags(hive_metastore_uris=given)
    return named(flags, spark, {drivers.daemons.hub_address!r}).hive_metastore_uris
configured = spark._jsparkSession.sparkContext().hadoopConfiguration()
"""
    )
    assert drivers.reader.do(f"uris({NOWHERE!r})") == NOWHERE
    try:
        drivers.reader.do(f"configured.set('hive.metastore.uris', {NOWHERE!r})")
        assert drivers.reader.do("uris()") == NOWHERE
        drivers.reader.do("configured.unset('hive.metastore.uris')")
        assert drivers.reader.do("uris()") == hive.uri, "catalogd's"
    finally:
        drivers.reader.do(f"configured.set('hive.metastore.uris', {hive.uri!r})")


@pytest.mark.nightly  # test_convert runs a pipeline's command, test_frame what all have
def test_the_command_names_what_differs_and_ends_with_1_until_it_is_mended(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    address, report = drivers.daemons.hub_address, tmp_path / "report.json"
    drivers.writer.sql(
        "CREATE DATABASE audited_by_command",
        "CREATE TABLE audited_by_command.t (id INT) TBLPROPERTIES ('seen' = 'one')",
    )
    with Subscriber(address, timeout_s=60) as catalog:
        catalog.sync()
        assert catalog.table("audited_by_command.t").parameters["seen"] == "one"

    def audit(*more: str, uris: str = hive.uri) -> subprocess.CompletedProcess[str]:
        words = ("audit", "audited_by_command.*", f"--hive_metastore_uris={uris}", *more)
        return pipeline(*words, f"--report={report}", statestores=address, folder=tmp_path)

    def audit_of_a_change(value: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Audit a change without an event; once more where catalogd itself has found it first."""
        for attempt in range(5):
            seen = f"{value}{attempt}"
            hive.sql(f"UPDATE TABLE_PARAMS SET PARAM_VALUE = '{seen}' WHERE PARAM_KEY = 'seen'")
            done = audit(*more)
            if "audited_by_command.t" in done.stdout + done.stderr:
                return done
        pytest.fail(f"no audit has found it: {done.stdout}{done.stderr}")

    done = audit_of_a_change("two")
    assert done.returncode == 1, done.stderr
    assert "audited_by_command.t: parameters[seen]: the metastore has 'two" in done.stderr
    assert "', catalogd has '" in done.stderr
    assert "1 differ" in done.stdout
    assert json.loads(report.read_text())["differences"][0]["value"].startswith("two")
    mended = audit_of_a_change("three", "--repair")
    assert (mended.returncode, "1 mended: audited_by_command.t" in mended.stdout) == (0, True)
    assert audit(uris=NOWHERE).returncode == 3
    wrong = audit("--sides=hub,somebody")
    assert (wrong.returncode, "some of metastore, hub, subscriber" in wrong.stderr) == (2, True)
