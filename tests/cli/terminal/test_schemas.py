"""What commands print with ``-o json``, beside the schemas that docs/reference has of it."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict

import click
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database
from jsonschema import Draft202012Validator, ValidationError

from topicast.cli.lazy import subcommands
from topicast.cli.main import topicast
from topicast.cli.options.flags import OutputOption
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.reference import schemas
from topicast.cli.terminal.schemas import ISO, Fields, Iso, fields_of, schema
from topicast.pipeline.comparison.report import AuditReport
from topicast.pipeline.comparison.verdict import PropertyDifference
from topicast.pipeline.conversion.report import ConvertReport
from topicast.pipeline.export import ExportReport
from topicast.pipeline.progress import RunReport
from topicast.pipeline.sweep.report import FilesReport
from topicast.subscriber import Subscriber
from topicast.tests.catalog.metastore.test_facts import function, statistics
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.documents import KEPT, assert_of_schema
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.tables import connect
from topicast.tests.keys import user_keys
from topicast.topics.errors import UsageError
from topicast.topics.wire.messages.fields import U64

WITHOUT = {  # commands that print no result: scripts, and what runs until it is ended
    *("agent", "completion", "quickstart", "run", "start"),
}
OF_SPARK: dict[str, RunReport] = {
    "pipeline-audit": AuditReport(
        pattern="*",
        sides=("hub",),
        copies=[{"side": "hub", "tables": 1, "withheld": 0}],
        differences=[
            PropertyDifference(
                side="hub", object="a.b", property="location", value=None, catalogd="x"
            )
        ],
        unread={"a.b": "no room"},
    ),
    "pipeline-convert": ConvertReport(source="a.b", target="a.c", quarantined={"ds=1": "why"}),
    "pipeline-export-path": ExportReport(
        path="/x", exported_at="2026-11-27T02-45-42.441963Z", snapshot_version="m", rows={"a": 1}
    ),
    "pipeline-files": FilesReport(pattern="*", newest_ms=1_790_000_000_000),
    "pipeline-files-watch": FilesReport(pattern="*"),
}


@dataclass(frozen=True)
class Found:
    a: int
    b: float | None = None


class Pair(NamedTuple):
    left: str
    right: bool


class Always(TypedDict):
    at: Iso


class Sometimes(Always, total=False):
    more: list[str]


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (int, 1, True),
        (int, 1, "1"),
        (float | None, None, "1"),
        (list[int], [1], [1.5]),
        (tuple[str, ...], ["a"], "a"),
        (dict[str, int], {"any": 1}, {"any": "1"}),
        (Iso, "2026-11-26T08:00:00.123Z", "2026-11-26 08:00:00"),
        (Iso | None, None, 1_790_000_000),
        (Found, {"a": 1, "b": 2.5}, {"a": 1}),
        (Found, {"a": 1, "b": None}, {"a": 1, "b": 2.5, "c": 1}),
        (Pair, {"left": "x", "right": False}, {"left": "x", "right": 0}),
        (Sometimes, {"at": "2026-11-26T08:00:00Z"}, {"more": []}),
        (Sometimes, {"at": "2026-11-26T08:00:00Z", "more": ["x"]}, {"at": "now", "more": []}),
        ([fields_of(Found).but(c=str)], [{"a": 1, "b": 1, "c": "x"}], [{"a": 1, "b": 1}]),
        (fields_of(Found).or_null(but=("a",)), {"a": 1, "b": None}, {"a": None, "b": None}),
        (fields_of(Found).without(("b",)).and_others(str), {"a": 1, "x": "y"}, {"a": 1, "x": 1}),
        ((Fields({}), Found), {}, {"b": 1}),
    ],
)
def test_schema_takes_values_of_its_type_alone(kind: object, right: object, wrong: object) -> None:
    validator = Draft202012Validator(schema(kind))
    validator.validate(right)
    with pytest.raises(ValidationError):
        validator.validate(wrong)


def test_each_command_that_prints_a_result_has_a_schema_of_it() -> None:
    def below(group: click.Group) -> Iterator[click.Command]:
        for one in subcommands(group).values():
            yield from below(one) if isinstance(one, click.Group) else [one]

    prints = {
        str(one.name): any(isinstance(param, OutputOption) for param in one.params)
        for one in below(topicast)
    }
    assert {name for name, does in prints.items() if not does} == WITHOUT


def test_kept_schemas_are_those_of_the_commands_and_of_the_draft_that_they_name() -> None:
    assert json.loads(json.dumps(schemas())) == KEPT
    for one in KEPT.values():
        Draft202012Validator.check_schema(one)


@pytest.mark.parametrize("name", OF_SPARK)
def test_report_of_a_pipeline_is_of_its_schema(name: str) -> None:
    document = json.loads(json.dumps(OF_SPARK[name].as_dict()))
    assert_of_schema(name, document)


def printed(*words: object) -> str:
    """Return what a command of this process prints."""
    with redirect_stdout(io.StringIO()) as out:
        topicast.main([*map(str, words), "--output=json"], standalone_mode=False)
    return out.getvalue()


@pytest.fixture(scope="module")
def stack(
    hive: EmbeddedMetastore, served: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., str]]:
    """Run a command at a stack with a partitioned table, and a reader that has joined topics.

    No driver: a hub lists it for an hour after its end, and others share this one.
    """
    user_keys("operator")
    location = f"file:{tmp_path_factory.mktemp('schemas')}"
    hub = served.statestores

    def run(*words: object) -> str:
        return printed(*words, f"--statestores={hub}")

    with connect(hive.uri) as client:
        client.create_database(Database("schemas", "", location, {}))
        table = make_table("schemas", "days", location=location, keys=("ds",))
        client.create_table(table)
        client.add_partitions([make_partition(table, ["1"])])
        client.create_function(function("schemas", "shout", "hdfs:///a.jar"))
        given = statistics("schemas", "days", "id", partition="ds=1")
        given.statsObj[0].colName, given.statsObj[0].colType = "a", "int"
        client.update_partition_column_statistics(given)
        assert json.loads(run("sync", "--timeout_s=60"))["synced"]
        assert json.loads(run("sync", "schemas.days", "--timeout_s=60"))["synced"]
        with Subscriber(hub, name="reader-of-schemas", timeout_s=30) as reader:
            reader.join(0, "full")
            yield run
            run("drivers", "on", "--all")  # others share the daemons


AT_THE_STACK: dict[str, tuple[str, ...]] = {
    "describe-database": ("describe", "schemas"),
    "describe-table": ("describe", "schemas.days"),
    "doctor": ("doctor", "--timeout_s=5"),
    "drivers-rules": ("drivers", "--rules"),
    "drivers-off-all": ("drivers", "dry-run", "--app=of-no-driver"),
    "events-list": ("events",),
    "events-status": ("events", "status"),
    "events-start": ("events", "start"),
    "events-show-id": ("events", "show", "1"),
    "functions-database": ("functions", "schemas"),
    "history-table": ("history", "schemas.days"),
    "invalidate-name": ("invalidate", "schemas.days"),
    "mode": ("mode",),
    "partitions-table": ("partitions", "schemas.days"),
    "refresh-name": ("refresh", "schemas.days"),
    "statistics-table": ("statistics", "schemas.days", "ds=1"),
    "status": ("status",),
    "subscribers": ("subscribers",),
    "subscribers-topics": ("subscribers", "--topics"),
    "sync": ("sync", "--timeout_s=60"),
    "tables": ("tables", "schemas"),
    "tables-files": ("tables", "schemas", "--files"),
    "tables-topics": ("tables", "schemas", "--topics"),
    "top-once": ("top", "--once"),
    "topics": ("topics",),
    "topics-topic": ("topics", "0"),
    "topics-why": ("topics", "--why=reader-of-schemas"),
    "topics-why-table": ("topics", "--why=reader-of-schemas", "--table=schemas.days"),
}
IN_OTHER_TESTS = (
    "config",
    "drivers",
    "events-pause",
    "events-skip",
    "events-tail",
    "jar",
    "status-watch",
    "watch",
)
EMPTY = frozenset(("drivers-rules",))  # lists that may be so, at this stack


@pytest.mark.parametrize("name", AT_THE_STACK)
def test_document_of_a_command_is_of_its_schema(stack: Callable[..., str], name: str) -> None:
    document = json.loads(stack(*AT_THE_STACK[name]))
    assert document or name in EMPTY, "nothing was shown"
    assert_of_schema(name, document)


def test_document_of_the_keys_and_of_files_is_of_its_schema(tmp_path: Path) -> None:
    """Those commands need no daemon."""
    keys = f"--keys_dir={tmp_path / 'keys'}"
    given: dict[str, tuple[object, ...]] = {
        "keys-init": ("keys", "init", keys),
        "keys-add-name": ("keys", "add", "etl", "--role=driver", keys),
        "keys-list": ("keys", "list", keys),
        "keys-show-name": ("keys", "show", "etl", keys),
        "keys-rotate": ("keys", "rotate", keys),
        "keys-revoke-name": ("keys", "revoke", "etl", keys),
        "debug": ("debug", f"--out={tmp_path / 'a.zip'}", "--statestores=tcp://127.0.0.1:1"),
    }
    for name, words in given.items():
        assert_of_schema(name, json.loads(printed(*words)))
    tried = {*given, *AT_THE_STACK, *OF_SPARK, *IN_OTHER_TESTS}
    assert tried == {*KEPT}, "each schema has a test"


def test_key_file_itself_is_no_json(tmp_path: Path) -> None:
    words = ("keys", "add", "etl", "--role=driver", "--out=-", f"--keys_dir={tmp_path}")
    with pytest.raises(UsageError, match="leave --output away, or name a file"):
        printed(*words)
    assert not [*tmp_path.iterdir()], "nothing was made"


def test_bounds_of_a_field_of_a_message_are_no_pattern() -> None:
    assert schema(U64) == {"type": "integer"}
    assert schema(Iso) == {"type": "string", "format": "date-time", "pattern": ISO}
