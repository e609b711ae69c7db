"""Installing: what the scripts share that install what some tests need, each into a folder."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from topicast.cli.quickstart.metastore.java import find_java
from topicast.cli.quickstart.metastore.listener import pyspark_jars


@contextmanager
def installed(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill, which becomes ``folder`` at the end, unless something fails."""
    half = folder.with_name(f"{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    yield half
    half.rename(folder)


def ivy(folder: Path, *wanted: str) -> list[str]:
    """Return the command by which PySpark's own Ivy fetches ``wanted`` into jars in ``folder``."""
    (jar,) = pyspark_jars().glob("ivy-*.jar")
    command = [str(find_java().executable), "-jar", str(jar), "-cache", str(folder / "ivy")]
    command += [*wanted, "-types", "jar", "bundle", "-confs", "default"]
    return [*command, "-retrieve", str(folder / "jars" / "[artifact]-[revision].[ext]")]
