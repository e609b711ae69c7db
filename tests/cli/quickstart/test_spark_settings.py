from pathlib import Path

from topicast.cli.quickstart.spark_settings import spark_settings, write_settings


def test_settings_are_written_where_spark_looks_for_them(tmp_path: Path) -> None:
    folder = write_settings(tmp_path, "thrift://h:1")
    lines = (folder / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    assert dict(line.split(" ", 1) for line in lines) == {
        **spark_settings(tmp_path),
        "spark.hadoop.hive.metastore.uris": "thrift://h:1",
    }
