"""PullServer: the pulls of all clients, from their arrival until their last part is sent.

    pull ──table is held───▶ its client's turn ──▶ parts, under credit ──▶ last part
      ├────not held────────▶ waits ──loaded, or what is selected is read──▲
      │                        └──1 s──▶ refused, with the progress: sent again
      └─known not to come──▶ refused, with the reason

    selector ──▶ key ranges ──▶ blocks ──▶ those that are stale or missing: the selection
                  └─ unknown: the selector is tried on the names of each block

    selection ──▶ parts, each of a few blocks ──byte limit of the page──▶ last part: cursor
              │   or a piece of a value       └─ nothing is left ──▶ last part
              └──▶ refused, if a value is too large for one part, and the client takes no pieces

Each step is fair between clients: loads, answers that begin, and parts that are sent. Claims of
clients about tables are answered from the same tables.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from ...topics.errors import StaleMetadata, UsageError
from ...topics.histogram import Histogram, HistogramFacts
from ...topics.objects.encoding.values import LOADING, decode_block, encode_listing
from ...topics.objects.names import TableId, block_lead, table_key, table_name
from ...topics.objects.selector import ALL, TABLE_ONLY, KeyRange, Matches
from ...topics.streams.sender import REFUSAL_COST, RETRY_MS, Part, Sender, SendTo, pulled_cost
from ...topics.topic import VALUE, Entry, Topic, value_of
from ...topics.turn import PartTurn
from ...topics.wire.codec import is_large, row_bytes
from ...topics.wire.header import CHUNK_BYTES_MAX, PIECE_BYTES_MAX
from ...topics.wire.messages.catalog import Claimed, Pull, Pulled
from ...topics.wire.messages.connection import Refused
from ...topics.wire.refusal import Refusal, refuse
from ..ingest.events.poller import Poller
from ..ingest.loads.loader import Loader
from ..model.namespace import Namespace
from ..model.tables import Tables
from .pending import FairQueue, PendingRequests, TableWaits
from .replies import Replies

QUEUED_MAX: Final = 10_000
QUEUED_PER_PEER_MAX: Final = 1_000
PARTS_BYTES_MAX: Final = 1 << 20  # sent in one turn, before deltas have their turn
OPENED_MAX: Final = 8  # pulls that begin to be answered in one turn: 0.05 to 3 ms each
STREAMS_MAX: Final = 256  # open at once; each knows the entries that it will send
TIMED_MAX: Final = 2 * QUEUED_MAX  # pulls that are timed: as many wait as are being sent, at most
STALLED_S: Final = 30.0  # without credit: the client is gone, or pulls again
QUEUED_RETRY_MS: Final = 100  # and one ms more for each pull that is queued before it
NOT_LOADED_RETRY_MS: Final = 50  # the pull keeps its place here, so it may come again soon
LOOKED_MAX: Final = 32  # blocks read for one part: 30 µs each, of a turn's 2 ms
ANSWER_BYTES_MAX: Final = 64 << 20  # of one page; the client continues where it ends

Piece = tuple[Pulled, int, bool]
"""A part without its number, the index of the entry after it, and whether the part is the last."""


class PullServer:
    """Answers pulls from what is held, and has loaded what is not."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        loader: Loader,
        poller: Poller,
        replies: Replies,
        turn: PartTurn[SendTo],
    ) -> None:
        self._namespace = namespace
        self._tables = tables
        self._loader = loader
        self._poller = poller
        self._replies = replies
        self._turn = turn
        self._waits = TableWaits(turn)
        self._requested = False  # a load, since reads were last begun
        self._queue: FairQueue[Pull] = FairQueue(  # to be answered; none of them waits
            items_max=QUEUED_MAX, per_peer_max=QUEUED_PER_PEER_MAX
        )
        self._sender = Sender(turn, STREAMS_MAX)
        self._arrived_at: PendingRequests[None, float] = PendingRequests(
            turn, requests_max=TIMED_MAX
        )
        """When each pull arrived, until it is answered or refused."""
        self._times = Histogram()

    @property
    def times(self) -> HistogramFacts:
        """The seconds from the arrival of pulls until their last part was sent."""
        return self._times.facts()

    def __len__(self) -> int:
        return len(self._waits) + len(self._queue)

    @property
    def ready(self) -> bool:
        """Whether a turn has something to send, or to read."""
        return self._sender.ready or self._requested or self._queue.has_item(self._sender.may_open)

    @property
    def deadline(self) -> float:
        """When the next pull has waited too long, or a stream without credit ends or gives way."""
        gives_way_at = self._sender.gives_way_at if len(self._queue) else inf
        return min(self._waits.deadline, self._sender.stalled_at + STALLED_S, gives_way_at)

    def on_pull(self, peer: bytes, pull: Pull) -> None:
        """Take a pull in; a pull that is sent again under its id begins anew."""
        self._sender.cancel(peer, pull.request)
        if self._arrived_at.get(peer, pull.request) is None:
            self._arrived_at.add(peer, pull.request, key=None, value=self._turn.now)
        if self._is_held(pull):
            self._waits.remove(peer, pull.request)
            self._enqueue(peer, pull)
            return
        self._queue.remove(peer, pull.request)
        if self._refuse_known(peer, pull):
            self._waits.remove(peer, pull.request)
        elif self._waits.add(peer, pull):
            self._load_some()
        else:
            self._refuse(peer, pull, Refusal.BUSY, why="too many pulls wait")

    def on_credit(self, peer: bytes, stream: int, amount: int) -> None:
        """Let a stream send ``amount`` bytes more."""
        self._sender.credit(peer, stream, amount)

    def cancel(self, peer: bytes, request: int) -> None:
        """End the answer to ``request``."""
        self._sender.cancel(peer, request)
        self._waits.remove(peer, request)
        self._queue.remove(peer, request)
        self._arrived_at.remove(peer, request)

    def remove_peer(self, peer: bytes) -> None:
        """Drop the pulls of ``peer``, which has left."""
        self._sender.remove_peer(peer)
        self._waits.remove_peer(peer)
        self._queue.remove_peer(peer)
        self._arrived_at.remove_peer(peer)

    def awaits(self, table: TableId) -> bool:
        """Return whether a pull waits for ``table``."""
        return self._waits.awaits(table)

    def on_unreadable(self, table: TableId, error: str) -> None:
        """Refuse the pulls that wait for a table that cannot be read."""
        for one in self._waits.take(table):
            self._refuse(one.peer, one.value, Refusal.UNREADABLE, why=_unreadable(table, error))

    def step(self, *, position: tuple[int, int]) -> None:
        """Begin loads and answers that may begin; ``position``: epoch and start.

        Refuse the pulls that have waited too long, or that cannot be answered any more.
        """
        self._requested = False
        for table in self._waits.tables():
            self._end_waits(table)
        for one in self._waits.expire():
            why = self._progress(one.key)
            self._refuse(
                one.peer, one.value, Refusal.NOT_LOADED, why=why, retry_ms=NOT_LOADED_RETRY_MS
            )
        self._load_some()
        self._open_some(position)
        for peer, request in self._sender.end_stalled(STALLED_S):
            self._arrived_at.remove(peer, request)

    def send(self) -> None:
        """Send the next parts."""
        for sent in self._sender.send_some(PARTS_BYTES_MAX):
            self._turn.add(sent)
            message = sent.message
            if isinstance(message, Refused) or (isinstance(message, Pulled) and message.last):
                arrived = self._arrived_at.remove(sent.peer, message.request)
                if arrived is not None and isinstance(message, Pulled):
                    self._times.add(max(self._turn.now - arrived.value, 0.0))

    def check(self) -> None:
        """Assert every invariant."""
        self._waits.check()
        self._arrived_at.check()
        assert len(self._arrived_at) <= len(self) + len(self._sender)
        assert len(self._sender) <= STREAMS_MAX

    def _is_held(self, pull: Pull) -> bool:
        table = (pull.db, pull.table)
        itself, whole = held(self._namespace, self._tables, table)
        selector = pull.selector
        if whole or not itself or selector in (TABLE_ONLY, ALL):
            return itself if selector == TABLE_ONLY else whole
        try:
            columns = self._tables.partition_columns(table)
            return self._loader.large.has_confirmed(table, selector, columns)
        except UsageError:
            return True  # refused with the reason when it is to be answered

    def _end_waits(self, table: TableId) -> None:
        """Go on with the pulls whose table was loaded, or has turned out not to fit."""
        itself, _ = held(self._namespace, self._tables, table)
        rejected = table in self._tables.rejected_why
        if itself or rejected:
            ends = lambda pull: rejected or self._is_held(pull) or bool(self._bad(pull))  # noqa: E731
            for one in self._waits.take(table, ends):
                if self._is_held(one.value) or not self._refuse_known(one.peer, one.value):
                    self._enqueue(one.peer, one.value)

    def _enqueue(self, peer: bytes, pull: Pull) -> None:
        if not self._queue.put(peer, pull.request, pull):
            why = "too many pulls wait for their turn"
            retry_ms = QUEUED_RETRY_MS + len(self._queue)
            self._refuse(peer, pull, Refusal.BUSY, why=why, retry_ms=retry_ms)

    def _open_some(self, position: tuple[int, int]) -> None:
        """Begin to answer some pulls, one client after the other."""
        for _ in range(OPENED_MAX):
            found = self._queue.take(self._sender.may_open)
            if found is None:
                return
            peer, pull = found
            try:
                parts = answer(self._namespace, self._tables, pull, position=position)
            except UsageError as error:
                why = f"{table_name(pull.db, pull.table)}: {error}"
                self._refuse(peer, pull, Refusal.FILTER, why=why)
                continue
            if ended := self._sender.make_room(peer):
                self._arrived_at.remove(*ended)
            busy = self._sender.open(peer, pull.request, credit=pull.credit, parts=parts)
            assert busy is None, "there is room"

    def _load_some(self) -> None:
        """Request loads for the pulls that wait, one client after the other."""
        self._waits.load_again(self._loader.pending)
        while (table := self._waits.next_load()) is not None:
            self._loader.load(table, urgent=True)
            self._requested = True

    def _refuse_known(self, peer: bytes, pull: Pull) -> bool:
        """Refuse a pull that is known to be in vain now, and say why; False if it is not."""
        table = (pull.db, pull.table)
        rejected, unread = self._tables.rejected_why.get(table, ""), self._loader.error(table)
        away, bad = self._away(), self._bad(pull)
        if rejected:
            why = f"{table_name(*table)} cannot be held: {rejected}"
            self._refuse(peer, pull, Refusal.UNREADABLE, why=why)
        elif unread or bad:
            self._refuse(peer, pull, Refusal.UNREADABLE, why=_unreadable(table, unread or bad))
        elif away:
            self._loader.load(table, urgent=True)  # the next pull finds it, if it can be read
            self._refuse(peer, pull, Refusal.SOURCE, why=away)
        return bool(rejected or unread or bad or away)

    def _bad(self, pull: Pull) -> str:
        """Return which partition that ``pull`` selects cannot be read, and why; else nothing."""
        table = (pull.db, pull.table)
        if pull.selector == TABLE_ONLY:
            return ""
        if pull.selector == ALL:
            return self._loader.large.bad_of(table, None, ())
        try:
            columns = self._tables.partition_columns(table)
            return self._loader.large.bad_of(table, pull.selector, columns)
        except UsageError:
            return ""  # it is refused with the reason when it is to be answered

    def _away(self) -> str:
        """Return why nothing can be loaded now; empty if it can."""
        if self._poller.error:
            return f"the metastore does not answer: {self._poller.error}"
        paused = self._poller.paused
        return f"what is not held is not read now: {paused}" if paused else ""

    def _progress(self, table: TableId) -> str:
        known = self._loader.large.progress(table)
        more = f": {known[0]} of {known[1]} partitions read" if known else ""
        return f"{table_name(*table)} is not loaded yet{more}"

    def _refuse(
        self, peer: bytes, pull: Pull, code: Refusal, *, why: str, retry_ms: int = RETRY_MS
    ) -> None:
        self._arrived_at.remove(peer, pull.request)
        self._replies.refuse(peer, pull.request, code, why=why, retry_ms=retry_ms)


