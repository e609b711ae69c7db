"""What each release's events make dirty: those that its server has recorded for every operation.

The corpus is made by tests/hive/record.py. What its events make dirty stands in dirty.txt, which
``pytest --rewrite`` writes anew: read the difference like code. Whatever becomes of an event on its
way, reading it again whole, and nothing else, comes of it.
"""

import gzip
import json
import time
import tracemalloc
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import pytest

from topicast.catalog.ingest.events.actions import TRANSACTIONS, dirty_objects, is_known
from topicast.catalog.ingest.events.transactions import Transactions
from topicast.catalog.metastore.port import (
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    RawEvent,
)
from topicast.tests.hive import releases
from topicast.tests.hive.operations import DB

CORPUS: Final = Path(__file__).parent / "corpus"
RELEASES: Final = sorted(path.name.removesuffix(".jsonl.gz") for path in CORPUS.glob("*.gz"))
SNAPSHOT: Final = CORPUS / "dirty.txt"
TYPES: Final[dict[str, list[str]]] = json.loads(
    (Path(releases.__file__).parent / "event_types.json").read_text("utf-8")
)
OURS: Final = {DB.lower(), "brief"}  # the databases of the corpus
DAMAGED: Final = 20  # times that each event is damaged, in another way each time
SECONDS_MAX = 1.0  # for one event, of whatever content
BOMB_BYTES: Final = 64 << 20  # what a message of 64 KB holds once it is unpacked
PEAK_BYTES_MAX: Final = 5 * BOMB_BYTES


def recorded(release: str) -> list[tuple[str, RawEvent]]:
    """Return the events of ``release``, each with its operation, as they were sent."""
    found = []
    for line in gzip.decompress((CORPUS / f"{release}.jsonl.gz").read_bytes()).splitlines():
        row = json.loads(line)
        found.append((row["operation"], raw(row)))
    return found


def raw(row: dict[str, str]) -> RawEvent:
    message = row["message"]
    if row["format"].startswith("gzip"):
        message = packed(message.encode())
    return RawEvent(
        id=int(row["id"]),
        type=row["type"],
        db=row["db"],
        table=row["table"],
        catalog=row["catalog"],
        message=message,
        message_format=row["format"],
    )


def packed(message: bytes) -> str:
    return b64encode(gzip.compress(message, 1, mtime=0)).decode()


def all_dirty(events: list[RawEvent]) -> list[tuple[Dirty, ...]]:
    transactions = Transactions()
    return [objects_of(event, transactions) for event in events]


def objects_of(event: RawEvent, transactions: Transactions) -> tuple[Dirty, ...]:
    if event.type in TRANSACTIONS:
        return transactions.dirty_objects(event)
    return dirty_objects(event)


def told(dirty: Dirty) -> str:
    """Return what is dirty in a few words."""
    if isinstance(dirty, DirtyPartitions):
        return f"{dirty.db}.{dirty.table} {list(dirty.names)}{' data' if dirty.data else ''}"
    if isinstance(dirty, DirtyDatabase):
        return dirty.db + (" degraded" if dirty.degraded else "")
    flags = [name for name in ("whole", "dropped", "data", "degraded") if getattr(dirty, name)]
    return " ".join([f"{dirty.db}.{dirty.table}", *flags])


def test_every_operation_of_every_release_makes_dirty_what_it_changes(
    pytestconfig: pytest.Config,
) -> None:
    lines = []
    for release in RELEASES:
        operations, events = zip(*recorded(release), strict=True)
        lines.append(f"# {release}")
        for name, event, dirty in zip(operations, events, all_dirty(list(events)), strict=True):
            lines.append(f"{name}: {event.type}: {'; '.join(map(told, dirty)) or 'nothing'}")
    text = "\n".join([*lines, ""])
    if pytestconfig.getoption("--rewrite"):
        SNAPSHOT.write_text(text, encoding="utf-8")
    assert SNAPSHOT.read_text("utf-8") == text, "pytest --rewrite, and read the difference"


@pytest.mark.parametrize("release", RELEASES)
def test_no_event_of_a_release_is_degraded(release: str) -> None:
    found = all_dirty([event for _, event in recorded(release)])
    assert not [told(one) for dirty in found for one in dirty if "degraded" in told(one)]


@pytest.mark.parametrize("release", TYPES)
def test_every_type_that_a_release_can_record_has_an_action_or_is_skipped(release: str) -> None:
    """The types are those of its own classes: see tests/hive/event_types.py."""
    assert [kind for kind in TYPES[release] if not is_known(kind)] == []
    assert len(TYPES[release]) >= 14


