"""PathRelations: relations over paths, refreshed when a table changes whose files they may read.

    change ──▶ its table ──thread: its folders?──▶ relations at, in or above these are renewed

Such a relation (``spark.read.parquet(path)``, a view with a path) has no table's name, and a change
does not say where its table lies. A thread of its own looks that up, because the subscriber may
have to pull the table, and only while somebody holds such a relation. If the look-up fails, all
relations over paths are renewed.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ....topics.errors import NoSuchObject
from ....topics.objects.changes import ChangeKind
from ...protocol.effects import Change
from ..guard import Guard
from .catalyst import Catalyst

TABLES_MAX: Final = 1000  # that wait to be looked up; beyond, all relations over paths are renewed
FOLDERS_MAX: Final = 100  # of a table, a call for each; beyond, all relations are renewed, too
EVERYTHING: Final = ""  # a table, or a folder: every one

Find = Callable[[str], Sequence[str]]  # returns the folders in which the data of a table lies


class PathRelations:
    """Has relations over paths renewed for changed tables.

    ``changed`` and ``changed_all`` are for one thread, ``settle`` is for any.
    """

    def __init__(self, relations: Catalyst, *, guard: Guard, refresh_existing: bool) -> None:
        """``refresh_existing``: DataFrames that exist see files that others append, too."""
        self._relations = relations
        self._guard = guard
        self._refresh_existing = refresh_existing
        self._waiting: dict[str, tuple[Find, bool]] = {}  # by table; True: it was overwritten
        self._condition = threading.Condition()  # guards the two; ``settle`` waits on it
        self._running = False  # whether there is a thread

    def changed(self, changes: Iterable[Change], *, find: Find) -> None:
        """Renew the relations over the folders of changed tables; ``find`` may take long."""
        tables = [
            change
            for change in changes
            if "." in change.object and change.kind != ChangeKind.DROPPED
        ]
        if not tables or not self._relations.has_paths:
            return
        for change in tables:
            self._put(change.object, find, overwritten=change.overwritten)

    def changed_all(self) -> None:
        """Renew all relations over paths: changes may have been missed."""
        if self._relations.has_paths:
            self._put(EVERYTHING, lambda _table: [EVERYTHING], overwritten=False)

    def settle(self, timeout_s: float) -> bool:
        """Wait until no changed table waits, at most ``timeout_s``; return whether that is so."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._running, timeout_s)

    def _put(self, table: str, find: Find, *, overwritten: bool) -> None:
        with self._condition:
            if len(self._waiting) >= TABLES_MAX and table not in self._waiting:
                self._waiting.clear()
                table, find = EVERYTHING, lambda _table: [EVERYTHING]
            _, before = self._waiting.get(table, (find, False))
            self._waiting[table] = (find, overwritten or before)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="topicast-paths", daemon=True).start()

    def _run(self) -> None:
        """Look up the tables that wait, and end once none does."""
        while True:
            with self._condition:
                if not self._waiting:
                    self._running = False
                    self._condition.notify_all()
                    return
                table = next(iter(self._waiting))
                find, overwritten = self._waiting.pop(table)
            folders: Sequence[str] = [EVERYTHING]  # stays so if the look-up fails
            with self._guard("look up where a table lies"):
                try:
                    folders = find(table)
                except NoSuchObject:
                    continue  # the table was dropped or renamed meanwhile
            with self._guard("refresh relations over paths"):
                always = overwritten or self._refresh_existing
                for folder in folders if len(folders) <= FOLDERS_MAX else [EVERYTHING]:
                    self._relations.renew_paths(table or "*", folder, always=always)
