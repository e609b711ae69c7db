"""Generated tables are there, in a real metastore, and may be made anew."""

from pathlib import Path

import pytest

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.catalog.metastore.hms import Hms
from topicast.catalog.metastore.sample import Sample
from topicast.topics.errors import SourceError


def test_sample_is_made_made_anew_and_grows(hive: EmbeddedMetastore, tmp_path: Path) -> None:
    sample = Sample(hive.uri, "sampled", location=f"file:{tmp_path}/sampled")
    metastore = Hms(hive.uri, timeout_s=30)
    try:
        assert sample.fill(tables=3, days=2)[0] == "sampled.events_01"
        names = sample.fill(tables=2, days=30)
        assert names == ("sampled.events_01", "sampled.events_02")
        assert [name for name, _ in metastore.table_names("sampled")] == ["events_01", "events_02"]
        sample.add_day(names[0], 30)
        days = metastore.partition_names("sampled", "events_01")
        assert (len(days), days[0], days[-1]) == (31, "day=2026-01-01", "day=2026-02-03")
        assert len(metastore.partition_names("sampled", "events_02")) == 30
    finally:
        metastore.close()


def test_metastore_that_is_not_there_is_a_source_error() -> None:
    with pytest.raises(SourceError, match="127.0.0.1:1 failed"):
        Sample("thrift://127.0.0.1:1", "sampled", location="file:/tmp").fill(tables=1, days=1)
