"""The inbox: bounded, in order, and it wakes the owner of the link."""

import math
import threading

import pytest

from topicast.tests.waiting import until
from topicast.topics.errors import NotReady
from topicast.topics.link import Inbox
from topicast.topics.link.link import TAKEN_MAX


def test_items_are_taken_in_their_order():
    inbox = Inbox(lambda: None)
    for item in range(5):
        inbox.put(item, timeout_s=1)
    assert inbox.take() == [0, 1, 2, 3, 4]
    assert inbox.take() == []


def test_full_inbox_says_so_after_the_timeout_and_keeps_what_it_has():
    inbox = Inbox(lambda: None, items_max=2)
    inbox.put("a", timeout_s=0)
    inbox.put("b", timeout_s=-1)
    with pytest.raises(NotReady, match="2 calls are waiting"):
        inbox.put("c", timeout_s=0.01)
    assert inbox.take() == ["a", "b"]


def test_put_waits_until_there_is_room():
    inbox = Inbox(lambda: None, items_max=1)
    inbox.put("a", timeout_s=0)
    waiting = threading.Thread(target=inbox.put, args=("b",), kwargs={"timeout_s": 10})
    waiting.start()
    assert inbox.take() == ["a"]
    assert until(inbox.take, what="the second item") == ["b"]
    waiting.join()


def test_put_wakes_a_link_that_sleeps_without_end(hub):
    inbox = Inbox(hub.wake)
    taken = []

    def own():
        while not taken:
            hub.poll(math.inf)
            taken.extend(inbox.take())

    owner = threading.Thread(target=own)
    owner.start()
    inbox.put("call", timeout_s=1)
    owner.join(timeout=60)
    assert taken == ["call"]


def test_rest_of_a_large_batch_is_taken_without_another_put(hub):
    inbox = Inbox(hub.wake)
    for item in range(TAKEN_MAX + 1):
        inbox.put(item, timeout_s=1)
    hub.poll(math.inf)
    assert inbox.take() == list(range(TAKEN_MAX))
    hub.poll(math.inf)  # woken by take itself
    assert inbox.take() == [TAKEN_MAX]


def test_many_threads_lose_nothing(hub):
    inbox = Inbox(hub.wake, items_max=10)
    writers = [
        threading.Thread(target=_put_all, args=(inbox, range(first, 1000, 4))) for first in range(4)
    ]
    for writer in writers:
        writer.start()
    taken = []
    until(lambda: hub.poll(1) or taken.extend(inbox.take()) or len(taken) >= 1000, interval_s=0)
    assert sorted(taken) == list(range(1000))
    for first in range(4):
        mine = [item for item in taken if item % 4 == first]
        assert mine == sorted(mine)
    for writer in writers:
        writer.join()


def _put_all(inbox, items):
    for item in items:
        inbox.put(item, timeout_s=10)


def test_wake_that_refuses_keeps_the_item_out():
    def refuse():
        raise NotReady("another process")

    inbox = Inbox(refuse)
    with pytest.raises(NotReady, match="another process"):
        inbox.put("call", timeout_s=1)
    assert inbox.take() == []
