"""Compiled classes on disk: found as they were put, by their owner alone, and never in doubt."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.spark.compiled import (
    FILE_BYTES_MAX,
    FILES_MAX,
    FOLDER,
    UNFINISHED_S_MAX,
    UNUSED_S_MAX,
    CompiledClasses,
)

KEY = "17.0.1\n4.3.0\npublic class One {}"
CLASSES = {"One": b"\xca\xfe\xba\xbe one", "One$Inner": b"\xca\xfe\xba\xbe inner", "a.b.C": b""}
OTHERS = {"One": b"\xca\xfe\xba\xbe another"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / FOLDER


@pytest.fixture
def kept(folder: Path) -> CompiledClasses:
    return CompiledClasses(folder)


def the_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_what_was_put_is_found_by_its_key_alone(kept: CompiledClasses) -> None:
    assert kept.find(KEY) is None
    kept.put(KEY, CLASSES)
    assert kept.find(KEY) == CLASSES
    assert kept.find(KEY + " ") is None
    kept.put(KEY, OTHERS)
    assert kept.find(KEY) == OTHERS


def test_folder_and_file_are_their_owners_alone(kept: CompiledClasses, folder: Path) -> None:
    before = os.umask(0)
    try:
        kept.put(KEY, CLASSES)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(the_file(folder).stat().st_mode) == 0o600


def test_file_is_a_jar_that_any_jvm_can_read(kept: CompiledClasses, folder: Path) -> None:
    kept.put(KEY, CLASSES)
    with ZipFile(BytesIO(the_file(folder).read_bytes())) as jar:
        assert jar.testzip() is None
        assert set(jar.namelist()) == {"One.class", "One$Inner.class", "a/b/C.class"}
        assert jar.read("One.class") == CLASSES["One"]


def test_equal_classes_make_equal_files(tmp_path: Path) -> None:
    contents = []
    for name in "ab":
        CompiledClasses(tmp_path / name).put(KEY, CLASSES)
        contents.append(the_file(tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


@given(at=st.integers(0, 10_000), bits=st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, at: int, bits: int
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    kept = CompiledClasses(folder)
    kept.put(KEY, CLASSES)
    content = bytearray(the_file(folder).read_bytes())
    content[at % len(content)] ^= bits
    the_file(folder).write_bytes(content)
    assert kept.find(KEY) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:70],
        lambda content: content + b"\0",
        lambda content: content[:-64] + b"0" * 64,
        lambda content: bytes(FILE_BYTES_MAX + 1),
    ],
)
def test_damaged_file_is_not_used_and_is_replaced(
    kept: CompiledClasses, folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    kept.put(KEY, CLASSES)
    file = the_file(folder)
    file.write_bytes(damage(file.read_bytes()))
    assert kept.find(KEY) is None
    kept.put(KEY, CLASSES)
    assert kept.find(KEY) == CLASSES


def test_file_of_another_key_is_not_used_by_the_name_of_this_key(
    kept: CompiledClasses, folder: Path
) -> None:
    kept.put(KEY, CLASSES)
    mine = the_file(folder)
    mine.rename(folder / "mine")
    kept.put("another", OTHERS)
    (other,) = folder.glob("*.jar")
    other.rename(mine)
    assert kept.find(KEY) is None


def test_what_others_can_write_or_read_is_not_used(kept: CompiledClasses, folder: Path) -> None:
    kept.put(KEY, CLASSES)
    for path, mode, was in (
        (folder, 0o770, 0o700),
        (folder, 0o702, 0o700),
        (the_file(folder), 0o620, 0o600),
        (the_file(folder), 0o602, 0o600),
        (the_file(folder), 0o644, 0o600),
    ):
        path.chmod(mode)
        assert kept.find(KEY) is None, (path, oct(mode))
        path.chmod(was)
    assert kept.find(KEY) == CLASSES


def test_nothing_is_put_where_others_can_write(kept: CompiledClasses, folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o770)
    kept.put(KEY, CLASSES)
    assert list(folder.iterdir()) == []


def test_no_link_is_followed(kept: CompiledClasses, folder: Path, tmp_path: Path) -> None:
    kept.put(KEY, CLASSES)
    file = the_file(folder)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert kept.find(KEY) is None
    kept.put(KEY, OTHERS)
    assert not file.is_symlink()
    assert kept.find(KEY) == OTHERS

    folder.rename(tmp_path / "folder")
    folder.symlink_to(tmp_path / "folder")
    assert kept.find(KEY) is None
    kept.put("another", OTHERS)
    assert list((tmp_path / "folder").iterdir()) == [tmp_path / "folder" / file.name]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_neither_waited_for_nor_used(
    kept: CompiledClasses, folder: Path, make: Callable[[Path], None]
) -> None:
    kept.put(KEY, CLASSES)
    file = the_file(folder)
    file.unlink()
    make(file)
    assert kept.find(KEY) is None
    kept.put(KEY, CLASSES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another_user_is_not_used(
    kept: CompiledClasses, folder: Path, tmp_path: Path
) -> None:
    kept.put(KEY, CLASSES)
    for path in (the_file(folder), folder):
        os.chown(path, 4711, 4711)
        assert kept.find(KEY) is None, path
        os.chown(path, 0, 0)
    assert kept.find(KEY) == CLASSES
    os.chown(tmp_path, 4711, 4711)
    CompiledClasses(tmp_path / "home" / FOLDER).put(KEY, CLASSES)
    assert not (tmp_path / "home").exists(), "nothing is made in another's home"


def test_where_nothing_can_be_made_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = CompiledClasses(tmp_path / "file" / FOLDER)
    kept.put(KEY, CLASSES)
    assert kept.find(KEY) is None


def test_too_much_is_not_kept(kept: CompiledClasses, folder: Path) -> None:
    kept.put(KEY, {"One": bytes(FILE_BYTES_MAX)})
    assert not folder.exists()


def test_oldest_files_go_when_there_are_too_many(kept: CompiledClasses, folder: Path) -> None:
    now = time.time()
    for number in range(FILES_MAX):
        kept.put(str(number), OTHERS)
        newest = max(folder.iterdir(), key=lambda one: one.stat().st_mtime)
        os.utime(newest, (now, now - 1000 + number))
    assert kept.find("0") == OTHERS, "from now on it is the one that was used last"
    kept.put("more", CLASSES)
    assert len(list(folder.iterdir())) == FILES_MAX
    assert kept.find("0") == OTHERS
    assert kept.find("1") is None
    assert kept.find("more") == CLASSES


def test_files_that_are_not_used_go_and_those_of_others_stay(
    kept: CompiledClasses, folder: Path
) -> None:
    kept.put("old", OTHERS)
    unfinished = folder / f".{the_file(folder).name}.0123456789abcdef"
    for name in (the_file(folder).name, "notes.txt", "notes.jar"):
        (folder / name).touch()
        age(folder / name, UNUSED_S_MAX + 60)
    unfinished.touch()
    kept.put("young", OTHERS)
    assert unfinished.exists(), "somebody may just write it"
    assert kept.find("old") is None
    age(unfinished, UNFINISHED_S_MAX + 60)
    kept.put("younger", OTHERS)
    assert not unfinished.exists()
    assert {"notes.txt", "notes.jar"} <= {one.name for one in folder.iterdir()}
    assert kept.find("young") == kept.find("younger") == OTHERS


def age(path: Path, by_s: float) -> None:
    at = time.time() - by_s
    os.utime(path, (at, at))


def test_two_processes_at_once_leave_one_whole_file(folder: Path) -> None:
    code = f"""
from pathlib import Path
from topicast.subscriber.spark.compiled import CompiledClasses
kept = CompiledClasses(Path({str(folder)!r}))
for number in range(40):
    found = kept.find("key")
    assert found is None or len(set(found["One"])) == 1, found
    kept.put("key", {{"One": bytes([number]) * 50_000}})
assert kept.find("key") is not None
"""
    with ThreadPoolExecutor(2) as threads:
        done = threads.map(
            lambda _: subprocess.run([sys.executable, "-c", code], check=False, timeout=60),
            range(2),
        )
        assert [one.returncode for one in done] == [0, 0]
    assert the_file(folder).suffix == ".jar"


def test_folder_is_in_the_users_cache(tmp_path: Path) -> None:
    kept = CompiledClasses.of_user({"XDG_CACHE_HOME": str(tmp_path)})
    assert kept is not None
    kept.put(KEY, CLASSES)
    assert the_file(tmp_path / "topicast" / FOLDER).suffix == ".jar"