def _unreadable(table: TableId, error: str) -> str:
    return f"{table_name(*table)}: the metastore cannot read it: {error}"


def held(namespace: Namespace, tables: Tables, table: TableId) -> tuple[bool, bool]:
    """Return whether a table itself, and its partitions too, can be answered from memory."""
    record = namespace.find(table)
    if record is None:
        return True, True  # the answer is that there is none
    value = tables.value(table)
    if value is None or value.incarnation != record.incarnation:
        return False, False
    return True, value.partitions != LOADING


def stale_claims(
    namespace: Namespace,
    tables: Tables,
    claims: Iterable[Claimed],
    *,
    claimed_in: int,
    epoch: int,
) -> tuple[tuple[int, int], ...]:
    """Return the indices of the claims that do not hold, or that catalogd cannot confirm.

    Each comes with the lowest version for which its claim would hold now, 0 if there is none.

    Args:
        claimed_in: The epoch of the versions that are claimed.
        epoch: The current epoch.

    Cost: O(claims), whatever the tables hold.
    """
    found = []
    for index, claim in enumerate(claims):
        least, newest = _true_versions(namespace, tables, claim)
        if claimed_in != epoch or not 0 < least <= claim.version <= newest:
            found.append((index, least))
    return tuple(found)


def _true_versions(namespace: Namespace, tables: Tables, claim: Claimed) -> tuple[int, int]:
    """Return the lowest and the highest version for which ``claim`` holds; (0, 0) if none.

    A version above the highest comes from a store that was lost, even if it claims this epoch.
    """
    table = (claim.db, claim.table)
    record, value, entry = namespace.find(table), tables.value(table), tables.entry(table)
    if record is None or value is None or entry is None:
        return 0, 0
    if value.incarnation != record.incarnation:
        return 0, 0
    _, topic = tables.topic_of(table)
    if not claim.whole:
        return entry.version, topic.version
    changed = topic.changed_at(table_key(*table))
    return max(changed, topic.floor), topic.version  # deletions below it are not recorded


