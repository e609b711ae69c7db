"""The ways to write one path, as Hadoop's configuration has them; tests/spark has a mount table."""

import pytest

from topicast.subscriber.spark.paths import SPELLINGS_MAX, Spellings, spellings_of

SETTINGS = {
    "fs.viewfs.mounttable.lake.link./local": "file:///mnt/",
    "dfs.nameservices": "ns, alone",
    "dfs.ha.namenodes.ns": "a,b",
    "dfs.namenode.rpc-address.ns.a": "nn1:8020",
    "dfs.namenode.rpc-address.ns.b": "NN2:9000",
    "dfs.namenode.rpc-address.alone": "one:8020",
    "fs.viewfs.mounttable.lake.link./w": "hdfs://ns/warehouse/",
    "fs.viewfs.mounttable.lake.homedir": "/user",
}
NODES = ("hdfs://nn1:8020", "hdfs://nn2:9000", "hdfs://ns")


@pytest.mark.parametrize(
    ("path", "others"),
    [
        ("hdfs://ns/t", {"hdfs://nn1:8020/t", "hdfs://nn2:9000/t"}),
        ("hdfs://NN1/t", {f"{node}/t" for node in NODES}),
        ("hdfs://one:8020/t", {"hdfs://alone/t"}),
        ("viewfs://lake/w/t", {f"{node}/warehouse/t" for node in NODES}),
        ("hdfs://nn2:9000/warehouse", {"viewfs://lake/w", *(f"{one}/warehouse" for one in NODES)}),
        ("hdfs://elsewhere/warehouse", set()),
        ("hdfs://ns/warehouse2", {"hdfs://nn1:8020/warehouse2", "hdfs://nn2:9000/warehouse2"}),
        ("viewfs://lake/other", set()),
        ("file:/mnt/t", {"viewfs://lake/local/t"}),
        ("file:///mnt/t", {"file:/mnt/t", "viewfs://lake/local/t"}),
        ("viewfs://lake/local/t", {"file:/mnt/t"}),
        ("s3a://ns/t", set()),
        ("/w/t", set()),
    ],
)
def test_path_is_found_in_every_spelling(path: str, others: set[str]) -> None:
    found = spellings_of(SETTINGS).of(path)
    assert found[0] == path
    assert set(found[1:]) == others - {path}


def test_without_settings_a_path_has_one_spelling() -> None:
    assert spellings_of({}) == Spellings()
    assert Spellings().of("hdfs://ns/t") == ("hdfs://ns/t",)


def test_spellings_are_bounded() -> None:
    """Also where folders are mounted in a circle."""
    mounts = (("viewfs://a/b", "viewfs://a/b/b"),)
    assert len(Spellings(mounts=mounts).of("viewfs://a/b")) == SPELLINGS_MAX
