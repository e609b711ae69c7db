"""Installs what the tests of Kerberos need: gssapi, built here, and Apache Kerby's KDC by Ivy.

Run: python tests/kerberos/install.py .venv/kerberos, as ``make compat-kerberos`` does (5 MB). It
needs a C compiler and Kerberos' headers, and leaves nothing behind when it fails.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from topicast.catalog.metastore.embedded.java import find_java
from topicast.catalog.metastore.embedded.listener import pyspark_jars

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
    half = folder.with_name(f"{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        (*PIP, "-c", "constraints.txt", "--target", half / "python", "gssapi"), check=True
    )
    subprocess.run(_ivy(half), check=True, stdout=subprocess.DEVNULL)
    half.rename(folder)
    return 0


def _ivy(folder: Path) -> list[str]:
    """Return the command that fetches the KDC and what it needs, with PySpark's own Ivy."""
    (ivy,) = pyspark_jars().glob("ivy-*.jar")
    command = [str(find_java().executable), "-jar", str(ivy), "-cache", str(folder / "ivy")]
    command += ["-dependency", *KDC, "-types", "jar", "bundle", "-confs", "default"]
    return [*command, "-retrieve", str(folder / "jars" / "[artifact]-[revision].[ext]")]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
