"""ConvertReport: the results of a conversion."""

from dataclasses import dataclass, field
from typing import Final

from ..progress import RunReport

SHOWN_MAX: Final = 3  # names in a summary


@dataclass(slots=True, kw_only=True)
class ConvertReport(RunReport):
    """The results of a run, or with ``dry_run`` what it would do; partitions by their names."""

    source: str
    target: str
    dry_run: bool = False
    passes: int = 0
    created: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: int = 0  # as of the last pass
    quarantined: dict[str, str] = field(default_factory=dict)  # the reasons, as of the last pass
    columns_added: list[str] = field(default_factory=list)
    columns_widened: list[str] = field(default_factory=list)
    rows: int = 0
    rows_rejected: int = 0
    rejected_in: list[str] = field(default_factory=list)  # folders of JSON
    folders_deleted: int = 0
    seconds: float = 0.0
    problem: str = ""  # that has to pass before a stream goes on

    @property
    def converted(self) -> int:
        """How many partitions were created or replaced."""
        return len(self.created) + len(self.replaced)

    @property
    def problems(self) -> tuple[str, ...]:
        """The partitions that were not converted, and the problem for which a stream waits."""
        found = tuple(f"{name}: {why}" for name, why in sorted(self.quarantined.items()))
        return (*found, self.problem) if self.problem else found

    def summary(self) -> str:
        """Return the result for people, in a few lines."""
        would = "to be " if self.dry_run else ""
        lines = [
            f"{self.source} to {self.target} in {self.seconds:.1f} s",
            f"partitions {would}created: {len(self.created)}{_some(self.created)}",
            f"partitions {would}replaced: {len(self.replaced)}{_some(self.replaced)}",
            f"partitions unchanged: {self.unchanged}, quarantined: {len(self.quarantined)}",
        ]
        for what, names in (("added", self.columns_added), ("widened", self.columns_widened)):
            lines += [f"columns {would}{what}: {', '.join(names)}"] if names else []
        if not self.dry_run:
            lines.append(f"rows written: {self.rows}")
        if self.rows_rejected:
            lines.append(f"rows that cannot be read: {self.rows_rejected}, kept as JSON in")
            lines += self.rejected_in
        return "\n".join(lines)


def _some(names: list[str]) -> str:
    """Return the first few of ``names``, in brackets."""
    more = ", …" if len(names) > SHOWN_MAX else ""
    return f" ({', '.join(names[:SHOWN_MAX])}{more})" if names else ""
