"""Options of the data source, and snapshot versions as text: what is refused, and why."""

import pytest

from topicast.pipeline.datasource.options import read_options
from topicast.pipeline.datasource.snapshot_versions import (
    SnapshotVersion,
    offset_of,
    parse_snapshot_version,
    snapshot_version_at,
)
from topicast.topics.errors import ConfigError

VIEWS = ("tables", "partitions", "topics", "changes")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"view": "files"}, "view='files' is not valid: one of tables, partitions"),
        ({"vieuw": "tables"}, "option='vieuw' is not valid: one of view, statestores"),
        ({"asof": "yesterday"}, "asOf='yesterday' is not valid: a version, as"),
        ({"asof": "7:1,2,3,4"}, "asOf='7:1,2,3,4' is not valid"),
        ({"statestores": "nowhere"}, "statestores"),
        ({"view": "changes", "startingversion": "first"}, "'first' is not valid: a version, as"),
        ({"failondataloss": "no"}, "failOnDataLoss='no' is not valid: true or false"),
        ({"maxentriespertrigger": "0"}, "maxEntriesPerTrigger='0' is not valid: a number from 1"),
        ({"maxentriespertrigger": "many"}, "maxEntriesPerTrigger='many' is not valid"),
        ({"lateststate": "true", "startingversion": "latest"}, "not to be given with latestState"),
        ({"lateststate": "true", "failondataloss": "true"}, "not to be given with latestState"),
        ({"startingversion": "earliest"}, "'earliest' is not valid: for view=changes, not tables"),
        ({"view": "partitions", "lateststate": "true"}, "for view=changes, not partitions"),
        ({"failondataloss": "false"}, "for view=changes, not tables"),
        ({"maxentriespertrigger": "9"}, "for view=changes, not tables"),
        ({"view": "topics", "asof": "7:1,2,3,4,5"}, "partitions, changes: topics is as of now"),
        ({"notloaded": "skip"}, "notLoaded='skip' is not valid: fail or pull"),
        ({"unreadable": "maybe"}, "unreadable='maybe' is not valid: fail or skip"),
    ],
)
def test_wrong_option_is_refused_with_what_is_allowed(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_options(given, VIEWS, {})
    assert problem in str(error.value)


def test_hubs_are_those_of_the_option_else_of_the_environment() -> None:
    environ = {"TOPICAST_STATESTORES": "tcp://b:2"}
    given = read_options({"statestores": "tcp://a:1"}, VIEWS, environ)
    assert [str(one) for one in given.statestores] == ["tcp://a:1"]
    assert [str(one) for one in read_options({}, VIEWS, environ).statestores] == ["tcp://b:2"]
    assert [str(one) for one in read_options({}, VIEWS, {}).statestores] == [
        "tcp://127.0.0.1:24000"
    ]


def test_moment_is_read_as_it_is_written() -> None:
    as_of = SnapshotVersion(7, (1, 2, 0, 4, 9))
    assert parse_snapshot_version(str(as_of)) == as_of
    assert as_of.by_topic() == {0: 1, 1: 2, 2: 0, 3: 4, 65534: 9}


def test_offset_of_a_stream_holds_the_moment() -> None:
    as_of = SnapshotVersion(7, (1, 2, 0, 4, 9))
    offset = offset_of(as_of)
    assert offset == {"epoch": 7, "0": 1, "1": 2, "2": 0, "3": 4, "65534": 9}
    assert snapshot_version_at(offset) == as_of
    for wrong in ({}, {"epoch": 7}, {**offset, "9": 1}, {**offset, "0": "x"}):
        with pytest.raises(ConfigError, match="use another checkpoint"):
            snapshot_version_at(wrong)
