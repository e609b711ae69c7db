"""What a reply confirms of the other tables of its topic: no more than catalogd has checked."""

from topicast.subscriber.fetch.fetcher import (
    CLAIMS_MAX,
    claims_in_pull,
    confirm,
    confirmed_claims,
)
from topicast.subscriber.store.table_snapshot import (
    NO_SELECTIONS,
    Selections,
    snapshot_of,
)
from topicast.subscriber.store.view import TopicView
from topicast.tests.cluster.published import Published
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import TABLE_ONLY, by_filter
from topicast.topics.topic import Entry
from topicast.topics.wire.messages.catalog import Claimed, Pull


def pulled(**at: int) -> TopicView:
    """Return what was pulled: tables without their blocks, by name, at these topic versions."""
    held = TopicView(pulled_only=True, epoch=10)
    for name, version in at.items():
        hold(held, name, at=version, selections=NO_SELECTIONS)
    return held


def hold(held: TopicView, name: str, *, at: int, selections: Selections | None) -> None:
    group = table_key("shop", name)
    rows = [Entry(group, 1, 1, 1, 1, b"v")]
    held.groups[group] = snapshot_of(rows, epoch=10, selections=selections, as_of=at)


def claim(name: str, version: int, *, whole: bool = False) -> Claimed:
    return Claimed(db="shop", table=name, version=version, whole=whole)


def ats(held: TopicView) -> list[int]:
    return [content.as_of for content in held.groups.values()]


def test_each_other_table_is_claimed_at_the_version_at_which_it_is_known() -> None:
    held = pulled(a=5, b=9, c=3)
    hold(held, "d", at=4, selections=None)
    hold(held, "e", at=3, selections={by_filter("ds = 1"): 3})
    found = claims_in_pull(held, table_key("shop", "c"), reached=6)
    assert sorted(found, key=lambda one: one.table) == [
        claim("a", 6),
        claim("b", 9),
        claim("d", 6, whole=True),
        claim("e", 6, whole=True),
    ]


def test_claims_of_one_pull_are_bounded_to_what_is_newest() -> None:
    names = {f"t{number:03}": number for number in range(CLAIMS_MAX + 9)}
    found = claims_in_pull(pulled(**names), table_key("shop", "none"), reached=0)
    assert [one.version for one in found] == sorted(names.values())[-1 : -CLAIMS_MAX - 1 : -1]


def test_confirmed_table_is_as_new_as_the_reply_and_never_older_than_before() -> None:
    """P-PULL-17."""
    held = pulled(a=5, b=19, c=3)
    confirm(held, [claim("a", 6), claim("b", 19), claim("gone", 4)], at=18, reached=6)
    assert ats(held) == [18, 19, 3]


def test_claim_confirms_nothing_that_was_replaced_since() -> None:
    """P-PULL-17: content that is older than the claim, or that has partitions by now."""
    held = pulled(a=5, c=5)
    hold(held, "b", at=7, selections={by_filter("ds = 1"): 7})
    confirm(held, [claim("a", 6), claim("b", 7), claim("c", 5)], at=18, reached=5)
    assert ats(held) == [5, 18, 7]


def test_claim_that_catalogd_calls_stale_is_not_confirmed() -> None:
    """P-PULL-17."""
    service = Published()
    version = service.topics[service.topic("shop.people")].version
    claims = tuple(claim(name, version) for name in ("people", "none"))
    pull = Pull(
        request=1,
        db="shop",
        table="items",
        selector=TABLE_ONLY,
        credit=1 << 20,
        epoch=service.epoch,
        claims=claims,
    )
    assert confirmed_claims(claims, service.pulled(pull)) == claims[:1]
    service.shop.reshape("shop.people", ("id", "new"))
    service.deltas()
    assert confirmed_claims(claims, service.pulled(pull)) == ()


def pushed(*names: str, used: tuple[str, ...] = (), **at: int) -> TopicView:
    """Return a topic at full, with what was pulled in it, by name, at these topic versions."""
    held = TopicView(epoch=10, pulled=pulled(**at))
    for name in names:
        hold(held, name, at=0, selections=None)
        held.groups[table_key("shop", name)].used = name in used
    return held


def test_at_full_the_tables_in_use_and_the_table_itself_are_claimed() -> None:
    held = pushed("a", "b", "c", used=("b", "c"), w=7, x=9)
    found = claims_in_pull(held, table_key("shop", "a"), reached=6)
    in_use = claim("x", 9), claim("w", 7), claim("c", 6, whole=True), claim("b", 6, whole=True)
    assert found == (claim("a", 6, whole=True), *in_use)
    assert claims_in_pull(held, table_key("shop", "w"), reached=6) == (in_use[0], *in_use[2:])


def test_table_itself_is_claimed_however_many_others_are_in_use() -> None:
    names = [f"t{number:03}" for number in range(CLAIMS_MAX + 9)]
    held = pushed(*names, used=tuple(names))
    found = claims_in_pull(held, table_key("shop", names[0]), reached=6)
    assert [one.table for one in found] == [names[0], *names[-1:-CLAIMS_MAX:-1]]


def test_withheld_table_is_claimed_once() -> None:
    held = pushed("w", used=("w",), w=7)
    held.groups[table_key("shop", "w")].stubs = 1
    assert claims_in_pull(held, table_key("shop", "none"), reached=6) == (claim("w", 7),)
    assert claims_in_pull(held, table_key("shop", "w"), reached=6) == ()


def test_claims_at_full_confirm_what_was_pushed_and_what_was_pulled() -> None:
    """P-PULL-17."""
    held = pushed("a", "b", w=7)
    true = claim("a", 6, whole=True), claim("w", 7)
    confirm(held, (*true, claim("b", 7, whole=True)), at=18, reached=6)
    assert ats(held) == [18, 0]
    assert held.pulled is not None
    assert ats(held.pulled) == [18]
