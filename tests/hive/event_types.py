"""Types: those of the events that each release of Hive can record, as its own classes name them.

Run: python -m topicast.tests.hive.event_types, where ``make compat-hive`` has installed all of them
(HIVES="3.1.3 4.0.1 4.1.0 4.2.0"). It writes tests/hive/event_types.json anew. Constants of the
classes that make messages hold the types; the enumeration beside them uses those of events.
"""

import json
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyspark

from topicast.tests.hive.releases import RELEASES

EMBEDDED: Final = "2.3.10"  # of PySpark's jars
MESSAGING: Final = "org/apache/hadoop/hive/metastore/messaging"
ENUMERATION: Final = f"{MESSAGING}/EventMessage$EventType.class"
MAKERS: Final = (f"{MESSAGING}/MessageFactory.class", f"{MESSAGING}/MessageBuilder.class")
TYPES: Final = Path(__file__).with_name("event_types.json")
WIDTHS: Final[Mapping[int, int]] = {  # of the entries of a constant pool, by tag, less the tag
    **dict.fromkeys((7, 8, 16, 19, 20), 2),
    15: 3,
    **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 4),
    **dict.fromkeys((5, 6), 8),
}
TEXT, STRING = 1, 8  # tags
WIDE: Final = (5, 6)  # tags of entries that count as two


def main() -> None:
    """Write the types of every release."""
    jars = {EMBEDDED: Path(pyspark.__file__).parent / "jars"}
    jars |= {one: Path(".venv") / f"hive-{one}" / "lib" for one in RELEASES}
    found = {release: sorted(types(folder)) for release, folder in jars.items()}
    TYPES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for release, names in found.items():
        print(release, len(names))


def types(folder: Path) -> set[str]:
    """Return the types that the classes in the jars of ``folder`` name."""
    enumerated: set[str] = set()
    made: set[str] = set()
    for jar in sorted(folder.glob("hive-*.jar")):
        with zipfile.ZipFile(jar) as classes:
            names = set(classes.namelist())
            for name in {ENUMERATION, *MAKERS} & names:
                found = set(texts(classes.read(name)))
                enumerated |= found if name == ENUMERATION else set()
                made |= found if name in MAKERS else set()
    return enumerated & made


def texts(code: bytes) -> Iterator[str]:
    """Yield the string constants of a class: the format is chapter 4 of the JVM's specification."""
    (count,) = struct.unpack_from(">H", code, 8)
    held: dict[int, str] = {}
    strings: list[int] = []
    at, index = 10, 1
    while index < count:
        tag = code[at]
        if tag == TEXT:
            (length,) = struct.unpack_from(">H", code, at + 1)
            held[index] = code[at + 3 : at + 3 + length].decode(errors="replace")
            at += 3 + length
        else:
            if tag == STRING:
                strings.append(struct.unpack_from(">H", code, at + 1)[0])
            at += 1 + WIDTHS[tag]
        index += 2 if tag in WIDE else 1
    yield from (held[one] for one in strings)


if __name__ == "__main__":
    main()
