"""Dispatcher: answers or refuses every message that arrives on the catalog service.

    request ──▶ at once | waits for events | pull, order, report: its owner
                            └──────────────────┴──▶ replies, after the commit

Invariant: every request gets exactly one answer, or the parts of one stream, or a Refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ...topics.errors import LeaseHeld, NoSuchObject, UsageError, WireError
from ...topics.histogram import HistogramFacts
from ...topics.keys.clients import Client, ClientRole
from ...topics.newest import Newest
from ...topics.objects.names import Scope, TableId, parse_scope, parse_table_name, table_name
from ...topics.objects.source_problem import SourceProblem
from ...topics.policy import Policy
from ...topics.streams.sender import SendTo
from ...topics.turn import PartTurn
from ...topics.wire.messages.answers import Inspected
from ...topics.wire.messages.catalog import (
    USED_MAX,
    Compare,
    Compared,
    Grant,
    Granted,
    Lease,
    Leased,
    Pull,
    Scan,
    Sync,
    Synced,
    Used,
    Validate,
    Validated,
)
from ...topics.wire.messages.connection import Bye, Refused
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.questions import (
    CATALOG_ANSWERS,
    MetastoreQuestion,
    Order,
    OrderKind,
    Question,
    ReadFiles,
    ReadSweeps,
    StoreQuestion,
)
from ...topics.wire.messages.readers import Cancel, Credit
from ...topics.wire.messages.reports import Report, Sweep
from ...topics.wire.refusal import Refusal, request_id
from ..content.unloading import Unloading
from ..follow.differences import Differences
from ..follow.name_listing import Lifecycle, NameListing
from ..history.history_thread import HistoryRead, ReadStore
from ..history.queries import StoreQuery, query_of
from ..history.swept_files import SweptFiles, SweptTables
from ..ingest.events.poller import Poller
from ..ingest.loads.loader import Loader
from ..metastore.port import FactsRead, ReadFacts
from ..model.lineage import Epochs
from ..model.namespace import Namespace
from ..model.tables import Tables
from ..model.versions import LeaseRow, VersionLog
from ..reconcile.reconciliation import Reconciliation
from .admin import AdminOrders
from .grants import AdmitGranted, Grants
from .leases import Leases, TooManyLeases
from .metastore_questions import MetastoreQuestions
from .pending import EVENT_WAIT_S_MAX, WAITING_MAX, EventWaits, PendingRequests, RequestId
from .pull_server import PullServer, stale_claims
from .replies import Replies
from .report_acks import ReportAcks
from .sweeps import Sweeps
from .visibility import is_visible, plain, visible_part, without_claims

COMPARING_NAMES: Final = (
    "catalogd compares every name with the metastore, which does not say whether it records events"
)
UNRESTRICTED_MAX: Final = 16_384  # peers: four times as many as there may be clients

COUNTED: Final[Mapping[type[Message], str]] = {
    Pull: "pulls",
    Scan: "scans",
    Sync: "syncs",
    Order: "orders",
    Report: "reports",
}


ALONE_MAY: Final[Mapping[type[Message], tuple[ClientRole, ...]]] = {
    Order: (ClientRole.OPERATOR,),
    Report: (ClientRole.DRIVER,),
    Grant: (ClientRole.DRIVER, ClientRole.OPERATOR),
    Lease: (ClientRole.DRIVER, ClientRole.OPERATOR),
    Sweep: (ClientRole.DRIVER, ClientRole.OPERATOR),
}
"""The messages that these roles alone may send; every role that reads may send the others."""
READ: Final = tuple(role for role in ClientRole if role.reads)


def role_fault(client: Client, kind: type[Message]) -> str:
    """Return why ``client`` may not send messages of ``kind``; empty if it may."""
    needed = ALONE_MAY.get(kind, READ)
    if client.role in needed:
        return ""
    its = f"the key {client.name} has role {client.role}"
    if client.role not in READ:
        return f"{its}, which may not read: topicast keys add makes another"
    takes = f"{kind.__name__} takes {' or '.join(needed)}"
    return f"{its}, and {takes}: topicast keys add makes another"


class Dispatcher:
    """Hands each request to its owner, and collects the answers."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        loader: Loader,
        poller: Poller,
        reconciliation: Reconciliation,
        differences: Differences,
        admin: AdminOrders,
        report_acks: ReportAcks,
        replies: Replies,
        version_log: VersionLog,
        leases: Leases,
        sweeps: Sweeps,
        unloading: Unloading,
        turn: PartTurn[SendTo | ReadStore | AdmitGranted | ReadFacts],
        listing: NameListing,
        epochs: Epochs,
        answer: Callable[[Question[Any]], Inspected],
    ) -> None:
        """``admin`` and ``report_acks`` put their answers into ``replies``, too."""
        self.counts = dict.fromkeys((*COUNTED.values(), "refused"), 0)  # since the start
        self.grants = Grants(turn)
        self._leases = leases
        self._sweeps = sweeps
        self._unloading = unloading
        self._listing = listing
        self._epochs = epochs
        self._answer = answer
        self._turn = turn
        self._namespace = namespace
        self._tables = tables
        self._admin = admin
        self._report_acks = report_acks
        self._syncs: EventWaits[None] = EventWaits(turn)
        self._syncs_after_names: PendingRequests[int, Scope] = PendingRequests(
            turn, requests_max=WAITING_MAX, wait_s=EVENT_WAIT_S_MAX
        )
        """The syncs that wait until names are compared, by the round of the comparison."""
        self._pull_server = PullServer(
            namespace, tables, loader=loader, poller=poller, replies=replies, turn=turn
        )
        self._questions = MetastoreQuestions(namespace, poller, replies, turn=turn)
        self._loader = loader
        self._poller = poller
        self._reconciliation = reconciliation
        self._differences = differences
        self._version_log = version_log
        self._replies = replies
        self._reads: list[ReadStore] = []  # the reads that the store is to do
        self._unrestricted = Newest[bytes, None](UNRESTRICTED_MAX)
        """The peers whose key sees every database; the last of them has sent the newest message.

        A refusal that names an object is sent to these alone."""

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        others = len(self._admin) + len(self._report_acks) + len(self._questions)
        return len(self._pull_server) + len(self._syncs) + len(self._syncs_after_names) + others

    @property
    def pull_times(self) -> HistogramFacts:
        """The seconds from the arrival of pulls until their last part was sent."""
        return self._pull_server.times

    @property
    def ready(self) -> bool:
        """Whether a turn has something to send."""
        return self._pull_server.ready or self._admin.ready

    @property
    def deadline(self) -> float:
        """When the next request has waited too long, or the next grant expires."""
        syncs = min(self._syncs.deadline, self._syncs_after_names.deadline)
        return min(self._pull_server.deadline, syncs, self.grants.deadline)

    def check(self) -> None:
        """Assert every invariant."""
        self._syncs.check()
        self._syncs_after_names.check()
        self._pull_server.check()
        self._questions.check()

    def handle(  # noqa: C901 - dispatch
        self, peer: bytes, message: Message, *, client: Client
    ) -> None:
        """Take a request of ``client`` in.

        Until the names are known, a Sync waits, and most other requests are refused.
        """
        if wrong := role_fault(client, type(message)):
            self._replies.refuse(peer, request_id(message), Refusal.ROLE, why=wrong)
            return
        policy = client.policy
        self._note_peer(peer, policy)
        if policy is not None and isinstance(message, Pull | Validate):
            message = without_claims(message, policy)
        if type(message) in COUNTED:
            self.counts[COUNTED[type(message)]] += 1
        match message:
            case (
                Pull() | Scan() | Validate() | Order() | Report() | Sweep() | MetastoreQuestion()
            ) if self._is_early(message):
                why = f"catalogd reads the names first: {self._poller.error or 'try again'}"
                self._replies.refuse(peer, message.request, Refusal.STARTING, why=why)
            case Pull() | Lease() | Sweep() if policy is not None and not is_visible(
                (message.db, message.table), policy
            ):
                name = table_name(message.db, message.table)
                self._refuse_not_visible(peer, message.request, name, policy=policy)
            case MetastoreQuestion(db=db) if policy is not None and not policy.sees(db):
                self._refuse_not_visible(peer, message.request, db, policy=policy)
            case Pull():
                self._note_uses([(message.db, message.table)])
                self._pull_server.on_pull(peer, message)
            case Used():
                some = message.tables[:USED_MAX]
                self._note_uses([one for one in some if policy is None or policy.sees(one[0])])
            case Sync():
                self._on_sync(peer, message)
            case Validate():
                self._on_validate(peer, message)
            case Compare():
                self._on_compare(peer, message)
            case Order():
                self._admin.on_order(peer, message, key=client.name)
            case Report():
                begun = self._loader.polls_begun if self._poller.enabled else None
                self._report_acks.on_report(peer, message, policy=policy, polls_begun=begun)
            case Question() if isinstance(message, CATALOG_ANSWERS):
                self._replies.add(peer, visible_part(self._answer(message), policy))
            case MetastoreQuestion():
                self._questions.ask(peer, message)
            case Grant():
                self._on_grant(peer, message, client=client)
            case Lease():
                self._on_lease(peer, message)
            case Sweep():
                self._on_sweep(peer, message)
            case Scan() | StoreQuestion():
                self._on_read(peer, message, policy)
            case Credit(stream=stream, amount=amount):
                self._pull_server.on_credit(peer, stream, amount)
            case Cancel(stream=stream):
                self._pull_server.cancel(peer, stream)
            case Bye():
                self._pull_server.remove_peer(peer)
                self._syncs.remove_peer(peer)
                self._syncs_after_names.remove_peer(peer)
                self._admin.remove_peer(peer)
                self._report_acks.remove_peer(peer)
                self._questions.remove_peer(peer)
            case _:
                name = type(message).__name__
                what = f"catalogd does not answer {name}: see docs/protocol.md"
                self._replies.refuse(peer, request_id(message), Refusal.UNEXPECTED, why=what)

    @property
    def wants_poll(self) -> bool:
        """Whether a request waits for a poll that has not begun."""
        begun = self._loader.polls_begun
        return self._syncs.wants_poll(begun) or self._report_acks.wants_poll(begun)

    def order(self) -> None:
        """Order the reads of the metastore for questions about it."""
        self._questions.order()

    def on_facts(self, fact: FactsRead) -> None:
        """Answer a question with the metastore's facts."""
        self._questions.on_read(fact)

    def on_history(self, fact: HistoryRead) -> None:
        """Answer a request with the rows that were read from the store."""
        self._replies.add(fact.peer, fact.answer)

    def awaits(self, table: TableId) -> bool:
        """Return whether a pull waits for ``table``."""
        return self._pull_server.awaits(table)

    def on_unreadable(self, table: TableId, error: str) -> None:
        """Refuse the requests that wait for a table that cannot be read."""
        self._admin.on_unreadable(table, error)
        self._pull_server.on_unreadable(table, error)

    def send(self, *, unpublished: Callable[[Scope], int]) -> None:
        """Send all answers that may leave, now that everything is committed.

        ``unpublished`` returns the arrival number of the oldest event in a scope that is not
        published.
        """
        self._end_syncs(unpublished)
        self._pull_server.step(position=self._epochs.position)
        self.grants.send()
        reads, self._reads = self._reads, []
        for read in reads:
            self._turn.add(read)
        for reply in self._replies.take():
            self.counts["refused"] += isinstance(reply.message, Refused)
            self._turn.add(self._for_peer(reply))
        self._pull_server.send()

    def _end_syncs(self, unpublished: Callable[[Scope], int]) -> None:
        """Answer or refuse the syncs that need not wait any longer."""
        if (problem := self._differences.source_problem) is not None:
            for early in self._syncs_after_names.take_all():
                self._refuse_without_source(early.peer, early.request, problem)
            for sync in self._syncs.take_all():
                self._refuse_without_source(sync.peer, sync.request, problem)
        for number in self._syncs_after_names.awaited():
            if number <= self._reconciliation.names_rounds or not self._poller.unproven:
                for early in self._syncs_after_names.take(number):
                    self._await_poll((early.peer, early.request), early.value)
        for done in self._syncs.take_published(unpublished, polled=self._poller.polled):
            self._replies.add(done.peer, self._synced(done.request))
        for late in self._syncs.expire():
            why = self._lagging(*late.key)
            self._replies.refuse(late.peer, late.request, Refusal.SOURCE, why=why)
        for early in self._syncs_after_names.expire():
            self._replies.refuse(early.peer, early.request, Refusal.SOURCE, why=COMPARING_NAMES)

    def _note_peer(self, peer: bytes, policy: Policy | None) -> None:
        if policy is None:
            self._unrestricted.put(peer, None)
        else:
            self._unrestricted.pop(peer, None)

    def _for_peer(self, send: SendTo) -> SendTo:
        if send.peer in self._unrestricted or not isinstance(send.message, Refused):
            return send
        return replace(send, message=plain(send.message))

    def _note_uses(self, tables: Sequence[TableId]) -> None:
        """Note that readers use ``tables``: they stay loaded, and are compared and read first."""
        self._unloading.use(tables)
        for table in tables:
            self._reconciliation.note_use(table)

    def _is_early(self, message: Message) -> bool:
        mode = isinstance(message, Order) and message.order == OrderKind.MODE
        return self._listing.lifecycle is Lifecycle.STARTING and not mode

    def _on_sync(self, peer: bytes, sync: Sync) -> None:
        """Let a sync wait; answer a repeated sync with the objects that it waits for."""
        waiting = self._syncs.get(peer, sync.request)
        if waiting is not None:  # a gap in the events may have come since
            self._loader.hasten(waiting.key[1])
        if (problem := self._differences.source_problem) is not None:
            self._refuse_without_source(peer, sync.request, problem)
        elif waiting is not None:
            why = self._lagging(*waiting.key)
            self._replies.refuse(peer, sync.request, Refusal.LAGGING, why=why)
        elif self._syncs_after_names.get(peer, sync.request) is not None:
            self._replies.refuse(peer, sync.request, Refusal.LAGGING, why=COMPARING_NAMES)
        else:
            self._begin_sync(peer, sync)

    def _begin_sync(self, peer: bytes, sync: Sync) -> None:
        try:
            scope = parse_scope(sync.scope)
        except UsageError as error:
            self._replies.refuse(peer, sync.request, Refusal.CLAIM, why=str(error))
            return
        if self._poller.unproven:
            self._await_names((peer, sync.request), scope)
        else:
            self._await_poll((peer, sync.request), scope)

    def _lagging(self, poll: int, scope: Scope) -> str:
        """Return as text the objects in ``scope`` for which a sync behind ``poll`` still waits."""
        seq = self._syncs.last_seq(poll)
        problem = self._poller.problem()
        if seq is None and problem:
            return f"the metastore does not answer: {problem}"
        if seq is None:
            left = self._poller.unread
            more = f": {left} of them are not read" if left else ""
            return f"the metastore has not sent its events up to now{more}"
        awaited = self._loader.awaited(scope, seq=seq)
        if awaited is None:
            return "events are missing, and catalogd reads the names of all tables again"
        (db, table), count = awaited
        what = table_name(db, table) if table else f"database {db}"
        if (progress := self._loader.large.progress((db, table))) is not None:
            what += f" ({progress[0]} of {progress[1]} partitions are read)"
        if why := self._loader.error((db, table)):
            what += f" (the metastore cannot read it: {why})"
        others = f" and {count - 1} other objects" if count > 1 else ""
        return f"catalogd still reads {what}{others}" + (f": {problem}" if problem else "")

    def _await_names(self, of: RequestId, scope: Scope) -> None:
        number = self._reconciliation.demand()
        if not self._syncs_after_names.add(*of, key=number, value=scope):
            self._refuse_busy(*of)

    def _await_poll(self, of: RequestId, scope: Scope) -> None:
        self._loader.hasten(scope)
        polls = self._loader.polls_begun
        if not self._syncs.add_once(*of, None, scope=scope, polls_begun=polls):
            self._refuse_busy(*of)

    def _refuse_busy(self, peer: bytes, request: int) -> None:
        self._replies.refuse(peer, request, Refusal.BUSY, why="too many syncs wait")

    def _refuse_without_source(self, peer: bytes, request: int, problem: SourceProblem) -> None:
        self._replies.refuse(peer, request, Refusal.NO_EVENTS, why=problem.text)

    def _on_compare(self, peer: bytes, compare: Compare) -> None:
        held = dict(compare.versions)
        try:
            accepted = self._epochs.accepts(epoch=compare.epoch, start=compare.start, held=held)
        except WireError as exc:
            self._replies.refuse(peer, compare.request, Refusal.CLAIM, why=str(exc))
            return
        epoch, start = self._epochs.position
        answer = Compared(request=compare.request, accepted=accepted, epoch=epoch, start=start)
        self._replies.add(peer, answer)

    def _on_grant(self, peer: bytes, grant: Grant, *, client: Client) -> None:
        try:
            lease_s = self.grants.add(client, grant.public, lease_s=grant.lease_s)
        except UsageError as error:
            self._replies.refuse(peer, grant.request, Refusal.CLAIM, why=str(error))
            return
        self._replies.add(peer, Granted(request=grant.request, lease_s=lease_s))

    def _on_lease(self, peer: bytes, lease: Lease) -> None:
        table, lease_s = (lease.db, lease.table), 0
        row = LeaseRow(table=table, holder=lease.holder, owner=lease.owner, lease_s=lease.lease_s)
        try:
            if lease.lease_s:
                lease_s = self._leases.take(row, renew=lease.renew)
            else:
                self._leases.end(table, lease.holder)
        except LeaseHeld as error:
            self._replies.refuse(peer, lease.request, Refusal.HELD, why=str(error))
        except TooManyLeases as error:
            self._replies.refuse(peer, lease.request, Refusal.BUSY, why=str(error))
        else:
            self._replies.add(peer, Leased(request=lease.request, lease_s=lease_s))

    def _on_sweep(self, peer: bytes, sweep: Sweep) -> None:
        try:
            self._replies.add(peer, self._sweeps.apply(sweep))
        except NoSuchObject as error:
            why = str(error)
            self._replies.refuse(peer, sweep.request, Refusal.NO_OBJECT, why=why, about=error.name)
        except UsageError as error:
            self._replies.refuse(peer, sweep.request, Refusal.CLAIM, why=str(error))

    def _refuse_not_visible(self, peer: bytes, request: int, name: str, *, policy: Policy) -> None:
        """Refuse a request about an object that ``policy`` does not see, if it exists or not."""
        why = policy.refusal(name)
        self._replies.refuse(peer, request, Refusal.NOT_VISIBLE, why=why, about=name)

    def _on_validate(self, peer: bytes, validate: Validate) -> None:
        epoch, start = self._epochs.position
        stale = stale_claims(
            self._namespace, self._tables, validate.claims, claimed_in=validate.epoch, epoch=epoch
        )
        answer = Validated(request=validate.request, epoch=epoch, start=start, stale=stale)
        self._replies.add(peer, answer)

    def _on_read(
        self, peer: bytes, asked: Scan | StoreQuestion[Any], policy: Policy | None
    ) -> None:
        """Have the store read, unless ``policy`` does not see the table of the question."""
        try:
            query = self._query(asked, policy)
        except UsageError as error:
            self._replies.refuse(peer, asked.request, Refusal.UNKNOWN, why=str(error))
            return
        if query.table and policy and not is_visible(query.table, policy):
            self._refuse_not_visible(peer, asked.request, table_name(*query.table), policy=policy)
            return
        self._reads.append(ReadStore(peer=peer, request=asked.request, query=query, policy=policy))

    def _query(self, asked: Scan | StoreQuestion[Any], policy: Policy | None) -> StoreQuery:
        """Return the question to the store in ``asked``.

        Raises:
            UsageError: it names no table.
        """
        match asked:
            case ReadSweeps(behind=behind):
                after = parse_table_name(behind) if behind else None
                return SweptTables(self._sweeps.page(after, policy=policy))
            case ReadFiles(behind=behind):
                table = (asked.db, asked.table)
                last = behind[-1] if behind else None
                return SweptFiles(table, self._sweeps.incarnation(table), last)
            case _:
                return query_of(asked)

    def _synced(self, request: int) -> Synced:
        epoch, start = self._epochs.position
        return Synced(
            request=request,
            epoch=epoch,
            start=start,
            event_id=self._poller.watermark,
            versions=self._version_log.versions(),
        )
