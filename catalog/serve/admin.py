"""AdminOrders: what operators tell catalogd to do, and who waits until it is done.

    mode, drivers          ▶ at once
    invalidate, refresh    ▶ a job, by steps ▶ done

For a database, or for everything, the names are listed first, unless only data has changed.
Invariant: an order is refused before anything is changed, or obeyed to its end.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...topics.errors import ConfigError, NoSuchObject, UsageError
from ...topics.objects.names import check_partition_name, database_key, parse_table_name
from ...topics.objects.rules import rule_of, with_rule
from ...topics.offers import offers_in_words
from ...topics.wire.messages import Inspected, Message, Order, OrderKind, Refused
from ...topics.wire.refusal import Refusal
from ..ingest.loader import Withdraw
from ..ingest.poller import Poller
from ..ingest.reads import NamesFailed, NamesRead, ReadNames
from ..model.namespace import Namespace
from ..model.transactions import OrderRow
from ..publish.backfill import Backfill
from ..publish.modes import Mode, overrides_text, parse_mode
from .admin_jobs import INVALIDATE, REFRESH, Job, Jobs

MODE: Final = OrderKind.MODE
DRIVERS: Final = OrderKind.DRIVERS
ORDERS: Final = (MODE, DRIVERS, INVALIDATE, REFRESH)
DATA: Final = "data"  # behind the object that is refreshed

JOBS_MAX: Final = 100
STILL_S_MAX: Final = 60.0  # without a step forward: the metastore does not answer
RETRY_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What orders reach beside their jobs: the mode is turned, a database is not left out."""

    turn: Callable[[Mode], bool]
    follows: Callable[[str], bool]


