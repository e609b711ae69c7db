"""Installs what the tests of S3 need: moto's server by pip, Hadoop's S3 file system by Ivy.

Run: python tests/s3/install.py .venv/s3, as ``make compat-s3`` does. Of Amazon's SDK come the parts
that Hadoop calls, not the bundle that its file system names (700 MB).
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from topicast.cli.quickstart.metastore.listener import pyspark_jars
from topicast.tests.installing import installed, ivy

PIP: Final = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q")
SERVER: Final = ("moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5")
SDK: Final = "2.35.4"  # with which Hadoop 3.5.0 is built
PARTS: Final = ("s3", "s3-transfer-manager", "sts")
MODULE: Final = """<ivy-module version="2.0">
  <info organisation="topicast" module="s3"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
    <exclude org="software.amazon.awssdk" module="bundle"/>
  </dependencies>
</ivy-module>
"""
DEPENDENCY: Final = '<dependency org="{}" name="{}" rev="{}" conf="default->default"/>'


def main(folder: Path) -> None:
    """Install into ``folder``; leave nothing behind when that fails."""
    wanted = [("org.apache.hadoop", "hadoop-aws", hadoop())]
    wanted += [("software.amazon.awssdk", part, SDK) for part in PARTS]
    dependencies = "\n    ".join(DEPENDENCY.format(*one) for one in wanted)
    with installed(folder) as half:
        subprocess.run((*PIP, "--target", half / "python", *SERVER), check=True)
        module = half / "ivy.xml"
        module.write_text(MODULE.format(dependencies=dependencies))
        subprocess.run(ivy(half, "-ivy", str(module)), check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(half / "ivy")


def hadoop() -> str:
    """Return the version of Hadoop among PySpark's jars."""
    (jar,) = pyspark_jars().glob("hadoop-client-api-*.jar")
    return jar.stem.rpartition("-")[2]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
