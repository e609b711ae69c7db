"""Scans: a topic is read in pages as of one version, from a real store, while it goes on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from topicast.catalog.history.history_thread import ReadStore
from topicast.catalog.history.scans import ScanPage, Versions
from topicast.catalog.storage.store import Store
from topicast.tests.catalog.stores import NOW_US, answering, commit, opened, read, transaction
from topicast.tests.strategies import value
from topicast.topics.policy import Policy
from topicast.topics.topic import NAMESPACE, Entry, prefix_tombstone, stub
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import CHUNK_BYTES_MAX, PIECE_BYTES_MAX, VALUE_BYTES_MAX
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.catalog import Scan, Scanned
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.refusal import Refusal

GROUP = b"db\0t\0"
NUM_TOPICS = 4
Answer = Inspected | Scanned | Refused


class Scanning:
    """A store that is written, and the thread that answers scans of it."""

    def __init__(self, store: Store, answer: Callable[[ReadStore], Answer]) -> None:
        self.store = store
        self._answer = answer

    def answer(self, order: ReadStore) -> Answer:
        answer = self._answer(order)
        assert decode(encode(answer)) == answer
        return answer

    def page(self, scan: Scan, policy: Policy | None = None) -> Scanned | Refused:
        answer = self.answer(read(ScanPage(scan), scan.request, policy))
        assert not isinstance(answer, Inspected)
        assert answer.request == scan.request
        return answer

    def scan(self, version: int, **more: object) -> Scan:
        fields = {"epoch": self.store.epoch, "topic": 0, **more}
        return Scan(request=9, version=version, **fields)

    def pages(self, scan: Scan, policy: Policy | None = None) -> Iterator[Scanned]:
        while True:
            page = self.page(scan, policy)
            assert isinstance(page, Scanned), page
            yield page
            if not page.after and not page.offset:
                return
            scan = replace(scan, after=page.after, offset=page.offset)

    def write(self, version: int, *entries: Entry) -> None:
        commit(self.store, transaction(0, version, *entries))


@pytest.fixture
def scanning(tmp_path: Path) -> Iterator[Scanning]:
    with opened(tmp_path, num_topics=NUM_TOPICS) as store, answering(store.path) as answer:
        yield Scanning(store, answer)


def replace_value(entry: Entry, content: bytes) -> Entry:
    return entry._replace(value=content, size=len(content))


def blocks(version: int, count: int, size: int) -> list[Entry]:
    return [value(GROUP + b"\x01%04d" % n, version, bytes([n % 256]) * size) for n in range(count)]


def test_topic_is_read_in_pages_of_one_version_while_it_changes(scanning: Scanning) -> None:
    """P-SCAN-1, P-SCAN-3."""
    written = [value(GROUP, 1), *blocks(1, 40, 30_000)]
    scanning.write(1, *written)
    found: list[Entry] = []
    for version, page in enumerate(scanning.pages(scanning.scan(1)), 2):
        assert sum(len(entry.key) + entry.size for entry in page.entries) <= CHUNK_BYTES_MAX
        found += page.entries
        scanning.write(version, prefix_tombstone(GROUP, version), *blocks(version, 7, 900))
    assert found == written
    (now,) = scanning.pages(scanning.scan(version))
    assert list(now.entries) == blocks(version, 7, 900)


def test_scan_ends_before_a_key(scanning: Scanning) -> None:
    """P-SCAN-1."""
    written = blocks(1, 9, 5)
    scanning.write(1, *written)
    bounds = {"after": written[1].key, "until": written[4].key}
    (page,) = scanning.pages(scanning.scan(1, **bounds))
    assert list(page.entries) == written[2:4]


def test_policys_pages_have_its_own_values_and_end_at_its_own_keys(scanning: Scanning) -> None:
    """P-POLICY-5. What it does not see is around and between, and longer than a page."""
    own = [value(b"%s\0t\0" % db, 1, db * 50_000) for db in (b"b", b"d", b"e")]
    own[1:1] = [value(b"b\0t\0\x01%02d" % number, 1, b"in one page") for number in range(3)]
    others = [
        value(b"%s\0t\0\x01%02d" % (db, number), 1, b"hidden" * 9_000)
        for db in (b"a", b"b2", b"c", b"dx", b"f")
        for number in range(9)
    ]
    large = value(b"dx\0large\0", 1, bytes(VALUE_BYTES_MAX + 1))
    scanning.write(1, *sorted((*own, *others, large)))
    pages = list(scanning.pages(scanning.scan(1), Policy(("b", "d", "e"))))
    assert [entry for page in pages for entry in page.entries] == own
    assert {page.after for page in pages} <= {b"", *(entry.key for entry in own)}
    assert not any(b"hidden" in encode(page) for page in pages)
    (empty,) = scanning.pages(scanning.scan(1), Policy(("x",)))
    assert empty.entries == ()


def test_what_has_no_value_is_in_no_page(scanning: Scanning) -> None:
    table, *rest = [value(GROUP, 1), *blocks(1, 3, 5)]
    scanning.write(1, stub(table), *rest)
    (page,) = scanning.pages(scanning.scan(1))
    assert list(page.entries) == rest


def test_large_value_comes_in_pieces(scanning: Scanning) -> None:
    """P-SCAN-4."""
    first, last = blocks(1, 2, 5)
    content = bytes(range(256)) * 4096
    large = value(first.key + b"x", 1, content)
    assert len(content) > VALUE_BYTES_MAX
    scanning.write(1, first, large, last)
    pages = list(scanning.pages(scanning.scan(1)))
    pieces = [page.entries[0] for page in pages[1:-1]]
    assert {piece.size for piece in pieces} == {large.size}
    assert max(len(piece.value) for piece in pieces) <= PIECE_BYTES_MAX
    assert b"".join(piece.value for piece in pieces) == content
    assert [pages[0].entries, pages[-1].entries] == [(first,), (last,)]


def test_large_value_that_was_replaced_comes_in_pieces_and_then_what_is_behind_it(
    scanning: Scanning,
) -> None:
    """P-SCAN-4."""
    first, last = blocks(1, 2, 5)
    large = replace_value(first, bytes(VALUE_BYTES_MAX + 1))
    scanning.write(1, large, last)
    scanning.write(2, *blocks(2, 1, 5))
    pages = list(scanning.pages(scanning.scan(1)))
    assert b"".join(page.entries[0].value or b"" for page in pages[:-1]) == large.value
    assert pages[-1].entries == (last,)
    beyond = scanning.page(scanning.scan(1, offset=large.size))
    assert isinstance(beyond, Refused)
    assert f"no value of {large.size} bytes follows" in beyond.message


def test_large_value_at_the_end_is_followed_by_no_page(scanning: Scanning) -> None:
    """P-SCAN-4."""
    (only,) = blocks(1, 1, 5)
    scanning.write(1, replace_value(only, bytes(VALUE_BYTES_MAX + 1)))
    pages = list(scanning.pages(scanning.scan(1)))
    assert [len(page.entries) for page in pages] == [1] * len(pages)


def test_versions_name_what_can_be_scanned(scanning: Scanning) -> None:
    scanning.write(1, *blocks(1, 1, 5))
    found = scanning.answer(read(Versions(), 3))
    assert isinstance(found, Inspected)
    assert found.columns == ("epoch", "topic", "version", "oldest")
    epoch = scanning.store.epoch
    topics = [(0, 1), (1, 0), (2, 0), (3, 0), (NAMESPACE, 0)]
    assert found.rows == tuple((epoch, topic, version, 0) for topic, version in topics)


def test_what_is_gone_is_refused(scanning: Scanning) -> None:
    """P-SCAN-2."""
    scanning.write(1, *blocks(1, 1, 5))
    other = scanning.page(scanning.scan(1, epoch=scanning.store.epoch - 1))
    scanning.store.begin_anew(NOW_US, at_least=0)
    older = scanning.page(scanning.scan(0))
    assert isinstance(other, Refused)
    assert isinstance(older, Refused)
    assert [other.code, older.code] == [Refusal.GONE, Refusal.GONE]
    assert "the history begins at version" in older.message


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"version": 2}, "it is at 1"),
        ({"topic": 9}, "there are 4"),
        ({"after": b"rubbish"}, "has no group"),
        ({"after": b"rub\0bish"}, "has no group"),
        ({"topic": 1, "version": 1}, "it is at 0"),
        ({"offset": 3}, "no value of 3 bytes follows"),
        ({"after": GROUP + b"\x02", "offset": 3}, "no value of 3 bytes follows"),
    ],
)
def test_impossible_scan_is_refused(
    scanning: Scanning, fields: dict[str, object], problem: str
) -> None:
    """P-SCAN-2."""
    scanning.write(1, *blocks(1, 1, 5))
    refused = scanning.page(replace(scanning.scan(1), **fields))
    assert isinstance(refused, Refused)
    assert refused.code == Refusal.CLAIM
    assert problem in refused.message
