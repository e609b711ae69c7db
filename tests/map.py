"""Map: whether CONTRIBUTING's table names the files that a change has to touch.

A new thing of a kind has to be added wherever all things of its kind are. So the files that mention
every sibling (each flag of catalogd, several messages to a hub) are those of its row; a file that
the row names and that mentions none of them has nothing to do with it. Words of comments and
docstrings do not count.
Run: .venv/bin/python tests/map.py; 1 if the table is wrong.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from inspect import get_annotations
from pathlib import Path
from typing import Any, Final

from topicast.catalog.config import CatalogdConfig
from topicast.catalog.follow.notes import CatalogCounts
from topicast.cli.main import SECTIONS
from topicast.cli.pages.config import PagesConfig
from topicast.cli.pages.metrics import SECTIONS as METRICS
from topicast.pipeline.audit import AuditOptions
from topicast.pipeline.conversion.converter import ConvertOptions
from topicast.pipeline.export import ExportOptions
from topicast.pipeline.files import FilesOptions
from topicast.statestore.config import StatestoredConfig
from topicast.statestore.status import HubCounts
from topicast.subscriber.config import Settings
from topicast.subscriber.declared import declarations
from topicast.subscriber.spark.config import SparkSettings
from topicast.topics.flags import own_first

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "CONTRIBUTING.md"
LOOKED_AT: Final = (
    *(f"{one}/**/*.py" for one in ("topics", "statestore", "catalog", "subscriber", "pipeline")),
    *("cli/**/*.py", "subscriber/**/*.java", "tests/vectors/*.py"),
    *("docs/*.md", "docs/reference/*.md", "tests/catalog/metastore/*.py", "tests/cluster/store.py"),
)
NAMED: Final = re.compile(
    r"\b((?:topics|statestore|catalog|subscriber|pipeline|cli|tests|docs)/[\w/.-]*[\w/])"
)
WORD: Final = re.compile(r"\w+")
BEGINS_A_STATEMENT: Final = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


@dataclass(frozen=True)
class Kind:
    """A row by how it begins, and groups of siblings: a new thing is one of one group."""

    row: str
    groups: tuple[tuple[str, ...], ...]


def _fields(of: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(of))


def _own_fields(of: type) -> tuple[str, ...]:
    return tuple(one.name for one in own_first(of) if one.name in get_annotations(of))


def _arguments(of: type) -> tuple[str, ...]:
    return tuple(one.argument for one in declarations(of).values())


KINDS: Final = (
    Kind("carry one more field of a table to Spark", (("owner", "view_text", "location"),)),
    Kind(
        "one more flag",
        (_fields(CatalogdConfig), _fields(StatestoredConfig), _fields(PagesConfig)),
    ),
    Kind("one more setting of a subscriber", (_arguments(Settings),)),
    Kind("one more setting of an attached driver", (_arguments(SparkSettings),)),
    Kind(
        "one more option of a pipeline",
        tuple(map(_own_fields, (AuditOptions, ConvertOptions, ExportOptions, FilesOptions))),
    ),
    Kind(
        "one more message",
        (
            ("Announce", "ClientList", "DriverFacts", "Introduction", "Join", "ReaderStatus"),
            ("Compare", "Grant", "Lease", "Order", "Sync", "Validate"),
            ("Compared", "Joined", "Reported", "Synced", "Validated", "Welcome"),
        ),
    ),
    Kind(
        "one more command",
        (
            tuple(
                place.partition(":")[2]
                for commands in SECTIONS.values()
                for place, _ in commands.values()
            ),
        ),
    ),
    Kind(
        "one more metric of a daemon",
        (
            _fields(CatalogCounts),
            _fields(HubCounts),
            *(
                tuple(name for section in tables.values() for name in section)
                for tables in METRICS.values()
            ),
        ),
    ),
    Kind(
        "another kind of object that becomes dirty",
        (("DirtyDatabase", "DirtyPartitions", "DirtyTable"), ("Dirty", "DirtyPartitions")),
    ),
    Kind(
        "keep one more kind of row in catalogd's store",
        (
            ("LeaseRow", "SweepRow", "WriteRow"),
            ("load_leases", "load_sweeps", "load_writes"),
            ("leases", "ordinal"),
        ),
    ),
    Kind(
        "one more question to catalogd",
        (
            ("ReadEventCosts", "ReadHeldTopics", "ReadHubs"),
            ("ReadEventLog", "ReadTableStates"),
            ("ReadLog", "ReadRecent", "ReadVersions"),
            ("ReadFunctions", "ReadStatistics"),
            ("FactsRead", "ReadFacts"),
        ),
    ),
    Kind(
        "log one more line",
        (
            ("AnswerDiffers", "PinsNotHeld", "Registration"),
            ("Noted", "text", "trouble", "add"),
            ("Entered", "Learned"),
            ("_two_catalogds",),
        ),
    ),
    Kind("one more order of an operator", (("DRIVERS", "INVALIDATE", "MODE", "REFRESH"),)),
    Kind("the period of heartbeats", (("HEARTBEAT_MS",), ("statestore_heartbeat_frequency_ms",))),
    Kind("another source of metadata", (("Hms", "Metastore"),)),
)


@cache
def files() -> Mapping[str, frozenset[str]]:
    """Return the words of each file, by its path."""
    found = {path for pattern in LOOKED_AT for path in ROOT.glob(pattern)}
    return {path.relative_to(ROOT).as_posix(): _words(path) for path in sorted(found)}


def rows() -> Mapping[str, frozenset[str]]:
    """Return the files and folders that each row of the table names, by its first cell."""
    lines = [line.split(" | ") for line in TABLE.read_text("utf-8").splitlines()]
    cells = [(one[0].removeprefix("| "), one[1]) for one in lines if len(one) == 2]
    return {first: frozenset(NAMED.findall(second)) for first, second in cells}


def missing(kind: Kind, named: Iterable[str], words: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the files that mention all siblings of a group, and that are not named."""
    needed = {path for path, its in words.items() for group in kind.groups if its.issuperset(group)}
    return sorted(path for path in needed if not any(_covers(one, path) for one in named))