def damaged(event: RawEvent, other: RawEvent, rng: Random) -> RawEvent:
    """Return ``event`` with a message that was cut, changed, spliced, or is another's."""
    message = bytearray(event.message, "utf-8")
    at = rng.randrange(len(message))
    match rng.randrange(6):
        case 0:
            del message[at:]
        case 1:
            message[at] ^= 1 << rng.randrange(7)
        case 2:
            message[at:at] = rng.choice(
                (b"[" * 5_000, b'"', b"null", b"{}", b"\\u0000", b"9" * 400)
            )
        case 3:
            message[at:] = other.message.encode()[rng.randrange(len(other.message) or 1) :]
        case 4:
            return replace(event, type=other.type)
        case _:
            whole = json.loads(
                event.message if event.message_format == "json-0.2" else _unpacked(event)
            )
            field = rng.choice(sorted(whole))
            whole[field] = rng.choice((None, [], {}, 1, "", "x", ["x"], [{}], True, "{}", "[[[["))
            text = json.dumps(whole)
            is_gzip = event.message_format != "json-0.2"
            return replace(event, message=packed(text.encode()) if is_gzip else text)
    return replace(event, message=message.decode("utf-8", "replace"))


def _unpacked(event: RawEvent) -> str:
    return gzip.decompress(b64decode(event.message)).decode()


@pytest.mark.parametrize("release", RELEASES)
def test_damaged_event_makes_dirty_at_most_what_it_names(release: str) -> None:
    """Whatever it says; what other events named is read again at most where a commit is damaged."""
    rng = Random(release)
    events = [event for _, event in recorded(release)]
    for event in events * DAMAGED:
        broken = damaged(event, rng.choice(events), rng)
        transactions = Transactions()
        began = time.monotonic()
        for _ in range(2):  # a transaction begins, and ends
            found = objects_of(broken, transactions)
            transactions.check()
        assert time.monotonic() - began < SECONDS_MAX, broken
        for dirty in found:
            assert isinstance(dirty, DirtyDatabase | DirtyTable | DirtyPartitions)
            assert dirty.db
            assert isinstance(dirty, DirtyDatabase) or dirty.table


@pytest.mark.parametrize("filling", [b" ", b"[", b'{"a":'])
def test_bomb_in_gzip_is_read_within_its_time_and_its_memory(filling: bytes) -> None:
    whole = filling * (BOMB_BYTES // len(filling))
    bomb = b64encode(gzip.compress(whole, 9, mtime=0)).decode()
    assert len(bomb) < BOMB_BYTES >> 8, "it is small"
    event = raw_bomb(bomb)
    tracemalloc.start()
    try:
        began = time.monotonic()
        (found,) = dirty_objects(event)
        took_s = time.monotonic() - began
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    rest = {"dropped": True, "data": True, "degraded": True}  # it may have been a rename
    assert found == DirtyTable(db="d", table="t", whole=True, **rest)
    assert peak < PEAK_BYTES_MAX
    assert took_s < 5 * SECONDS_MAX


@pytest.mark.parametrize("how", ["json-0.2", "gzip(json-2.0)"])
def test_event_of_many_partitions_is_read_in_little_more_memory_than_it_has(how: str) -> None:
    """A message of 100 MB takes a second, and 106 MB, in gzip 206 MB."""
    added = next(event for _, event in recorded("2.3.10") if event.type == "ADD_PARTITION")
    body = json.loads(added.message)
    one = body["partitionListJson"][0]
    body["partitionListJson"] = [one[:-1] + " " * 1_500 + "}"] * 4_000
    body["partitions"] = [{"zone": "x", "day": str(number)} for number in range(4_000)]
    message = json.dumps(body)
    sent = packed(message.encode()) if how.startswith("gzip") else message
    event = replace(added, message=sent, message_format=how)
    tracemalloc.start()
    try:
        (found,) = dirty_objects(event)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, DirtyPartitions)
    assert len(found.names) == 4_000
    assert peak < 3 * len(message)


@pytest.mark.parametrize("how", ["json-0.2", "gzip(json-2.0)"])
def test_message_over_the_limit_has_its_table_read_again_and_is_not_read(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicast.catalog.ingest.events.actions.MESSAGE_BYTES_MAX", 1_000)
    for size, degraded in ((900, False), (1_001, True)):
        message = json.dumps({"pad": "x" * (size - len(json.dumps({"pad": ""})))})
        event = raw_bomb(packed(message.encode()) if how.startswith("gzip") else message)
        event = replace(event, type="INSERT", message_format=how)
        (found,) = dirty_objects(event)
        assert isinstance(found, DirtyTable)
        assert found.degraded is degraded


def raw_bomb(message: str) -> RawEvent:
    return RawEvent(
        id=1,
        type="ALTER_TABLE",
        db="d",
        table="t",
        message=message,
        message_format="gzip(json-2.0)",
    )
