"""Differences: has objects read again that differ, and notifies readers of source problems.

differs ──▶ read again ──▶ suspected ──no event names it──▶ logged, readers are notified
"""

from collections.abc import Callable, Sequence

from ...topics.objects.names import TableId
from ...topics.objects.source_problem import SourceProblem
from ...topics.turn import PartTurn
from ..ingest.events.poller import Poller
from ..ingest.loads.loader import Loader
from ..metastore.port import DirtyDatabase, DirtyPartitions, DirtyTable
from ..model.namespace import Namespace
from ..reconcile.held import Difference
from ..reconcile.reconciliation import Reconciliation
from .name_listing import NameListing
from .notes import Noted


class Differences:
    """Drives the reconciliation, and reads again what it finds."""

    def __init__(
        self,
        reconciliation: Reconciliation,
        namespace: Namespace,
        *,
        loader: Loader,
        poller: Poller,
        listing: NameListing,
        unpublished: Callable[[], int],
        calls_per_s: float,
        turn: PartTurn[Noted],
    ) -> None:
        """``unpublished``: the arrival number of the oldest event that is not published."""
        self._reconciliation = reconciliation
        self._namespace = namespace
        self._loader = loader
        self._poller = poller
        self._listing = listing
        self._unpublished = unpublished
        self._calls_per_s = calls_per_s
        self._turn = turn
        self._seen_seq: int | None = None
        """Arrival number of the read of everything after which a source problem is withdrawn;
        None: no such read has begun."""

    @property
    def source_problem(self) -> SourceProblem | None:
        """Why not every change of the metastore arrives; None if no reason is known."""
        return self._poller.source_problem or self._reconciliation.missed

    def step(self) -> None:
        """Judge the suspected objects, and compare a slice of the last answer."""
        if self._reconciliation.suspects:
            self._judge()
        if self.may_compare:
            self.read_differing(self._reconciliation.take_slice())
        self._note_source_problem()

    def observe(self) -> None:
        """Note for the status what delays the comparison now."""
        self._reconciliation.progress.observe(self._waits())

    def _note_source_problem(self) -> None:
        """Notify readers why changes do not arrive; withdraw it once everything is read again."""
        problem, noted = self.source_problem, self._namespace.source_problem()
        if noted is None:
            self._namespace.set_source_problem(problem)
        elif noted.is_followed_later:
            if problem is not None or self._poller.caught_up:
                self._namespace.set_source_problem(problem)
        elif problem is not None:
            self._seen_seq = None
            if not problem.is_followed_later:
                self._namespace.set_source_problem(problem)
        elif self._seen_seq is None:
            self._seen_seq = self._listing.read_unseen()
        elif self._unpublished() > self._seen_seq:
            self._namespace.set_source_problem(None)

    @property
    def may_compare(self) -> bool:
        """Whether catalogd can compare what it holds: no resync is running."""
        serving = self._listing.serving and self._poller.reads
        return serving and not self._loader.resyncing

    def _waits(self) -> str:
        """Return why nothing is compared now; empty: objects are compared."""
        if not self._calls_per_s:
            return "--reconcile_calls_per_s is 0"
        if not self._poller.reads:
            return "events are paused"
        if self._poller.problem():
            return "the metastore does not answer"
        if not self._listing.serving:
            return "the names are read"
        return "what events are missing of is read again" if self._loader.resyncing else ""

    def read_differing(self, found: Sequence[Difference]) -> None:
        """Read the objects of ``found`` again, and suspect them: their events may be late."""
        if not found:
            return
        seq = self._poller.next_seq()
        self._reconciliation.suspect(found, seq=seq)
        parts: dict[tuple[TableId, bool], list[str]] = {}
        for (db, table, part), content, _ in found:
            if part:
                parts.setdefault(((db, table), content), []).append(part)
            elif not table:
                self._loader.mark_dirty([DirtyDatabase(db=db)], seq=seq)
            elif content:
                self._loader.mark_dirty([DirtyTable(db=db, table=table, data=True)], seq=seq)
        for ((db, table), content), names in parts.items():
            dirty = DirtyPartitions(db=db, table=table, names=tuple(names), data=content)
            self._loader.mark_dirty([dirty], seq=seq)
        whole = [one.name[:2] for one in found if one.name[1] and not (one.name[2] or one.content)]
        self._loader.resync(whole, seq=seq)

    def _judge(self) -> None:
        """Log the suspected objects that have changed without an event."""
        if not self._poller.enabled or self._poller.source_problem:
            self._reconciliation.forget(unpublished=self._unpublished())
            return
        before = self._reconciliation.missed
        drift = self._reconciliation.judge(
            unpublished=self._unpublished(),
            polled_at=self._poller.polled_at,
            connection=self._poller.polled_on,
        )
        missed = self._reconciliation.missed
        if missed is not None and missed != before:
            self._turn.add(Noted(text=missed.text, trouble=True))
        elif drift:
            others = f" and {len(drift) - 1} others" if len(drift) > 1 else ""
            text = f"{drift[0]}{others} changed without an event, and was read again"
            self._turn.add(Noted(text=text, trouble=False))