@dataclass(frozen=True, slots=True)
class Selection:
    """The entries in the order of their keys, without those that the client holds as they are.

    ``matches`` None: every partition is selected. ``unsure``: not all blocks among ``entries``
    hold a selected partition; blocks in ``held`` are sent even so: the client's block is older.
    ``entries`` may be without their values: these are read from ``topic`` a part at a time.
    """

    topic: Topic
    entries: Sequence[Entry]
    gone: tuple[bytes, ...] = ()
    matches: Matches | None = None
    unsure: bool = False
    held: frozenset[bytes] = frozenset()

    def needs(self, entry: Entry) -> bool:
        """Return whether ``entry``, one of ``entries``, is to be sent. Cost: 30 µs if unsure."""
        if not self.unsure or entry.key in self.held or not _is_block(entry):
            return True
        return bool(self.names_in(entry))

    def filled(self, heads: Sequence[Entry]) -> Sequence[Entry]:
        """Return ``heads``, some of ``entries``, with their values.

        Raises:
            StaleMetadata: an entry has changed since the selection was made.
        """
        found = self.topic.filled(heads)
        if any(entry.value is None for entry in found):
            raise StaleMetadata(f"a block changed while it was read: {found[0].key!r}")
        return found

    def names_in(self, head: Entry) -> Sequence[str]:
        """Return the names in a block that are selected."""
        (entry,) = self.filled((head,))
        assert entry.value is not None
        names = decode_block(entry.value, entry.version).names
        return names if self.matches is None else [name for name in names if self.matches(name)]


