"""FilesReport: the results of a sweep."""

from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Final

from ...topics.wire.messages.reports import FileFacts
from ..progress import RunReport

NAMED_MAX: Final = 1000  # objects of each kind that a report names; all are counted
NAMES_SHOWN_MAX: Final = 10  # of each kind, in the summary


@dataclass(slots=True, kw_only=True)
class FilesReport(RunReport):
    """The results of a sweep, or with ``dry_run`` how many requests it would make."""

    pattern: str
    dry_run: bool = False
    tables: int = 0
    partitions: int = 0
    listed: int = 0  # folders: of each partition, or of a table that has no partitions
    continued: bool = False  # whether it goes on with an interrupted run that lists everything
    files: int = 0
    bytes: int = 0
    small: int = 0
    newest_ms: int = 0
    requests: int = 0  # LIST
    requests_predicted: int = 0
    changed: list[str] = field(default_factory=list)  # db.table/partition, reported as changes
    changed_count: int = 0
    no_partition: list[str] = field(default_factory=list)  # folders that are not partitions
    no_partition_count: int = 0
    added: list[str] = field(default_factory=list)  # db.table/partition
    unreadable: dict[str, str] = field(default_factory=dict)  # why, by table, folder
    unreadable_count: int = 0
    missing: list[str] = field(default_factory=list)  # objects whose folder does not exist
    missing_count: int = 0
    sweeps: int = 0  # of all tables, that have ended
    folders_watched: int = 0  # by their times
    seconds: float = 0.0

    @property
    def problems(self) -> tuple[str, ...]:
        """The folders and tables that could not be read."""
        return tuple(f"{name}: {why}" for name, why in self.unreadable.items())

    def summary(self) -> str:
        """Return the result for people."""
        if self.dry_run:
            return (
                f"{self.tables} tables, {self.partitions} partitions: about "
                f"{self.requests_predicted} LIST requests"
            )
        share = self.small / self.files if self.files else 0.0
        lines = [
            f"{self.tables} tables, {self.partitions} partitions: {self.files} files",
            f"{self.listed} listed, the others are known",
            f"{self.bytes} bytes, {share:.0%} of the files small",
            f"{self.requests} LIST requests, {self.requests_predicted} predicted",
            f"{self.changed_count} changed without an event",
        ]
        lines += [f"  {name}" for name in self.changed[:NAMES_SHOWN_MAX]]
        if self.continued:
            lines.insert(0, "continues a run that lists everything and was interrupted")
        if self.no_partition_count:
            lines.append(f"{self.no_partition_count} folders are not partitions (--add_partitions)")
            lines += [f"  {name}" for name in self.no_partition[:NAMES_SHOWN_MAX]]
        if self.missing_count:
            lines.append(f"{self.missing_count} have no folder, so no files")
            lines += [f"  {name}" for name in self.missing[:NAMES_SHOWN_MAX]]
        if self.added:
            lines.append(f"{len(self.added)} partitions added")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold, with the time of the newest change as text."""
        found = asdict(self)
        newest = datetime.fromtimestamp(found.pop("newest_ms") / 1000, timezone.utc)
        text = newest.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return found | {"newest": text if self.newest_ms else None}

    def begin_sweep(self) -> None:
        """Begin to count tables, partitions and files anew; keep the counts of changes."""
        self.tables = self.partitions = self.files = self.bytes = self.small = self.newest_ms = 0
        self.requests_predicted = self.listed = 0
        self.no_partition_count = self.unreadable_count = self.missing_count = 0
        self.no_partition.clear()
        self.unreadable.clear()
        self.missing.clear()

    def count(self, facts: FileFacts) -> None:
        """Add the files of a partition."""
        self.files += facts.files
        self.bytes += facts.bytes
        self.small += facts.small
        self.newest_ms = max(self.newest_ms, facts.newest_ms)

    def note_changed(self, name: str) -> None:
        """Count a change, and keep its name while there are few."""
        self.changed_count += 1
        if len(self.changed) < NAMED_MAX:
            self.changed.append(name)

    def note_no_partition(self, folder: str) -> None:
        """Count a folder that was not counted yet, and keep its name while there are few."""
        if folder in self.no_partition:
            return
        self.no_partition_count += 1
        if len(self.no_partition) < NAMED_MAX:
            self.no_partition.append(folder)

    def note_missing(self, name: str) -> None:
        """Count an object whose folder does not exist, and keep its name while there are few."""
        self.missing_count += 1
        if len(self.missing) < NAMED_MAX:
            self.missing.append(name)

    def note_unreadable(self, name: str, why: str) -> None:
        """Count an object that cannot be read, and keep the reason while there are few."""
        self.unreadable_count += 1
        if len(self.unreadable) < NAMED_MAX:
            self.unreadable[name] = why
