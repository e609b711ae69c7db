"""The readers: every order is answered, and no poll waits for a load."""

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Barrier

import pytest

from topicast.catalog.ingest.poller import Poll, Polled, PollFailed
from topicast.catalog.ingest.read_threads import Answer, ReadThreads
from topicast.catalog.ingest.reads import NamesRead, Read, ReadDone, ReadNames
from topicast.tests.catalog.fake_metastore import FakeMetastore
from topicast.tests.waiting import until
from topicast.topics.errors import SourceError

WAIT_S = 20.0
POLL = Poll(poll=1, after=0, quiet_at=None, events_max=9)


class Stand:
    """ReadThreads, each with a metastore of its own, and the facts that they deliver."""

    def __init__(self, threads: int = 2) -> None:
        self.made: list[FakeMetastore] = []
        self.facts: SimpleQueue[Answer] = SimpleQueue()
        self.readers = ReadThreads(self._make, threads=threads, deliver=self.facts.put)

    def _make(self) -> FakeMetastore:
        self.made.append(FakeMetastore())
        return self.made[-1]

    def fact(self) -> Answer:
        return self.facts.get(timeout=WAIT_S)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Let the one load thread hang in its metastore until the block ends."""
        (metastore,) = self.made
        before = len(metastore.calls)
        with metastore.hanging():
            self.readers.order(ReadNames())
            until(lambda: len(metastore.calls) > before, timeout_s=WAIT_S, what="a call")
            yield


@pytest.fixture
def stand() -> Iterator[Stand]:
    found = Stand()
    yield found
    found.readers.close()


def test_orders_come_back_as_facts(stand: Stand) -> None:
    stand.readers.start()
    stand.readers.order(POLL)
    assert isinstance(stand.fact(), Polled)
    stand.readers.order(Read(read=3, databases=("default",)))
    done = stand.fact()
    assert isinstance(done, ReadDone)
    assert done.read == 3
    stand.readers.order(ReadNames())
    assert isinstance(stand.fact(), NamesRead)


def test_thread_whose_metastore_failed_goes_on(stand: Stand) -> None:
    stand.readers.start()
    stand.readers.order(POLL)
    stand.fact()
    stand.made[0].failures.append(SourceError("down"))
    stand.readers.order(POLL)
    assert stand.fact() == PollFailed(poll=1, error="down")
    stand.readers.order(POLL)
    assert isinstance(stand.fact(), Polled)


def test_poll_is_answered_while_every_load_hangs() -> None:
    stand = Stand(threads=1)
    stand.readers.start()
    stand.readers.order(ReadNames())
    stand.fact()
    with stand.hanging():
        stand.readers.order(POLL)
        assert isinstance(stand.fact(), Polled)
    assert isinstance(stand.fact(), NamesRead)
    stand.readers.close()


def test_loads_run_beside_each_other() -> None:
    together = Barrier(2, timeout=WAIT_S)

    class Meeting(FakeMetastore):
        def databases(self) -> tuple[str, ...]:
            together.wait()
            return ()

    facts: SimpleQueue[Answer] = SimpleQueue()
    readers = ReadThreads(Meeting, threads=2, deliver=facts.put)
    readers.start()
    for _ in range(2):
        readers.order(ReadNames())
    assert [facts.get(timeout=WAIT_S) for _ in range(2)] == [NamesRead(databases={})] * 2
    readers.close()


def test_closed_readers_end_their_threads_and_connections(stand: Stand) -> None:
    stand.readers.start()
    stand.readers.order(POLL)
    stand.fact()
    stand.readers.close()
    assert [made.calls[-1] for made in stand.made] == ["close"]


def test_readers_that_were_never_started_close(stand: Stand) -> None:
    stand.readers.close()
    assert stand.made == []


def test_load_that_hangs_does_not_keep_its_owner_from_closing() -> None:
    stand = Stand(threads=1)
    stand.readers.start()
    stand.readers.order(ReadNames())
    stand.fact()
    with stand.hanging():
        stand.readers.close()
        assert stand.made[0].calls[-1] == "close"
    assert isinstance(stand.fact(), NamesRead), "its answer is nobody's any more"
    calls = stand.made[0].calls
    what = "the end of what it connected to again"
    until(lambda: calls.count("close") == 2, timeout_s=WAIT_S, what=what)
