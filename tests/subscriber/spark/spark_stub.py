"""Sessions as Spark has them, without Spark: each has relations, and may have ended."""

from topicast.subscriber.spark.refresh.refresher import Existing


class Session:
    """A session with relations of ``tables``; ``ended`` by spark.stop().

    ``held``: tables of which DataFrames hold relations that it has forgotten.
    """

    def __init__(self, name: str, *tables: str) -> None:
        self.name = name
        self.tables = set(tables)
        self.held: set[str] = set()
        self.ended = False


class Stub:
    """What a worker does in Spark, noted; a table in ``failing`` cannot be renewed."""

    def __init__(self) -> None:
        self.renewed: list[tuple[str, str]] = []
        self.recached: list[tuple[str, str]] = []
        self.failing: set[str] = set()
        self.kept: set[str] = set()
        self.broken = False

    def id_of(self, session: Session) -> str | None:
        return None if session.ended else session.name

    def cached(self, session: Session) -> frozenset[str]:
        if self.broken:
            raise ConnectionError("the JVM does not answer")
        return frozenset(session.tables)

    def held(self, session: Session) -> frozenset[str]:
        return frozenset(session.held)

    def renew(self, session: Session, table: str, *, existing: Existing) -> None:
        if table in self.failing:
            raise RuntimeError(f"java.lang.Exception: {table}\n\tat org.apache.spark")
        session.tables.discard(table)
        self.renewed.append((session.name, table))

    def recache(self, session: Session, table: str, *, existing: Existing) -> None:
        self.recached.append((session.name, table))

    def keep(self, ids: set[str]) -> None:
        self.kept = ids
