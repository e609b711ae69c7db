"""Installs what the tests of Kerberos need: gssapi, built here, and Apache Kerby's KDC by Ivy.

Run: python tests/kerberos/install.py .venv/kerberos, as ``make compat-kerberos`` does (5 MB). It
needs a C compiler and Kerberos' headers, and leaves nothing behind when it fails.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from topicast.tests.installing import installed, ivy

NEEDED: Final = ("krb5-config", "cc")
REMEDY: Final = "on Debian and Ubuntu: apt install gcc python3-dev libkrb5-dev"
KDC: Final = ("org.apache.kerby", "kerb-simplekdc", "2.0.3")
PIP: Final = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q")
PACKAGES: Final = ("-c", "constraints.txt", "gssapi")


def main(folder: Path) -> int:
    """Install into ``folder``; return 2 if a tool is missing."""
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        print(f"make compat-kerberos needs {', '.join(missing)}; {REMEDY}", file=sys.stderr)
        return 2
    with installed(folder) as half:
        gssapi = (*PIP, "-c", "constraints.txt", "--target", half / "python", "gssapi")
        subprocess.run(gssapi, check=True)
        subprocess.run(ivy(half, "-dependency", *KDC), check=True, stdout=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