def select(tables: Tables, pull: Pull) -> Selection:
    """Return what ``pull`` selects of its table, which exists.

    Raises:
        UsageError: its filter or values are not for this table.

    Cost: O(log of all blocks + selected + held); O(all blocks) if no bound says what is selected.
    """
    table = (pull.db, pull.table)
    group, (_, topic) = table_key(*table), tables.topic_of(table)
    own = topic.head(group)
    if own is None or own.kind != VALUE:
        return Selection(topic, (), gone=tuple(key for key, _ in pull.held))
    selector, columns = pull.selector, tables.partition_columns(table)
    bounds = () if selector == TABLE_ONLY else tables.bounds(table)
    matches, ranges = selector.matches(columns), selector.ranges(columns)
    unsure = matches is not None and ranges is None
    lead = block_lead(group)
    blocks = [topic.head(lead + bounds[at].encode()) for at in _positions(ranges, bounds)]
    found = [entry for entry in blocks if entry is not None and entry.key >= pull.after]
    if pull.names_only:
        return Selection(topic, found, matches=matches)
    if not pull.after:
        found.insert(0, own)
    held = dict(pull.held)
    entries = [entry for entry in found if held.get(entry.key) != entry.version]
    gone: list[bytes] = []  # named in the first page of an answer
    if held and not pull.after:
        coming = {entry.key for entry in entries}
        gone = [
            key
            for key in held
            if key not in coming
            and not (key.startswith(group) and _is_current(topic, key, held[key]))
        ]
    return Selection(topic, entries, tuple(gone), matches, unsure, frozenset(held))


def _positions(ranges: Sequence[KeyRange] | None, bounds: Sequence[str]) -> Sequence[int]:
    """Return the positions of the blocks that reach into ``ranges``, which are sorted."""
    if ranges is None:
        return range(len(bounds))
    found: dict[int, None] = {}
    for low, high in ranges:
        begin = max(bisect_right(bounds, low) - 1, 0)
        found.update(dict.fromkeys(range(begin, bisect_left(bounds, high))))
    return tuple(found)


def _is_current(topic: Topic, key: bytes, version: int) -> bool:
    entry = topic.head(key)
    return entry is not None and entry.version == version


def _is_block(entry: Entry) -> bool:
    return not entry.key.endswith(b"\0")  # which a bound does not, and a table's own key does


