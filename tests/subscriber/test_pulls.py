from dataclasses import replace
from itertools import count

from topicast.subscriber import facts, pulls
from topicast.subscriber.content import HEAD_ONLY, Content, content_of
from topicast.subscriber.fence import Fence
from topicast.subscriber.pulls import PULLS_MAX, WAITING_MAX, Pulls
from topicast.subscriber.rows import EMPTY, put
from topicast.tests.subscriber.desk import pulled
from topicast.tests.subscriber.source import shop
from topicast.topics.errors import NotReady
from topicast.topics.objects.names import table_key
from topicast.topics.wire.messages import Cancel, Pull


def _pulls() -> Pulls:
    return Pulls(count(1).__next__, base=lambda _db, _table: (0, 0, None), fence=Fence())


def _ask(number: int, table: str = "orders", give_up_at: float = 10.0) -> facts.AskTable:
    return facts.AskTable(id=number, db="shop", table=table, whole=False, give_up_at=give_up_at)


def _sent(effects: tuple[facts.Effect, ...], kind: type = Pull) -> list[Pull]:
    found = [one.message for one in effects if isinstance(one, facts.Send)]
    return [message for message in found if isinstance(message, kind)]  # type: ignore[misc]  # by kind


def _reply(machine: Pulls, pull: Pull) -> tuple[facts.Effect, ...]:
    whole, effects = machine.part(pulled(shop(), pull), now=0.0)
    assert whole is not None
    return effects + machine.answer(pull.request, whole.content, now=0.0)


def test_no_more_pulls_run_than_catalogd_gives_streams_and_the_rest_follow() -> None:
    machine = _pulls()
    first = []
    for number in range(PULLS_MAX + 2):
        first += _sent(machine.ask(_ask(number, f"t{number}"), now=0.0))
        machine.check()
    assert len(first) == PULLS_MAX
    effects = _reply(machine, first[0])
    assert [one.id for one in effects if isinstance(one, facts.Answer)] == [0]
    assert [pull.table for pull in _sent(effects)] == [f"t{PULLS_MAX}"]
    machine.check()


def test_asks_that_wait_are_bounded_and_the_next_is_told_so() -> None:
    machine = _pulls()
    for number in range(PULLS_MAX + WAITING_MAX):
        machine.ask(_ask(number, f"t{number}"), now=0.0)
    (failed,) = machine.ask(_ask(9999, "one more"), now=0.0)
    assert isinstance(failed, facts.Fail)
    assert isinstance(failed.error, NotReady)
    machine.check()


def test_who_gives_up_leaves_the_pull_to_those_who_wait_on() -> None:
    machine = _pulls()
    (pull,) = _sent(machine.ask(_ask(1, give_up_at=2.0), now=0.0))
    assert machine.ask(_ask(2, give_up_at=9.0), now=0.0) == ()
    assert machine.deadline is not None
    assert machine.deadline <= 2.0
    effects = machine.tick(missing="", now=2.0)
    assert [one.id for one in effects if isinstance(one, facts.Fail)] == [1]
    assert _sent(effects, Cancel) == []
    effects = _reply(machine, pull)
    assert [one.id for one in effects if isinstance(one, facts.Answer)] == [2]
    assert machine.deadline is None


def test_queued_ask_gives_up_too() -> None:
    machine = _pulls()
    for number in range(PULLS_MAX):
        machine.ask(_ask(number, f"t{number}", give_up_at=9.0), now=0.0)
    machine.ask(_ask(99, "late", give_up_at=1.0), now=0.0)
    effects = machine.tick(missing="", now=1.0)
    assert [one.id for one in effects if isinstance(one, facts.Fail)] == [99]
    machine.check()


def test_reply_nobody_waits_for_is_cancelled_unless_it_has_ended() -> None:
    machine = _pulls()
    reply = pulled(shop(), Pull(request=7, db="shop", table="orders", selector=0, credit=1))
    assert machine.part(reply, now=0.0) == (None, ())
    none, effects = machine.part(replace(reply, last=False), now=0.0)
    assert none is None
    assert len(_sent(effects, Cancel)) == 1


def test_repeated_reply_begins_anew() -> None:
    machine = _pulls()
    (pull,) = _sent(machine.ask(_ask(1), now=0.0))
    reply = pulled(shop(), pull)
    machine.part(replace(reply, last=False), now=0.0)
    whole, _ = machine.part(reply, now=0.0)
    assert whole is not None
    assert isinstance(whole.content, Content)
    assert len(whole.content) == len(reply.entries)
    assert pulls.STALE_AGAIN_S < 1


def test_reply_of_another_epoch_than_what_is_held_is_pulled_again_with_nothing_held() -> None:
    source = shop()
    key = table_key("shop", "orders")
    rows = source.topics[source.topic("shop", "orders")].rows(key)
    held = content_of(put(EMPTY, rows), 1, covers=HEAD_ONLY)
    bases = [(0, source.epoch - 1, held), (0, source.epoch, None)]
    machine = Pulls(count(1).__next__, base=lambda _db, _table: bases.pop(0), fence=Fence())
    (pull,) = _sent(machine.ask(_ask(1), now=0.0))
    assert key in dict(pull.held)
    assert machine.part(pulled(source, pull), now=0.0) == (None, ())  # equal versions, other tables
    (pull,) = _sent(machine.tick(missing="", now=1.0))
    assert pull.held == ()
    whole, _ = machine.part(pulled(source, pull), now=1.0)
    assert whole is not None
    assert whole.content.entry(key) is not None
