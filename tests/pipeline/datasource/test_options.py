"""Options of the data source, and snapshot versions as text: what is refused, and why."""

from pathlib import Path

import pytest

from topicast.pipeline.datasource.options import SourceOptions, read_options
from topicast.pipeline.datasource.snapshot_versions import (
    SnapshotVersion,
    offset_of,
    parse_snapshot_version,
    snapshot_version_at,
)
from topicast.subscriber.declared import declarations
from topicast.topics.errors import ConfigError

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "pipelines.md"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"view": "files!"}, "view='files!' is not valid: databases, tables, "),
        ({"vieuw": "tables"}, "option='vieuw' is not valid: one of view, statestores"),
        ({"asof": "yesterday"}, "asOf='yesterday' is not valid: a version, as"),
        ({"asof": "7:1,2,3,4"}, "asOf='7:1,2,3,4' is not valid"),
        ({"statestores": "nowhere"}, "statestores"),
        ({"view": "changes", "startingversion": "first"}, "'first' is not valid: a version, as"),
        ({"failondataloss": "no"}, "failOnDataLoss='no' is not valid: true or false"),
        ({"maxentriespertrigger": "0"}, "maxEntriesPerTrigger='0' is not valid: a number from 1"),
        ({"maxentriespertrigger": "9" * 5000}, "is not valid: a number from 1"),
        ({"maxentriespertrigger": "many"}, "maxEntriesPerTrigger='many' is not valid"),
        ({"lateststate": "true", "startingversion": "latest"}, "not to be given with latestState"),
        ({"lateststate": "true", "failondataloss": "true"}, "not to be given with latestState"),
        ({"startingversion": "earliest"}, "'earliest' is not valid: for view=changes, not tables"),
        ({"view": "partitions", "lateststate": "true"}, "for view=changes, not partitions"),
        ({"failondataloss": "false"}, "for view=changes, not tables"),
        ({"maxentriespertrigger": "9"}, "for view=changes, not tables"),
        ({"view": "topics", "asof": "7:1,2,3,4,5"}, "partitions, changes: topics is as of now"),
        ({"notloaded": "skip"}, "notLoaded='skip' is not valid: pull or fail"),
        ({"unreadable": "maybe"}, "unreadable='maybe' is not valid: skip or fail"),
    ],
)
def test_wrong_option_is_refused_with_what_is_allowed(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_options(given, {})
    assert problem in str(error.value)


def test_every_option_is_documented_with_its_default() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    table = text.split("| option | |\n|---|---|\n")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in table.splitlines()]
    declared = list(declarations(SourceOptions).values())
    assert [name.strip("`") for name, _ in rows] == [own.argument for own in declared]
    for (_, meaning), own in zip(rows, declared, strict=True):
        if own.default and own.default != "*":
            assert f"`{own.default}`" in meaning.rpartition("; ")[2], own.argument


def test_option_implies_the_default_of_another() -> None:
    as_of = {"asof": "7:1,2,3,4,5"}
    assert read_options({}, {}).pull_missing
    assert not read_options(as_of, {}).pull_missing
    assert read_options(as_of | {"notloaded": "pull"}, {}).pull_missing
    changes = {"view": "changes"}
    assert read_options(changes, {}).fail_on_data_loss
    assert not read_options(changes | {"lateststate": "TRUE"}, {}).fail_on_data_loss


def test_hubs_are_those_of_the_option_else_of_the_environment() -> None:
    environ = {"TOPICAST_STATESTORES": "tcp://b:2"}
    given = read_options({"statestores": "tcp://a:1"}, environ)
    assert [str(one) for one in given.statestores] == ["tcp://a:1"]
    assert [str(one) for one in read_options({}, environ).statestores] == ["tcp://b:2"]
    assert [str(one) for one in read_options({}, {}).statestores] == ["tcp://127.0.0.1:24000"]


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