class AdminOrders:
    """The orders that were given and are not done."""

    def __init__(
        self,
        namespace: Namespace,
        jobs: Jobs,
        *,
        poller: Poller,
        backfill: Backfill,
        hands: Hands,
    ) -> None:
        self._namespace = namespace
        self._jobs = jobs
        self._poller = poller
        self._backfill = backfill
        self._hands = hands
        self._open: dict[int, Job] = {}
        self._numbers = 0
        self._to_list: list[ReadNames] = []
        self._given: list[tuple[str, str, str]] = []  # who, order, of what
        self._answers: list[tuple[bytes, Message]] = []

    def __len__(self) -> int:
        return len(self._open)

    @property
    def ready(self) -> bool:
        """Whether a turn has something to do without a new fact."""
        return any(job.tables is not None and job.seq is None for job in self._open.values())

    def ask(self, peer: bytes, order: Order, *, now: float, at_us: int) -> None:
        """Take an order in; what is wrong with it is answered at once."""
        if any((job.peer, job.request) == (peer, order.request) for job in self._open.values()):
            return  # asked again
        try:
            if order.order == MODE:
                self._turn(peer, order)
            elif order.order == DRIVERS:
                self._rule(peer, order, at_us=at_us)
            elif order.order in ORDERS:
                self._begin(peer, order, now=now)
            else:
                raise UsageError(f"no order {order.order!r}: {', '.join(ORDERS)}")
        except NoSuchObject as error:
            self._refuse(peer, order.request, Refusal.NO_OBJECT, why=str(error))
        except (UsageError, ConfigError) as error:
            self._refuse(peer, order.request, Refusal.ORDER, why=str(error))

    def listings(self) -> list[ReadNames]:
        """Hand over what is to be listed."""
        to_list, self._to_list = self._to_list, []
        return to_list

    def listed(self, fact: NamesRead | NamesFailed, *, now: float) -> None:
        """Learn the names that a job waits for."""
        job = self._open.get(fact.job)
        if job is None:
            return
        if isinstance(fact, NamesFailed):
            self._end(job, refusal=(Refusal.SOURCE, f"the metastore does not answer: {fact.error}"))
            return
        job.still_since = now
        found = {db: rows for db, rows in fact.databases.items() if self._hands.follows(db)}
        if not self._jobs.begin(job, found):
            self._end(job, refusal=(Refusal.NO_OBJECT, str(NoSuchObject(job.db))))

    def withdrawn(self, effect: Withdraw) -> None:
        """Learn that a table cannot be read."""
        table = (effect.db, effect.table)
        for job in self._open.values():
            if table in job.asked:
                job.failed[table] = effect.error

    def forget(self, peer: bytes) -> None:
        """Answer ``peer`` no more; what it ordered is done all the same."""
        for job in self._open.values():
            if job.peer == peer:
                job.peer = b""

    def step(self, *, now: float, at_us: int) -> None:
        """Go on with each job by one step."""
        for job in tuple(self._open.values()):
            if not self._jobs.waits(job):
                job.still_since = now
                if self._jobs.step(job, at_us=at_us):
                    self._done(job)
            elif now >= job.still_since + STILL_S_MAX:
                why = f"the metastore does not answer: {self._poller.error or 'it is slow'}"
                self._end(job, refusal=(Refusal.SOURCE, why))

    def given(self, at_us: int) -> tuple[OrderRow, ...]:
        """Hand over what was ordered, for the history."""
        given, self._given = self._given, []
        return tuple(OrderRow(who=w, order=o, object=of, at_us=at_us) for w, o, of in given)

    def answers(self) -> list[tuple[bytes, Message]]:
        """Hand over the answers, which may leave once everything is committed."""
        answers, self._answers = self._answers, []
        return answers

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._open) <= JOBS_MAX
        assert all(job.number == number for number, job in self._open.items())

    def _turn(self, peer: bytes, order: Order) -> None:
        if len(order.arguments) > 2:
            raise UsageError("mode takes a mode and its overrides")
        mode = self._backfill.mode
        if order.arguments:
            name, *more = order.arguments
            mode = parse_mode(name, more[0] if more else overrides_text(mode))
            self._hands.turn(mode)
            overrides = overrides_text(mode)
            self._given.append((order.who, MODE, f"{name} {overrides}".strip()))
        facts: dict[str, str | int] = {
            "mode": mode.name,
            "overrides": overrides_text(mode),
            "offers": offers_in_words(mode.offers),
            "topics_to_touch": self._backfill.topics_left,
        }
        self._answer(peer, order.request, facts)

    def _rule(self, peer: bytes, order: Order, *, at_us: int) -> None:
        if len(order.arguments) > 2:
            raise UsageError("drivers takes a state and a pattern of applications")
        rules = self._namespace.rules()
        if order.arguments:
            rule = rule_of(*order.arguments)
            rules = with_rule(rules, rule)
            self._namespace.rule(rules, at_us=at_us)
            self._given.append((order.who, DRIVERS, f"{rule.state} {rule.pattern}"))
        self._answer(peer, order.request, {one.pattern: one.state for one in rules})

    def _begin(self, peer: bytes, order: Order, *, now: float) -> None:
        db, table, partition = self._object(order)
        if len(self._open) >= JOBS_MAX:
            why = f"{JOBS_MAX} orders are being obeyed: ask again"
            self._refuse(peer, order.request, Refusal.BUSY, why=why, retry_ms=RETRY_MS)
            return
        self._numbers += 1
        job = Job(
            number=self._numbers,
            peer=peer,
            request=order.request,
            order=order.order,
            db=db,
            table=table,
            partition=partition,
            data=len(order.arguments) > 1,
            still_since=now,
        )
        self._open[job.number] = job
        self._given.append(
            (order.who, order.order, f"{job.object} {DATA}" if job.data else job.object)
        )
        if table:
            job.tables, job.found = deque([(db, table)]), frozenset([(db, table)])
        elif job.data and self._namespace.knows(db):
            self._jobs.know(job)
        else:
            self._to_list.append(ReadNames(job=job.number, db=db))

    def _object(self, order: Order) -> tuple[str, str, str]:
        _, *more = order.arguments or ("",)
        if more and (order.order, more) != (REFRESH, [DATA]):
            raise UsageError(f"{order.order} takes one object, or none: everything")
        db, table, partition = _parts(order.arguments[0] if order.arguments else "")
        if more and not db:
            raise UsageError("data of everything: name a database, a table or a partition")
        if db and not self._hands.follows(db):
            raise UsageError(f"database {db} is left out (--blacklisted_dbs)")
        must_be = table and (partition or order.order == INVALIDATE)
        if must_be and self._namespace.find((db, table)) is None:
            if not more:
                raise NoSuchObject(f"{db}.{table}")
            partition = ""  # a table that is as new as this is read as a whole
        return db, table, partition

    def _done(self, job: Job) -> None:
        if self._jobs.missing(job):
            self._end(job, refusal=(Refusal.NO_OBJECT, str(NoSuchObject(job.object))))
        elif job.failed and job.table:
            error = job.failed[job.db, job.table]
            self._end(
                job,
                refusal=(Refusal.SOURCE, f"the metastore cannot read {job.object}: {error}"),
            )
        else:
            self._end(job)

    def _end(self, job: Job, *, refusal: tuple[Refusal, str] | None = None) -> None:
        del self._open[job.number]
        if refusal is not None:
            code, why = refusal
            retry_ms = RETRY_MS if code.retriable else 0
            self._refuse(job.peer, job.request, code, why=why, retry_ms=retry_ms)
            return
        facts: dict[str, str | int] = {
            "order": job.order,
            "object": job.object,
            "tables": job.done,
            "failed": len(job.failed),
        }
        self._answer(job.peer, job.request, facts)

    def _answer(self, peer: bytes, request: int, facts: dict[str, str | int]) -> None:
        if peer:
            rows = Inspected(request=request, columns=("name", "value"), rows=tuple(facts.items()))
            self._answers.append((peer, rows))

    def _refuse(self, peer: bytes, request: int, code: str, *, why: str, retry_ms: int = 0) -> None:
        if peer:
            refused = Refused(request=request, code=code, message=why, retry_ms=retry_ms)
            self._answers.append((peer, refused))


def _parts(text: str) -> tuple[str, str, str]:
    """Return database, table and partition of what an operator wrote; empty where not named."""
    name, slash, partition = text.partition("/")
    if slash:
        check_partition_name(partition)
    if "." in name or slash:
        return (*parse_table_name(name), partition)
    database_key(name)  # refuses what no name may hold
    return name.lower(), "", ""