def answer(
    namespace: Namespace, tables: Tables, pull: Pull, *, position: tuple[int, int]
) -> Iterator[Part]:
    """Return the parts of the answer to ``pull`` as of now; all are of one topic version.

    ``position`` is (epoch, start). One part refuses it if a value can only come in pieces.

    Raises:
        UsageError: the selection is malformed, or not for this table.
    """
    table = (pull.db, pull.table)
    number, topic = tables.topic_of(table)
    record = namespace.find(table)
    epoch, start = position

    def stale(claims: tuple[Claimed, ...]) -> tuple[int, ...]:
        found = stale_claims(namespace, tables, claims, claimed_in=pull.epoch, epoch=epoch)
        return tuple([index for index, _ in found])

    like = Pulled(
        request=pull.request,
        sequence=0,
        last=True,
        found=record is not None,
        epoch=epoch,
        start=start,
        topic=number,
        topic_version=topic.version,
        namespace_version=namespace.version,
        incarnation=record.incarnation if record else 0,
        gone=(),
        entries=(),
        stale=stale(pull.claims),
    )
    if record is None:
        return iter([(pulled_cost(like), like)])
    unchanged = Claimed(db=pull.db, table=pull.table, version=pull.version, whole=True)
    if pull.version and stale((unchanged,)):
        return iter([(pulled_cost(like), replace(like, moved=True))])
    selection, cut = select(tables, pull), _name_pieces if pull.names_only else _block_pieces
    cap = min(pull.bytes_max or ANSWER_BYTES_MAX, ANSWER_BYTES_MAX)
    return _numbered(selection, cut(selection, like, cap), pull.request)


def _numbered(selection: Selection, pieces: Iterator[Piece], request: int) -> Iterator[Part]:
    """Yield the parts of ``pieces`` with their numbers, the last piece with its cursor.

    All parts are of one version: if a block that is not in memory has changed, the rest is refused.
    """
    entries = selection.entries
    try:
        for sequence, (piece, end, last) in enumerate(pieces):
            gone = () if sequence else selection.gone
            cursor = entries[end].key if last and end < len(entries) else b""
            part = replace(piece, sequence=sequence, last=last, gone=gone, cursor=cursor)
            yield pulled_cost(part), part
    except StaleMetadata as error:
        refused = refuse(Refusal.RETRY, str(error), request=request, retry_ms=RETRY_MS)
        yield REFUSAL_COST, refused


def _block_pieces(selection: Selection, like: Pulled, cap: int) -> Iterator[Piece]:
    """Yield the entries of ``selection`` in pieces like ``like``, up to ``cap`` bytes of them."""
    entries, end, spent, last = selection.entries, 0, 0, False
    while not last:
        begin, size, full, picked = end, 0, False, []
        while end < len(entries) and (not selection.unsure or end - begin < LOOKED_MAX):
            takes = row_bytes(entries[end]) + _cold_bytes(entries[end])
            full = spent > 0 and spent + takes > cap
            if full or (size and size + takes >= CHUNK_BYTES_MAX):
                break
            if selection.needs(entries[end]):
                picked.append(entries[end])
                size += takes
                spent += takes
            end += 1
        last = full or end == len(entries)
        for some, final in _messages(selection.filled(picked)):
            yield replace(like, entries=some), end, last and final


def _cold_bytes(entry: Entry) -> int:
    """Return the bytes of a value that is not in memory."""
    return 0 if entry.value is not None else entry.size


def _messages(picked: Sequence[Entry]) -> Iterator[tuple[tuple[Entry, ...], bool]]:
    """Yield ``picked``, a large entry alone in pieces, and whether that is the rest."""
    if not any(map(is_large, picked)):
        yield tuple(picked), True
        return
    (entry,) = picked  # it takes more than a part
    value = value_of(entry)
    for at in range(0, len(value), PIECE_BYTES_MAX):
        end = at + PIECE_BYTES_MAX
        yield (entry._replace(value=value[at:end]),), end >= len(value)


def _name_pieces(selection: Selection, like: Pulled, cap: int) -> Iterator[Piece]:
    """Yield the names in ``selection`` in pieces like ``like``, up to ``cap`` bytes of them."""
    entries, end, spent, last = selection.entries, 0, 0, False
    while not last:
        begin, end = end, min(end + LOOKED_MAX, len(entries))
        names = [name for entry in entries[begin:end] for name in selection.names_in(entry)]
        listing = encode_listing(names)
        spent += len(listing)
        last = spent >= cap or end == len(entries)
        yield replace(like, names=listing), end, last
