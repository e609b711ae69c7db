"""The explorer: a Spark driver that reads more tables than its memory budget can hold.

    python -m topicast.cli.quickstart.apps.explorer FOLDER STATESTORES
    in:  metastore URI, then a phase a line, at last "stay"     out: one JSON object a line

After a sync it compares its answers with the metastore, byte for byte.
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from ....catalog.metastore.hms import Hms
from ....catalog.metastore.sample import Sample
from ....subscriber import Subscriber
from ....topics.errors import TopicastError
from ....topics.topic import LEVELS, MINIMAL
from ..explorer_phases import BEGIN, STAY, rows_of

NAME: Final = "explorer"
DATABASE: Final = "lake"
TABLES: Final = 24
DAYS: Final = 20
READS: Final = 5  # of each favourite
FAVOURITES: Final = 6  # tables that it reads first, and goes on reading
AMPLE: Final = "64MB"
BUDGET: Final = "16KB"
TIMEOUT_S: Final = 60.0
SETTLE_S: Final = 15.0  # for levels to follow a mode: 2 s, and what a slow machine adds
STAY_S: Final = 5.0  # between two looks once all phases are done
LOOKS: Final = 3


class Explorer:
    """Works through tables, and prints what it holds and whether its answers are right."""

    def __init__(
        self, catalog: Subscriber, names: tuple[str, ...], *, sample: Sample, metastore: Hms
    ) -> None:
        self._catalog = catalog
        self._names = names
        self._sample = sample
        self._metastore = metastore
        self._days = DAYS
        self._words: dict[str, Callable[[], dict[str, object]]] = {
            BEGIN: lambda: {"tables": TABLES, "partitions": TABLES * DAYS},
            "read": self._read,
            "walk": self._walk,
            "full": lambda: self._settle(minimal=False),
            "mixed": lambda: self._settle(minimal=True),
        }

    def do(self, word: str) -> dict[str, object]:
        """Carry out the phase ``word`` and return its facts."""
        found = self._words[word]()
        stats = self._catalog.stats()
        facts = {
            "levels": rows_of(self._catalog.topics()),
            "held_bytes": stats.held_bytes,
            "budget_bytes": stats.budget_bytes,
        }
        return {"did": word, **facts, **found}

    def look(self) -> dict[str, object]:
        """Read the favourites and return how they are followed."""
        different = self._differences(self._names[:FAVOURITES], tries=LOOKS)
        levels = [info.level for info in self._catalog.topics()]
        counts = {level: levels.count(level) for level in reversed(LEVELS)}
        return {"follows": counts, "compared": FAVOURITES, "different": different}

    def _read(self) -> dict[str, object]:
        """Read the favourites again and again; pulled content is kept once its topic is joined."""
        for _ in range(READS):
            for name in self._names[:FAVOURITES]:
                self._catalog.partitions(name)
            self._catalog.sync()
        return {"reads": FAVOURITES * READS, "pulls": self._catalog.stats().pulls}

    def _walk(self) -> dict[str, object]:
        """Read every table, one after the other."""
        return {"tables": TABLES, "different": self._differences(self._names)}

    def _settle(self, *, minimal: bool) -> dict[str, object]:
        """Read and compare until the levels are those of another mode, with ``minimal`` or not."""
        compared = different = 0
        deadline = time.monotonic() + SETTLE_S
        is_there = False
        while not is_there and time.monotonic() < deadline:
            self._days += 1
            self._sample.add_day(self._names[0], self._days)
            compared += TABLES
            different += self._differences(self._names)
            is_there = minimal == any(i.level == LEVELS[MINIMAL] for i in self._catalog.topics())
        return {"compared": compared, "different": different}

    def _differences(self, names: tuple[str, ...], *, tries: int = 1) -> int:
        """Return for how many of ``names`` the answer differs from the metastore.

        If others may change tables between a sync and a look, it takes several ``tries``.
        """
        for _ in range(tries):
            self._catalog.sync()
            names = tuple(name for name in names if not self._is_right(name))
        return len(names)

    def _is_right(self, name: str) -> bool:
        db, _, table = name.partition(".")
        found = {partition.name: partition.thrift() for partition in self._catalog.partitions(name)}
        expected = self._metastore.partitions(db, table, self._metastore.partition_names(db, table))
        own = self._metastore.tables(db, [table]).get(table)
        return found == expected and self._catalog.table(name).thrift() == own


def main(folder: Path, statestores: str) -> None:
    """Carry out the phases; then print each change of how topics are followed, until the end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uri = sys.stdin.readline().strip()
    sample = Sample(uri, DATABASE, location=f"file:{folder}/{DATABASE}")
    names = sample.fill(tables=TABLES, days=DAYS)
    _see(names, statestores)
    with Subscriber(statestores, budget=BUDGET, timeout_s=TIMEOUT_S, name=NAME) as catalog:
        _say(ready=True)
        metastore = Hms(uri, timeout_s=TIMEOUT_S)
        explorer = Explorer(catalog, names, sample=sample, metastore=metastore)
        for line in sys.stdin:
            if line.strip() == STAY:
                stay(explorer)
            _say(**explorer.do(line.strip()))


def _see(names: tuple[str, ...], statestores: str) -> None:
    """Return once catalogd holds all of ``names``, so that the hub knows how large they are."""
    with Subscriber(statestores, budget=AMPLE, timeout_s=TIMEOUT_S) as catalog:
        catalog.sync()
        for name in names:
            catalog.partitions(name)


def stay(explorer: Explorer) -> NoReturn:
    """Go on reading, and print when topics are followed at other levels, or something is wrong."""
    last: object = None
    while True:
        try:
            found = explorer.look()
        except TopicastError as error:  # for example a daemon was killed
            found = {"trouble": str(error)}
        if last not in (None, found):
            _say(**found)
        last = found
        time.sleep(STAY_S)


def _say(**fact: object) -> None:
    print(json.dumps(fact), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
