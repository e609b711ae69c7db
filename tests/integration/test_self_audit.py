"""A subscriber of a hub that holds something else than catalogd finds it by itself."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.damaged import damage
from topicast.tests.integration.tables import database
from topicast.tests.waiting import until
from topicast.topics.objects.encoding.values import decode_table_value, encode_table_value
from topicast.topics.objects.names import table_key
from topicast.topics.topic import Entry, value_of

DB = "audited"
SALES = f"{DB}.sales"
EVERY_S = 60.0
FOUND_S = 3 * EVERY_S  # the first audit is at a random time within twice that


def moved(entry: Entry) -> Iterable[Entry]:
    """Return what a hub holds that has changed a location."""
    if entry.key != table_key(DB, "sales"):
        return [entry]
    value = decode_table_value(value_of(entry))
    wrong = encode_table_value(replace(value, thrift=value.thrift.replace(b"/sales", b"/SALES")))
    return [entry._replace(value=wrong, size=len(wrong))]


@pytest.mark.nightly  # two minutes, as it audits once in one; units compare
def test_wrong_answer_that_a_hub_has_caused_is_found_and_pulled_from_catalogd(
    hive: EmbeddedMetastore, daemons: Daemons, tmp_path: Path
) -> None:
    first = daemons.hub_address
    with database(hive.uri, tmp_path, {SALES: 4}):
        with Subscriber(first, timeout_s=60) as catalog:
            catalog.sync()
            right = catalog.table(SALES).location
        daemons.start("statestored2")
        second = daemons.hub_address.split(",")[1]
        damage(first, second, moved)
        daemons.kill("catalogd")
        daemons.start("catalogd")
        with Subscriber(second, timeout_s=60, levels="full", self_audit_s=EVERY_S) as catalog:
            assert catalog.table(SALES).location == right.replace("/sales", "/SALES")
            until(
                lambda: catalog.stats().answers_differing,
                timeout_s=FOUND_S,
                what="the audit to find the answer that is wrong",
            )
            assert catalog.table(SALES).location == right
            assert catalog.stats().answers_differing == 1
