"""Renewal: the lock files that killed renewals leave are deleted, and no others."""

import fcntl
import os
import time
from pathlib import Path

from topicast.pipeline.datasource.renewal import LEASE_S, discard_leftovers


def test_only_old_lock_files_that_nobody_locks_are_deleted(tmp_path: Path) -> None:
    before_s = time.time() - LEASE_S - 60

    def made(name: str, content: str = "", *, is_old: bool = True) -> Path:
        path = tmp_path / name
        path.write_text(content)
        if is_old:
            os.utime(path, (before_s, before_s))
        return path

    made("topicast-" + "a" * 32)
    locked = made("topicast-" + "b" * 32)
    others = {
        locked,
        made("topicast-" + "c" * 32, is_old=False),
        made("topicast-" + "d" * 32, "content"),
        made("topicast-" + "e" * 31),
        made("topicast-notes"),
    }
    link = tmp_path / ("topicast-" + "f" * 32)
    link.symlink_to(made("target"))
    with locked.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        discard_leftovers(tmp_path)
    assert set(tmp_path.iterdir()) == {*others, link, tmp_path / "target"}
