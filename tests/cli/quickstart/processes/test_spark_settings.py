import shlex
from pathlib import Path

from topicast.cli.quickstart.processes.spark_settings import spark_settings, submit_arguments


def test_settings_are_written_where_spark_is_told_to_look_for_them(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    option, file, shell = shlex.split(submit_arguments(folder, "thrift://h:1"))
    assert (option, shell) == ("--properties-file", "pyspark-shell")
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    assert dict(line.split(" ", 1) for line in lines) == {
        **spark_settings(folder),
        "spark.hadoop.hive.metastore.uris": "thrift://h:1",
    }
