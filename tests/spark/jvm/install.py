"""Installs a small YARN for tests: Hadoop's cluster in one JVM, and what it needs, by Ivy.

Run: python tests/spark/jvm/install.py .venv/yarn, as ``make compat-jvm`` does. One release of YARN
fits each of Spark's, whose clients of later releases understand it.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from topicast.tests.installing import installed, ivy

HADOOP: Final = "3.3.4"
MODULE: Final = f"""<ivy-module version="2.0">
  <info organisation="topicast" module="yarn"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-client-minicluster" rev="{HADOOP}"
      conf="default->default"/>
    <dependency org="junit" name="junit" rev="4.13.2" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-reload4j" rev="1.7.36" conf="default->default"/>
    <dependency org="org.glassfish.jaxb" name="jaxb-runtime" rev="2.3.2" conf="default->default"/>
    <dependency org="org.bouncycastle" name="bcprov-jdk15on" rev="1.60" conf="default->default"/>
    <dependency org="org.bouncycastle" name="bcpkix-jdk15on" rev="1.60" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def main(folder: Path) -> None:
    """Install into ``folder``; leave nothing behind when that fails."""
    with installed(folder) as half:
        half.mkdir()
        module = half / "ivy.xml"
        module.write_text(MODULE)
        subprocess.run(ivy(half, "-ivy", str(module)), check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(half / "ivy")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
