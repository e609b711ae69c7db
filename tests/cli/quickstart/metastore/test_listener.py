"""The listener's jar is fetched once, checked always, and its absence says what to do."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

from topicast.cli.quickstart.metastore import listener
from topicast.cli.quickstart.metastore.java import cache_folder, find_java
from topicast.cli.quickstart.metastore.listener import (
    JAR,
    fetch_by_ivy,
    listener_jar,
    pyspark_jars,
)
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.topics.errors import ConfigError, SourceError


@pytest.fixture
def fetched(hive: EmbeddedMetastore) -> Path:
    """The real jar: a metastore that runs has fetched it."""
    return cache_folder() / JAR


def never(folder: Path) -> None:
    raise AssertionError("fetched what is there")


def java_that(tmp_path: Path, script: str) -> Path:
    """A program that stands in for Java, and for Ivy within it."""
    executable = tmp_path / "java"
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    return executable


def test_jar_in_the_cache_is_not_fetched(tmp_path: Path, fetched: Path) -> None:
    shutil.copy(fetched, tmp_path)
    assert listener_jar(tmp_path, fetch=never) == tmp_path / JAR


def test_jar_is_fetched_into_the_cache(tmp_path: Path, fetched: Path) -> None:
    cache = tmp_path / "new" / "cache"
    jar = listener_jar(cache, fetch=lambda folder: shutil.copy(fetched, folder))
    assert jar.read_bytes() == fetched.read_bytes()
    assert sorted(path.name for path in cache.iterdir()) == ["fetching", JAR]


def test_jar_of_other_content_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / JAR).write_bytes(b"evil")
    with pytest.raises(ConfigError, match=rf"{JAR}=.*sha256 {listener.JAR_SHA256}; delete"):
        listener_jar(tmp_path, fetch=never)
    with pytest.raises(ConfigError, match=sha256(b"evil").hexdigest()):
        listener_jar(tmp_path, fetch=never)


def test_fetched_jar_of_other_content_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        listener_jar(tmp_path, fetch=lambda folder: Path(folder, JAR).write_bytes(b"evil"))
    assert not (tmp_path / JAR).exists()


def test_offline_says_which_file_to_put_where(tmp_path: Path) -> None:
    lines = (
        ":: loading ::",
        ":::: WARNINGS",
        "  Host repo1 not found. url=https://repo1/x.jar",
        "::",
    )
    java = java_that(tmp_path, "\n".join(f"echo '{line}'" for line in lines))

    def fetch(folder: Path) -> None:
        fetch_by_ivy(folder, cache=tmp_path, java=java)

    with pytest.raises(SourceError) as caught:
        listener_jar(tmp_path, fetch=fetch)
    said = str(caught.value)
    assert "could not be fetched (Host repo1 not found.)" in said
    wanted = "org.apache.hive.hcatalog:hive-hcatalog-server-extensions:2.3.10"
    put = f"download {wanted} (from Maven Central) elsewhere and put it at {tmp_path / JAR}"
    assert put in said


@pytest.mark.parametrize(
    ("script", "why"),
    [("true", "Ivy printed nothing"), ("sleep 9", "timed out"), ("", "No such file")],
    ids=["brings nothing", "hangs", "does not run"],
)
def test_ivy_that_fails_is_an_error(
    tmp_path: Path, script: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "FETCH_TIMEOUT_S", 0.3)
    java = java_that(tmp_path, f"exec {script}") if script else tmp_path / "absent"
    with pytest.raises(SourceError, match=f"could not be fetched.*{why}"):
        fetch_by_ivy(tmp_path, cache=tmp_path, java=java)


def test_fetch_that_brings_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=f"no {JAR} arrived"):
        listener_jar(tmp_path, fetch=lambda folder: None)


def test_pyspark_without_hive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(pyspark_jars().glob("derby-*.jar"))
    monkeypatch.setattr(listener, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pyspark.*not installed"):
        pyspark_jars()


def test_several_metastores_that_start_at_once_fetch_the_listener_once(
    tmp_path: Path, fetched: Path
) -> None:
    """An archive of classes fits the very file that it was made with, by its time."""
    begun: list[Path] = []
    together = Barrier(3)

    def fetch(folder: Path) -> None:
        begun.append(folder)
        with suppress(BrokenBarrierError):  # as nobody else gets here
            together.wait(0.3)
        shutil.copy(fetched, folder)

    with ThreadPoolExecutor(3) as threads:
        jars = threads.map(lambda _: listener_jar(tmp_path / "cache", fetch=fetch), range(3))
        assert set(jars) == {tmp_path / "cache" / JAR}
    assert len(begun) == 1


@pytest.mark.nightly  # threads, above, take the same lock
def test_processes_that_fetch_at_once_into_an_empty_cache_all_have_it(tmp_path: Path) -> None:
    cache, java = tmp_path / "new" / "cache", find_java().executable

    def fetched(number: int) -> Path:
        folder = tmp_path / str(number)
        folder.mkdir()
        fetch_by_ivy(folder, cache=cache, java=java)
        return folder / JAR

    with ThreadPoolExecutor(3) as threads:
        assert all(jar.exists() for jar in threads.map(fetched, range(3)))
