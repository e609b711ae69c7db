"""Sessions as Spark has them, without Spark: each has relations, and may have ended."""

from collections.abc import Iterable

from topicast.subscriber.spark.refresh.refresher import Existing, Invalidation, Looked


class Session:
    """A session with relations of ``tables``; ``ended`` by spark.stop().

    ``held``: tables of which DataFrames hold relations that it has discarded.
    """

    def __init__(self, name: str, *tables: str) -> None:
        self.name = name
        self.tables = set(tables)
        self.held: set[str] = set()
        self.ended = False


class Stub:
    """What a worker does in Spark, noted; a table in ``failing`` cannot be renewed."""

    def __init__(self, *sessions: Session) -> None:
        self.sessions = list(sessions)
        self.renewed: list[tuple[str, str]] = []
        self.recached: list[tuple[str, str]] = []
        self.failing: set[str] = set()
        self.failed_later: list[tuple[Invalidation, str]] = []
        self.renews_late: list[bool] = []
        self.discarded = False
        self.broken = False
        self.has_iceberg = False
        self.reloaded: list[str] = []
        self.has_paths = False
        self.renewed_paths: list[tuple[str, str, bool]] = []

    def reload(self, names: Iterable[str]) -> None:
        self.reloaded += names

    def renew_paths(self, table: str, location: str, *, always: bool) -> None:
        self.renewed_paths.append((table, location, always))

    def look(self) -> dict[str, Looked]:
        if self.broken:
            raise ConnectionError("the JVM does not answer")
        return {
            one.name: Looked(frozenset(one.tables), held=frozenset(one.held))
            for one in self.sessions
            if not one.ended
        }

    def renew_late(self, *, renew: bool) -> None:
        self.renews_late.append(renew)

    def renew(self, session: str, table: str, *, existing: Existing) -> None:
        if table in self.failing:
            raise RuntimeError(f"java.lang.Exception: {table}\n\tat org.apache.spark")
        self._of(session).tables.discard(table)
        self.renewed.append((session, table))

    def recache(self, session: str, table: str, *, existing: Existing) -> None:
        self.recached.append((session, table))

    def failures(self) -> list[tuple[Invalidation, str]]:
        found, self.failed_later = self.failed_later, []
        return found

    def settle(self, timeout_s: float) -> bool:
        return timeout_s > 0

    def unfinished(self) -> tuple[str, ...]:
        return ()

    def discard(self) -> None:
        self.discarded = True

    def _of(self, session: str) -> Session:
        return next(one for one in self.sessions if one.name == session)
