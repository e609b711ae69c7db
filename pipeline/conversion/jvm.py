"""The JVM: classes of Spark and Hadoop that convert needs and PySpark does not offer.

Their objects have the type Any. The classes are the same from Spark 3.5 to 4.3.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from ...topics.errors import SourceError, TopicastError
from .plan import PartitionFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALYST: Final = "org.apache.spark.sql.catalyst"
CATALOG: Final = f"{CATALYST}.catalog"
TYPES: Final = "org.apache.spark.sql.types"
PYTHON_UTILS: Final = "org.apache.spark.api.python.PythonUtils"
SOURCES: Final = "org.apache.spark.sql.execution.datasources"
FILES: Final = "the file system"
END: Final = "\0"  # between files: no path has it
STATUS: Final = re.compile(
    r"path=(?P<path>.*?); isDirectory=false; length=(?P<size>\d+);"
    r".*?modification_time=(?P<changed>\d+);",
    re.DOTALL,
)
FOLDER_NAME: Final = re.compile(r"path=[^;]*/([^/;]+); isDirectory=true;")
OVERWRITE: Final = True
RECURSIVE: Final = True


@contextmanager
def answered(what: str) -> Iterator[None]:
    """Turn an error of Spark within the block into a SourceError about ``what``."""
    try:
        yield
    except TopicastError:
        raise
    except Exception as error:
        raise SourceError(f"{what}: {cause_of(error)}") from error


def cause_of(error: Exception) -> str:
    """Return the cause that Spark names, in one line."""
    found = str(getattr(error, "java_exception", None) or error).strip()
    return f"{type(error).__name__}: {found.splitlines()[0][:500] if found else 'no reason given'}"


class JvmValues:
    """Values of Scala and Java, made of Python's."""

    def __init__(self, spark: "SparkSession") -> None:
        self.session: Any = spark._jsparkSession
        self._root: Any = spark.sparkContext._jvm
        self._named: dict[str, Any] = {}

    def named(self, name: str) -> Any:
        """Return the class, or the method of a class, with the full name ``name``.

        Keep it for the next call, because py4j calls the JVM once for each part of a name.
        """
        if name not in self._named:
            self._named[name] = reduce(getattr, name.split("."), self._root)
        return self._named[name]

    def seq(self, items: Iterable[Any]) -> Any:
        """Return a Seq."""
        return self.named(f"{PYTHON_UTILS}.toSeq")(list(items))

    def map(self, items: Mapping[str, str]) -> Any:
        """Return an immutable Map."""
        return self.named(f"{PYTHON_UTILS}.toScalaMap")(dict(items))

    def some(self, value: Any) -> Any:
        """Return Some(value)."""
        return self.named("scala.Some")(value)

    @property
    def none(self) -> Any:
        """None of Scala."""
        return self.single("scala.None")

    def single(self, name: str) -> Any:
        """Return the object ``name`` of Scala."""
        return self.named(f"{name}$.MODULE$")

    def path(self, location: Any) -> Any:
        """Return Hadoop's path of a text or a URI."""
        return self.named("org.apache.hadoop.fs.Path")(location)


class Files:
    """Hadoop's file systems, as a session is configured for them."""

    def __init__(self, jvm: JvmValues) -> None:
        self._jvm = jvm
        self._hadoop = jvm.session.sessionState().newHadoopConf()

    def qualified(self, location: str) -> Any:
        """Return the path of ``location`` with scheme and host."""
        path, system = self._at(location)
        return system.makeQualified(path)

    def index(self, paths: Sequence[Any], parts: Any = None) -> Any:
        """Return the files below ``paths``, all listed together; if many, by a Spark job.

        ``parts``: the partition of each path, as Spark's PartitionSpec.
        """
        jvm, none = self._jvm, self._jvm.none
        cache = jvm.single(f"{SOURCES}.NoopCache")
        spec = none if parts is None else jvm.some(parts)
        of = (jvm.session, jvm.seq(paths), jvm.map({}), none, cache, spec, none)
        return jvm.named(f"{SOURCES}.InMemoryFileIndex")(*of)

    @answered(FILES)
    def list(self, locations: Sequence[str]) -> list[tuple[PartitionFile, ...]]:
        """Return the files directly in each of ``locations``."""
        paths = [self.qualified(one) for one in locations]
        found: dict[str, list[PartitionFile]] = {str(path.toString()): [] for path in paths}
        for file in _listed(self.index(paths)):
            found.get(file.path.rpartition("/")[0], []).append(file)
        return [tuple(sorted(found[str(path.toString())])) for path in paths]

    @answered(FILES)
    def exists(self, location: str) -> bool:
        """Return whether there is a folder or a file at ``location``."""
        path, system = self._at(location)
        return bool(system.exists(path))

    @answered(FILES)
    def make_empty_folders(self, folder: str, wanted: Iterable[str]) -> None:
        """Make the folders of ``wanted``, directly below ``folder``, that do not exist."""
        path, system = self._at(folder)
        found = system.listStatus(path) if system.exists(path) else ()
        text = self._jvm.named("scala.runtime.ScalaRunTime.stringOf")(found) if found else ""
        names = set(FOLDER_NAME.findall(str(text)))
        for location in wanted:
            if location.rpartition("/")[2] not in names:
                system.mkdirs(self._jvm.path(location))

    @answered(FILES)
    def write_text(self, location: str, text: str) -> None:
        """Write a small file, and the folders that lead to it."""
        path, system = self._at(location)
        stream = system.create(path, OVERWRITE)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    @answered(FILES)
    def touch(self, location: str) -> float:
        """Write an empty file; return its time by the file system, in seconds since 1970."""
        self.write_text(location, "")
        path, system = self._at(location)
        return int(system.getFileStatus(path).getModificationTime()) / 1000

    @answered(FILES)
    def texts_in(self, folder: str) -> dict[str, str]:
        """Return the texts of the files in ``folder`` by location; none if there is no folder."""
        path, system = self._at(folder)
        if not system.exists(path):
            return {}
        return {
            str(status.getPath().toString()): self._text(system, status.getPath())
            for status in system.listStatus(path)
        }

    @answered(FILES)
    def delete(self, location: str) -> None:
        """Delete the file or folder at ``location``, with all below it, if it exists."""
        path, system = self._at(location)
        system.delete(path, RECURSIVE)

    @answered(FILES)
    def delete_if_empty(self, folder: str) -> None:
        """Delete ``folder`` if nothing is in it."""
        path, system = self._at(folder)
        if system.exists(path) and not len(system.listStatus(path)):
            system.delete(path, not RECURSIVE)

    def _at(self, location: str) -> tuple[Any, Any]:
        path = self._jvm.path(location)
        return path, path.getFileSystem(self._hadoop)

    def _text(self, system: Any, path: Any) -> str:
        stream = system.open(path)
        try:
            return str(self._jvm.named("org.apache.commons.io.IOUtils.toString")(stream, "UTF-8"))
        finally:
            stream.close()


def _listed(index: Any) -> list[PartitionFile]:
    found = str(index.allFiles().mkString(END)).split(END)
    matches = (STATUS.search(one) for one in found)
    return [PartitionFile(m["path"], int(m["size"]), int(m["changed"])) for m in matches if m]