def idle(kind: Kind, named: Iterable[str], words: Mapping[str, frozenset[str]]) -> list[str]:
    """Return what is named, and mentions no sibling."""
    siblings = {one for group in kind.groups for one in group}
    used = [path for path, its in words.items() if its & siblings]
    return sorted(one for one in named if not any(_covers(one, path) for path in used))


def faults(table: Mapping[str, frozenset[str]]) -> list[str]:
    """Return what is wrong with the rows of KINDS in ``table``, a line each."""
    words = files()
    wrong = [f"no row: {kind.row}" for kind in KINDS if kind.row not in table]
    for kind in KINDS:
        named = table.get(kind.row, frozenset())
        wrong += [f"{kind.row}: {one} is not named" for one in missing(kind, named, words)]
        wrong += [f"{kind.row}: {one} has none of it" for one in idle(kind, named, words)]
    return wrong


def _covers(named: str, path: str) -> bool:
    return path == named or (named.endswith("/") and path.startswith(named))


def _words(path: Path) -> frozenset[str]:
    """Return the words of a file, without comments and docstrings if it is Python."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return frozenset(WORD.findall(text))
    found: set[str] = set()
    before = tokenize.ENCODING
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        if token.type == tokenize.NAME:
            found.add(token.string)
        elif token.type == tokenize.STRING and before not in BEGINS_A_STATEMENT:
            found.update(WORD.findall(token.string))
        before = token.type
    return frozenset(found)


def main() -> int:
    """Print the faults, and return 1 if there are any."""
    wrong = faults(rows())
    print("\n".join(wrong) or f"{len(KINDS)} rows name the files that have to change")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
