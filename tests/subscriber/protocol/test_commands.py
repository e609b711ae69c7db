"""Commands that wait: when they are polled, in which order they complete, and what ends them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from topicast.subscriber.protocol import effects
from topicast.subscriber.protocol.commands import (
    DONE,
    Command,
    Done,
    Key,
    PendingCommands,
    Started,
    Wait,
)
from topicast.subscriber.protocol.effects import Connection
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import NotReady
from topicast.topics.turn import Turn
from topicast.topics.wire.messages.data import Delta

LATER = 100.0  # a deadline that no test reaches


class For(Wait[None]):
    """Waits for ``keys``, until a test lets it go on."""

    def __init__(self, *keys: Key, at_end: Callable[[], None] = lambda: None) -> None:
        self.is_over = False
        self.polls = 0
        self.waits_for = keys
        self._at_end = at_end

    def poll(self) -> Done[None] | None:
        self.polls += 1
        return DONE if self.is_over else None

    def keys(self) -> tuple[Key, ...]:
        return self.waits_for

    def missing(self) -> str:
        return "the test has not said so"

    def close(self) -> None:
        self._at_end()


def begun(pending: PendingCommands, wait: For, *, deadline: float = LATER) -> Command[object]:
    command: Command[object] = Command(lambda: wait, deadline=deadline)
    assert not pending.start(command)
    assert not list(pending.settle())
    return command


def test_only_what_waits_for_a_key_is_polled_when_it_is_woken() -> None:
    pending = PendingCommands(Turn[object]())
    one, other = For(1), For(2, "reply")
    begun(pending, one)
    begun(pending, other)
    for key in (2, "reply", 2, 3):
        pending.wake(key)
    assert not list(pending.settle())
    assert (one.polls, other.polls) == (1, 2)
    assert not list(pending.settle())
    assert (one.polls, other.polls) == (1, 2)


def test_what_is_answered_completes_in_the_order_in_which_it_began() -> None:
    pending = PendingCommands(Turn[object]())
    waits = For(2), For(1), For(1, 2)
    commands = [begun(pending, wait) for wait in waits]
    waits[0].is_over = waits[2].is_over = True
    pending.wake(2)
    assert list(pending.settle()) == [commands[0], commands[2]]
    assert list(pending.waiting.values()) == [commands[1]]
    pending.check()


def test_a_command_waits_for_the_keys_that_it_had_when_it_was_last_polled() -> None:
    pending, wait = PendingCommands(Turn[object]()), For("reply")
    begun(pending, wait)
    wait.waits_for = (1,)
    pending.wake("reply")
    assert not list(pending.settle())
    for key in ("reply", 1):
        pending.wake(key)
        assert not list(pending.settle())
    assert wait.polls == 3


def test_the_end_of_a_command_may_complete_another_in_the_same_turn() -> None:
    pending, last = PendingCommands(Turn[object]()), For(2)

    def end() -> None:
        last.is_over = True
        pending.wake(2)

    second = begun(pending, last)
    first = For(1, at_end=end)
    command = begun(pending, first)
    first.is_over = True
    pending.wake(1)
    assert list(pending.settle()) == [command, second]


def test_a_command_that_nothing_wakes_ends_at_its_deadline_and_says_what_is_missing() -> None:
    turn = Turn[object]()
    pending = PendingCommands(turn)
    late, soon = begun(pending, For(1), deadline=20), begun(pending, For(1), deadline=10)
    assert pending.deadline == 10
    turn.now = 9.9
    assert not list(pending.settle())
    turn.now = 10
    assert list(pending.settle()) == [soon]
    assert isinstance(soon.outcome, NotReady)
    assert "the test has not said so" in str(soon.outcome)
    assert pending.deadline == 20
    turn.now = 20
    assert list(pending.settle()) == [late]
    assert pending.deadline is None


def test_a_command_with_an_answer_that_nothing_woke_is_found() -> None:
    pending, wait = PendingCommands(Turn[object]()), For(1)
    command = begun(pending, wait)
    assert pending.answerable() == ()
    wait.is_over = True
    assert pending.answerable() == (command,)


def test_a_thousand_commands_are_not_polled_for_a_thousand_deltas_of_another_topic() -> None:
    shopping = Shopping()
    core, now = shopping.reader.member, shopping.cluster.now
    shopping.shop.reshape("shop.orders", ("new",))
    shopping.settle()
    topic = shopping.topic("shop.orders")
    delta = [one for one in shopping.messages(Delta, sender="hub-0") if one.topic == topic][-1]
    elsewhere, here = For((topic + 1) % shopping.num_topics), For(topic)
    for wait in (*[elsewhere] * 1000, here):
        core.handle(Command(partial(_begin, wait), deadline=now + LATER), now=now)
    assert (elsewhere.polls, here.polls) == (1000, 1)
    for version in range(delta.to_version, delta.to_version + 1000):
        more = replace(delta, from_version=version, to_version=version + 1, entries=())
        core.handle(effects.Received(Connection.DATA, more), now=now)
    assert (elsewhere.polls, here.polls) == (1000, 1001)


def _begin(wait: For) -> Started[None]:
    return wait
