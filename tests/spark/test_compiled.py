"""What the compiler made of our Java in one driver, the next one runs without a compiler."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from topicast.subscriber.spark.compiled import FOLDER
from topicast.tests.spark.applications import Application, Failed
from topicast.tests.spark.conftest import Drivers

PREPARE = """
import os
from topicast.subscriber.spark.java import java_class, java_object, java_source
from topicast.subscriber.spark.planning.router import router_source
from topicast.subscriber.spark.refresh.registry import registry_source

class NoCompiler:
    '''A JVM whose Spark has no compiler.'''

    def __init__(self, it):
        self.it = it

    def __getattr__(self, name):
        if name == "janino":
            raise TypeError("no compiler")
        found = getattr(self.it, name)
        return NoCompiler(found) if type(found).__name__ == "JavaPackage" else found

own = {
    "Sessions": registry_source(),
    "Listener": java_source("topicast.subscriber.spark.writes", "TopicastListener"),
    "Planning": router_source(spark._jvm),
}
own = {name: source.replace("Topicast", "Kept") for name, source in own.items()}

def classes_of(jvm):
    '''Return ours, under other names than those that an attach makes.'''
    return [java_class(jvm, "Kept" + name, source) for name, source in own.items()]
"""
ANSWER = """
public final class {name} {{
    private final String given;
    public {name}(String given) {{ this.given = given; }}
    public String answer() {{ return new Inner().answer(); }}
    private final class Inner {{ String answer() {{ return given + " and {said}"; }} }}
}}
"""


@pytest.fixture
def cache(drivers: Drivers, tmp_path: Path) -> Iterator[Path]:
    """Let both drivers keep what they compile in an empty folder; return it."""
    for driver in (drivers.writer, drivers.reader):
        driver.do(PREPARE)
        driver.do(f"had = os.environ.get({CACHE!r}); os.environ[{CACHE!r}] = {str(tmp_path)!r}")
    yield tmp_path / "topicast" / FOLDER
    for driver in (drivers.writer, drivers.reader):
        driver.do(f"os.environ[{CACHE!r}] = had or ''")


CACHE = "XDG_CACHE_HOME"


def answer(driver: Application, name: str, said: str, *, jvm: str = "spark._jvm") -> object:
    """Return what a class answers that is made in ``driver``."""
    source = ANSWER.format(name=name, said=said)
    return driver.do(f"java_object({jvm}, {name!r}, {source!r}, 'given').answer()")


WITHOUT = "NoCompiler(spark._jvm)"


def test_every_class_of_ours_runs_in_the_next_driver_as_it_was_compiled(
    drivers: Drivers, cache: Path
) -> None:
    drivers.writer.do("made = classes_of(spark._jvm)")
    assert len(list(cache.iterdir())) == 3
    drivers.reader.do(f"found = classes_of({WITHOUT})")
    same = "[one.getClassLoader().getClass().getName() for one in {}]"
    assert drivers.reader.do(same.format("found")) == drivers.writer.do(same.format("made"))
    for_name = "spark._jvm.java.lang.Class.forName"
    drivers.reader.do(
        f"for one in found:\n for inner in one.getDeclaredClasses():"
        f"\n  _ = {for_name}(inner.getName(), True, one.getClassLoader())"
    )


def test_what_is_not_kept_whole_is_compiled_and_replaced(drivers: Drivers, cache: Path) -> None:
    assert answer(drivers.writer, "KeptAnswer", "new") == "given and new"
    (file,) = cache.iterdir()
    content = file.read_bytes()
    assert answer(drivers.reader, "KeptAnswer", "new", jvm=WITHOUT) == "given and new"
    with pytest.raises(Failed, match="no compiler"):
        answer(drivers.reader, "KeptAnswer", "another", jvm=WITHOUT)

    file.write_bytes(content[:-1000])
    with pytest.raises(Failed, match="no compiler"):
        answer(drivers.reader, "KeptAnswer", "new", jvm=WITHOUT)
    source = ANSWER.format(name="KeptAnswer", said="new")
    drivers.reader.do(f"_ = java_class(spark._jvm, 'KeptAnswer', {source!r})")
    assert file.read_bytes() == content


def test_where_nothing_can_be_kept_classes_are_compiled(drivers: Drivers, cache: Path) -> None:
    cache.parent.write_text("a file in the folder's place")
    assert answer(drivers.writer, "KeptNowhere", "compiled") == "given and compiled"
