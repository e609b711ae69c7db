"""Rotation in a folder: who knew the current and the next key comes in at any moment of it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from topicast.topics.errors import ConfigError
from topicast.topics.keys.clients import (
    ClientRole,
)
from topicast.topics.keys.credential import Credential, credential_text
from topicast.topics.keys.files import write_secret
from topicast.topics.keys.folder import DAEMONS, DaemonKeys, KeysFolder
from topicast.topics.link import new_pair

CRASHED = 9
STEPS_MAX = 60  # of a rotation: before and behind the rename of each file
HUB = "tcp://h:1"


def let_time_pass(folder: KeysFolder) -> None:
    """Let the last rotation be long ago."""
    for name in DAEMONS:
        own = replace(folder.credential(name), rotated_at=1)
        write_secret(folder.file(name), credential_text(own))


def knows_servers(one: Credential, folder: KeysFolder) -> bool:
    """Return whether ``one`` comes in at both daemons, as their files are."""
    catalogd, hub = (folder.credential(name).pair.public for name in DAEMONS)
    return catalogd in one.catalogd_keys and hub in one.hub_keys(HUB)


def is_complete(folder: KeysFolder) -> bool:
    """Return whether the list and every key file name the daemons' keys, current and next."""
    own = {name: folder.credential(name).own_keys for name in DAEMONS}
    driver, listed = folder.credential("driver"), folder.clients()
    said = (driver.catalogd_keys, driver.hub_keys(HUB))
    return said == tuple(own.values()) and all(
        (one := listed.named(name)) is not None and one.keys == keys for name, keys in own.items()
    )


def test_rotation_gives_each_daemon_its_next_key(folder: KeysFolder) -> None:
    """A file of before one rotation is good for it, and not for another; those here are renewed."""
    before = folder.credential("driver")
    following = [folder.credential(name).next_pair for name in DAEMONS]
    rotated = folder.rotate(new_pair)
    assert [one.pair for one in rotated] == following
    assert knows_servers(before, folder)
    assert is_complete(folder)
    let_time_pass(folder)
    folder.rotate(new_pair)
    assert not knows_servers(before, folder)
    assert is_complete(folder)


def test_rotation_so_soon_that_drivers_do_not_know_the_next_key_is_refused(
    folder: KeysFolder,
) -> None:
    folder.rotate(new_pair)
    files = {path: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(ConfigError, match="again in [0-9]+ s"):
        folder.rotate(new_pair)
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == files


def test_stolen_keys_are_replaced_at_once_with_the_next_keys(folder: KeysFolder) -> None:
    stolen = {key for name in DAEMONS for key in folder.credential(name).own_keys}
    before = folder.credential("driver")
    folder.rotate(new_pair, at_once=True)
    assert not folder.clients().keys() & stolen
    assert not knows_servers(before, folder)
    assert is_complete(folder)


def test_daemon_without_a_next_key_gets_a_next_key_before_it_is_rotated(folder: KeysFolder) -> None:
    """Given the folder was made by an older version."""
    for name in DAEMONS:
        old = replace(folder.credential(name), next_pair=None, next_keys=())
        write_secret(folder.file(name), credential_text(old))
    folder.spread()
    publics = [folder.credential(name).pair.public for name in DAEMONS]
    assert folder.credential("driver").next_keys == ()
    assert [one.pair.public for one in folder.rotate(new_pair)] == publics
    assert is_complete(folder)


def test_folder_without_a_daemon_has_nothing_to_rotate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="catalogd.key or statestored.key"):
        KeysFolder(tmp_path / "none").rotate(new_pair)
    assert not (tmp_path / "none").exists()


def crash_at(step: int, folder: KeysFolder, *, at_once: bool) -> bool:
    """Rotate in a process that ends at a rename; return whether it came so far.

    At an even ``step`` it ends before a rename, at an odd one behind it.
    """
    child = os.fork()
    if child == 0:
        rename, steps = Path.replace, iter(range(STEPS_MAX))

        def crashing(self: Path, target: Path) -> Path:
            if next(steps) == step:
                os._exit(CRASHED)
            moved = rename(self, target)
            if next(steps) == step:
                os._exit(CRASHED)
            return moved

        Path.replace = crashing  # type: ignore[method-assign,assignment]  # in this process only
        folder.rotate(new_pair, at_once=at_once)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CRASHED


@pytest.mark.parametrize("at_once", [False, True])
def test_rotation_that_is_cut_off_anywhere_leaves_keys_that_work(
    folder: KeysFolder, *, at_once: bool
) -> None:
    """Drivers come in at once, those outside too, and a start of either daemon completes it."""
    for step in range(STEPS_MAX):
        let_time_pass(folder)
        outside = folder.credential("driver")
        came_so_far = crash_at(step, folder, at_once=at_once)
        assert at_once or knows_servers(outside, folder)
        assert at_once or knows_servers(folder.credential("driver"), folder)
        KeysFolder(folder.path).spread()
        assert is_complete(folder)
        own = DaemonKeys(folder.credential("statestored"), folder)
        assert own.last_clients() == folder.clients()
        if not came_so_far:
            assert step > 2 * len(DAEMONS)
            return
    raise AssertionError(f"a rotation has more than {STEPS_MAX} steps")


def test_hub_elsewhere_and_catalogd_learn_each_other_s_keys(
    folder: KeysFolder, tmp_path: Path
) -> None:
    """Over two rotations of catalogd, the second to a key that the hub's file did not name."""
    hub = KeysFolder(tmp_path / "hub")
    hub.path.mkdir(mode=0o700)
    folder.add("hub-1", ClientRole.HUB, new_pair, address=HUB, to=hub.file("statestored"))
    for _ in range(2):
        let_time_pass(folder)
        folder.rotate(new_pair)
        hub.keep(folder.clients(), of=hub.credential("statestored").catalogd)
        found = DaemonKeys(hub.credential("statestored"), hub)
        assert found.last_clients() == folder.clients()
    before = hub.credential("statestored").own_keys
    (rotated,) = hub.rotate(new_pair)
    folder.learn_hub(before, rotated.own_keys)
    assert folder.credential("driver").hub_keys(HUB) == rotated.own_keys


def test_age_of_a_key_is_that_of_its_file_until_it_is_rotated(folder: KeysFolder) -> None:
    own = DaemonKeys(folder.credential("statestored"), folder)
    path = folder.file("statestored")
    os.utime(path, (5000, 5000))
    assert own.key_age_s(now_s=5100.0) == 100.0
    folder.rotate(new_pair)
    rotated_at = folder.credential("statestored").rotated_at
    os.utime(path, (5000, 5000))
    assert own.key_age_s(now_s=rotated_at + 60.0) == 60.0
    assert replace(own, is_guarded=True).key_age_s(now_s=5100.0) is None, "its file says nothing"
    path.unlink()
    assert own.key_age_s(now_s=5100.0) is None
