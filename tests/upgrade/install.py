"""Installs what the tests of upgrades run beside this tree: an older one, from the git history.

    commit ──git archive──▶ .venv/upgrade-…/topicast ──PYTHONPATH──▶ daemons, drivers, commands

Run: python tests/upgrade/install.py, as ``make compat-upgrade`` does; what is there stays. Needs
git and a clone with the commit in its history; leaves nothing behind when it fails.
"""

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

from topicast.tests.installing import installed

ROOT: Final = Path(__file__).resolve().parent.parent.parent
BASE: Final = "aaaf80b3ed8c0236534371eb60206f03f5b4788a"
"""The commit of the older release. In the history it is the first one with keys on every socket and
with lists of clients for hubs on other hosts. The .venv of this tree runs it: what it imports is
still in constraints.txt."""
PYTHON: Final = (3, 11)  # the oldest that runs it
FOLDER: Final = ROOT / ".venv" / f"upgrade-{BASE[:7]}"


def main() -> int:
    """Put the tree of BASE into FOLDER; return 2 if that cannot be."""
    if sys.version_info < PYTHON:
        print(f"make compat-upgrade: commit {BASE[:7]} needs Python 3.11 or newer", file=sys.stderr)
        return 2
    if FOLDER.exists():
        return 0
    archive = ("git", "-C", ROOT, "archive", "--format=tar", BASE)
    try:
        done = subprocess.run(archive, capture_output=True, check=False)
    except FileNotFoundError:
        print("make compat-upgrade needs git", file=sys.stderr)
        return 2
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip()
        print(
            f"make compat-upgrade runs commit {BASE[:7]} beside this tree, and the git history "
            f"here does not have it ({why}); in a shallow clone: git fetch --unshallow",
            file=sys.stderr,
        )
        return 2
    with installed(FOLDER) as half, tarfile.open(fileobj=BytesIO(done.stdout)) as tree:
        tree.extractall(half / "topicast", filter="data")
    return 0


if __name__ == "__main__":
    sys.exit(main())
